from __future__ import annotations

import pytest

from libs.trajectories.actions import ToolUse, extract_actions
from services.reflector.domain import votes
from services.reflector.domain.outcome import Outcome
from services.reflector.domain.reflection import BulletEvaluation, UsedBullet
from services.reflector.domain.trajectory import Trajectory
from services.reflector.domain.votes import resolve_bullets, vote_on_bullets
from services.reflector.tests.trajectories import FAILED, SUCCEEDED, build_trajectory, calls, returns, says

PUSH = UsedBullet(id="ts-00001", section="git", content='`git push` can fail with "error: failed to push some refs".')
OTHER = UsedBullet(id="ts-00002", section="git", content="Write short subjects.")


def vote(bullet: UsedBullet, trajectory: Trajectory, outcome: Outcome) -> BulletEvaluation:
    (evaluation,) = vote_on_bullets([bullet], trajectory, extract_actions(trajectory.transcript), outcome)
    assert evaluation.bullet_id == bullet.id
    assert evaluation.reason
    return evaluation


def test_used_bullets_are_resolved_in_order_each_once() -> None:
    assert resolve_bullets(["ts-00002", "nope", "ts-00001", "ts-00002"], [PUSH, OTHER]) == (
        [OTHER, PUSH],
        ["nope"],
    )


def test_a_citation_gets_the_vote_of_the_outcome() -> None:
    cited = build_trajectory(says("done"), cited_bullet_ids=("ts-00002",))
    assert vote(OTHER, cited, SUCCEEDED).tag == "helpful"
    assert vote(OTHER, cited, FAILED).tag == "harmful"
    assert "the environment's reward" in vote(OTHER, cited, FAILED).reason


@pytest.mark.parametrize("is_success", [True, False])
def test_a_self_reported_trajectory_gives_neutral_votes(is_success: bool) -> None:
    cited = build_trajectory(says("done"), cited_bullet_ids=("ts-00002",))
    evaluation = vote(OTHER, cited, Outcome(is_success, "self_report"))
    assert evaluation.tag == "neutral"
    assert evaluation.reason.endswith("No other evidence supports this, so it gives no vote.")


def test_a_citation_in_the_text_counts() -> None:
    assert vote(OTHER, build_trajectory(says("As [ts-00002] says, I keep it short.")), SUCCEEDED).tag == "helpful"
    assert vote(OTHER, build_trajectory(generated_answer="short [ts-00002]"), SUCCEEDED).tag == "helpful"


def test_unused_bullets_are_neutral() -> None:
    assert vote(OTHER, build_trajectory(says("done")), SUCCEEDED).tag == "neutral"
    assert vote(OTHER, build_trajectory(says("done")), FAILED).tag == "neutral"


def test_an_ignored_warning_is_neutral() -> None:
    log = build_trajectory(
        calls("git", {"command": "git push"}), returns("error: failed to push some refs"),
        cited_bullet_ids=("ts-00001",),
    )  # fmt: skip
    assert vote(PUSH, log, FAILED).tag == "neutral"


def test_a_heeded_warning_is_helpful() -> None:
    log = build_trajectory(calls("git push", {}), returns("ok"))
    assert vote(PUSH, log, SUCCEEDED).tag == "helpful"
    unheeded = build_trajectory(
        calls("git push", {}), returns("error: failed to push some refs"), calls("git push", {}), returns("ok")
    )
    assert vote(PUSH, unheeded, SUCCEEDED).tag == "neutral"


def test_an_interrupted_trajectory_gives_neutral_votes() -> None:
    broken = build_trajectory(says("x"), cited_bullet_ids=("ts-00002",), error_message="TimeoutError")
    assert vote(OTHER, broken, FAILED).tag == "neutral"


def test_a_failure_that_is_repeated_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    warns_of = votes._warns_of

    def record_and_compare(bullet: UsedBullet, action: ToolUse) -> bool:
        compared.append(action.call_step)
        return warns_of(bullet, action)

    monkeypatch.setattr(votes, "_warns_of", record_and_compare)
    failing = [calls("bash", {"command": "ls x"}), returns("Error: no such file 'x'")] * 50
    assert vote(OTHER, build_trajectory(*failing), FAILED).tag == "neutral"
    assert compared == [0]
