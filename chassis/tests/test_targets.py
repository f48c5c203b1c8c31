"""Targets: their vocabulary, their agreement with CEL, and refused sources."""

from __future__ import annotations

from typing import Any

import celpy
import pytest
from celpy.adapter import json_to_cel

from chassis.targets.errors import EvaluationFailed, InvalidTarget
from chassis.targets.evaluation import MAX_STEPS
from chassis.targets.session import (
    MAX_ARGUMENTS_CHARS,
    MAX_CALL_KEYS,
    MAX_RESULT_CHARS,
    MAX_STORED_BYTES,
    MAX_TEXT_CHARS,
    MAX_TOOLS,
    SessionHistory,
    ToolCallRequest,
    encode_arguments,
    shorten_result,
)
from chassis.targets.syntax import MAX_NESTING, MAX_NODES, MAX_SOURCE_CHARS
from chassis.targets.target import Target

ARGS = {
    "id": "A-1",
    "amount": 12.5,
    "count": 3,
    "items": ["x", "y"],
    "deep": {"ok": True},
    "none": None,
    "text": "Añ b",
}


def is_match(source: str, *, tool: str = "refund", args: dict[str, Any] | None = None, history: SessionHistory) -> bool:
    """Return whether a target matches a call."""
    return Target(source).matches(ToolCallRequest(tool, ARGS if args is None else args), history)


@pytest.fixture
def history() -> SessionHistory:
    """Return a session with three calls."""
    session = SessionHistory()
    session.add_message("Orders are refunded to CARD-9 only.", is_user=False)
    session.add_message("Please refund my order A-1, it cost $1,299.00.")
    session.add_call(ToolCallRequest("get_order", {"id": "A-1"}), '{"status": "sent", "owner": "u7"}', is_success=True)
    session.add_call(ToolCallRequest("refund", {"id": "A-1", "n": 1}), "Error: no", is_success=False)
    session.add_call(ToolCallRequest("refund", {"n": 1, "id": "A-1"}), "Error: no", is_success=False)
    return session


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("call.tool == 'refund'", True),
        ("called('get_order') && !called('get_user')", True),
        ("succeeded('get_order')", True),
        ("succeeded('refund')", False),
        ("count('refund') == 2", True),
        ("last_result('get_order').status == 'sent'", True),
        ("last_result('refund').contains('no')", True),
        ("last_result('get_user') == null", True),
        ("seen('A-1') && seen('a-1') && seen('CARD-9') && seen('u7')", True),
        ("seen('A')", True),
        ("seen('A-')", True),
        ("seen('rder')", False),
        ("seen('A-2')", False),
        ("seen(1299) && seen(1299.0) && seen(true) && seen('') && seen(null)", True),
        ("seen(129)", False),
        ("seen(['A-1', 'u7'])", True),
        ("seen(['A-1', 'u8'])", False),
        ("found('u7') && found('A-1') == false && found('CARD-9') == false", True),
        ("said('A-1') && said(1299) && said('u7') == false && said('CARD-9') == false", True),
        ("last_args('refund').n == 1 && last_args('get_user') == null", True),
        ("succeeded_args('get_order').exists(a, a.id == call.args.id)", True),
        ("succeeded_args('get_order').exists(a, a.id == 'A-2') || size(succeeded_args('refund')) > 0", False),
        ("failures() > 0", False),
        ("retries() > 0", False),
        ("user_confirmed()", False),
        ("repeats() > 0", False),
        ("has(call.args.missing) && call.args.missing == 1", False),
        ("call.args.items.exists(item, item == 'y')", True),
        ("call.args.items.all(item, seen(item))", False),
    ],
)
def test_each_function_and_field_of_a_target_is_evaluated(source: str, expected: bool, history: SessionHistory) -> None:
    assert is_match(source, history=history) is expected


def test_the_order_of_arguments_makes_no_difference_to_a_repeated_call(history: SessionHistory) -> None:
    assert is_match("repeats() == 2", args={"id": "A-1", "n": 1}, history=history)
    assert not is_match("repeats() == 2", tool="get_order", args={"id": "A-1", "n": 1}, history=history)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes, go ahead.", True),
        ("OK", True),
        ("はい、お願いします。", True),
        ("No, that is not correct.", False),
        ("Please do not proceed yet.", False),
        ("I want to cancel my flight.", False),
        ("いいえ、確認しましたが違います。", False),
    ],
)
def test_the_last_message_of_the_user_confirms(text: str, expected: bool, history: SessionHistory) -> None:
    history.add_message("Yes.")
    history.add_message(text)
    assert is_match("user_confirmed()", history=history) is expected


