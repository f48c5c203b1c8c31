"""Transcripts of Claude Code and rollouts of Codex: branches, sub-agents, exit codes, outcomes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.outcome import Outcome, determine_outcome
from services.reflector.domain.recorded_trajectory import RecordedTrajectory

SESSION = "0b1c5f7e-6f0a-4f3e-9a55-2b1f0c3d4e5f"


def write(lines: Sequence[object]) -> bytes:
    return "\n".join(json.dumps(line) for line in lines).encode()


def read(lines: Sequence[object]) -> list[RecordedTrajectory]:
    return list(read_trajectories(write(lines), "coding").trajectories)


def outcome(recorded: RecordedTrajectory) -> Outcome:
    return determine_outcome(recorded.trajectory, recorded.ground_truth, recorded.test_report)


def line(uuid: str, parent: str | None, role: str, content: object, **fields: object) -> dict[str, Any]:
    """Return a line of a transcript."""
    message: dict[str, object] = {"role": role, "content": content}
    if role == "assistant":
        message["id"] = fields.pop("message_id", f"msg-{uuid}")
    return {
        "type": role,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": SESSION,
        "timestamp": "2026-11-02T10:00:00.000Z",
        "message": message,
        **fields,
    }


def call(call_id: str, command: str) -> dict[str, object]:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}


def result(call_id: str, text: str, *, is_error: bool = False) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}


def steps(recorded: RecordedTrajectory) -> list[tuple[str, str]]:
    return [(step.role, step.content) for step in recorded.trajectory.steps]


SUMMARY = {"type": "summary", "summary": "Fix the parser", "leafUuid": "d"}
TRANSCRIPT = [
    SUMMARY,
    {"type": "file-history-snapshot", "messageId": "a", "snapshot": {}},
    line("m", None, "user", "Caveat: the messages below …", isMeta=True),
    line("a", "m", "user", "make the tests pass"),
    line("b", "a", "assistant", [{"type": "thinking", "thinking": "run them first"}], message_id="one"),
    line("c", "b", "assistant", [call("t1", "python -m pytest -q")], message_id="one"),
    line("d", "c", "user", [result("t1", "Exit code 1\n1 failed", is_error=True)]),
    line("e", "d", "assistant", [{"type": "text", "text": "The parser drops the last field."}]),
]


def test_a_transcript_contains_the_conversation_and_the_failures() -> None:
    (recorded,) = read(TRANSCRIPT)
    assert recorded.trajectory.id == SESSION
    assert recorded.trajectory.query == "make the tests pass"
    assert recorded.trajectory.generated_answer == "The parser drops the last field."
    assert steps(recorded) == [
        ("user", "make the tests pass"),
        ("assistant", "run them first"),
        ("tool", "Error: 1 failed\n(exit code 1)"),
        ("assistant", "The parser drops the last field."),
    ]
    assert recorded.trajectory.steps[1].tool_calls[0].name == "Bash"
    assert recorded.trajectory.created_at.isoformat() == "2026-11-02T10:00:00+00:00"
    assert read_trajectories(write(TRANSCRIPT), "coding").format == "claude_code"


def test_the_last_test_run_decides_the_outcome() -> None:
    (failed,) = read(TRANSCRIPT)
    assert outcome(failed) == Outcome(is_success=False, signal="test_report")
    fixed = [
        *TRANSCRIPT,
        line("f", "e", "assistant", [call("t2", "npm test")]),
        line("g", "f", "user", [result("t2", "Tests: 12 passed")]),
        line("h", "g", "assistant", [{"type": "text", "text": "Done."}]),
    ]
    (passed,) = read(fixed)
    assert outcome(passed) == Outcome(is_success=True, signal="test_report")
    assert passed.test_report.startswith("The last test run of the trajectory passed.\nBash: ")
    (silent,) = read([line("a", None, "user", "rename it"), line("b", "a", "assistant", "Renamed.")])
    assert outcome(silent) == Outcome(is_success=True, signal="self_report")


def test_an_interruption_as_the_last_word_is_a_failure() -> None:
    (recorded,) = read(
        [*TRANSCRIPT, line("z", "e", "user", [{"type": "text", "text": "[Request interrupted by user]"}])]
    )
    assert recorded.trajectory.status == "failure"
    assert recorded.trajectory.error_message == "The user interrupted the agent."
    assert outcome(recorded).is_success is False


def test_only_the_branch_of_the_newest_message_is_read() -> None:
    abandoned = line("x", "a", "assistant", [{"type": "text", "text": "I give up."}])
    (recorded,) = read([*TRANSCRIPT[:4], abandoned, *TRANSCRIPT[4:]])
    assert "I give up." not in [text for _, text in steps(recorded)]


def test_results_of_parallel_calls_are_beside_the_branch() -> None:
    lines = [
        line("a", None, "user", "look"),
        line("b", "a", "assistant", [call("t1", "ls")], message_id="one"),
        line("c", "b", "assistant", [call("t2", "pwd")], message_id="one"),
        line("d", "b", "user", [result("t1", "setup.py")]),
        line("e", "c", "user", [result("t2", "/src")]),
        line("f", "e", "assistant", [{"type": "text", "text": "Seen."}]),
    ]
    (recorded,) = read(lines)
    assert [text for _, text in steps(recorded)] == ["look", "", "setup.py", "/src", "Seen."]
    assert [tool.id for tool in recorded.trajectory.steps[1].tool_calls] == ["t1", "t2"]


def test_a_compaction_keeps_the_earlier_messages_and_no_summary() -> None:
    boundary = line("k", None, "system", "Compacted", logicalParentUuid="e")
    lines = [
        *TRANSCRIPT,
        {**boundary, "type": "system"},
        line("l", "k", "user", "This session is continued …", isCompactSummary=True),
        line("n", "l", "assistant", [{"type": "text", "text": "Going on."}]),
    ]
    (recorded,) = read(lines)
    assert steps(recorded)[0] == ("user", "make the tests pass")
    assert [text for _, text in steps(recorded)][-2:] == ["The parser drops the last field.", "Going on."]


def test_sub_agents_are_trajectories_of_their_own() -> None:
    side = [
        line("s1", None, "user", "find the parser", isSidechain=True, agentId="a1"),
        line("s2", "s1", "assistant", [{"type": "text", "text": "src/parse.py"}], isSidechain=True, agentId="a1"),
    ]
    main, sub_agent = read([*TRANSCRIPT, *side])
    assert main.trajectory.id == SESSION
    assert sub_agent.trajectory.id == f"{SESSION}/a1"
    assert steps(sub_agent) == [("user", "find the parser"), ("assistant", "src/parse.py")]
    (alone,) = read(side)
    assert alone.trajectory.content_id == sub_agent.trajectory.content_id


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([line("a", "b", "user", "hi"), line("b", "a", "assistant", "ho")], "'b' must not form a circle"),
        ([line("a", None, "user", "hi"), {**line("b", "a", "assistant", ""), "message": 3}], "line 2"),
        ([line("a", None, "user", "hi"), line("b", "a", "assistant", [{"type": "tool_use", "id": "1"}])], "name"),
        ([line("a", None, "user", "hi"), line("b", "a", "assistant", [3])], "line 2"),
        ([SUMMARY, SUMMARY], "holds no trajectory of the format claude_code"),
        ([line("a", None, "user", "hi"), {"uuid": 3, "parentUuid": []}], "line 2.parentUuid"),
    ],
)
def test_broken_transcripts_are_refused_with_line_and_field(lines: Sequence[object], problem: str) -> None:
    with pytest.raises(MalformedTrajectory) as refused:
        read(lines)
    assert problem in str(refused.value)


def test_a_truncated_line_is_named() -> None:
    with pytest.raises(MalformedTrajectory, match=r"line 8: .*is not JSON"):
        read_trajectories(write(TRANSCRIPT)[:-20], "coding")


def item(kind: str, **fields: object) -> dict[str, object]:
    return {"timestamp": "2026-11-02T10:00:00.000Z", "type": "response_item", "payload": {"type": kind, **fields}}


def event(kind: str, **fields: object) -> dict[str, object]:
    return {"timestamp": "2026-11-02T10:00:01.000Z", "type": "event_msg", "payload": {"type": kind, **fields}}


def message(role: str, text: str) -> dict[str, object]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


META = {
    "timestamp": "2026-11-02T10:00:00.000Z",
    "type": "session_meta",
    "payload": {"id": "rollout-1", "cwd": "/src", "cli_version": "0.60.0"},
}
ROLLOUT = [
    META,
    message("user", "<environment_context>\n<cwd>/src</cwd>"),
    message("user", "make the tests pass"),
    event("user_message", message="make the tests pass"),
    item("reasoning", summary=[{"type": "summary_text", "text": "Run them first."}], encrypted_content="x"),
    item("function_call", name="shell", arguments='{"command": ["cargo", "test"]}', call_id="c1"),
    event("exec_command_end", call_id="c1", exit_code=101),
    item("function_call_output", call_id="c1", output="test result: FAILED"),
    item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c2"),
    event("patch_apply_end", call_id="c2", success=False),
    item("custom_tool_call_output", call_id="c2", output="context not found"),
    event("agent_message", message="I could not apply the patch."),
    message("assistant", "I could not apply the patch."),
]


def test_a_rollout_is_the_conversation_with_exit_codes_and_nothing_twice() -> None:
    (recorded,) = read(ROLLOUT)
    assert recorded.trajectory.id == "rollout-1"
    assert steps(recorded) == [
        ("user", "make the tests pass"),
        ("assistant", "Run them first."),
        ("tool", "Error: test result: FAILED\n(exit code 101)"),
        ("assistant", ""),
        ("tool", "Error: context not found\n(the patch was not applied)"),
        ("assistant", "I could not apply the patch."),
    ]
    assert [step.name for step in recorded.trajectory.steps if step.role == "tool"] == ["shell", "apply_patch"]
    assert read_trajectories(write(ROLLOUT), "coding").format == "codex"


def test_a_shell_around_a_command_is_left_out() -> None:
    arguments = json.dumps({"command": ["bash", "-lc", "npm ci"], "workdir": "/src"})
    lines = [META, message("user", "install"), item("function_call", name="shell", arguments=arguments, call_id="c1")]
    (recorded,) = read(lines)
    assert json.loads(recorded.trajectory.steps[1].tool_calls[0].arguments) == {"command": "npm ci", "workdir": "/src"}


def test_exit_codes_of_older_rollouts_are_in_the_output() -> None:
    output = json.dumps({"output": "no such file", "metadata": {"exit_code": 2}})
    lines = [
        META,
        message("user", "list"),
        item("local_shell_call", call_id="c1", action={"type": "exec", "command": ["ls", "x"]}),
        item("function_call_output", call_id="c1", output=output),
    ]
    (recorded,) = read(lines)
    assert steps(recorded)[-1] == ("tool", "Error: no such file\n(exit code 2)")


def test_lines_of_types_that_are_not_known_are_left_out() -> None:
    usage = {"type": "token_usage_record", "payload": {"tokens": 5}}
    assert steps(*read([*ROLLOUT[:3], usage, *ROLLOUT[3:]])) == steps(*read(ROLLOUT))


def test_exit_codes_of_newer_rollouts_are_in_items_of_events_and_in_the_head_of_the_output() -> None:
    head = "Chunk ID: 2ecd07\nWall time: 0.1 seconds\nProcess exited with code {}\nOriginal token count: 3\nOutput:\n"
    ended = {"type": "CommandExecution", "id": "c1", "status": "failed", "exit_code": 101}
    lines = [
        META,
        message("user", "test"),
        item("function_call", name="exec_command", arguments='{"cmd": "cargo test"}', call_id="c1"),
        event("item_completed", item=ended),
        item("function_call_output", call_id="c1", output=head.format(101) + "test result: FAILED"),
        item("function_call", name="exec_command", arguments='{"cmd": "ls"}', call_id="c2"),
        item("function_call_output", call_id="c2", output=head.format(2) + "no such file"),
        item("function_call", name="exec_command", arguments='{"cmd": "ls"}', call_id="c3"),
        item("function_call_output", call_id="c3", output=head.format(0) + "setup.py"),
        event("item_completed", item={"type": "FileChange", "id": "c4", "status": "failed"}),
        item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c4"),
        item("custom_tool_call_output", call_id="c4", output="context not found"),
    ]
    (recorded,) = read(lines)
    assert [text for role, text in steps(recorded) if role == "tool"] == [
        "Error: test result: FAILED\n(exit code 101)",
        "Error: no such file\n(exit code 2)",
        "setup.py",
        "Error: context not found\n(the patch was not applied)",
    ]
    assert outcome(recorded) == Outcome(is_success=False, signal="test_report")


def test_the_last_test_run_or_an_aborted_turn_decides_a_rollout() -> None:
    (failed,) = read([*ROLLOUT, event("task_complete")])
    assert outcome(failed) == Outcome(is_success=False, signal="test_report")
    assert failed.test_report.startswith("The last test run of the trajectory failed.")
    passing = [
        item("function_call", name="shell", arguments='{"command": ["cargo", "test"]}', call_id="c3"),
        event("exec_command_end", call_id="c3", exit_code=0),
        item("function_call_output", call_id="c3", output="test result: ok"),
    ]
    (passed,) = read([*ROLLOUT, *passing])
    assert outcome(passed) == Outcome(is_success=True, signal="test_report")
    (aborted,) = read([*ROLLOUT, *passing, event("turn_aborted", reason="interrupted")])
    assert (aborted.trajectory.status, aborted.trajectory.error_message) == ("failure", "The user aborted the turn.")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([META, {"type": "response_item"}], "line 2.payload"),
        ([META, {"type": 5, "payload": {}}], "line 2.type: 5 must be text"),
        ([META, item("function_call", call_id="c")], "line 2.payload.name"),
        ([META, item("message", role="oracle", content=[])], "line 2.payload.role: 'oracle' must be"),
        ([META, event("exec_command_end", call_id="c", exit_code="one")], "line 2.payload.exit_code"),
        ([META], "holds no trajectory of the format codex"),
    ],
)
def test_broken_rollouts_are_refused_with_line_and_field(lines: Sequence[object], problem: str) -> None:
    with pytest.raises(MalformedTrajectory) as refused:
        read(lines)
    assert problem in str(refused.value)


def test_an_unknown_version_of_atif_is_named() -> None:
    with pytest.raises(MalformedTrajectory, match=r"'ATIF-v2.0' must be ATIF-v1.0 to ATIF-v1.8"):
        read([{"schema_version": "ATIF-v2.0", "steps": [{}]}])


def test_sub_agents_of_atif_are_trajectories_of_their_own() -> None:
    def build_subagent(agent: str, text: str, **ids: str) -> dict[str, object]:
        steps = [
            {"step_id": 1, "source": "user", "message": text},
            {"step_id": 2, "source": "agent", "message": "done"},
        ]
        return {"schema_version": "ATIF-v1.8", "agent": {"name": agent}, "steps": steps, **ids}

    sub_agents = [
        build_subagent("searcher", "find it", session_id="s"),
        build_subagent("tester", "test it", trajectory_id="t"),
    ]
    document = {**build_subagent("main", "plan it", session_id="s"), "subagent_trajectories": sub_agents}
    recorded_trajectories = read([document])
    assert [(recorded.trajectory.id, recorded.trajectory.query) for recorded in recorded_trajectories] == [
        ("s", "plan it"),
        ("s/searcher", "find it"),
        ("t", "test it"),
    ]
