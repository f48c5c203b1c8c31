from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from services.reflector.domain.dataset import check_dataset
from services.reflector.domain.errors import InvalidTrajectoryDataset
from services.reflector.domain.reflection import Attribution, BulletEvaluation, Insight, ReflectionResult, UsedBullet
from services.reflector.domain.trajectory import MAX_TRAJECTORY_CHARS, Step, ToolCall, Trajectory
from services.reflector.tests.trajectories import build_trajectory, calls, returns, says

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
tool_calls = st.builds(ToolCall, id=texts, name=texts, arguments=texts)
indices = st.lists(st.integers(0, 99), max_size=3).map(tuple)


@st.composite
def logs(draw: st.DrawFn) -> tuple[Step, ...]:
    return tuple(
        Step(
            index=index,
            role=draw(st.sampled_from(["system", "user", "assistant", "tool"])),
            name=draw(texts),
            content=draw(texts),
            tool_calls=tuple(draw(st.lists(tool_calls, max_size=2))),
            tool_call_id=draw(texts),
        )
        for index in range(draw(st.integers(0, 4)))
    )


trajectories = st.builds(
    Trajectory,
    id=texts,
    task_id=texts,
    query=texts,
    dataset=names,
    generated_answer=texts,
    reasoning_steps=st.lists(texts, max_size=3).map(tuple),
    used_bullet_ids=st.lists(texts, max_size=3).map(tuple),
    cited_bullet_ids=st.lists(texts, max_size=3).map(tuple),
    status=st.sampled_from(["success", "failure"]),
    error_message=st.none() | texts,
    reward=st.none() | st.floats(-10, 10),
    signal=st.sampled_from([None, "reward", "self_report"]),
    steps=logs(),
    created_at=st.datetimes(timezones=st.just(UTC)),
)
insights = st.builds(
    Insight,
    reasoning=texts,
    error_identification=texts,
    root_cause_analysis=texts,
    correct_approach=texts,
    key_insight=texts,
    section=texts,
    steps=indices,
)
evaluations = st.builds(
    BulletEvaluation, bullet_id=texts, tag=st.sampled_from(["helpful", "harmful", "neutral"]), reason=texts
)
results = st.builds(
    ReflectionResult,
    insights=st.lists(insights, max_size=3).map(tuple),
    bullet_evaluations=st.lists(evaluations, max_size=3).map(tuple),
    trajectory_query=texts,
    trajectory_dataset=texts,
    iteration_count=st.integers(0, 9),
    attribution=st.none() | st.builds(Attribution, step=st.integers(0, 9), agent=texts, reason=texts),
)


@given(
    st.one_of(
        trajectories, insights, evaluations, results, st.builds(UsedBullet, id=texts, section=texts, content=texts)
    )
)
def test_json_dump_then_validate_gives_an_equal_model(model: BaseModel) -> None:
    assert type(model).model_validate_json(model.model_dump_json()) == model


def test_a_trajectory_needs_the_required_fields_and_defaults_the_others() -> None:
    before = datetime.now(UTC)
    trajectory = build_trajectory()
    assert trajectory.error_message is None
    assert trajectory.cited_bullet_ids == ()
    assert trajectory.created_at.utcoffset() == timedelta(0)
    assert before <= trajectory.created_at <= datetime.now(UTC)
    with pytest.raises(ValidationError):
        Trajectory.model_validate({"query": "q", "dataset": "d"})


def test_times_are_kept_in_utc_and_must_name_their_zone() -> None:
    tokyo = datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=9)))
    assert build_trajectory(created_at=tokyo).created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert build_trajectory(created_at=tokyo).created_at.tzinfo == UTC
    with pytest.raises(ValidationError):
        build_trajectory(created_at=datetime(2026, 1, 1))


@pytest.mark.parametrize("tag", ["Helpful", "", "good", None])
def test_an_unknown_tag_is_refused(tag: Any) -> None:
    with pytest.raises(ValidationError):
        BulletEvaluation(bullet_id="a", tag=tag, reason="r")


@pytest.mark.parametrize("field", Insight.model_fields)
def test_an_insight_needs_its_five_texts(field: str) -> None:
    required = [name for name, info in Insight.model_fields.items() if info.is_required()]
    assert len(required) == 5
    complete = {name: "x" for name in required if name != field}
    if field not in required:
        Insight.model_validate(complete)
    else:
        with pytest.raises(ValidationError):
            Insight.model_validate(complete)


def test_a_reflection_result_counts_one_iteration_by_default() -> None:
    result = ReflectionResult(insights=(), bullet_evaluations=(), trajectory_query="q", trajectory_dataset="d")
    assert result.iteration_count == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "unknown"},
        {"reward": float("nan")},
        {"reward": float("inf")},
        {"reasoning_steps": ["x"] * 10_001},
        {"used_bullet_ids": ["x"] * 1_001},
        {"id": "x" * 257},
        {"query": "x" * 100_001},
        {"steps": [Step(index=1, role="user")]},
        {"steps": [Step(index=0, role="user", content="x" * 4_000_000)] * (MAX_TRAJECTORY_CHARS // 4_000_000 + 1)},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_value_out_of_bounds_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        build_trajectory(**fields)


@pytest.mark.parametrize("name", ["", "a b", "../x", "a\n", "データ", "a/b"])
def test_a_dataset_is_named_by_plain_characters(name: str) -> None:
    with pytest.raises(InvalidTrajectoryDataset) as caught:
        check_dataset(name)  # C-13
    assert str(caught.value) == f"Invalid dataset name: '{name}'"
    (violation,) = caught.value.violations
    assert violation.description == "dataset must be 1 to 128 of the characters A-Z, a-z, 0-9, _ and -"
    with pytest.raises(ValidationError, match="Invalid dataset name"):
        build_trajectory(dataset=name)


def test_the_transcript_is_the_log_or_else_the_reasoning_steps() -> None:
    log = build_trajectory(calls("search"), returns("ok"), reasoning_steps=("first", "second"))
    assert log.transcript == log.steps
    assert log.first_step_number == 0
    thoughts = build_trajectory(reasoning_steps=("first", "second"))
    assert [(step.index, step.role, step.content) for step in thoughts.transcript] == [
        (0, "assistant", "first"),
        (1, "assistant", "second"),
    ]
    assert thoughts.first_step_number == 1


def test_the_content_id_depends_on_content_alone() -> None:
    trajectory, copy = (
        build_trajectory(says("a"), created_at=datetime(2026, 1, 1, tzinfo=UTC)),
        build_trajectory(says("a"), id="named"),
    )
    assert trajectory.content_id == copy.content_id
    assert trajectory.content_id.startswith("trj-")
    assert trajectory.content_id != build_trajectory(says("b")).content_id


def test_the_speaker_is_the_name_or_else_the_role() -> None:
    assert Step(index=0, role="assistant", name="Planner").speaker == "Planner"
    assert Step(index=0, role="user").speaker == "user"
