"""Guards: the index by tool, and the calls that guards match (issue 23, item 4)."""

from __future__ import annotations

from itertools import product

import pytest

from chassis.targets.errors import EvaluationFailed
from chassis.targets.evaluation import MAX_STEPS, TargetEvaluation
from chassis.targets.guard import MAX_EXHAUSTIONS, CallGuard, GuardIndex, GuardMode, find_matches
from chassis.targets.session import SessionHistory, ToolCallRequest
from chassis.targets.target import Target


def create_guard(bullet_id: str, source: str, mode: GuardMode = GuardMode.SHADOW) -> CallGuard:
    """Return a guard with a text of its own."""
    return CallGuard(bullet_id, Target(source), mode, f"text of {bullet_id}")


GUARDS = GuardIndex(
    [
        create_guard("order", "call.tool == 'refund' && !called('get_order')", GuardMode.ADVISE),
        create_guard("amount", "call.tool in ['refund', 'charge'] && call.args.amount > 100", GuardMode.DENY),
        create_guard("again", "repeats() > 0"),
        create_guard("other", "call.tool == 'charge' && call.args.nothing == 1", GuardMode.ASK),
    ]
)


def list_matches(tool: str, **args: object) -> list[str]:
    """Return the ids of the guards that match a first call."""
    found = find_matches(GUARDS, ToolCallRequest(tool, dict(args)), SessionHistory())
    return [guard.bullet_id for guard in found.matches]


def test_the_strictest_guard_is_first() -> None:
    assert list_matches("refund", amount=200) == ["amount", "order"]
    assert list_matches("refund", amount=50) == ["order"]
    assert list_matches("search", amount=200) == []


def test_a_guard_without_a_tool_is_evaluated_for_every_call() -> None:
    session, call = SessionHistory(), ToolCallRequest("search", {"q": "x"})
    session.add_call(call, "no result", is_success=True)
    assert [guard.bullet_id for guard in find_matches(GUARDS, call, session).matches] == ["again"]


def test_a_guard_that_cannot_be_evaluated_does_not_match_and_is_reported() -> None:
    found = find_matches(GUARDS, ToolCallRequest("charge", {"amount": 1}), SessionHistory())
    assert found.matches == ()
    assert [(guard.bullet_id, reason) for guard, reason in found.failures] == [
        ("other", "reads the missing field 'nothing'")
    ]


def test_a_guard_whose_target_costs_too_much_is_suspended() -> None:
    hostile = create_guard("hostile", "call.args.l.exists(x, call.args.l.exists(y, x + y == -1))", GuardMode.DENY)
    guards = GuardIndex([hostile, create_guard("long", "size(call.args.l) > 100")])
    long, short = (ToolCallRequest("refund", {"l": list(range(size))}) for size in (200, 2))
    for _ in range(MAX_EXHAUSTIONS):
        assert not hostile.failures.is_suspended
        assert [guard.bullet_id for guard, _ in find_matches(guards, long, SessionHistory()).failures] == ["hostile"]
        assert find_matches(guards, short, SessionHistory()).failures == ()
    assert (hostile.failures.count, hostile.failures.is_suspended) == (MAX_EXHAUSTIONS, True)
    for index in (guards, GuardIndex([hostile])):
        assert hostile not in index.select("refund")
    found = find_matches(guards, long, SessionHistory())
    assert ([guard.bullet_id for guard in found.matches], found.failures) == (["long"], ())


def test_failures_that_are_cheap_suspend_no_guard() -> None:
    guard = create_guard("field", "call.args.missing == 1")
    guards = GuardIndex([guard])
    for _ in range(2 * MAX_EXHAUSTIONS):
        find_matches(guards, ToolCallRequest("refund"), SessionHistory())
    assert (guard.failures.count, guard.failures.is_suspended) == (2 * MAX_EXHAUSTIONS, False)


def test_only_the_guards_of_a_tool_are_selected() -> None:
    assert len(GUARDS) == 4
    assert [guard.bullet_id for guard in GUARDS.select("refund")] == ["order", "amount", "again"]
    assert [guard.bullet_id for guard in GUARDS.select("search")] == ["again"]


