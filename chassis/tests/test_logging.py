import json
import logging as stdlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from chassis import logging, secrets
from chassis.calls import Call, current_call

KEY = "sk-abcdefghijklmnop1234"


class CapturedLog:
    """The records that a configured logger wrote to stderr."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def configure(self) -> None:
        logging.configure("INFO", "json")

    def getvalue(self) -> str:
        return self._capture.readouterr().err


@pytest.fixture
def log_output(capsys: pytest.CaptureFixture[str]) -> Iterator[CapturedLog]:
    before, root = structlog.get_config(), stdlib.getLogger()
    handlers, level = root.handlers[:], root.level
    yield CapturedLog(capsys)
    structlog.configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_record_is_one_json_line_with_the_call_it_belongs_to(log_output: CapturedLog) -> None:
    log_output.configure()
    token = current_call.set(Call("/a.S/Get", "c-1", "r-1"))
    logging.get_logger("hansei.x").info("検索した", hits=3)
    current_call.reset(token)

    (line,) = log_output.getvalue().splitlines()
    record = json.loads(line)
    assert (record["event"], record["hits"], record["level"]) == ("検索した", 3, "info")
    assert (record["correlation_id"], record["request_id"]) == ("c-1", "r-1")
    assert (record["method"], record["component"]) == ("/a.S/Get", "hansei.x")


def test_a_logger_in_use_follows_a_later_configuration(log_output: CapturedLog) -> None:
    log_output.configure()
    log = logging.get_logger("hansei.x")
    log.info("written")
    logging.configure("ERROR", "json")
    log.info("not written")

    assert [json.loads(line)["event"] for line in log_output.getvalue().splitlines()] == ["written"]


def test_records_below_the_level_are_not_written(log_output: CapturedLog) -> None:
    log_output.configure()
    logging.get_logger("hansei.x").debug("detail")

    assert log_output.getvalue() == ""


@pytest.mark.parametrize(
    "key", ["api_key", "openai_api_key", "OPENAI_API_KEY", "authorization", "Authorization", "access_token", "password"]
)
def test_secrets_are_masked_by_their_key_at_any_depth(key: str, log_output: CapturedLog) -> None:
    log_output.configure()
    facts: dict[str, Any] = {"headers": {"nested": [{key: "hunter2"}]}, key: "hunter2"}
    logging.get_logger("x").warning("sent", **facts)

    line = log_output.getvalue()
    assert "hunter2" not in line
    assert line.count(secrets.REDACTED) == 2


def test_counts_of_tokens_are_no_secret(log_output: CapturedLog) -> None:
    log_output.configure()
    logging.get_logger("x").info("asked", prompt_tokens=12)

    assert json.loads(log_output.getvalue())["prompt_tokens"] == 12


@pytest.mark.parametrize(
    "text",
    [
        f"key {KEY} refused",
        "Bearer hunter2hunter2",
        "postgresql://app:hunter2@db/x failed",
        f"Authorization: Bearer {KEY}",
        "postgresql://app:hunt@er2/hunter2@db/x failed",
        "amqp://app:hunter2@db:5672/x and none other",
        "postgresql://db/x?sslmode=require&sslpassword=hunter2",
        "GET /models?key=hunter2hunter2 failed",
        "host=db password=hunter2 failed",
        "OPENAI_API_KEY=hunter2",
        "AIzahunter2hunter2hunter2hunter2 refused",
        "the key hansei_0123456789abcdef_hunter2hunter2hunter2 is new",
        "eyJhunter2hunter2.hunter2hunter2.hunter2",
        "-----BEGIN EC PRIVATE KEY-----\nhunter2\nhunter2\n-----END EC PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nhunter2\nand then nothing",
    ],
)
def test_secrets_are_masked_by_their_format(text: str, log_output: CapturedLog) -> None:
    log_output.configure()
    logging.get_logger("x").info(text)
    stdlib.getLogger("other.library").warning(text)

    lines = log_output.getvalue()
    assert KEY not in lines
    assert "hunter2" not in lines
    assert lines.count(secrets.REDACTED) == 2


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8080/users/a@b failed",
        "postgresql+psycopg://app@db:5432/x",
        "tokens=12 and a token was refused",
        "the playbook hansei_notes",
        "from a@b: see https://h/x",
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_values_that_are_no_secrets_are_not_masked(text: str) -> None:
    assert secrets.remove_secrets(text) == text


def test_tracebacks_are_written_without_secrets(log_output: CapturedLog) -> None:
    log_output.configure()
    try:
        raise RuntimeError(f"refused {KEY}")
    except RuntimeError as error:
        logging.get_logger("x").error("failed", exc_info=error)

    record = json.loads(log_output.getvalue())
    assert "RuntimeError" in record["exception"]
    assert KEY not in record["exception"]


def test_records_of_the_standard_library_have_the_same_format(log_output: CapturedLog) -> None:
    log_output.configure()
    stdlib.getLogger("other.library").warning("something %s", "old")

    assert json.loads(log_output.getvalue())["event"] == "something old"


def test_a_record_in_text_format_is_one_line_with_the_traceback_below(log_output: CapturedLog) -> None:
    logging.configure("INFO", "console")
    try:
        raise RuntimeError("broke")
    except RuntimeError:
        logging.get_logger("hansei.x").exception("failed", peer="search")

    first, *below = log_output.getvalue().splitlines()
    assert first.split()[1:] == ["[error", "]", "failed", "component=hansei.x", "peer=search"]
    assert below[-1] == "RuntimeError: broke"


def test_external_values_add_no_lines_and_no_colours(log_output: CapturedLog) -> None:
    logging.configure("INFO", "console")
    logging.get_logger("hansei.x").warning("refused\n[error    ] twice", why="a\n2026-01-01 error", team="\x1b[31m赤")

    (line,) = log_output.getvalue().splitlines()
    assert line.isprintable()
    assert r"refused\n" in line
    assert r"team=\x1b[31m赤" in line


def test_without_configuration_only_warnings_are_logged_and_secrets_are_masked() -> None:
    script = f"""
from chassis.logging import get_logger
get_logger("hansei.x").info("detail")
get_logger("hansei.x").warning("refused", why="{KEY}")
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    (line,) = ran.stderr.splitlines()
    assert "refused" in line
    assert KEY not in line


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_for_all_values_redaction_never_fails(value: object) -> None:
    assert logging.redact(None, "", {"event": "x", "value": value})["event"] == "x"
