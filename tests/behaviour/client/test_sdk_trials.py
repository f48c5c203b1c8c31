"""Test `client.recall`, `client.serve` and `hansei trials`, `effects` and `decisions`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hansei.client import AsyncClient, Client, errors
from hansei.client.serving import FALLBACK_NOTE
from hansei.evidence.v1.evidence_pb2 import BULLET_STATE_PROVEN, BULLET_STATE_TRIAL, TrialPolicy
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, Delta
from tests.support import systems
from tests.support.commands import Hansei, dataset, hansei

__all__ = ["dataset", "hansei"]  # fixtures

HELPFUL, USELESS = "Pull with rebase before a push.", "Use a terminal with a dark background for the push."
QUERY = "a push was rejected"
MOST_SESSIONS = 400


@pytest.fixture
def client(system: systems.System) -> Iterator[Client]:
    with Client(system.address) as client:
        yield client


@pytest.fixture
def playbook(client: Client, dataset: str) -> str:
    """Return a dataset with two bullets that the index holds."""
    deltas = [Delta(type=DELTA_TYPE_ADD, section="git", content=text) for text in (HELPFUL, USELESS)]
    revision = client.playbooks.apply_deltas(dataset=dataset, deltas=deltas).revision
    assert len(client.search(dataset, QUERY, min_revision=revision).results) == len(deltas)
    return dataset


def run_sessions(client: Client, dataset: str) -> int:
    """Run sessions that succeed if they are served the helpful bullet, until it is decided; return their number."""
    for number in range(1, MOST_SESSIONS):
        with client.serve(dataset, f"session {number}", QUERY) as serving:
            reported = serving.report(succeeded=HELPFUL in serving.text)
            assert reported is not None
            if any(decision.after == BULLET_STATE_PROVEN for decision in reported.decisions):
                return number
    raise AssertionError("nothing was decided")


def test_sessions_prove_a_bullet_and_commands_show_it(
    client: Client, playbook: str, hansei: Hansei, tmp_path: Path
) -> None:
    started = hansei("trials", "start", playbook, "--playbook-holdout", 0.4)
    assert "a bullet on trial from 25%, a proven bullet from 10%, the playbook from 40% of sessions" in started.out
    sessions = run_sessions(client, playbook)

    measured = hansei("effects", playbook, "--json").document
    proven, other = measured["effects"]
    assert proven["state"] == "BULLET_STATE_PROVEN"
    assert proven["effect"]["served"]["success_rate"] == 1
    assert proven["effect"]["withheld"]["success_rate"] == 0
    assert other["state"] == "BULLET_STATE_TRIAL"
    assert int(measured["trials"]["sessions"]) == sessions
    assert measured["lift"]["conclusion"]

    shown = hansei("effects", playbook).out
    assert all(text in shown for text in ("whole playbook", proven["bullet_id"], "proven", "+100"))
    assert "1 bullet of 2 on trial: nothing is known about them yet" in shown

    picture = tmp_path / "effects.svg"
    assert hansei("effects", playbook, "--plot", picture).code == 0
    drawn = picture.read_text()
    assert "whole playbook" in drawn
    assert proven["bullet_id"] in drawn

    (decision,) = hansei("decisions", playbook, "--json").lines
    assert (decision["bullet_id"], decision["after"]) == (proven["bullet_id"], "BULLET_STATE_PROVEN")
    assert f"{proven['bullet_id']}  trial → proven" in hansei("decisions", playbook).out

    status = hansei("trials", "status", playbook).out
    assert all(text in status for text in ("Trials are running", "1 trial, 1 proven", "passed: "))
    assert f"{sessions}, 0 without an outcome" in status
    assert "Trials have stopped" in hansei("trials", "stop", playbook).out
    assert "Trials have stopped" in hansei("trials", "status", playbook).out
    assert hansei("effects", playbook, "--json").document["effects"] == measured["effects"]
    with client.serve(playbook, "after the end", QUERY) as serving:
        assert not serving.serving_id
        assert serving.report(succeeded=True) is None


def test_commands_say_what_is_not_known(hansei: Hansei, playbook: str) -> None:
    for command in ("effects", "trials status"):
        assert "never had trials" in hansei(*command.split(), playbook).out
    assert "There are no decisions" in hansei("decisions", playbook).out
    assert hansei("trials", "stop", playbook).code == 4
    hansei("trials", "start", playbook)
    shown = hansei("effects", playbook).out
    assert "No conclusion yet" in shown
    refused = hansei("effects", playbook, "--plot", "effects.png")
    assert (refused.code, "nothing to draw" in refused.err) == (1, True)
    changed = hansei("trials", "start", playbook, "--bullet-holdout", 0.5).out
    assert "all measurements begin now" in changed


@pytest.mark.parametrize("option", ["--bullet-holdout", "--audit-holdout", "--false-discovery-rate", "--margin"])
def test_a_policy_out_of_range_is_wrong_usage(hansei: Hansei, playbook: str, option: str) -> None:
    refused = hansei("trials", "start", playbook, option, 0.9)
    assert refused.code == 2
    assert refused.err.startswith(f"Error: {option} must be greater than")
    assert "never had trials" in hansei("trials", "status", playbook).out


def test_a_session_gets_the_same_bullets_whenever_it_asks(client: Client, playbook: str) -> None:
    client.evidence.start_trials(dataset=playbook, policy=TrialPolicy(bullet_holdout=0.5))
    recalls = [client.recall(playbook, f"session {number}", QUERY) for number in range(20)]
    repeats = [client.recall(playbook, f"session {number}", QUERY) for number in range(20)]
    served = [[result.bullet.id for result in recall.results] for recall in recalls]
    assert served == [[result.bullet.id for result in recall.results] for recall in repeats]
    assert [recall.serving_id for recall in recalls] == [recall.serving_id for recall in repeats]
    assert any(len(ids) < 2 for ids in served), "some bullets are withheld"


def test_a_report_counts_once_unless_it_is_a_correction(client: Client, playbook: str) -> None:
    client.evidence.start_trials(dataset=playbook)
    with client.serve(playbook, "session", QUERY) as serving:
        first, second = serving.report(succeeded=True), serving.report(reward=0.25)
        corrected = serving.report(reward=0.5, correction=True)
    assert [(report.counted, report.outcome) for report in (first, second, corrected) if report] == [
        (True, 1.0),
        (False, 1.0),
        (True, 0.5),
    ]
    assert client.evidence.get_trials(dataset=playbook).sessions_without_outcome == 0


def test_a_report_has_one_outcome_within_its_range(client: Client, playbook: str) -> None:
    client.evidence.start_trials(dataset=playbook)
    with client.serve(playbook, "session", QUERY) as serving:
        with pytest.raises(ValueError, match="either succeeded or reward: succeeded=None, reward=None"):
            serving.report()
        with pytest.raises(ValueError, match="either succeeded or reward"):
            serving.report(succeeded=True, reward=1.0)
        for reward in (-0.1, 1.1, float("nan")):
            with pytest.raises(errors.InvalidArgument) as refused:
                serving.report(reward=reward)
            assert refused.value.violations[0].field == "reward"
    assert client.evidence.get_trials(dataset=playbook).sessions_without_outcome == 1
    with pytest.raises(errors.NotFound):
        client.evidence.report_outcome(dataset=playbook, serving_id="unknown", succeeded=True)


def test_a_session_that_raises_reports_nothing(client: Client, playbook: str, caplog: pytest.LogCaptureFixture) -> None:
    client.evidence.start_trials(dataset=playbook)
    with pytest.raises(ZeroDivisionError), client.serve(playbook, "raises", QUERY):
        raise ZeroDivisionError
    assert "without an outcome" not in caplog.text
    with client.serve(playbook, "forgets", QUERY):
        pass
    assert "session ended without an outcome" in caplog.text
    assert client.evidence.get_trials(dataset=playbook).sessions_without_outcome == 2


async def test_the_async_client_serves_and_reports(system: systems.System, playbook: str) -> None:
    async with AsyncClient(system.address) as client:
        await client.evidence.start_trials(dataset=playbook)
        async with client.serve(playbook, "session", QUERY, top_k=1) as serving:
            assert len(serving.bullets) <= 1
            reported = await serving.report(succeeded=True)
            assert reported is not None
            assert reported.counted
        repeat = await client.recall(playbook, "session", QUERY, top_k=1)
        assert repeat.serving_id == serving.serving_id
        effects = (await client.evidence.get_effects(dataset=playbook)).effects
        assert {effect.state for effect in effects} <= {BULLET_STATE_TRIAL}


async def test_recalls_use_search_while_the_evidence_service_is_unavailable(
    running: Callable[[str], systems.System], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stack, dataset = running("one process"), f"away-{uuid.uuid4().hex[:12]}"
    addresses = dict.fromkeys(systems.PEERS, stack.address) | {"EVIDENCE_ADDR": f"127.0.0.1:{systems.free_port()}"}
    with systems.one_service(tmp_path, "gateway", **addresses) as gateway, Client(gateway.address) as client:
        delta = Delta(type=DELTA_TYPE_ADD, section="git", content=HELPFUL)
        revision = client.playbooks.apply_deltas(dataset=dataset, deltas=[delta]).revision
        caplog.clear()
        for number in range(2):
            with client.serve(dataset, f"session {number}", QUERY, min_revision=revision) as serving:
                assert serving.text.endswith(HELPFUL)
                assert serving.response.note == FALLBACK_NOTE
                assert serving.response.revision == revision
                assert serving.report(succeeded=True) is None
        assert caplog.text.count("evidence service is unavailable") == 1
        async with AsyncClient(gateway.address) as other:
            recalled = await other.recall(dataset, "session", QUERY)
            assert (recalled.note, len(recalled.results)) == (FALLBACK_NOTE, 1)
        assert client.evidence  # the other methods raise
        with pytest.raises(errors.Unavailable):
            client.evidence.get_effects(dataset=dataset)