@pytest.mark.parametrize(
    "source",
    [
        "call.args.amount > 12.0 && call.args.amount <= 12.5",
        "call.args.id == 'A-1' ? call.args.count == 3.0 : false",
        "call.args.id in ['A-1', \"B\"] || call.args.none == 1",
        "!(call.args.deep.ok) || call.args.deep['ok']",
        "call.args.none == null && call.args.id != null",
        "size(call.args.items) == 2 && call.args.items.size() == 2",
        "call.args.items[0] == 'x' && call.args.items == ['x', 'y']",
        "'ok' in call.args.deep && has(call.args.deep.ok) && !has(call.args.deep.no)",
        "call.args.text.startsWith('\\u00f1') && call.args.text.endsWith(' b') && call.args.text.contains('\\u00f1')",
        "1 + 2 * 3 - 4 / 3 == 6 && 7 % 4 == 3 && -7 / 2 == -3 && -7 % 2 == -1",
        "call.args.missing == 1 || call.args.id == 'A-1'",
        "call.args.missing == 1 && call.args.id == 'B'",
        "call.args.items.exists(i, i == 'y') && !call.args.items.all(i, i == 'y')",
        "'a' + 'b' == 'ab' && 'a' < 'b' && true != false && 2 >= 1",
        "true == call.args.deep.ok && 'true' != 'false'",
    ],
)
def test_the_subset_agrees_with_cel(source: str, history: SessionHistory) -> None:
    environment = celpy.Environment()
    program = environment.program(environment.compile(source))
    args = {**ARGS, "count": 3.0}
    expected = bool(program.evaluate({"call": json_to_cel({"tool": "refund", "args": args})}))
    assert is_match(source, args=args, history=history) is expected


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("", "where a value should be"),
        ("call.tool ==", "ends at character 12, where a value should be"),
        ("call.tool == ==", "has '==' at character 13, where a value should be"),
        ("call.", "ends at character 5, where a name should be"),
        ("called('a'", "ends at character 10, where ',' should be"),
        ("call.tool == 'a' 'b'", "where the expression should end"),
        ("call.tool = 'a'", "at character 9"),
        ("tool == 'a'", "the unknown name 'tool'"),
        ("call.user == 'a'", "the unknown field call.user"),
        ("open('/etc/passwd')", "the unknown function 'open'"),
        ("call.args.__class__.mro()", "the unknown function 'mro'"),
        ("call.tool.matches('(a+)+$')", "regular expressions are not supported"),
        ("called()", "it takes 1"),
        ("has(called('a'))", "write has(call.args.name)"),
        ("99999999999999999999 == 1", "at most 9223372036854775807"),
        ("'\\q' == ''", "the unknown escape"),
        ("x" * (MAX_SOURCE_CHARS + 1), f"at most {MAX_SOURCE_CHARS}"),
        ("1 == 1 || " * 3 + "x" * 1_000_000, f"at most {MAX_SOURCE_CHARS}"),
        ("(" * 500 + "true" + ")" * 500, f"deeper than {MAX_NESTING} levels"),
        ("[" * 500 + "]" * 500, f"deeper than {MAX_NESTING} levels"),
        ("!" * 500 + "true", f"at most {MAX_NESTING} are allowed"),
        ("1" + "+1" * 500 + " > 1", f"more than {MAX_NESTING} operators"),
        ("call" + ".args" * 300, f"more than {MAX_NESTING} fields"),
        ("true" + "||1<2" * 200, f"more than {MAX_NODES} parts"),
    ],
)
def test_a_target_that_breaks_a_rule_is_refused(source: str, rule: str) -> None:
    with pytest.raises(InvalidTarget) as failure:
        Target(source)
    assert rule in failure.value.message
    assert failure.value.violations[0].field == "target.expression"
    assert len(failure.value.message) < 500