CONDITIONS = (
    "call.tool == 'refund'",
    "called('refund')",
    "!succeeded('refund')",
    "count(call.tool) <= 1",
    "call.args.n > 5",
    "call.args.n >= 3",
    "call.args.missing < 1",
    "call.args.text < 1",
    "call.args.l",
    "call.args.l.all(x, x >= 0)",  # takes more than half of the steps
    "call.args.l.exists(x, call.args.l.exists(y, x + y == -1))",  # takes all
)


def test_guards_of_an_index_match_and_fail_as_each_target_alone() -> None:
    """Every conjunction of one to three conditions: true ones, false ones, expensive ones and ones that fail."""
    session = SessionHistory()
    call = ToolCallRequest("refund", {"l": list(range(MAX_STEPS // 8)), "n": 3, "text": "3"})
    session.add_call(call, "done", is_success=True)
    sources = [" && ".join(joined) for length in (1, 2, 3) for joined in product(CONDITIONS, repeat=length)]
    guards = [create_guard(source, source, GuardMode(1 + number % 4)) for number, source in enumerate(sources)]
    alone: dict[str, bool | str] = {}
    for guard in guards:
        try:
            alone[guard.bullet_id] = guard.target.matches(call, session)
        except EvaluationFailed as error:
            alone[guard.bullet_id] = str(error)
    exhausted = f"takes more than {MAX_STEPS} steps"
    assert {True, False, exhausted, "reads the missing field 'missing'"} <= {*alone.values()}
    found = find_matches(GuardIndex(guards), call, session)
    assert {guard.bullet_id: reason for guard, reason in found.failures} == {
        source: reason for source, reason in alone.items() if isinstance(reason, str)
    }
    matching = [guard for guard in guards if alone[guard.bullet_id] is True]
    assert list(found.matches) == sorted(matching, key=lambda guard: (-guard.mode, guard.target.tools is None))
    suspects = [guard.bullet_id for guard in guards if guard.failures.exhaustions]
    assert suspects == [source for source in sources if alone[source] == exhausted]


@pytest.mark.parametrize("value", [1, 2, 2.0, 2.5, 3, -(10**30), float("inf"), float("nan"), True, None, "2", [2]])
def test_limits_decide_as_comparisons_do(value: object) -> None:
    sources = [f"call.args.n {operator} {limit}" for operator in ("<", "<=", ">", ">=") for limit in (1, 2.0, 2, 3)]
    sources += [f"{source} && called('a')" for source in sources] + [f"{source} && !called('a')" for source in sources]
    guards = [create_guard(source, source) for source in sources]
    call, session = ToolCallRequest("refund", {"n": value}), SessionHistory()
    expected = [guard for guard in guards if is_match(guard, call, session)]
    assert list(find_matches(GuardIndex(guards), call, session).matches) == expected


def is_match(guard: CallGuard, call: ToolCallRequest, session: SessionHistory) -> bool:
    """Return whether the target of a guard matches alone."""
    try:
        return guard.target.matches(call, session)
    except EvaluationFailed:
        return False


def test_simple_conditions_decide_without_an_evaluation() -> None:
    """Three of 600 guards are evaluated: the others compare a larger number, or need a tool that was not called."""
    sources = [f"called('tool_{number}') && call.args.n > {number}" for number in range(300)]
    sources += [f"!called('tool_{number}') && count(call.tool) >= {number}" for number in range(300)]
    session, call = SessionHistory(), ToolCallRequest("tool_5", {"n": 20})
    for tool in ("tool_0", "tool_5", "tool_30"):
        session.add_call(ToolCallRequest(tool), "done", is_success=True)
    guards = GuardIndex(create_guard(source, source) for source in sources)
    undecided = [guard.bullet_id for guard in guards.select_undecided(TargetEvaluation(call, session))]
    assert undecided == [sources[0], sources[5], sources[301]]
