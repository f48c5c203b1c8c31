"""Trials over gRPC against a running hansei: recall, report, effects, decisions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from hansei.client import Client
from hansei.client.errors import HanseiError, InvalidArgument, NotFound
from hansei.evidence.v1 import evidence_pb2
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, review_pb2
from services.evidence.adapters.playbooks import GrpcPlaybooks
from services.evidence.adapters.search import compute_text_version
from tests.support import systems

TEXTS = ("Pull before you push.", "Set user.email before the first commit.", "Never force a push to main.")
QUERY = "a push was rejected"


@pytest.fixture
def client(system: systems.System) -> Iterator[Client]:
    with Client(system.address) as client:
        yield client


@pytest.fixture
def dataset(client: Client) -> str:
    name = f"trials-{uuid.uuid4().hex[:12]}"
    deltas = [playbook_pb2.Delta(type=playbook_pb2.DELTA_TYPE_ADD, section="git", content=text) for text in TEXTS]
    revision = client.playbooks.apply_deltas(dataset=name, deltas=deltas).revision
    assert len(client.recall(name, "warm-up", QUERY, min_revision=revision).results) == len(TEXTS)
    return name


def run_sessions(client: Client, dataset: str, sessions: range, decisive: str) -> None:
    """Sessions that succeed if they were served the bullet with this text."""
    for number in sessions:
        with client.serve(dataset, f"session-{number}", QUERY) as serving:
            serving.report(succeeded=decisive in [bullet.content for bullet in serving.bullets])


def test_a_bullet_that_decides_success_is_proven(client: Client, dataset: str) -> None:
    started = client.evidence.start_trials(dataset=dataset, policy=evidence_pb2.TrialPolicy(playbook_holdout=0.1))
    assert started.restarted
    assert (started.policy.bullet_holdout, started.policy.playbook_holdout) == (0.25, 0.1)
    run_sessions(client, dataset, range(70), TEXTS[0])

    effects = {effect.bullet_id: effect for effect in client.evidence.get_effects(dataset=dataset).effects}
    assert len(effects) == len(TEXTS)
    (decision,) = client.evidence.list_decisions(dataset=dataset).decisions
    assert decision.after == evidence_pb2.BULLET_STATE_PROVEN
    proven = effects[decision.bullet_id]
    assert proven.state == evidence_pb2.BULLET_STATE_PROVEN
    assert (proven.effect.served.success_rate, proven.effect.withheld.success_rate) == (1.0, 0.0)
    assert proven.effect.difference == 1.0

    status = client.evidence.get_trials(dataset=dataset)
    assert status.running
    assert (status.sessions, status.sessions_without_outcome) == (70, 0)
    assert {state.state: state.bullets for state in status.bullets} == {
        evidence_pb2.BULLET_STATE_TRIAL: 2,
        evidence_pb2.BULLET_STATE_PROVEN: 1,
    }
    assert not any(check.failed for check in status.checks)
    lift = client.evidence.get_lift(dataset=dataset)
    assert lift.lift.served.sessions + lift.lift.withheld.sessions == 70
    assert lift.conclusion
    assert lift.verdict in {evidence_pb2.VERDICT_UNDECIDED, evidence_pb2.VERDICT_HELPS}

    client.evidence.stop_trials(dataset=dataset)
    stopped = client.recall(dataset, "session-1", QUERY)
    assert (len(stopped.results), stopped.serving_id) == (len(TEXTS), "")


def test_the_history_of_an_effect_and_new_decisions_are_sent(client: Client, dataset: str) -> None:
    assert not client.evidence.get_effect_history(dataset=dataset).points
    client.evidence.start_trials(dataset=dataset, policy=evidence_pb2.TrialPolicy(playbook_holdout=0.1))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(lambda: next(iter(client.evidence.watch_decisions(dataset=dataset))))
        run_sessions(client, dataset, range(70), TEXTS[0])
        decision = first.result(30).decision
    assert decision == client.evidence.list_decisions(dataset=dataset).decisions[0]
    lift = client.evidence.get_effect_history(dataset=dataset).points
    assert len(lift) == 70
    assert lift[-1].effect == client.evidence.get_lift(dataset=dataset).lift
    assert lift[0].time.ToDatetime() <= lift[-1].time.ToDatetime()
    assert lift[-1].effect.upper - lift[-1].effect.lower < lift[9].effect.upper - lift[9].effect.lower
    points = client.evidence.get_effect_history(dataset=dataset, bullet_id=decision.bullet_id).points
    assert points[-1].effect == decision.effect


def test_a_harmful_bullet_leaves_the_playbook_and_comes_back(client: Client, dataset: str) -> None:
    client.evidence.start_trials(dataset=dataset, policy=evidence_pb2.TrialPolicy(playbook_holdout=0.0))
    for number in range(90):
        with client.serve(dataset, f"session-{number}", QUERY) as serving:
            serving.report(succeeded=TEXTS[1] not in [bullet.content for bullet in serving.bullets])

    removal = next(
        event for event in client.playbooks.watch(dataset=dataset, from_revision=1) if event.HasField("revision")
    )
    assert removal.revision.author == "evidence"
    assert removal.revision.reason.startswith("harmful by trials: -100 points of success")
    assert TEXTS[1] not in [bullet.content for bullet in client.playbooks.list_bullets(dataset=dataset).bullets]
    (decision,) = client.evidence.list_decisions(dataset=dataset).decisions
    assert decision.after == evidence_pb2.BULLET_STATE_HARMFUL

    undone = client.evidence.undo_decision(dataset=dataset, number=decision.number, author="ada")
    added = client.playbooks.list_bullets(dataset=dataset, ids=[undone.added_bullet_id]).bullets
    assert [bullet.content for bullet in added] == [TEXTS[1]]
    assert undone.decision.after == evidence_pb2.BULLET_STATE_TRIAL
    assert client.playbooks.get_history(dataset=dataset, page_size=1).revisions[0].author == "ada"
    with pytest.raises(HanseiError, match="has no decision 99"):
        client.evidence.undo_decision(dataset=dataset, number=99)


def review_removals(client: Client, dataset: str) -> None:
    policy = review_pb2.DatasetPolicy(review_mode=review_pb2.REVIEW_MODE_TIERED)
    client.playbooks.set_policy(dataset=dataset, policy=policy)


def test_an_undone_decision_withdraws_the_removal_that_waits_for_a_review(client: Client, dataset: str) -> None:
    review_removals(client, dataset)
    client.evidence.start_trials(dataset=dataset, policy=evidence_pb2.TrialPolicy(playbook_holdout=0.0))
    for number in range(70):
        with client.serve(dataset, f"session-{number}", QUERY) as serving:
            serving.report(succeeded=TEXTS[2] not in [bullet.content for bullet in serving.bullets])
    for _ in range(2):  # a repeat changes nothing
        undone = client.evidence.undo_decision(dataset=dataset, number=1, author="ada")
        assert (undone.added_bullet_id, undone.revision) == ("", 0)
    first = client.evidence.list_decisions(dataset=dataset).decisions[-1]
    assert (first.after, first.revision, first.undone) == (evidence_pb2.BULLET_STATE_HARMFUL, 0, True)
    (change,) = client.playbooks.list_pending_changes(
        dataset=dataset, states=[review_pb2.PENDING_STATE_REJECTED]
    ).changes
    assert (change.delta.bullet_id, change.decided_by) == (first.bullet_id, "ada")
    assert change.decision_reason == "decision 1 of trials was undone"
    assert client.playbooks.list_pending_changes(dataset=dataset).changes == []


def test_a_removal_that_was_approved_is_not_withdrawn(client: Client, system: systems.System, dataset: str) -> None:
    review_removals(client, dataset)
    bullet = client.playbooks.list_bullets(dataset=dataset).bullets[0]

    async def remove() -> int:
        async with grpc.aio.insecure_channel(system.address) as channel:
            text_version = compute_text_version(bullet.content)
            return await GrpcPlaybooks(channel).remove(str(uuid.uuid4()), dataset, bullet.id, text_version, "harmful")

    async def withdraw(removal_reason: str) -> int:
        async with grpc.aio.insecure_channel(system.address) as channel:
            withdraw = GrpcPlaybooks(channel).withdraw_removal
            return await withdraw(str(uuid.uuid4()), dataset, bullet.id, removal_reason, "ada", "undone")

    assert asyncio.run(remove()) == 0
    (pending,) = client.playbooks.list_pending_changes(dataset=dataset).changes
    approved = client.playbooks.decide_pending_changes(
        dataset=dataset, ids=[pending.id], decision=playbook_service_pb2.DECISION_APPROVE
    )
    assert asyncio.run(withdraw("harmful")) == approved.revision
    assert asyncio.run(withdraw("another decision")) == 0


def test_a_removal_that_another_replica_has_made_is_known_by_its_request(
    client: Client, system: systems.System, dataset: str
) -> None:
    async def remove_twice(bullet_id: str, text_version: str) -> tuple[int, int, int]:
        async with grpc.aio.insecure_channel(system.address) as channel:
            playbooks = GrpcPlaybooks(channel)
            first, second = str(uuid.uuid4()), str(uuid.uuid4())
            removed = await playbooks.remove(first, dataset, bullet_id, text_version, "harmful by trials")
            again = await playbooks.remove(first, dataset, bullet_id, text_version, "harmful by trials")
            return removed, again, await playbooks.remove(second, dataset, bullet_id, text_version, "another decision")

    bullet = client.playbooks.list_bullets(dataset=dataset).bullets[0]
    assert asyncio.run(remove_twice(bullet.id, compute_text_version(bullet.content))) == (2, 2, 0)


def test_a_session_is_served_the_same_bullets_by_every_replica(client: Client, dataset: str) -> None:
    client.evidence.start_trials(dataset=dataset, policy=evidence_pb2.TrialPolicy(bullet_holdout=0.5))
    answers = [client.recall(dataset, "one session", QUERY) for _ in range(8)]
    assert all(answer == answers[0] for answer in answers)
    assert answers[0].randomized
    assert client.evidence.get_trials(dataset=dataset).sessions == 1


def test_an_answer_to_a_session_is_measured(client: Client, dataset: str) -> None:
    client.evidence.start_trials(dataset=dataset, policy=evidence_pb2.TrialPolicy(bullet_holdout=0.5))
    for number in range(12):
        session = f"question-{number}"
        answer = client.ask(dataset, QUERY, session_id=session)
        recalled = client.recall(dataset, session, QUERY)
        assert answer.serving_id == recalled.serving_id != ""
        assert list(answer.search_results) == list(recalled.results)
        client.evidence.report_outcome(dataset=dataset, serving_id=answer.serving_id, succeeded=True)
    assert client.evidence.get_trials(dataset=dataset).sessions == 12
    assert client.ask(dataset, QUERY).serving_id == ""
    assert client.evidence.get_trials(dataset=dataset).sessions == 12


def test_a_session_of_a_dataset_that_does_not_exist_yet_is_answered(client: Client) -> None:
    answer = client.ask(f"trials-{uuid.uuid4().hex[:12]}", QUERY, session_id="first")
    assert (list(answer.search_results), answer.serving_id) == ([], "")


def test_effects_are_listed_in_pages(client: Client, dataset: str) -> None:
    client.evidence.start_trials(dataset=dataset, policy=evidence_pb2.TrialPolicy(playbook_holdout=0))
    run_sessions(client, dataset, range(5), TEXTS[1])
    first = client.evidence.get_effects(dataset=dataset, page_size=2)
    second = client.evidence.get_effects(dataset=dataset, page_size=2, page_token=first.next_page_token)
    assert [len(first.effects), len(second.effects), second.next_page_token] == [2, 1, ""]
    assert {effect.bullet_id for page in (first, second) for effect in page.effects} == {
        effect.bullet_id for effect in client.evidence.get_effects(dataset=dataset).effects
    }


@pytest.mark.parametrize(
    ("fields", "field", "value", "rule"),
    [
        ({"serving_id": "unknown", "reward": 1.5}, "reward", "1.5", "DOUBLE_GTE_LTE"),
        ({"serving_id": "unknown", "reward": -0.5}, "reward", "-0.5", "DOUBLE_GTE_LTE"),
        ({"serving_id": "unknown", "reward": float("nan")}, "reward", "NaN", "DOUBLE_FINITE"),
        ({"serving_id": "", "succeeded": True}, "serving_id", "''", "STRING_MIN_LEN"),
        ({"serving_id": "x" * 65, "succeeded": True}, "serving_id", "'xxx", "STRING_MAX_LEN"),
    ],
)
def test_invalid_reports_are_refused(
    client: Client, dataset: str, fields: dict[str, Any], field: str, value: str, rule: str
) -> None:
    with pytest.raises(InvalidArgument, match=field) as refused:
        client.evidence.report_outcome(dataset=dataset, **fields)
    assert_violation(refused.value, field, value, rule)


def test_a_report_without_outcome_or_of_an_unknown_serving_is_refused(client: Client, dataset: str) -> None:
    with pytest.raises(InvalidArgument, match="outcome"):
        client.evidence.report_outcome(dataset=dataset, serving_id="unknown")
    with pytest.raises(NotFound, match="has no serving 'unknown': use the serving_id that Recall returned") as unknown:
        client.evidence.report_outcome(dataset=dataset, serving_id="unknown", succeeded=True)
    assert unknown.value.reason == "SERVING_NOT_FOUND"


@pytest.mark.parametrize(
    ("fields", "field", "value", "rule"),
    [
        ({"session_id": ""}, "session_id", "''", "STRING_MIN_LEN"),
        ({"session_id": "s" * 10_000}, "session_id", "'sss", "STRING_MAX_LEN"),
        ({"session_id": "s", "top_k": 0}, "top_k", "0", "INT32_GTE_LTE"),
    ],
)
def test_an_invalid_recall_serves_nothing(
    client: Client, dataset: str, fields: dict[str, Any], field: str, value: str, rule: str
) -> None:
    client.evidence.start_trials(dataset=dataset)
    with pytest.raises(InvalidArgument, match=field) as refused:
        client.evidence.recall(dataset=dataset, query_text=QUERY, **fields)
    assert_violation(refused.value, field, value, rule)
    assert client.evidence.get_trials(dataset=dataset).sessions == 0
    assert not client.evidence.get_effects(dataset=dataset).effects


def assert_violation(error: InvalidArgument, field: str, value: str, rule: str) -> None:
    """Assert that an error has the field, the value and the rule that it breaks."""
    (violation,) = [violation for violation in error.violations if violation.rule == rule]
    assert violation.field == field
    assert f"(got {value}" in violation.description


def test_invalid_policies_and_unknown_trials_are_refused(client: Client, dataset: str) -> None:
    with pytest.raises(InvalidArgument, match="bullet_holdout"):
        client.evidence.start_trials(dataset=dataset, policy=evidence_pb2.TrialPolicy(bullet_holdout=0.9))
    with pytest.raises(HanseiError, match="has no trials"):
        client.evidence.stop_trials(dataset=dataset)
