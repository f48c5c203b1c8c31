from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from libs.trajectories.actions import extract_actions
from services.reflector.domain.trajectory import Step, ToolCall
from services.reflector.tests.trajectories import MakeStep, asks, calls, returns, says, steps


def paired_calls(*makers: MakeStep) -> list[tuple[int, int | None, str, str]]:
    return [
        (action.call_step, action.result_step, action.tool, action.output) for action in extract_actions(steps(*makers))
    ]


def test_a_call_gets_the_result_with_its_id() -> None:
    both = (ToolCall(id="1", name="a"), ToolCall(id="2", name="b"))

    def parallel(index: int) -> Step:
        return Step(index=index, role="assistant", tool_calls=both)

    assert paired_calls(parallel, returns("B", call_id="2"), returns("A", call_id="1")) == [
        (0, 2, "a", "A"),
        (0, 1, "b", "B"),
    ]


def test_a_repeated_id_belongs_to_the_newest_call() -> None:
    log = [calls("a", call_id="1"), calls("b", call_id="1"), returns("y", call_id="1"), returns("x", call_id="1")]
    assert paired_calls(*log) == [(0, 3, "a", "x"), (1, 2, "b", "y")]


def test_without_an_id_the_tools_name_decides_and_else_the_order() -> None:
    assert paired_calls(calls("a"), calls("b"), returns("B", tool="b"), returns("A")) == [
        (0, 3, "a", "A"),
        (1, 2, "b", "B"),
    ]


def test_a_call_without_a_result_stays_open() -> None:
    assert paired_calls(calls("a"), says("well")) == [(0, None, "a", "")]
    assert not extract_actions(steps(calls("a")))[0].is_success


def test_a_result_without_a_call_belongs_to_the_code_before_it() -> None:
    code = says("I run it.\n```python\nprint(1)\n```", name="Coder")
    actions = extract_actions(steps(code, returns("exitcode: 0\n1", tool="terminal")))
    assert [(action.agent, action.tool, action.arguments) for action in actions] == [("Coder", "python", "print(1)\n")]
    assert paired_calls(returns("x", tool="t")) == [(0, 0, "t", "x")]
    assert paired_calls(says("no code"), returns("x", tool="t")) == [(0, 1, "t", "x")]


def test_actions_and_observations_written_in_prose_are_read() -> None:
    action, *rest = extract_actions(steps(says("Action: search(rent 2024)"), says("Observation: Error: timeout")))
    assert rest == []
    assert (action.tool, action.result_step, action.message) == ("search", 1, "Error: timeout")


def test_the_kind_of_an_error_names_the_operation() -> None:
    arguments = {"command": "git commit -m 'x'"}
    action = extract_actions(steps(calls("git", arguments), returns("exit code 128\nfatal: no email was given")))[0]
    assert action.operation == "git commit"
    assert action.error_kind == "git commit: fatal: no email was given"


makers = st.one_of(
    st.builds(says, st.text(max_size=20)),
    st.builds(asks, st.text(max_size=20)),
    st.builds(calls, st.sampled_from("ab"), call_id=st.sampled_from(["", "1", "2"])),
    st.builds(returns, st.text(max_size=20), st.sampled_from(["", "a", "b"]), call_id=st.sampled_from(["", "1", "3"])),
)


@given(st.lists(makers, max_size=12))
def test_every_call_and_every_result_is_recorded_exactly_once(log: list[MakeStep]) -> None:
    whole = steps(*log)
    actions = extract_actions(whole)
    results = [action.result_step for action in actions if action.result_step is not None]
    assert len(results) == len(set(results))
    assert set(results) >= {step.index for step in whole if step.role == "tool"}
    assert sum(len(step.tool_calls) for step in whole) <= len(actions)
    assert [action.call_step for action in actions] == sorted(action.call_step for action in actions)


def test_executed_code_is_an_action_of_its_author() -> None:
    log = steps(
        says("```python\nprint(1)\n```", name="Coder"), says("Terminal, run it.", name="Lead"), returns("1"),
        says("Look at it.", name="Lead"), returns("seen", tool="viewer"),
    )  # fmt: skip
    assert [(action.call_step, action.agent, action.tool) for action in extract_actions(log)] == [
        (0, "Coder", "python"),
        (3, "Lead", "viewer"),
    ]


def test_the_kind_of_an_error_has_the_short_codes_of_the_tool() -> None:
    def find_kind(request: str, arguments: str, error: str) -> str:
        action = extract_actions(steps(says(request), calls("lock", arguments), returns(f"Error: {error}")))[0]
        assert action.error is not None
        return action.error.kind

    assert find_kind("Lock it.", '{"lane": "A1"}', "lane of gold is B88") == "Error: lane of gold is B88"
    assert find_kind("Lock it in B88.", '{"lane": "A1"}', "lane B88 is taken") == "Error: lane <id> is taken"
    assert find_kind("Lock it.", '{"lane": "A1"}', "lane A1 is taken") == "Error: lane <id> is taken"
    assert find_kind("Lock it.", "{}", "request 7f3a9c21 failed at B88") == "Error: request <id> failed at B88"
    again = [calls("lock", "{}"), returns("Error: lane of gold is B88")]
    repeated = extract_actions(steps(says("Lock it."), *again, *again))
    assert len({action.error_kind for action in repeated}) == 1
