from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import HanseiError
from services.reflector.adapters.importers.files import MAX_TRAJECTORIES, read_trajectories
from services.reflector.adapters.importers.labels import read_labelled
from services.reflector.domain.errors import InvalidTrajectoryDataset, MalformedTrajectory
from services.reflector.domain.recorded_trajectory import Format, RecordedTrajectory

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "add 1"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "2", "name": "add", "tool_call_id": "c1"},
    {"role": "assistant", "content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "2."}]},
]
TAU = {"task_id": 3, "trial": 1, "reward": 0.0, "traj": MESSAGES}
LOG: dict[str, Any] = {
    "question": "How many?",
    "question_ID": "q-7",
    "ground_truth": 8,
    "is_correct": False,
    "history": [
        {"content": "How many?", "role": "human"},
        {"content": "Facts first.", "role": "Orchestrator (thought)"},
        {"content": "Please count.", "role": "Orchestrator (-> WebSurfer)"},
        {"content": "```sh\nls\n```", "name": "Coder", "role": "user"},
        {"content": "exitcode: 0\n8", "name": "Computer_terminal", "role": "user"},
        {"content": "TERMINATE", "role": "WebSurfer"},
    ],
    "mistake_agent": "Orchestrator",
    "mistake_step": "2",
}
OWN: dict[str, Any] = {
    "id": "run-1",
    "task_id": "t",
    "dataset": "devtools",
    "query": "commit it",
    "status": "success",
    "generated_answer": "done",
    "reasoning_steps": ["look", "commit"],
    "used_bullet_ids": ["a"],
    "cited_bullet_ids": ["a"],
    "serving_ids": ["s-1"],
    "created_at": "2026-01-05T09:00:00Z",
    "ground_truth": "committed",
    "test_report": "passed",
    "steps": [
        {"index": 0, "role": "user", "name": "user", "content": "commit it"},
        {"index": 1, "role": "assistant", "tool_calls": [{"id": "1", "name": "git", "arguments": {"command": "x"}}]},
    ],
}


def read(value: object, format_: Format | None = None) -> list[RecordedTrajectory]:
    return list(read_trajectories(json.dumps(value).encode(), "given", format_).trajectories)


def refusal(content: bytes) -> str:
    with pytest.raises(MalformedTrajectory) as caught:
        read_trajectories(content, "given")
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "format_"),
    [
        (MESSAGES, "openai"),
        ({"messages": MESSAGES}, "openai"),
        (TAU, "tau_bench"),
        (LOG, "who_and_when"),
        (OWN, "hansei"),
    ],
)
def test_the_format_is_detected_by_the_content(value: object, format_: str) -> None:
    file = read_trajectories(json.dumps(value).encode(), "given")
    assert (file.format, len(file.trajectories)) == (format_, 1)


def test_messages_become_steps_with_the_same_places() -> None:
    trajectory = read(MESSAGES)[0].trajectory
    assert [(step.index, step.role) for step in trajectory.steps] == [
        (0, "system"), (1, "user"), (2, "assistant"), (3, "tool"), (4, "assistant"),
    ]  # fmt: skip
    assert (trajectory.query, trajectory.generated_answer, trajectory.status) == ("add 1", "It is 2.", "success")
    assert trajectory.steps[2].tool_calls[0].arguments == '{"x": 1}'
    assert trajectory.steps[3].tool_call_id == "c1"
    assert trajectory.dataset == "given"
    assert trajectory.id.startswith("trj-")


def test_a_conversation_may_bring_its_outcome() -> None:
    recorded = read({"messages": MESSAGES, "reward": 0.0, "ground_truth": "3", "test_report": "failed", "id": "x"})[0]
    assert (recorded.trajectory.status, recorded.trajectory.reward) == ("failure", 0.0)
    assert (recorded.trajectory.id, recorded.ground_truth, recorded.test_report) == ("x", "3", "failed")


