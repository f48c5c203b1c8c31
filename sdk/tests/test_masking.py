"""Test that masked texts and documents have no secret of the environment."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chassis.secrets import REDACTED
from hansei.client.masking import MIN_SECRET_CHARS, SecretMask, mask_content

SECRETS = (
    st.text(min_size=MIN_SECRET_CHARS, max_size=40).map(str.strip).filter(lambda text: len(text) >= MIN_SECRET_CHARS)
)


@given(SECRETS, st.text(), st.text())
def test_no_text_contains_the_value_of_a_secret(secret: str, before: str, after: str) -> None:
    masked = SecretMask({"OPENAI_API_KEY": secret}, ())(before + secret + after)
    # Two halves of the secret may be adjacent only around the text that replaced it.
    assume(not any(part and part in secret for part in (REDACTED, REDACTED[:1], REDACTED[-1:])))
    assert secret not in masked


@given(SECRETS, st.recursive(st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_a_secret_is_masked_at_any_depth_of_a_document(secret: str, document: Any) -> None:
    assume(secret not in REDACTED)

    def plant(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plant(member) for key, member in value.items()} | {"last": secret}
        return [plant(member) for member in value] if isinstance(value, list) else secret

    masked = SecretMask({"SECRET": secret}, ())(plant(document))
    assert json.dumps(secret) not in json.dumps(masked)


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("X", "postgresql://app:hunter2@db/x", "hunter2"),
        ("X", "postgresql://app:hunter%402@db/x", "hunter@2"),
        ("X", "postgresql://app:hun@ter/2@db/x", "hun@ter/2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "key=hunter2,other=hunter3", "hunter3"),
        ("DECLARED", " hunter2\n", "hunter2"),
    ],
)
def test_a_secret_is_known_wherever_a_variable_holds_it(name: str, value: str, secret: str) -> None:
    assert SecretMask({name: value}, {"DECLARED"})(f"the text {secret}.") == f"the text {REDACTED}."


def test_a_long_variable_without_a_secret_is_read_in_linear_time() -> None:
    SecretMask({"X": "://a:" * 1_000_000}, ())  # a time that grows with the square would be hours


def test_what_is_secret_by_name_is_masked_however_short() -> None:
    masking = SecretMask({"OPENAI_API_KEY": "x"}, {"DECLARED"})
    assert masking({"api_key": "x", "token": 7, "DECLARED": "y", "axis": "x"}) == {
        "api_key": REDACTED,
        "token": REDACTED,
        "DECLARED": REDACTED,
        "axis": "x",
    }


def test_command_lines_of_tool_servers_keep_no_secret() -> None:
    masking = SecretMask({}, ())
    servers = {"issues": ["npx", "tracker", "--access-token", "abc", "--port", "80"]}
    masked = ["npx", "tracker", "--access-token", REDACTED, "--port", "80"]
    assert masking({"planner_mcp_servers": servers}) == {"planner_mcp_servers": {"issues": masked}}
    assert masking({"value": json.dumps(servers)}) == {"value": json.dumps({"issues": masked})}


@pytest.mark.parametrize("separator", ["", "\u2028", "\u2029", "\x85"])
def test_a_line_of_json_is_masked_as_a_document_whatever_its_texts_contain(separator: str) -> None:
    line = json.dumps({"text": f"a{separator}b", "token": 12345678}, ensure_ascii=False)
    masked = json.dumps({"text": f"a{separator}b", "token": REDACTED}, ensure_ascii=False)
    content = f"{line}\nno json\r\n{line}\r{line}".encode()
    assert mask_content(SecretMask({}, ()), content) == f"{masked}\nno json\r\n{masked}\r{masked}".encode()


def test_half_of_a_surrogate_pair_beside_a_secret_is_replaced() -> None:
    content = b'{"text": "\\ud83d cut", "pair": "\\ud83d\\ude00", "api_key": "short"}\n'
    masked = json.loads(mask_content(SecretMask({}, ()), content))
    assert masked == {"text": "\ufffd cut", "pair": "\U0001f600", "api_key": REDACTED}
