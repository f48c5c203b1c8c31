"""Guards: the index by tool, and the calls that guards match (issue 23, item 4)."""

from __future__ import annotations

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
