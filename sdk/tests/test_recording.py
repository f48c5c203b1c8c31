"""Test recordings: a repeated message is recorded once, results belong to calls, and everything is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hansei.client import recording
from hansei.client.recording import RecordedCall, RecordedMessage, Recording, format_bullets
from hansei.playbook.v1.playbook_pb2 import Bullet
from hansei.reflector.v1 import trajectory_pb2 as tpb

messages = st.builds(
    RecordedMessage, st.sampled_from(["user", "assistant", "tool"]), st.sampled_from(["a", "b", "go on"])
)


def outline(recording: Recording) -> list[tuple[int, str]]:
    return [(step.role, step.content) for step in recording.trajectory().steps]


@given(st.lists(messages, min_size=1, max_size=12), st.data())
def test_a_repeated_conversation_is_recorded_once(conversation: list[RecordedMessage], data: st.DataObject) -> None:
    record = Recording("d")
    sent = 0
    while sent < len(conversation):
        sent = data.draw(st.integers(sent + 1, len(conversation)))
        record.add_conversation(conversation[:sent])
    once = Recording("d")
    for message in conversation:
        once.add_message(message)
    assert outline(record) == outline(once)


def test_a_recorded_reply_is_not_recorded_again() -> None:
    record = Recording("d")
    record.add_conversation([RecordedMessage("user", "q")])
    record.add_message(RecordedMessage("assistant", "a"))
    record.add_conversation(
        [RecordedMessage("user", "q"), RecordedMessage("assistant", "a"), RecordedMessage("user", "q")]
    )
    assert [text for _, text in outline(record)] == ["q", "a", "q"]


def test_a_result_is_recorded_once_from_tool_or_message() -> None:
    record, call = Recording("d"), RecordedCall("1", "add", "{}")
    record.add_message(RecordedMessage("assistant", calls=(call,)))
    record.add_result(call, "2")
    record.add_conversation([RecordedMessage("assistant", calls=(call,)), RecordedMessage("tool", "2", call_id="1")])
    assert [text for _, text in outline(record)] == ["", "2"]
    record.add_message(RecordedMessage("assistant", calls=(call,)))  # ids may repeat within a trajectory
    record.add_result(call, "3")
    assert [text for _, text in outline(record)] == ["", "2", "", "3"]


def test_a_call_that_no_message_asked_for_becomes_a_step() -> None:
    record = Recording("d")
    record.add_result(RecordedCall("x", "add", "1 + 1"), "2")
    request, result = record.trajectory().steps
    assert (request.tool_calls[0].name, request.tool_calls[0].arguments) == ("add", "1 + 1")
    assert (result.role, result.name, result.tool_call_id) == (tpb.STEP_ROLE_TOOL, "add", "x")


def test_only_bullets_that_were_served_are_cited() -> None:
    record = Recording("d", task_id="t")
    record.add_served_bullets([Bullet(id="gc-00001"), Bullet(id="gc-00002"), Bullet(id="gc-00001")])
    record.add_conversation(
        [RecordedMessage("user", "q"), RecordedMessage("assistant", "As [gc-00002], [x-9] and [gc-00002] say.")]
    )
    trajectory = record.trajectory()
    assert list(trajectory.used_bullet_ids) == ["gc-00001", "gc-00002"]
    assert list(trajectory.cited_bullet_ids) == ["gc-00002"]
    assert (trajectory.task_id, trajectory.query) == ("t", "q")
    assert trajectory.status == tpb.TRAJECTORY_STATUS_SUCCESS


def test_an_error_makes_the_trajectory_a_failure() -> None:
    trajectory = Recording("d").trajectory(error="it broke")
    assert (trajectory.status, trajectory.error_message) == (tpb.TRAJECTORY_STATUS_FAILURE, "it broke")


def test_a_recording_is_bounded() -> None:
    record = Recording("d")
    record.add_served_bullets(Bullet(id=str(number)) for number in range(recording.MAX_BULLETS + 5))
    record.add_message(RecordedMessage("user", "x" * (recording.MAX_TEXT_CHARS + 5), name="n" * 999))
    for number in range(recording.MAX_STEPS):
        record.add_message(RecordedMessage("assistant", str(number)))
    trajectory = record.trajectory()
    assert len(trajectory.steps) == recording.MAX_STEPS
    assert len(trajectory.steps[0].content) == recording.MAX_TEXT_CHARS
    assert len(trajectory.steps[0].name) == recording.MAX_NAME_CHARS
    assert len(trajectory.used_bullet_ids) == recording.MAX_BULLETS
    assert len(trajectory.query) == recording.MAX_QUERY_CHARS


def test_a_bullet_is_one_line_after_its_id() -> None:
    bullets = [Bullet(id="a", content="one\ntwo"), Bullet(id="b", content="[a] three")]
    assert format_bullets(bullets) == "[a] one two\n[b] [a] three"
