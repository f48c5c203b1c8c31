from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.reflector.domain.errors import InvalidMaxIterations, InvalidTrajectoryDataset
from services.reflector.domain.reflection import ReflectionResult, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.trajectory import Trajectory
from services.reflector.tests.trajectories import MakeStep, asks, build_trajectory, calls, returns, says
from services.reflector.usecases.reflect_offline import MAX_INSIGHTS, OfflineReflector, reflect_by_rules

BOOKING = [calls("book", {"pay": 255, "for": "mia"}), returns("Error: total price is 305, but paid 255")]
REPAIRED = [*BOOKING, calls("book", {"pay": 305, "for": "mia"}), returns('{"id": "HATHAT"}'), says("Booked.")]


def reflect(trajectory: Trajectory, **fields: object) -> ReflectionResult:
    return reflect_by_rules(ReflectionRequest(trajectory, "test", **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("iterations", [0, -1])
def test_fewer_than_one_iteration_is_refused(iterations: int) -> None:
    with pytest.raises(InvalidMaxIterations) as caught:
        ReflectionRequest(build_trajectory(), "test", max_iterations=iterations)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == "max_iterations must be >= 1"


def test_the_dataset_of_a_request_is_checked() -> None:
    with pytest.raises(InvalidTrajectoryDataset, match="Invalid dataset name: 'a b'"):
        ReflectionRequest(build_trajectory(), "a b")


async def test_a_repaired_failure_is_a_lesson_with_its_steps() -> None:
    result = await OfflineReflector().run(
        ReflectionRequest(build_trajectory(*REPAIRED, status="success"), "test", max_iterations=3)
    )
    (insight,) = result.insights
    assert "`book` fails with" in insight.key_insight
    assert "total price is <n>, but paid <n>" in insight.key_insight
    assert "total price is 305, but paid 255" in insight.error_identification
    assert '`pay` was "255", then "305"' in insight.correct_approach
    assert insight.steps == (1, 2)
    assert (result.iteration_count, result.model, result.is_success) == (1, "offline", True)
    assert result.attribution is None


def test_errors_of_one_kind_give_the_same_lesson_in_every_trajectory() -> None:
    first = reflect(build_trajectory(*REPAIRED, status="success"))
    second = reflect(
        build_trajectory(
            asks("book for bob"), calls("book", {"pay": 10, "for": "bob"}),
            returns("Error: total price is 1203, but paid 10"),
            calls("book", {"pay": 1203, "for": "bob"}), returns('{"id": "X"}'), says("Booked."), status="success",
        )
    )  # fmt: skip
    assert [insight.key_insight for insight in first.insights] == [insight.key_insight for insight in second.insights]


def test_a_repaired_failure_gives_its_lesson_a_target() -> None:
    failed = [
        calls("book", {"class": "first"}),
        returns("Error: class 'first' is unknown. Available: economy, business."),
    ]
    result = reflect(
        build_trajectory(*failed, calls("book", {"class": "economy"}), returns("booked"), status="success")
    )
    assert [insight.target for insight in result.insights] == [
        "call.tool == 'book' && !(call.args.class in ['economy', 'business'])"
    ]
    assert [insight.target for insight in reflect(build_trajectory(*REPAIRED, status="success")).insights] == [""]


def test_lessons_are_in_the_language_of_the_trajectory() -> None:
    result = reflect(
        build_trajectory(asks("席を予約してください"), *BOOKING, says("予約できませんでした。"), query="席の予約")
    )
    assert "で失敗する" in result.insights[0].key_insight
    assert result.attribution is not None
    assert result.attribution.reason.endswith("である。")


def test_a_failed_trajectory_is_attributed_and_its_query_is_copied() -> None:
    result = reflect(build_trajectory(asks("q"), *BOOKING, id="r-1", query="book", used_bullet_ids=("a",)))
    assert result.attribution is not None
    assert (result.attribution.step, result.attribution.agent) == (1, "agent")
    assert (result.trajectory_query, result.trajectory_dataset) == ("book", "test")
    assert (result.trajectory_id, result.used_bullet_ids) == ("r-1", ("a",))


def test_votes_are_given_for_resolved_bullets_only(caplog: pytest.LogCaptureFixture) -> None:
    bullet = UsedBullet(id="a", section="s", content="Check the price.")
    trajectory = build_trajectory(says("as [a] says"), used_bullet_ids=("nope", "a", "a"), reward=1.0)
    result = reflect(trajectory, bullets=(bullet,))
    assert [(vote.bullet_id, vote.tag) for vote in result.bullet_evaluations] == [("a", "helpful")]
    assert "nope" in caplog.text
    assert reflect(trajectory).bullet_evaluations == ()


def test_a_sibling_that_ended_the_other_way_is_contrasted() -> None:
    good = build_trajectory(calls("seat", {"n": "2B"}), returns("ok"), status="success")
    bad = build_trajectory(calls("seat", {"n": "1A"}), returns("ok"))
    for trajectory, sibling in ((bad, good), (good, bad)):
        insights = reflect(trajectory, siblings=(trajectory, sibling)).insights
        contrasts = [insight for insight in insights if "2B" in insight.key_insight and "1A" in insight.key_insight]
        assert len(contrasts) == 1
        assert contrasts[0].steps == (0,)


def test_lessons_without_steps_come_from_the_reasoning_and_never_have_the_ground_truth() -> None:
    wrong = build_trajectory(
        reasoning_steps=("I recall London.",), generated_answer="London", query="Capital of France?"
    )
    result = reflect(wrong, ground_truth="Paris")
    assert "Paris" not in result.model_dump_json()
    assert result.insights[-1].steps == (0,)
    assert result.signal == "ground_truth"


def test_the_calls_are_evidence_with_values_errors_and_repairs() -> None:
    nested = {"window": {"start": 390}, "text": "x" * 500}
    log = [calls("fee", {"amount": "45.00"}), returns("Error: E41"), calls("open", nested), returns("ok"),
           calls("fee", {"amount": "4500"}), returns("{}"), calls("never", {})]  # fmt: skip
    result = reflect(build_trajectory(asks("q"), *log, task_id="t-1"))
    assert result.task_id == "t-1"
    failed, opened, fixed = result.calls
    assert (failed.operation, failed.error, failed.repaired_by, failed.step) == ("fee", "Error: E41", 2, 1)
    assert json.loads(failed.arguments) == {"amount": "45.00"}
    assert json.loads(opened.arguments) == {"window.start": 390, "text": "x" * 119 + "…"}
    assert (fixed.error, fixed.repaired_by) == ("", None)


def test_the_calls_name_the_tool_that_ran_a_command() -> None:
    log = [calls("shell", {"command": "git push"}), returns("ok"), calls("fee", {"amount": "1"}), returns("ok")]
    pushed, paid = reflect(build_trajectory(asks("q"), *log)).calls
    assert (pushed.operation, pushed.tool) == ("git push", "shell")
    assert (paid.operation, paid.tool) == ("fee", "")


@pytest.mark.parametrize("levels", [150, 250, *range(900, 1000, 7), 50_000])
def test_arguments_that_are_nested_deeply_are_reflected_on(levels: int) -> None:
    nested = '{"a": ' + "[" * levels + "]" * levels + "}"
    log = [calls("save", nested), returns("Error: closed"), calls("open", {"a": 1}), returns(nested),
           calls("save", nested), returns("ok")]  # fmt: skip
    [insight] = reflect(build_trajectory(*log)).insights
    # Beyond 200 levels the arguments are a text, which may be a command: it alone does not identify the operation.
    assert insight.target == ("call.tool == 'save' && !succeeded('open')" if levels < 200 else "")


def test_garbage_gives_no_lessons() -> None:
    assert reflect(build_trajectory()).insights == ()
    assert reflect(build_trajectory(says("\x00\x01\x02" * 100), status="success")).insights == ()


def test_lessons_are_bounded_and_hold_no_control_characters() -> None:
    log: list[MakeStep] = []
    for number in range(60):
        log += [calls(f"tool{'x' * number}", {"a": "z" * 9_000}), returns(f"Error: {'y' * number}\x00 {{oops}} " * 500)]
    insights = reflect(build_trajectory(*log)).insights
    assert len(insights) == MAX_INSIGHTS
    for insight in insights:
        assert all(len(text) <= 2_000 for text in (insight.key_insight, insight.correct_approach, insight.reasoning))
        assert insight.key_insight.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "`" * 9_000,
        "```\n" * 2_000,
        " " * 9_000,
        "1," * 4_000,
        "**a" * 3_000,
        '"' * 9_000,
        "{" * 9_000,
        "a/" * 4_000,
        "A." * 4_000,
        "Error: " * 1_500,
        "TERMINATE" + " " * 9_000,
        "exit code " * 900,
        "a=" * 4_000,
        "cd " * 3_000,
    ],
    ids=lambda text: text[:9],
)
def test_hostile_text_does_not_slow_the_patterns_down(text: str) -> None:
    log = [says(text), calls("shell", {"command": text}), returns(text), says(f"exitcode: 1\n{text}")] * 10
    result = reflect(build_trajectory(*log, generated_answer=text, error_message=text[:9_000]), test_report=text)
    assert result == reflect(
        build_trajectory(*log, generated_answer=text, error_message=text[:9_000]), test_report=text
    )


short = st.text(max_size=30)
makers = st.one_of(
    st.builds(says, short),
    st.builds(asks, short),
    st.builds(calls, st.sampled_from(["a", "git", "{x}"]), short | st.dictionaries(short, short, max_size=2)),
    st.builds(returns, short | short.map(lambda text: f"Error: {text}")),
)


@given(st.lists(makers, max_size=10), st.sampled_from(["success", "failure"]), short, short)
def test_reflection_by_rules_is_deterministic(log: list[MakeStep], status: str, answer: str, truth: str) -> None:
    trajectory = build_trajectory(*log, status=status, generated_answer=answer)
    first, second = reflect(trajectory, ground_truth=truth), reflect(trajectory, ground_truth=truth)
    assert first == second
    for insight in first.insights:
        assert all(0 <= step < len(trajectory.transcript) for step in insight.steps)
        assert all(insight.model_dump()[field] for field in ("reasoning", "error_identification", "key_insight"))