def test_the_old_form_of_calls_is_read() -> None:
    old = [{"role": "user", "content": "q"}, {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}]
    assert read(old)[0].trajectory.steps[1].tool_calls[0].name == "f"


def test_a_tau_bench_line_has_task_and_reward() -> None:
    trajectory = read(TAU)[0].trajectory
    assert (trajectory.id, trajectory.task_id, trajectory.reward) == ("tau-bench-3-1", "3", 0.0)
    assert (trajectory.status, trajectory.query) == ("failure", "add 1")


def test_speakers_of_a_who_and_when_log_stand_in_name_or_else_in_role() -> None:
    recorded = read(LOG)[0]
    assert [(step.name, step.role) for step in recorded.trajectory.steps] == [
        ("human", "user"),
        ("Orchestrator", "assistant"),
        ("Orchestrator", "assistant"),
        ("Coder", "assistant"),
        ("Computer_terminal", "tool"),
        ("WebSurfer", "assistant"),
    ]
    assert (recorded.trajectory.status, recorded.ground_truth) == ("failure", "8")
    assert recorded.trajectory.generated_answer == "```sh\nls\n```"


def test_labels_never_reach_the_trajectory() -> None:
    labelled = {**LOG, "mistake_reason": "the secret reason"}
    unlabelled = {key: value for key, value in LOG.items() if not key.startswith("mistake")}
    assert read(labelled)[0].trajectory.content_id == read(unlabelled)[0].trajectory.content_id
    assert "secret" not in read(labelled)[0].trajectory.model_dump_json()
    (scored,) = read_labelled(json.dumps(labelled).encode())
    assert (scored.step, scored.agent) == (2, "Orchestrator")
    with pytest.raises(MalformedTrajectory, match="mistake_step"):
        read_labelled(json.dumps({**LOG, "mistake_step": "-1"}).encode())


def test_json_of_the_contract_is_read_as_the_own_format() -> None:
    """The response of ParseTrajectories and the body of Learn can be parsed as files."""
    steps = [{**step, "role": f"STEP_ROLE_{str(step['role']).upper()}", "source": ""} for step in OWN["steps"]]
    outcome = {name: OWN[name] for name in ("ground_truth", "test_report")}
    named = {"status": "TRAJECTORY_STATUS_SUCCESS", "signal": "SIGNAL_STRENGTH_UNSPECIFIED", "steps": steps}
    written = {**{name: value for name, value in OWN.items() if name not in outcome}, **named}
    assert read(written | outcome) == read(OWN)
    assert read({"trajectory": written, **outcome}) == read(OWN)
    assert read({**written, "signal": "SIGNAL_STRENGTH_REWARD"})[0].trajectory.signal == "reward"
    assert refusal(json.dumps({**OWN, "status": "TRAJECTORY_STATUS_LOST"}).encode()) == (
        "trajectory.status: 'lost' must be 'success' or 'failure'"
    )


def test_our_own_form_round_trips_every_field() -> None:
    recorded = read(OWN)[0]
    trajectory = recorded.trajectory
    assert trajectory.dataset == "devtools"
    assert trajectory.reasoning_steps == ("look", "commit")
    assert trajectory.cited_bullet_ids == ("a",)
    assert trajectory.serving_ids == ("s-1",)
    assert trajectory.created_at.year == 2026
    assert trajectory.steps[1].tool_calls[0].arguments == '{"command": "x"}'
    assert (recorded.ground_truth, recorded.test_report) == ("committed", "passed")


def test_lines_are_read_one_by_one_and_blank_ones_skipped() -> None:
    content = "\n".join(["", json.dumps(TAU), "", json.dumps({**TAU, "trial": 2}), ""]).encode()
    assert [recorded.trajectory.id for recorded in read_trajectories(content, "given").trajectories] == [
        "tau-bench-3-1",
        "tau-bench-3-2",
    ]
    assert len(read([TAU, TAU])) == 2