@pytest.mark.parametrize(
    "source",
    [
        "call.args.l.exists(x, call.args.l.exists(y, call.args.l.exists(z, x + y + z == -1)))",
        "call.args.t.contains('b')",
        "call.args.l.exists(x, call.args.t.contains('b'))",
        "call.args == call.args && call.args == call.args",
        "call.args.l.exists(x, " + " || ".join(f"x == -{number}" for number in range(1, 80)) + ")",
        " || ".join("call.args.l.exists(x, x == -1)" for _ in range(30)),
        "call.args.l.exists(x, seen('never seen'))",
        "-1 in call.args.l || -1 in call.args.l",
        "true in call.args.l || true in call.args.l",
        "call.args.l.exists(x, -1 in call.args.l)",
        "call.args.l == call.args.l",
    ],
)
def test_an_expensive_target_stops_after_its_steps(source: str) -> None:
    session = SessionHistory()
    session.add_message("a never b seen " * (MAX_TEXT_CHARS // 20))
    call = ToolCallRequest("refund", {"l": list(range(5_000)), "t": "a" * 2_000_000})
    with pytest.raises(EvaluationFailed, match=f"more than {MAX_STEPS} steps"):
        Target(source).matches(call, session)


@pytest.mark.parametrize(
    "source",
    ["call.args.missing == 1", "call.args.amount", "call.args.id < 3", "call.args.id.x == 1", "call.args.items[7] == 1",
     "9223372036854775807 + 1 > 0", "1 / 0 == 1", "!call.args.id", "size(3) == 1", "'a' in 'abc'"],
)  # fmt: skip
def test_an_evaluation_that_fails_names_the_reason(source: str, history: SessionHistory) -> None:
    with pytest.raises(EvaluationFailed) as failure:
        is_match(source, history=history)
    assert str(failure.value)


@pytest.mark.parametrize(
    ("source", "tools"),
    [
        ("call.tool == 'a' && called('b')", {"a"}),
        ("called('b') && call.tool in ['a', 'c']", {"a", "c"}),
        ("call.tool == 'a' || call.tool == 'c'", {"a", "c"}),
        ("call.tool == 'a' || called('c')", None),
        ("!(call.tool == 'a')", None),
        ("repeats() > 1", None),
    ],
)
def test_a_target_names_the_tools_that_can_match(source: str, tools: set[str] | None) -> None:
    assert Target(source).tools == tools


def test_a_session_whose_texts_were_cut_reports_every_value_as_seen() -> None:
    session = SessionHistory()
    session.add_message("b" * (MAX_TEXT_CHARS + 1))
    assert is_match("seen('A-1') && seen(4)", history=session)


def test_a_value_occurs_in_one_text_and_is_searched_in_each_new_one() -> None:
    session = SessionHistory()
    session.add_message("the order A-1")
    session.add_message("b is 1A-12", is_user=True)
    for value, expected in (("A-1 b", False), ("A-12 c", False), ("order a-1", True), ("A-12", False)):
        assert session.has_seen(value) is expected
    session.add_result({"id": "A-12 c"})
    for value, expected in (("A-1 b", False), ("A-12 c", True), ("order a-1", True), ("A-12", True)):
        assert session.has_seen(value) is expected
    assert (session.has_found("A-12 c"), session.is_from_user("A-12 c")) == (True, False)


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_calls_with_very_large_arguments_are_not_compared(size: int) -> None:
    target, session = Target("repeats() > 0"), SessionHistory()
    call = ToolCallRequest("write", {"text": "x" * size, "lines": [{"n": 1}]})
    session.add_call(call, "ok", is_success=True)
    if size < 100:
        assert target.matches(call, session)
    else:
        with pytest.raises(EvaluationFailed, match=r"more than 200,000 characters"):
            target.matches(call, session)


def test_retries_count_the_same_failed_call_without_another_one_between() -> None:
    session, pay = SessionHistory(), {"card": "1"}
    for expected, tool, is_success in ((0, "pay", False), (1, "pay", False), (2, "list", True), (0, "pay", True)):
        assert is_match(f"retries() == {expected}", tool="pay", args=pay, history=session)
        session.add_call(ToolCallRequest(tool, pay if tool == "pay" else {}), "", is_success=is_success)
    assert is_match("retries() == 0 && failures() == 2", tool="pay", args=pay, history=session)


def test_arguments_that_are_not_kept_match_nothing() -> None:
    session, unread = SessionHistory(), "!succeeded_args('read').exists(a, a.path == call.args.path)"
    assert is_match(unread, args={"path": "b"}, history=session)
    session.add_call(ToolCallRequest("read", {"path": "a", "x": ["y"] * 100_000}), "ok", is_success=True)
    with pytest.raises(EvaluationFailed, match="reads the arguments of more than 1,000 calls, or of large ones"):
        is_match(unread, args={"path": "b"}, history=session)


def test_a_session_counts_the_calls_of_its_first_tools() -> None:
    session = SessionHistory()
    for number in range(MAX_TOOLS + 5):
        session.add_call(ToolCallRequest(f"tool_{number}", {}), "ok", is_success=number > 0)
    for source in ("called('tool_1')", "!succeeded('tool_0')", "count('tool_1') == 1", "last_result('tool_1') == 'ok'"):
        assert is_match(source, history=session)
    assert is_match("count(call.tool) == 1", tool="tool_1", history=session)
    for source in ("called('x')", "!called('x')", "!succeeded('x')", "count('x') == 0", "last_args('x') == null"):
        with pytest.raises(EvaluationFailed, match="reads the calls of 'x' after those of 1,000 other tools"):
            is_match(source, history=session)
    for source in ("count(call.tool) < 1", "!(count(call.tool) >= 1)", "!succeeded_args(call.tool).exists(a, true)"):
        with pytest.raises(EvaluationFailed):
            is_match(source, tool=f"tool_{MAX_TOOLS}", history=session)
    assert len(session.counts) == len(session.successful_arguments) + 1 == MAX_TOOLS


def test_a_session_counts_its_first_calls_with_different_arguments() -> None:
    session = SessionHistory()
    for number in [*range(MAX_CALL_KEYS + 5), 0]:
        session.add_call(ToolCallRequest("search", {"q": number}), "ok", is_success=False)
    assert is_match("repeats() == 2 && failures() == 2", tool="search", args={"q": 0}, history=session)
    for source in ("repeats() == 0", "failures() == 0"):
        with pytest.raises(EvaluationFailed, match="counts calls of a session with more than 10,000 different ones"):
            is_match(source, tool="search", args={"q": MAX_CALL_KEYS + 1}, history=session)


def test_a_session_keeps_the_last_calls_of_the_tools_that_were_called_last() -> None:
    session, large = SessionHistory(), "x" * (MAX_STORED_BYTES // 4)
    for tool in ("a", "b", "a", "c", "d"):
        session.add_call(ToolCallRequest(tool, {"tool": tool}), large, is_success=True)
    session.add_call(ToolCallRequest("e", {}), large * 4, is_success=True)
    assert is_match(
        "last_args('a').tool == 'a' && size(last_result('d')) > 0 && last_args('x') == null", history=session
    )
    for lost in ("b", "e"):
        with pytest.raises(EvaluationFailed, match=f"reads the last call of '{lost}', which is not kept"):
            is_match(f"last_result('{lost}') == null", history=session)


def test_the_memory_of_a_session_is_bounded() -> None:
    session = SessionHistory()
    for number in range(1_500):
        arguments = {"text": f"{number} " + "x" * 40_000, "items": [[]] * 100}
        session.add_call(ToolCallRequest(f"tool_{number % 40}", arguments), f"[{number}]", is_success=True)
    for number in range(200):
        assert not session.has_seen(f"{number} and {'y' * 10_000}")
    assert session.stored_bytes < 3 * MAX_STORED_BYTES + 2_000_000
    with pytest.raises(EvaluationFailed, match="reads the arguments of more than"):
        is_match("succeeded_args('tool_39').exists(a, true)", history=session)


def test_a_variable_of_a_macro_may_hide_the_call() -> None:
    session = SessionHistory()
    session.add_call(ToolCallRequest("a", {}), "ok", is_success=True)
    target = Target("call.args.calls.exists(call, count(call.tool) > 0)")
    assert target.matches(ToolCallRequest("b", {"calls": [{"tool": "a"}]}), session)
    assert not target.matches(ToolCallRequest("a", {"calls": [{"tool": "b"}]}), session)


def test_the_key_of_a_long_call_is_the_same_in_every_process() -> None:
    key = ToolCallRequest("write", {"text": "表" * 30_000}).key
    assert key.endswith("表30012f8c54e6ecb9d5421")


@pytest.mark.parametrize("levels", [300, 5_000, 0])
def test_values_that_are_nested_too_deeply_are_not_compared(levels: int) -> None:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    if not levels:
        nested.append(nested)
    session, call = SessionHistory(), ToolCallRequest("write", {"value": nested})
    session.add_call(call, "ok", is_success=False)
    with pytest.raises(EvaluationFailed, match="more than 200,000 characters or 200 levels"):
        Target("repeats() > 0").matches(call, session)
    assert encode_arguments(call.args) == ""
    session.add_result({"value": nested})
    assert session.has_seen("x") is (levels != 300)  # a result that is no JSON may have any value
    assert (shorten_result(nested) == "") is (levels != 300)


def test_a_call_is_encoded_within_the_limits_of_the_contract() -> None:
    longest = MAX_ARGUMENTS_CHARS - len('{"q": ""}')
    assert encode_arguments({"q": "表"}) == '{"q": "表"}'
    assert encode_arguments({}) == "{}"
    assert len(encode_arguments({"q": "x" * longest})) == MAX_ARGUMENTS_CHARS
    assert encode_arguments({"q": "x" * (longest + 1)}) == ""
    assert shorten_result("x" * (MAX_RESULT_CHARS + 1)) == "x" * MAX_RESULT_CHARS
    assert shorten_result({"q": "表"}) == '{"q": "表"}'
