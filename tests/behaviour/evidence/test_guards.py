"""Guards decide the tool calls of sessions, over gRPC, with a real curator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import chassis
from chassis.errors import HanseiError, InvalidArgument, RequestIdReused
from chassis.targets.errors import InvalidTarget
from chassis.targets.guard import MAX_EXHAUSTIONS
from hansei.evidence.v1 import archive_service_pb2, archive_service_pb2_grpc, guard_service_pb2_grpc
from hansei.evidence.v1 import guard_service_pb2 as pb
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from hansei.reflector.v1 import trajectory_pb2
from services.curator.bootstrap import build as build_curator
from services.curator.settings import CuratorSettings
from services.evidence import bootstrap
from services.evidence.adapters.guards_feed import UNUSED_SECONDS, GuardsFeed
from services.evidence.bootstrap import build
from services.evidence.domain.archive_errors import ArchiveNotFound
from services.evidence.domain.errors import InvalidCallArguments
from services.evidence.settings import EvidenceSettings
from tests.support.playbook_client import add, apply, update

COMMIT = "call.tool == 'git_commit' && !succeeded('git_config')"


@asynccontextmanager
async def serve_curator(folder: Path) -> AsyncIterator[str]:
    """Serve a curator; its address."""
    settings = CuratorSettings(
        playbook_data_dir=str(folder / "playbooks"), llm_provider="offline", embedding_provider="hashing"
    )
    async with chassis.serve(build_curator(settings, chassis.Peers({}))) as running:
        yield running.address


@asynccontextmanager
async def serve_evidence(folder: Path, curator: str) -> AsyncIterator[Any]:
    """Serve the evidence service; a stub of its guards, with a stub of its archive."""
    settings = EvidenceSettings(evidence_database_url=str(folder / "evidence.db"), evidence_housekeeping_seconds=0.1)
    peers = chassis.Peers({"search": "127.0.0.1:9", "curator": curator})
    async with chassis.serve(build(settings, peers)) as running:
        clients = chassis.Peers({"evidence": running.address})
        stub: Any = guard_service_pb2_grpc.GuardServiceStub(clients.get_channel("evidence"))
        stub.archive = archive_service_pb2_grpc.ArchiveServiceStub(clients.get_channel("evidence"))
        yield stub
        await clients.close()
    await peers.close()


@pytest.fixture
async def curator(tmp_path: Path) -> AsyncIterator[str]:
    async with serve_curator(tmp_path) as address:
        yield address


@pytest.fixture
async def playbooks(curator: str) -> AsyncIterator[Any]:
    peers = chassis.Peers({"curator": curator})
    yield playbook_service_pb2_grpc.PlaybookServiceStub(peers.get_channel("curator"))
    await peers.close()


def aim(delta: playbook_pb2.Delta, expression: str, mode: str, *, is_pinned: bool = True) -> playbook_pb2.Delta:
    """Return the delta with a target."""
    delta.reasoning = "agreed"
    delta.target.expression = expression
    delta.target.pinned = is_pinned
    delta.target.mode = playbook_pb2.TargetMode.Value(f"TARGET_MODE_{mode}")
    return delta


async def check(guards: Any, tool: str, session: str = "s", /, **arguments: Any) -> pb.CheckCallResponse:
    """Check a call."""
    call = pb.GuardedCall(tool=tool, arguments=json.dumps(arguments))
    response: pb.CheckCallResponse = await guards.CheckCall(
        pb.CheckCallRequest(dataset="d", session_id=session, call=call)
    )
    return response


async def report(guards: Any, tool: str, result: str = "ok", **fields: Any) -> pb.ReportCallResponse:
    """Report a call."""
    request = pb.ReportCallRequest(request_id=str(uuid4()), dataset="d", session_id="s", result=result, **fields)
    request.call.tool = tool
    response: pb.ReportCallResponse = await guards.ReportCall(request)
    return response


async def wait_for_revision(guards: Any, revision: int) -> None:
    """Wait until guards are those of a revision."""
    while (await guards.ListGuards(pb.ListGuardsRequest(dataset="d"))).revision < revision:
        pass


def find_followers() -> list[asyncio.Task[Any]]:
    """Return the tasks that follow playbooks for guards."""
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("guards of ")]


async def test_a_missing_dataset_is_not_followed_and_its_guards_work_once_it_exists(
    playbooks: Any, curator: str, tmp_path: Path
) -> None:
    async with serve_evidence(tmp_path / "e", curator) as guards:
        for number in range(20):
            request = pb.CheckCallRequest(dataset=f"typo-{number}", session_id="s", call=pb.GuardedCall(tool="git"))
            assert (await guards.CheckCall(request)).decision == pb.GUARD_DECISION_ALLOW
        assert (await check(guards, "git_commit")).decision == pb.GUARD_DECISION_ALLOW
        assert find_followers() == []
        await apply(playbooks, aim(add("Set user.name first."), COMMIT, "DENY"))
        assert (await check(guards, "git_commit")).decision == pb.GUARD_DECISION_DENY
        assert len(find_followers()) == 1


async def test_an_unused_dataset_is_followed_no_more(playbooks: Any, curator: str) -> None:
    await apply(playbooks, aim(add("Set user.name first."), COMMIT, "DENY"))
    peers = chassis.Peers({"curator": curator})
    seconds = 0.0
    feed = GuardsFeed(peers.get_channel("curator"), clock=lambda: seconds)
    try:
        await feed.find("d")
        seconds = UNUSED_SECONDS - 1
        await feed.find("d")
        seconds = UNUSED_SECONDS + 1
        await feed.release_unused()
        assert len((await feed.find("d")).guards) == 1
        assert len(find_followers()) == 1
        seconds = 2 * UNUSED_SECONDS + 1
        await feed.release_unused()
        await asyncio.gather(*find_followers(), return_exceptions=True)
        assert find_followers() == []
        assert len((await feed.find("d")).guards) == 1
    finally:
        await feed.close()
        await peers.close()


async def test_an_outage_of_the_curator_is_no_warning_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with serve_evidence(tmp_path / "e", "127.0.0.1:9") as guards:
        assert (await check(guards, "git_commit")).decision == pb.GUARD_DECISION_ALLOW
    failures = [record for record in caplog.records if record.message.startswith("reading the guards")]
    assert {record.levelname for record in failures} == {"DEBUG"}


async def test_a_call_that_repeats_a_mistake_is_refused_until_the_session_did_better(
    playbooks: Any, curator: str, tmp_path: Path
) -> None:
    await apply(playbooks, aim(add("Set user.name first."), COMMIT, "DENY"))
    async with serve_evidence(tmp_path / "e", curator) as guards:
        refused = await check(guards, "git_commit")
        assert refused.decision == pb.GUARD_DECISION_DENY
        assert [(match.bullet_id, match.text) for match in refused.matches] == [("gene-00001", "Set user.name first.")]
        assert (await check(guards, "git_push")).decision == pb.GUARD_DECISION_ALLOW
        assert (await report(guards, "git_config")).events == 1
        assert (await check(guards, "git_commit")).decision == pb.GUARD_DECISION_ALLOW
        assert (await check(guards, "git_commit", "other")).decision == pb.GUARD_DECISION_DENY
    # The session is stored: after a restart it is decided alike.
    async with serve_evidence(tmp_path / "e", curator) as guards:
        assert (await check(guards, "git_commit")).decision == pb.GUARD_DECISION_ALLOW
        [guard] = (await guards.ListGuards(pb.ListGuardsRequest(dataset="d"))).guards
        assert (guard.bullet_id, guard.target.expression, guard.firings) == ("gene-00001", COMMIT, 2)


async def test_a_guard_that_costs_too_much_is_suspended_until_it_is_edited(
    playbooks: Any, curator: str, tmp_path: Path
) -> None:
    hostile = "call.args.l.exists(x, call.args.l.exists(y, x + y == -1))"
    await apply(playbooks, aim(add("Never."), hostile, "DENY"), aim(add("Set user.name first."), COMMIT, "DENY"))
    async with serve_evidence(tmp_path / "e", curator) as guards:
        for _ in range(MAX_EXHAUSTIONS + 3):
            assert (await check(guards, "git_commit", l=list(range(200)))).decision == pb.GUARD_DECISION_DENY
        listed = {guard.target.expression: guard for guard in (await list_guards(guards)).values()}
        assert (listed[hostile].suspended, listed[hostile].failures) == (True, MAX_EXHAUSTIONS)
        assert (listed[COMMIT].suspended, listed[COMMIT].failures) == (False, 0)
        edited = await apply(playbooks, aim(update(listed[hostile].bullet_id, "Never."), "repeats() > 9", "DENY"))
        await wait_for_revision(guards, edited.revision)
        assert not any(guard.suspended for guard in (await list_guards(guards)).values())


async def test_guards_follow_the_playbook(playbooks: Any, curator: str, tmp_path: Path) -> None:
    async with serve_evidence(tmp_path / "e", curator) as guards:
        first = pb.CheckCallRequest(dataset="d", session_id="s", call=pb.GuardedCall(tool="git_commit"))
        assert (await guards.CheckCall(first, timeout=1)).decision == pb.GUARD_DECISION_ALLOW
        # The feed outlives the deadline of the check that began it.
        expires = asyncio.get_running_loop().time() + 1
        while asyncio.get_running_loop().time() <= expires:
            await check(guards, "git_push")
        await apply(playbooks, aim(add("Set user.name first."), COMMIT, "SHADOW"))
        async with asyncio.timeout(30):
            await wait_for_revision(guards, 1)
        counted = await check(guards, "git_commit")
        assert (counted.decision, [match.text for match in counted.matches]) == (pb.GUARD_DECISION_ALLOW, [""])
        await apply(playbooks, aim(update("gene-00001", ""), COMMIT, "ASK"))
        await wait_for_revision(guards, 2)
        assert (await check(guards, "git_commit")).decision == pb.GUARD_DECISION_ASK
        await apply(playbooks, aim(update("gene-00001", ""), "", "SHADOW"))
        await wait_for_revision(guards, 3)
        assert (await check(guards, "git_commit")).matches == []


async def test_advice_is_withheld_from_a_quarter_of_the_sessions(playbooks: Any, curator: str, tmp_path: Path) -> None:
    await apply(playbooks, aim(add("Set user.name first."), COMMIT, "ADVISE"))
    async with serve_evidence(tmp_path / "e", curator) as guards:
        responses = [await check(guards, "git_commit", f"s{number}") for number in range(120)]
        withheld = [response.matches[0].is_withheld for response in responses]
        assert 10 <= sum(withheld) <= 55  # 30 expected; outside of this less often than once in 100,000
        for response, is_withheld in zip(responses, withheld, strict=True):
            expected = pb.GUARD_DECISION_ALLOW if is_withheld else pb.GUARD_DECISION_ADVISE
            assert (response.decision, bool(response.matches[0].text)) == (expected, not is_withheld)
        again = [await check(guards, "git_commit", f"s{number}") for number in range(120)]
        assert again == responses
        [guard] = (await guards.ListGuards(pb.ListGuardsRequest(dataset="d"))).guards
        assert (guard.firings, guard.withheld) == (120, sum(withheld))


async def test_without_the_curator_every_call_is_allowed(tmp_path: Path) -> None:
    async with serve_evidence(tmp_path / "e", "127.0.0.1:9") as guards:
        response = await check(guards, "git_commit")
        assert response.decision == pb.GUARD_DECISION_ALLOW
        assert "allowed unchecked" in response.note


async def test_a_report_counts_once_and_bad_arguments_are_refused(curator: str, tmp_path: Path) -> None:
    async with serve_evidence(tmp_path / "e", curator) as guards:
        request = pb.ReportCallRequest(
            request_id=str(uuid4()),
            dataset="d",
            session_id="s",
            messages=[pb.SessionMessage(text="Yes, do it."), pb.SessionMessage(text="Be brief.", is_instruction=True)],
            call=pb.GuardedCall(tool="t"),
        )
        assert [(await guards.ReportCall(request)).events for _ in range(2)] == [3, 3]
        request.result = "other"
        with pytest.raises(RequestIdReused):
            await guards.ReportCall(request)
        for arguments, rule in (("{", "is not JSON"), ("[1]", "must be a JSON object")):
            call = pb.GuardedCall(tool="t", arguments=arguments)
            with pytest.raises(InvalidCallArguments, match=rf"call.arguments .* {rule}"):
                await guards.CheckCall(pb.CheckCallRequest(dataset="d", session_id="s", call=call))
        with pytest.raises(HanseiError, match="call"):
            await guards.CheckCall(pb.CheckCallRequest(dataset="d", session_id="s"))
        with pytest.raises(InvalidArgument, match=r"session_id must not contain the character U\+0000"):
            await check(guards, "t", "s\0")
        assert (await report(guards, "t", "\0", messages=[pb.SessionMessage(text="\0")])).events == 5


async def test_a_target_is_tested_on_recorded_trajectories(curator: str, tmp_path: Path) -> None:
    def record(name: str, *tools: str, succeeded: bool) -> pb.GuardTrajectory:
        calls = [pb.RecordedToolCall(call=pb.GuardedCall(tool=tool)) for tool in tools]
        return pb.GuardTrajectory(id=name, succeeded=succeeded, calls=calls)

    trajectories = [
        record("f", "git_status", "git_commit", succeeded=False),
        record("g", "git_status", succeeded=False),
        record("p", "git_config", "git_commit", succeeded=True),
    ]
    async with serve_evidence(tmp_path / "e", curator) as guards:
        result = await guards.BacktestTarget(pb.BacktestTargetRequest(expression=COMMIT, trajectories=trajectories))
        assert (
            result.failed_trajectories,
            result.failed_with_firing,
            result.passed_trajectories,
            result.passed_with_firing,
        ) == (2, 1, 1, 0)
        assert list(result.firings) == [pb.GuardFiring(trajectory_id="f", call_index=1, succeeded=False, step=1)]
        assert result.false_alarm_bound == pytest.approx(0.95)
        with pytest.raises(InvalidTarget, match=r"expression .* at character"):
            await guards.BacktestTarget(pb.BacktestTargetRequest(expression="called(", trajectories=trajectories))


def record_trajectories(passed: int, *, false_alarms: int = 0, repaired: int = 0) -> list[pb.GuardTrajectory]:
    """Return a failing trajectory in which COMMIT fires, and passing ones: with false alarms, repaired, and others."""

    def record(name: str, *tools: str, succeeded: bool, failed: bool = False) -> pb.GuardTrajectory:
        calls = [pb.RecordedToolCall(call=pb.GuardedCall(tool=tool)) for tool in tools]
        calls[0].failed = failed
        return pb.GuardTrajectory(id=name, succeeded=succeeded, calls=calls)

    repair = ("git_commit", "git_config", "git_commit")
    return [
        record("f", "git_commit", succeeded=False),
        *(record(f"p{n}", "git_commit", succeeded=True) for n in range(false_alarms)),
        *(record(f"r{n}", *repair, succeeded=True, failed=True) for n in range(repaired)),
        *(record(f"q{n}", "git_config", "git_commit", succeeded=True) for n in range(passed - false_alarms - repaired)),
    ]


@pytest.mark.parametrize(
    ("trajectories", "highest", "decision"),
    [
        (record_trajectories(100), "SHADOW", pb.GUARD_DECISION_ALLOW),
        (record_trajectories(160), "ADVISE", pb.GUARD_DECISION_ADVISE),
        (record_trajectories(160, false_alarms=2), "SHADOW", pb.GUARD_DECISION_ALLOW),
        (record_trajectories(160, repaired=100), "ADVISE", pb.GUARD_DECISION_ADVISE),
        (record_trajectories(320), "ASK", pb.GUARD_DECISION_ASK),
    ],
)
async def test_a_guard_without_a_pin_leaves_shadow_only_by_a_stored_backtest(
    trajectories: list[pb.GuardTrajectory],
    highest: str,
    decision: pb.GuardDecision.ValueType,
    playbooks: Any,
    curator: str,
    tmp_path: Path,
) -> None:
    await apply(playbooks, aim(add("Set user.name first."), COMMIT, "DENY", is_pinned=False))
    async with serve_evidence(tmp_path / "e", curator) as guards:
        counted = await check(guards, "git_commit")
        assert (counted.decision, counted.matches[0].text) == (pb.GUARD_DECISION_ALLOW, "")
        stored = await guards.StoreBacktest(
            pb.StoreBacktestRequest(dataset="d", expression=COMMIT, trajectories=trajectories)
        )
        assert playbook_pb2.TargetMode.Name(stored.highest_mode) == f"TARGET_MODE_{highest}"
        checked = [await check(guards, "git_commit", f"s{number}") for number in range(40)]
        assert {response.decision for response in checked} - {pb.GUARD_DECISION_ALLOW} == (
            {decision} - {pb.GUARD_DECISION_ALLOW}
        )
        [guard] = (await guards.ListGuards(pb.ListGuardsRequest(dataset="d"))).guards
        assert (guard.target.mode, guard.requested_mode) == (stored.highest_mode, playbook_pb2.TARGET_MODE_DENY)
        # A backtest is about one condition: an edited one needs its own.
        await apply(playbooks, aim(update("gene-00001", ""), f"{COMMIT} && true", "DENY", is_pinned=False))
        await wait_for_revision(guards, 2)
        assert (await check(guards, "git_commit", "edited")).decision == pb.GUARD_DECISION_ALLOW


async def test_a_pinned_mode_holds_without_a_backtest(playbooks: Any, curator: str, tmp_path: Path) -> None:
    await apply(playbooks, aim(add("Set user.name first."), COMMIT, "DENY"))
    async with serve_evidence(tmp_path / "e", curator) as guards:
        assert (await check(guards, "git_commit")).decision == pb.GUARD_DECISION_DENY
        await guards.StoreBacktest(
            pb.StoreBacktestRequest(dataset="d", expression=COMMIT, trajectories=record_trajectories(10))
        )
        assert (await check(guards, "git_commit")).decision == pb.GUARD_DECISION_DENY


def build_trajectory(
    name: str, *tools: str, succeeded: bool, result: str = "ok", **fields: Any
) -> trajectory_pb2.Trajectory:
    """Return a trajectory whose steps after a message of the user are calls with results; `result` is the first one."""
    status = trajectory_pb2.TRAJECTORY_STATUS_SUCCESS if succeeded else trajectory_pb2.TRAJECTORY_STATUS_FAILURE
    trajectory = trajectory_pb2.Trajectory(id=name, query="Commit.", dataset="d", status=status, **fields)
    trajectory.steps.add(role=trajectory_pb2.STEP_ROLE_USER, content="Commit.")
    for number, tool in enumerate(tools):
        call = trajectory_pb2.ToolCall(id=f"{tool}-{number}", name=tool, arguments="{}")
        trajectory.steps.add(role=trajectory_pb2.STEP_ROLE_ASSISTANT, tool_calls=[call])
        content = "ok" if number else result
        trajectory.steps.add(role=trajectory_pb2.STEP_ROLE_TOOL, tool_call_id=call.id, content=content)
    return trajectory


async def archive(guards: Any, *trajectories: trajectory_pb2.Trajectory) -> None:
    """Store trajectories."""
    for trajectory in trajectories:
        await guards.archive.StoreTrajectory(
            archive_service_pb2.StoreTrajectoryRequest(dataset="d", trajectory=trajectory)
        )


async def test_a_target_is_tested_on_the_archive_page_by_page(curator: str, tmp_path: Path) -> None:
    proven = trajectory_pb2.SIGNAL_STRENGTH_TEST_REPORT
    async with serve_evidence(tmp_path / "e", curator) as guards:
        await archive(
            guards,
            build_trajectory("f", "git_status", "git_commit", succeeded=False, signal=proven),
            build_trajectory("word", "git_commit", succeeded=False),
            build_trajectory("p", "git_commit", succeeded=True, reward=1.0),
            build_trajectory("p", "git_config", "git_commit", succeeded=True, reward=1.0),
        )
        request = pb.BacktestTargetRequest(expression=COMMIT, archive=pb.ArchivedTrajectories(dataset="d"), page_size=2)
        pages = [await guards.BacktestTarget(request)]
        while pages[-1].next_page_token:
            request.page_token = pages[-1].next_page_token
            pages.append(await guards.BacktestTarget(request))
        last = pages[-1]
        assert len(pages) == 2
        # Of two contents with one id the last counts; an outcome on the agent's own word does not.
        counts = (last.failed_trajectories, last.failed_with_firing, last.passed_trajectories, last.passed_with_firing)
        assert (counts, last.skipped_trajectories) == ((1, 1, 1, 0), 1)
        assert last.false_alarm_bound == pytest.approx(0.95)
        [firing] = [firing for page in pages for firing in page.firings]
        assert (firing.trajectory_id, firing.call_index, firing.step) == ("f", 1, 3)
        stored = await guards.archive.GetTrajectory(
            archive_service_pb2.GetTrajectoryRequest(dataset="d", trajectory_id="f", content_hash=firing.content_hash)
        )
        assert stored.trajectory.steps[firing.step].tool_calls[0].name == "git_commit"
        for wrong in (
            pb.BacktestTargetRequest(expression=COMMIT),
            pb.BacktestTargetRequest(
                expression=COMMIT,
                archive=pb.ArchivedTrajectories(dataset="d"),
                trajectories=[pb.GuardTrajectory(id="t")],
            ),
        ):
            with pytest.raises(HanseiError, match="either trajectories or archive"):
                await guards.BacktestTarget(wrong)
        with pytest.raises(ArchiveNotFound):
            await guards.BacktestTarget(
                pb.BacktestTargetRequest(expression=COMMIT, archive=pb.ArchivedTrajectories(dataset="none"))
            )


async def test_a_stored_backtest_of_the_archive_ends_with_its_dataset(
    playbooks: Any, curator: str, tmp_path: Path
) -> None:
    await apply(playbooks, aim(add("Set user.name first."), COMMIT, "ADVISE", is_pinned=False))
    async with serve_evidence(tmp_path / "e", curator) as guards:
        trajectories = [build_trajectory(f"p{n}", "git_config", succeeded=True, reward=1.0) for n in range(150)]
        await archive(guards, *trajectories)
        stored = await guards.StoreBacktest(pb.StoreBacktestRequest(dataset="d", expression=COMMIT))
        assert stored.backtest.passed_trajectories == 150
        assert stored.highest_mode == playbook_pb2.TARGET_MODE_ADVISE
        await check(guards, "git_commit")
        await playbooks.DeleteDataset(playbook_service_pb2.DeleteDatasetRequest(request_id=str(uuid4()), dataset="d"))
        await apply(playbooks, aim(add("Set user.name first."), COMMIT, "ADVISE", is_pinned=False))
        await wait_for_revision(guards, 1)
        async with asyncio.timeout(30):
            while True:
                [guard] = (await guards.ListGuards(pb.ListGuardsRequest(dataset="d"))).guards
                if guard.target.mode == playbook_pb2.TARGET_MODE_SHADOW and not guard.firings:
                    break


async def end(guards: Any, session: str, *, succeeded: bool) -> pb.ReportSessionResponse:
    """Report how a session ended."""
    request = pb.ReportSessionRequest(dataset="d", session_id=session, succeeded=succeeded)
    response: pb.ReportSessionResponse = await guards.ReportSession(request)
    return response


async def list_guards(guards: Any) -> dict[str, pb.Guard]:
    """Return the guards by bullet."""
    return {guard.bullet_id: guard for guard in (await guards.ListGuards(pb.ListGuardsRequest(dataset="d"))).guards}


async def find_decision(guards: Any) -> pb.GuardModeDecision:
    """Return the only decision, once it is in the playbook."""
    while True:
        [decision] = (await guards.ListGuardDecisions(pb.ListGuardDecisionsRequest(dataset="d"))).decisions
        if decision.revision:
            found: pb.GuardModeDecision = decision
            return found


async def test_evidence_promotes_a_guard_in_a_revision_that_can_be_undone(
    playbooks: Any, curator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "PUBLISH_SECONDS", 0.02)
    await apply(
        playbooks,
        aim(add("Set user.name first."), COMMIT, "SHADOW", is_pinned=False),
        aim(add("Never commit without a name."), f"{COMMIT} && true", "SHADOW"),
        aim(add("Never push."), "call.tool == 'git_push'", "SHADOW", is_pinned=False),
    )
    async with asyncio.timeout(120), serve_evidence(tmp_path / "e", curator) as guards:
        trajectories = [build_trajectory(f"p{n}", "git_config", succeeded=True, reward=1.0) for n in range(150)]
        await archive(guards, *trajectories)
        await end(guards, "first", succeeded=True)
        while not (await list_guards(guards))["gene-00001"].HasField("evidence"):
            pass
        await check(guards, "git_commit", "failing")
        assert await end(guards, "failing", succeeded=False) == pb.ReportSessionResponse(counted=True, firings=2)
        assert not (await end(guards, "failing", succeeded=True)).counted
        for number in range(210):
            await check(guards, "git_push", f"s{number}")
            await end(guards, f"s{number}", succeeded=True)
        while (await list_guards(guards))["gene-00001"].target.mode != playbook_pb2.TARGET_MODE_ADVISE:
            pass
        by_bullet = await list_guards(guards)
        # A pinned mode is never touched, and a guard that fires in passing sessions stays where it is.
        assert by_bullet["gene-00002"].requested_mode == by_bullet["gene-00003"].requested_mode == 1
        assert by_bullet["gene-00003"].evidence.false_alarms == 210
        decision = await find_decision(guards)
        assert (decision.bullet_id, decision.before, decision.after, decision.undone) == ("gene-00001", 1, 2, False)
        assert decision.reason.startswith("false alarms below 2%: 0 false alarms in ")
        history = await playbooks.GetBulletHistory(
            playbook_service_pb2.GetBulletHistoryRequest(dataset="d", bullet_id="gene-00001")
        )
        [made] = [revision for revision in history.revisions if revision.revision == decision.revision]
        assert (made.author, made.reason) == ("evidence", decision.reason)

        undo = pb.UndoGuardDecisionRequest(dataset="d", number=decision.number, author="ann")
        undone = (await guards.UndoGuardDecision(undo)).decision
        assert (undone.before, undone.after, undone.revision) == (2, 1, decision.revision + 1)
        assert (await guards.UndoGuardDecision(undo)).decision.number == undone.number
        with pytest.raises(HanseiError, match="has no decision 9"):
            await guards.UndoGuardDecision(pb.UndoGuardDecisionRequest(dataset="d", number=9))
        await wait_for_revision(guards, undone.revision)
        assert (await list_guards(guards))["gene-00001"].target.mode == playbook_pb2.TARGET_MODE_SHADOW


async def test_archived_trajectories_demote_a_guard_unless_it_is_pinned(
    playbooks: Any, curator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "PUBLISH_SECONDS", 0.02)
    pinned = f"{COMMIT} && true"
    async with asyncio.timeout(120), serve_evidence(tmp_path / "e", curator) as guards:
        for expression in (COMMIT, pinned):
            await guards.StoreBacktest(
                pb.StoreBacktestRequest(dataset="d", expression=expression, trajectories=record_trajectories(160))
            )
        await apply(
            playbooks,
            aim(add("Set user.name first."), COMMIT, "ADVISE", is_pinned=False),
            aim(add("Never commit without a name."), pinned, "ADVISE"),
        )
        # The mistake was made and repaired: no false alarm. An outcome on the agent's own word counts for nothing.
        repair = ("git_commit", "git_config", "git_commit")
        await archive(
            guards,
            *(
                build_trajectory(f"r{n}", *repair, succeeded=True, reward=1.0, result="Error: no name")
                for n in range(5)
            ),
            *(build_trajectory(f"w{n}", "git_commit", succeeded=True) for n in range(5)),
        )
        await check(guards, "git_commit")
        await asyncio.sleep(1)
        assert (await list_guards(guards))["gene-00001"].target.mode == playbook_pb2.TARGET_MODE_ADVISE
        await archive(guards, build_trajectory("a1", "git_commit", succeeded=True, reward=1.0))
        while (await list_guards(guards))["gene-00001"].requested_mode != playbook_pb2.TARGET_MODE_SHADOW:
            pass
        decision = await find_decision(guards)
        assert (decision.bullet_id, decision.before, decision.after) == ("gene-00001", 2, 1)
        assert decision.reason == "false alarms in 1 of 166 passing trajectories of the archive, at most 2.8%"
        assert (await list_guards(guards))["gene-00002"].target.mode == playbook_pb2.TARGET_MODE_ADVISE


async def test_a_guard_that_raises_false_alarms_is_demoted_unless_it_is_pinned(
    playbooks: Any, curator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "PUBLISH_SECONDS", 0.02)
    async with asyncio.timeout(120), serve_evidence(tmp_path / "e", curator) as guards:
        await guards.StoreBacktest(
            pb.StoreBacktestRequest(dataset="d", expression=COMMIT, trajectories=record_trajectories(320))
        )
        await apply(
            playbooks,
            aim(add("Set user.name first."), COMMIT, "ASK", is_pinned=False),
            aim(add("Never commit without a name."), f"{COMMIT} && true", "ASK"),
        )
        await end(guards, "first", succeeded=True)
        while not (by_bullet := await list_guards(guards)) or not by_bullet["gene-00001"].HasField("evidence"):
            pass
        for number in range(2):
            assert (await check(guards, "git_commit", f"s{number}")).decision == pb.GUARD_DECISION_ASK
            request = pb.ReportCallRequest(
                request_id=str(uuid4()), dataset="d", session_id=f"s{number}", call=pb.GuardedCall(tool="git_commit")
            )
            await guards.ReportCall(request)  # a person allowed it
            await end(guards, f"s{number}", succeeded=True)
        while (await list_guards(guards))["gene-00001"].requested_mode != playbook_pb2.TARGET_MODE_SHADOW:
            pass
        assert (await list_guards(guards))["gene-00002"].target.mode == playbook_pb2.TARGET_MODE_ASK
        decision = await find_decision(guards)
        assert decision.reason.startswith("false alarms above 1%")
        # A client that asks for the mode again does not get it; a person may take the demotion back.
        await apply(playbooks, aim(update("gene-00001", ""), COMMIT, "ASK", is_pinned=False))
        await wait_for_revision(guards, 3)
        assert (await list_guards(guards))["gene-00001"].target.mode == playbook_pb2.TARGET_MODE_SHADOW