def encode(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "file: '' is not JSON"),
        (b"[]", "holds no trajectory"),
        (b"42", "must be a JSON object"),
        (b"\xff\xfe\x00", "is not UTF-8 at byte 0"),
        (b'{"traj": "20 bytes \xff"}', "file: 22 bytes is not UTF-8 at byte 19"),
        (b'{"traj": [NaN], "reward": 1}', "is not JSON: NaN is not a JSON number"),
        (
            b'{"traj": [' + b"9" * 4301 + b'], "reward": 1}',
            "is not JSON: an integer has 4,301 digits, of which at most",
        ),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"traj": ' + b"[" * 900 + b"]" * 900 + b"}", "trajectory.traj[0]: "),
        (encode(TAU) + b"\n{broken", "line 2: '{broken' is not JSON"),
        (encode({**TAU, "reward": None}), "trajectory.reward: null must be a number"),
        (encode({**TAU, "reward": "1"}), "trajectory.reward: '1' must be a finite number"),
        (encode({**TAU, "reward": 10**400}), "trajectory.reward: 1000"),
        (encode({**TAU, "traj": [{"role": "robot"}]}), "trajectory.traj[0].role: 'robot' must be one of"),
        (encode({**TAU, "traj": [7]}), "trajectory.traj[0]: 7 must be a JSON object"),
        (encode({**TAU, "traj": []}), "trajectory.query: '' is empty, and no step has a message"),
        (
            encode([{"role": "assistant", "tool_calls": [{"id": "1", "function": {}}]}]),
            "messages[0].tool_calls[0].function.name: null must name the tool",
        ),
        (encode([{"role": "user", "content": {"a": 1}}]), "messages[0].content: an object must be text"),
        (encode([{"role": "user", "content": "q", "name": "n" * 300}]), "messages[0].name"),
        (encode({**OWN, "status": "maybe"}), "trajectory.status: 'maybe'"),
        (encode({**OWN, "dataset": "a b"}), "Invalid dataset name: 'a b'"),
        (encode({**OWN, "used_bullet_ids": "a"}), "trajectory.used_bullet_ids: 'a' must be a list of texts"),
        (
            encode({**OWN, "steps": [{"index": 5, "role": "user"}]}),
            "steps[0].index: 5 must be the step's position, 0",
        ),
    ],
)
def test_unreadable_content_is_refused_with_field_value_and_rule(content: bytes, complaint: str) -> None:
    assert complaint in refusal(content)
    assert len(refusal(content)) < 1_000


def test_a_file_is_read_whole_or_not_at_all() -> None:
    assert "line 2" in refusal(json.dumps(TAU).encode() + b'\n{"reward": 1}')


def test_too_many_trajectories_are_refused() -> None:
    line = json.dumps({"messages": [{"role": "user", "content": "q"}]})
    refused = refusal("\n".join([line] * (MAX_TRAJECTORIES + 1)).encode())
    assert "'trajectory 10001' is one too many: a file may have at most 10000 trajectories" in refused


def test_the_dataset_is_checked_first() -> None:
    with pytest.raises(InvalidTrajectoryDataset):
        read_trajectories(b"", "a b")


def test_text_that_utf_8_cannot_hold_is_made_so() -> None:
    content = b'[{"role": "user", "content": "a \\ud800 b"}]'
    assert read_trajectories(content, "given").trajectories[0].trajectory.query == "a \ufffd b"


FIELDS = [
    "role",
    "content",
    "messages",
    "traj",
    "history",
    "steps",
    "reward",
    "tool_calls",
    "name",
    "status",
    "question",
]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=20,
)


def error_in(content: bytes) -> HanseiError | None:
    try:
        read_trajectories(content, "given")
    except HanseiError as error:
        return error
    return None


@given(values.map(encode) | st.binary(max_size=200))
def test_anything_is_read_or_refused_with_a_clear_error(content: bytes) -> None:
    error = error_in(content)
    if error is not None:
        assert error.code == "INVALID_ARGUMENT"
        assert error.violations
