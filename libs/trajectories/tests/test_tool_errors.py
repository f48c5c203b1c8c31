from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.trajectories.tool_errors import MAX_MESSAGE_CHARS, READ_CHARS, detect_tool_error, normalize_message

TRACEBACK = """Traceback (most recent call last):
  File "/srv/app.py", line 3, in <module>
    total = prices["rent"]
KeyError: 'rent'
"""


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("Error: gift card balance is not enough", "Error: gift card balance is not enough"),
        (TRACEBACK, "KeyError: 'rent'"),
        ("exit code 128\nfatal: not a git repository", "fatal: not a git repository"),
        ("exitcode: 1 (execution failed)\nCode output: " + TRACEBACK, "KeyError: 'rent'"),
        ("exit status 2", "exit code 2"),
        ("some text\nlast words\nexit code: 3", "last words"),
        ("HTTP/1.1 404 Not Found", "HTTP/1.1 404 Not Found"),
        (
            'HTTP 409 Conflict\n{"error": "number_taken", "message": "number PO-7 is taken"}',
            "HTTP 409 Conflict: number_taken: number PO-7 is taken",
        ),
        ("503 Service Unavailable", "503 Service Unavailable"),
        ("Error tokenizing data", "Error tokenizing data"),
        ('{"errors": [{"detail": {"msg": "no"}}]}', "no"),
        ("bash: rg: command not found", "bash: rg: command not found"),
        ("sqlite3.OperationalError: database is locked", "sqlite3.OperationalError: database is locked"),
        ("error: failed to push some refs to 'origin'", "error: failed to push some refs to 'origin'"),
        ("エラー: ファイルが見つかりません", "エラー: ファイルが見つかりません"),
        ('{"error": {"code": 7, "message": "no such user"}}', "no such user"),
        ('{"error": "not_found", "message": "no order with id 7"}', "not_found: no order with id 7"),
        ('{"success": false, "message": "seat taken"}', "seat taken"),
        ('{"status": "failed", "detail": "quota"}', "quota"),
        ('{"status_code": 500}', "the tool reported no success"),
        ('{"isError": true, "content": "boom"}', "the tool reported no success"),
        ('{"exit_code": 1, "stderr": "ls: x: No such file or directory"}', "ls: x: No such file or directory"),
        (json.dumps({"stdout": TRACEBACK}), "KeyError: 'rent'"),
    ],
)
def test_a_failure_is_recognised_by_its_error_line(output: str, message: str) -> None:
    error = detect_tool_error(output)
    assert error is not None
    assert error.message == message


@pytest.mark.parametrize(
    "output",
    [
        "",
        "   \n",
        "exitcode: 0 (execution succeeded)\nCode output: 42",
        "exit code 0",
        '{"reservation_id": "HATHAT", "status": "booked", "errors": [], "error": null}',
        '[{"error": "a field of a record that was asked for"}]',
        "HTTP 200 OK\n{}",
        "The error rate fell to 3 %, and no errors were found.",
        "Search result: how to handle errors in Python",
        "Results:\nError handling in Python\nError messages explained",
        "450 rows returned\n500 results",
        "{not json",
        '{"stdout": "all 12 tests passed", "exit_code": 0}',
    ],
)
def test_a_result_that_reports_no_failure_is_none(output: str) -> None:
    assert detect_tool_error(output) is None


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("total price is 305, but paid 255", "total price is <n>, but paid <n>"),
        ("flight HAT030 not available on date 2024-05-13", "flight <id> not available on date <date>"),
        ("payment method certificate_7504069 not found", "payment method <id> not found"),
        ("order number PO-7004 is taken", "order number <id> is taken"),
        ("'utf-8' codec can't decode byte 0xff", "<value> codec can't decode byte <id>"),
        ("python3 has no module x", "python3 has no module x"),
        ("HTTP 404 Not Found: no order ord_1003", "HTTP 404 Not Found: no order <id>"),
        ("sqlite3.OperationalError: no such column: nme", "sqlite3.OperationalError: no such column: nme"),
        ("cannot open '/home/me/data 1.csv'", "cannot open <value>"),
        ("KeyError: 'rent'", "KeyError: 'rent'"),
        ("NameError: name 'x1y2' is not defined", "NameError: name <value> is not defined"),
        ("GET https://example.org/a?b=1 failed at 12:30:01", "GET <url> failed at <time>"),
        ("mail to a.b@example.org bounced", "mail to <email> bounced"),
        ("id 550e8400-e29b-41d4-a716-446655440000 at 0xDEADBEEF", "id <id> at <id>"),
        ("can't find file /var/log/app.log", "can't find file <path>"),
        ("予約 HAT030 は 2024-05-13 に利用できません", "予約 <id> は <date> に利用できません"),
    ],
)
def test_variable_parts_are_removed_from_a_kind_of_error(message: str, kind: str) -> None:
    assert normalize_message(message) == kind


@given(st.text(max_size=300))
def test_any_error_text_becomes_one_short_printable_line(output: str) -> None:
    error = detect_tool_error(output)
    if error is not None:
        assert error.message
        assert len(error.message) <= MAX_MESSAGE_CHARS
        assert error.message.isprintable()


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=200))
def test_normalising_twice_changes_nothing_more(message: str) -> None:
    assert normalize_message(normalize_message(message)) == normalize_message(message)


def test_only_the_ends_of_a_large_result_are_read() -> None:
    filler = "lorem ipsum\n" * READ_CHARS
    assert detect_tool_error(filler + "Error: in the middle\n" + filler) is None
    assert detect_tool_error(filler + "\nexit code 1") is not None


def test_binary_is_read_without_harm() -> None:
    error = detect_tool_error("Error: \x00\x01\x02 broken \x7f pipe")
    assert error is not None
    assert error.message == "Error: broken pipe"
    assert detect_tool_error("{" * 100_000) is None
    assert detect_tool_error("[" * 100_000) is None
    nested = detect_tool_error('{"error": ' + "[" * 900 + "]" * 900 + "}")
    assert nested is not None
    assert len(nested.message) <= MAX_MESSAGE_CHARS
