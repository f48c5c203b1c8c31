"""Every format of trajectories but the oldest four: files of our own making, in the published shape of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage, messages_to_dict

from chassis.errors import HanseiError
from libs.trajectories.actions import extract_actions
from services.reflector.adapters.importers.files import FORMATS, read_trajectories
from services.reflector.domain.errors import MalformedTrajectory, UnknownFormat
from services.reflector.domain.outcome import determine_outcome
from services.reflector.domain.recorded_trajectory import Format, RecordedTrajectory
from services.reflector.domain.trajectory import Step

FILES = Path(__file__).parent / "files"


def load(name: str) -> Any:
    return json.loads((FILES / name).read_text(encoding="utf-8"))


def read(value: object, expected: Format) -> RecordedTrajectory:
    file = read_trajectories(json.dumps(value).encode(), "given")
    assert file.format == expected
    (recorded,) = file.trajectories
    return recorded


def refusal(value: object) -> str:
    with pytest.raises(MalformedTrajectory) as caught:
        read_trajectories(json.dumps(value).encode(), "given")
    return str(caught.value)


def outline(steps: Sequence[Step]) -> list[tuple[str, str]]:
    return [(step.role, step.source) for step in steps]


class TestAtif:
    def test_a_step_of_the_agent_becomes_one_for_it_and_one_for_each_result(self) -> None:
        trajectory = read(load("atif.json"), "atif").trajectory
        assert outline(trajectory.steps) == [
            ("system", "steps[0]"),
            ("user", "steps[1]"),
            ("assistant", "steps[2]"),
            ("tool", "steps[2].observation.results[0]"),
            ("tool", "steps[2].observation.results[1]"),
            ("assistant", "steps[3]"),
            ("tool", "steps[3].observation.results[0]"),
            ("assistant", "steps[4]"),
            ("tool", "steps[4].observation.results[0]"),
        ]
        assert [step.index for step in trajectory.steps] == list(range(9))
        assert (
            trajectory.steps[2].content == "Both calls are independent.\n\nI look up the customer and place the order."
        )
        assert trajectory.steps[2].name == "shopkeeper"
        assert trajectory.steps[8].content == "subagent audit-1"

    def test_calls_are_joined_with_results_and_errors_are_detected(self) -> None:
        found = extract_actions(read(load("atif.json"), "atif").trajectory.steps)
        assert [(action.tool, action.arguments, action.is_success) for action in found[:3]] == [
            ("get_customer", '{"id": 7}', True),
            ("create_order", '{"customer": 7, "pens": "two"}', False),
            ("create_order", '{"customer": 7, "pens": 2}', True),
        ]

    def test_query_answer_and_outcome_are_read(self) -> None:
        recorded = read(load("atif.json"), "atif")
        trajectory = recorded.trajectory
        assert trajectory.id == "5c1f0c3e-7d2b-4f7c-9a51-0d9f6e2b8a11"
        assert (trajectory.query, trajectory.generated_answer) == (
            "Order two pens for customer 7.",
            "Order 91 is placed.",
        )
        assert (trajectory.task_id, trajectory.reward, trajectory.status) == ("order-pens", 1.0, "success")
        assert recorded.test_report == "passed"

    def test_parts_of_later_versions_are_read(self) -> None:
        later = load("atif.json") | {"schema_version": "ATIF-v1.6"}
        later["steps"][1]["message"] = [{"type": "text", "text": "Order two pens"}, {"type": "image", "source": {}}]
        assert read(later, "atif").trajectory.query == "Order two pens"

    def test_an_error_names_the_field_that_breaks_the_format(self) -> None:
        out_of_order, nobody = load("atif.json"), load("atif.json")
        out_of_order["steps"][1]["step_id"] = 7
        nobody["steps"][1]["source"] = "robot"
        assert refusal(out_of_order) == "trajectory.steps[1].step_id: 7 must be the step's number, 2"
        assert refusal(nobody) == "trajectory.steps[1].source: 'robot' must be one of system, user, agent"
        with pytest.raises(MalformedTrajectory, match=r"schema_version: 'ATIF-v2.0' must be ATIF-v1.0 to ATIF-v1.8"):
            read_trajectories(json.dumps({"schema_version": "ATIF-v2.0", "agent": {}}).encode(), "given")


class TestSweAgent:
    def test_a_turn_becomes_a_step_of_the_agent_and_one_of_its_shell(self) -> None:
        trajectory = read(load("swe_agent.traj"), "swe_agent").trajectory
        assert outline(trajectory.steps) == [
            ("system", "history[0]"),
            ("user", "history[2]"),
            ("assistant", "trajectory[0]"),
            ("tool", "trajectory[0].observation"),
            ("assistant", "trajectory[1]"),
            ("tool", "trajectory[1].observation"),
            ("assistant", "trajectory[2]"),
            ("tool", "trajectory[2].observation"),
        ]
        assert trajectory.query == "Fix the failing import in shop/cart.py."
        assert trajectory.generated_answer.startswith("diff --git")
        assert trajectory.status == "success"
        first, second, _ = extract_actions(trajectory.steps)
        assert (first.operation, first.is_success, second.operation, second.is_success) == (
            "pytest",
            False,
            "python",
            True,
        )

    @pytest.mark.parametrize("status", ["exit_cost", "submitted (exit_context)", None])
    def test_a_stopped_agent_has_failed(self, status: str | None) -> None:
        file = load("swe_agent.traj")
        file["info"] = {"exit_status": status, "submission": None}
        trajectory = read(file, "swe_agent").trajectory
        assert (trajectory.status, trajectory.error_message) == ("failure", status)
        assert trajectory.generated_answer == "Done."

    def test_a_verdict_in_the_file_has_precedence(self) -> None:
        recorded = read(load("swe_agent.traj") | {"reward": 0, "test_report": "2 failed"}, "swe_agent")
        assert (recorded.trajectory.status, recorded.test_report) == ("failure", "2 failed")
        assert not determine_outcome(recorded.trajectory, recorded.ground_truth, recorded.test_report).is_success

    def test_the_task_is_found_without_a_history(self) -> None:
        file = load("swe_agent.traj")
        del file["history"]
        trajectory = read(file, "swe_agent").trajectory
        assert trajectory.steps[1].source == "trajectory[0].query[1]"
        assert trajectory.query == "Fix the failing import in shop/cart.py."


class TestMiniSweAgent:
    """A file that mini-swe-agent 2.4 wrote with its offline model; `make test-frameworks` runs all its ways to call."""

    def test_a_message_becomes_a_step_and_an_exit_code_an_error(self) -> None:
        trajectory = read(load("mini_swe_agent.json"), "swe_agent").trajectory
        assert outline(trajectory.steps) == [
            ("system", "messages[0]"),
            ("user", "messages[1]"),
            ("assistant", "messages[2]"),
            ("tool", "messages[3]"),
            ("assistant", "messages[4]"),
            ("tool", "messages[5]"),
            ("assistant", "messages[6]"),
        ]
        assert trajectory.steps[3].content == "Error: fatal: unable to auto-detect email address\n\n(exit code 128)"
        assert (trajectory.query, trajectory.generated_answer, trajectory.status) == (
            "Commit the log.",
            "the patch\n",
            "success",
        )
        assert trajectory.usage is not None
        assert trajectory.usage.cost_usd == 3

    @pytest.mark.parametrize("status", ["LimitsExceeded", ""])
    def test_an_agent_that_did_not_submit_has_failed(self, status: str) -> None:
        file = load("mini_swe_agent.json")
        file["info"] |= {"exit_status": status, "submission": ""}
        trajectory = read(file, "swe_agent").trajectory
        assert (trajectory.status, trajectory.error_message) == ("failure", status or None)
        recorded = read(file | {"reward": 1.0}, "swe_agent")
        assert (recorded.trajectory.status, recorded.trajectory.reward) == ("success", 1.0)

    def test_an_unknown_version_is_named(self) -> None:
        file = load("mini_swe_agent.json") | {"trajectory_format": "mini-swe-agent-3"}
        assert refusal(file) == (
            "trajectory.trajectory_format: 'mini-swe-agent-3' must be mini-swe-agent-1 or mini-swe-agent-1.1"
        )


class TestAnthropic:
    def test_results_that_come_in_one_message_become_steps_of_their_own(self) -> None:
        trajectory = read(load("anthropic.json"), "anthropic").trajectory
        assert outline(trajectory.steps) == [
            ("system", "system"),
            ("user", "messages[0]"),
            ("assistant", "messages[1]"),
            ("tool", "messages[2].content[0]"),
            ("tool", "messages[2].content[1]"),
            ("user", "messages[2]"),
            ("assistant", "messages[3]"),
            ("tool", "messages[4].content[0]"),
            ("assistant", "messages[5]"),
        ]
        assert trajectory.steps[2].content == "I need both cities.\n\nI ask for both."
        assert (trajectory.query, trajectory.generated_answer) == (
            "Is it warmer in Kyoto or in Oslo?",
            "It is warmer in Kyoto.",
        )

    def test_a_result_that_is_marked_as_an_error_is_an_error(self) -> None:
        found = extract_actions(read(load("anthropic.json"), "anthropic").trajectory.steps)
        assert [(action.arguments, action.message) for action in found] == [
            ('{"city": "Kyoto"}', ""),
            ('{"city": "Olso"}', "Error: no city of that name"),
            ('{"city": "Oslo"}', ""),
        ]

    def test_a_bare_list_is_distinguished_from_openais_by_its_blocks(self) -> None:
        assert read(load("anthropic.json")["messages"], "anthropic").trajectory.steps[0].role == "user"
        texts = [{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "text", "text": "b"}]}]
        assert read(texts, "openai").trajectory.generated_answer == "b"

    def test_tools_of_the_server_are_answered_in_the_message_that_calls_them(self) -> None:
        found = {"type": "web_search_result", "title": "Kyoto", "url": "https://example.org"}
        blocks = [
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "Kyoto"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [found]},
            {"type": "text", "text": "In Japan."},
        ]
        request = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": blocks}]
        (action,) = extract_actions(read(request, "anthropic").trajectory.steps)
        assert (action.tool, json.loads(action.output)) == ("web_search", [found])


MESSAGES: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage("Add 1 and 1."),
    AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}]),
    ToolMessage("b is missing", tool_call_id="c1", name="add", status="error"),
    AIMessage([{"type": "reasoning", "reasoning": "again"}, {"type": "text", "text": "It is 2."}]),
]


class TestLangChain:
    @pytest.mark.parametrize(
        "dumped",
        [
            messages_to_dict(MESSAGES),
            [dumpd(message) for message in MESSAGES],
            [message.model_dump() for message in MESSAGES],
        ],
        ids=["messages_to_dict", "dumps", "model_dump"],
    )
    @pytest.mark.parametrize("in_state", [False, True])
    def test_messages_are_read_in_all_three_forms(self, dumped: list[Any], in_state: bool) -> None:
        trajectory = read({"messages": dumped} if in_state else dumped, "langchain").trajectory
        assert [(step.index, step.role) for step in trajectory.steps] == [
            (0, "system"), (1, "user"), (2, "assistant"), (3, "tool"), (4, "assistant"),
        ]  # fmt: skip
        assert (trajectory.query, trajectory.generated_answer) == ("Add 1 and 1.", "It is 2.")
        (action,) = extract_actions(trajectory.steps)
        assert (action.tool, action.arguments, action.message) == ("add", '{"a": 1}', "Error: b is missing")

    def test_a_message_of_another_kind_is_named(self) -> None:
        dumped = [*messages_to_dict(MESSAGES), {"type": "remove", "data": {"id": "x"}}]
        with pytest.raises(UnknownFormat) as caught:
            read_trajectories(json.dumps({"messages": dumped}).encode(), "given")
        reasons = {violation.field: violation.description for violation in caught.value.violations}
        assert reasons["as langchain"].startswith("trajectory.messages[5].type: 'remove' must be")


def test_the_error_of_an_unknown_format_lists_the_reason_of_each_format() -> None:
    with pytest.raises(UnknownFormat) as caught:
        read_trajectories(b'{"steps": "none", "log": [], "schema_version": 4}', "given")
    error = caught.value
    assert error.message == (
        f"trajectory is in none of the formats {', '.join(FORMATS)}; its fields are steps, log, schema_version"
    )
    reasons = {violation.field: violation.description for violation in error.violations}
    assert reasons["as atif"] == "trajectory.schema_version: 4 must be ATIF-v1.0 to ATIF-v1.8"
    assert reasons["as tau_bench"] == "trajectory.traj: null must be a list"
    assert reasons["as hansei"] == "trajectory.steps: 'none' must be a list"
    assert set(reasons) == {f"as {name}" for name in FORMATS}


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_a_line_separator_inside_of_a_text_ends_no_line(separator: str) -> None:
    """Programs in JavaScript write these characters into JSON as they are."""
    conversation = [{"role": "user", "content": f"first{separator}second"}]
    content = "\r\n".join(json.dumps(conversation, ensure_ascii=False) for _ in range(2)).encode()
    queries = [recorded.trajectory.query for recorded in read_trajectories(content, "test").trajectories]
    assert queries == [f"first{separator}second"] * 2


def test_conversations_one_a_line_need_no_object_around_them() -> None:
    conversation = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    content = f"{json.dumps(conversation)}\n{json.dumps(conversation[:1])}\n".encode()
    assert [len(recorded.trajectory.steps) for recorded in read_trajectories(content, "given").trajectories] == [2, 1]


NAMES = ["type", "data", "kwargs", "lc", "content", "role", "messages", "trajectory", "action", "observation", "steps"]
NAMES += ["schema_version", "step_id", "source", "message", "tool_calls", "resourceSpans", "scopeSpans", "spans"]
NAMES += ["attributes", "key", "value", "stringValue", "arrayValue", "values", "kvlistValue", "events", "history"]
NAMES += ["uuid", "parentUuid", "sessionId", "isSidechain", "payload", "output", "arguments", "name", "id", "call_id"]
NAMES += [
    "items",
    "kind",
    "parts",
    "part_kind",
    "outcome",
    "tool_name",
    "args",
    "object",
    "exit_code",
    "summary",
    "leafUuid",
    "input",
    "is_error",
    "timestamp",
    "subagent_trajectories",
    "conversation",
    "task_completion_pass",
    "error",
    "result",
]
WORDS = ["human", "ai", "tool", "user", "assistant", "agent", "ATIF-v1.4", "tool_use", "tool_result", "chat", "[]", "1"]
WORDS += [
    "gen_ai.operation.name",
    "gen_ai.input.messages",
    '[{"role": "user", "parts": [{"type": "text"}]}]',
    "response_item",
]
WORDS += [
    "request",
    "response",
    "tool-return",
    "retry-prompt",
    "reasoning",
    "event_msg",
    "function_call",
    "function_call_output",
    "exec_command_end",
    "message",
    '{"output": {}}',
]
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(WORDS) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=25,
)


def error_in(value: object, format_: Format | None) -> HanseiError | None:
    try:
        read_trajectories(json.dumps(value).encode(), "given", format_)
    except HanseiError as error:
        return error
    return None


@given(values, st.sampled_from([*FORMATS, None]))
def test_anything_is_read_or_refused_with_a_clear_error(value: object, format_: Format | None) -> None:
    error = error_in(value, format_)
    if error is not None:
        assert error.code == "INVALID_ARGUMENT"
        assert error.violations
