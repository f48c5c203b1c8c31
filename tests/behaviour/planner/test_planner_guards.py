"""Guards check the tool calls of executions: a real planner, evidence service and curator over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import chassis
from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from services.curator.bootstrap import build as build_curator
from services.curator.settings import CuratorSettings
from services.evidence.bootstrap import build as build_evidence
from services.evidence.settings import EvidenceSettings
from tests.support.planner_service import (
    NOBODY,
    Tools,
    answer,
    events,
    kinds,
    plan,
    running,
    step,
    tools_are_known,
)

LESSON = "Look the colour up before code runs."
SEARCH_FIRST = "call.tool == 'code_execute' && call.args.query == 'paint' && !succeeded('web_search')"
PAINT = step(1, pb.ACTION_CODE_EXECUTE, "paint")
GUARDED: dict[str, Any] = {"planner_guard_seconds": 10}
"""On a busy machine a check may take longer than the default of half a second; then the call is made unchecked."""


@asynccontextmanager
async def run_guarded_planner(
    folder: Path, mode: str, target: str = SEARCH_FIRST, dataset: str = "planner"
) -> AsyncIterator[tuple[Any, Tools]]:
    """Yield a planner with this dataset of guards, which has one guard in this mode, and the tools that it calls."""
    curator = build_curator(
        CuratorSettings(playbook_data_dir=str(folder / "books"), llm_provider="offline", embedding_provider="hashing"),
        chassis.Peers({}),
    )
    evidence_settings = EvidenceSettings(evidence_database_url=str(folder / "evidence.db"))
    tools = Tools()
    async with chassis.serve(curator) as curating:
        peers = chassis.Peers({"curator": curating.address, "search": NOBODY})
        await add_guard(peers, f"acme--{dataset}", mode, target)
        async with (
            chassis.serve(build_evidence(evidence_settings, peers)) as evidence,
            running(
                folder, tools, evidence_addr=evidence.address, planner_guards_dataset=dataset, **GUARDED
            ) as planner,
        ):
            await tools_are_known(planner)
            tools.calls.clear()
            yield planner, tools
        await peers.close()


async def add_guard(peers: chassis.Peers, dataset: str, mode: str, target: str) -> None:
    """Add a lesson whose target a person pinned."""
    delta = playbook_pb2.Delta(type=playbook_pb2.DELTA_TYPE_ADD, section="tools", content=LESSON)
    delta.target.expression, delta.target.pinned = target, True
    delta.target.mode = playbook_pb2.TargetMode.Value(f"TARGET_MODE_{mode}")
    stub: Any = playbook_service_pb2_grpc.PlaybookServiceStub(peers.get_channel("curator"))
    await stub.ApplyDeltas(
        playbook_service_pb2.ApplyDeltasRequest(
            request_id=str(uuid4()), dataset=dataset, deltas=[delta], reason="The mode is tested."
        )
    )


async def execute(planner: Any, *steps: pb.PlanStep, plan_id: str) -> list[pb.ExecutionEvent]:
    made = plan(*steps, plan_id=f"acme--{plan_id}")
    return await events(planner.ExecutePlan(service_pb.ExecutePlanRequest(plan=made, prefix="acme--")))


def queries(tools: Tools) -> list[str]:
    return [call.input.query for call in tools.calls]


async def test_a_refused_call_is_not_made_and_the_lesson_is_the_cause_of_the_replan(tmp_path: Path) -> None:
    async with run_guarded_planner(tmp_path, "DENY") as (planner, tools):
        found = await execute(planner, PAINT, plan_id="00000000000a")
        assert queries(tools) == []
        (returned,) = [event.tool_returned for event in found if event.WhichOneof("event") == "tool_returned"][:1]
        assert (returned.success, LESSON in returned.error) == (False, True)
        assert "replanned" in kinds(found)
        # The guards see the calls before: after a search in the same execution the call is made.
        after_search = step(2, pb.ACTION_CODE_EXECUTE, "paint", 1)
        found = await execute(planner, step(1, pb.ACTION_WEB_SEARCH, "colour"), after_search, plan_id="00000000000b")
        assert queries(tools) == ["colour", "paint"]


async def test_a_call_that_a_person_must_decide_pauses_the_execution(tmp_path: Path) -> None:
    async with run_guarded_planner(tmp_path, "ASK") as (planner, tools):
        approved = await execute(planner, PAINT, plan_id="00000000000a")
        assert kinds(approved)[-1] == "intervention_requested"
        question = approved[-1].intervention_requested
        assert LESSON in question.message
        assert list(question.options) == ["proceed", "skip", "cancel"]
        assert queries(tools) == []
        resumed = await events(planner.ResumePlan(answer(approved[-1], action=pb.INTERVENTION_ACTION_PROCEED)))
        assert queries(tools) == ["paint"]
        assert "tool_returned" in kinds(resumed)
        skipped = await execute(planner, PAINT, plan_id="00000000000b")
        await events(planner.ResumePlan(answer(skipped[-1], action=pb.INTERVENTION_ACTION_SKIP)))
        assert queries(tools) == ["paint"]


async def test_without_a_person_a_held_call_is_not_made(tmp_path: Path) -> None:
    async with run_guarded_planner(tmp_path, "ASK") as (planner, tools):
        made = plan(PAINT, plan_id="acme--00000000000a")
        result = (await planner.RunPlan(service_pb.RunPlanRequest(plan=made, prefix="acme--"))).result
        assert queries(tools) == []
        assert result.overall_status != pb.EXECUTION_STATUS_SUCCESS


async def test_advice_is_recorded_and_reaches_the_tool(tmp_path: Path) -> None:
    async with run_guarded_planner(tmp_path, "ADVISE") as (planner, tools):
        # A quarter of the executions gets no advice, for comparison: 20 without any happen once in 10^12.
        for number in range(20):
            found = await execute(planner, PAINT, plan_id=f"{number:012x}")
            logs = [event.log.message for event in found if event.WhichOneof("event") == "log"]
            advised = [message for message in logs if LESSON in message]
            (call,) = tools.calls
            tools.calls.clear()
            assert [text.text for text in call.input.context] == ([LESSON] if advised else [])
            if advised:
                return
        raise AssertionError("no execution was advised")


async def test_guards_see_what_the_user_said(tmp_path: Path) -> None:
    async with run_guarded_planner(tmp_path, "DENY", "call.tool == 'code_execute' && !said('空')") as (planner, tools):
        await execute(planner, PAINT, plan_id="00000000000a")
        assert queries(tools) == ["paint"]


async def test_the_setting_off_checks_no_call(tmp_path: Path) -> None:
    async with run_guarded_planner(tmp_path, "DENY", dataset="off") as (planner, tools):
        await execute(planner, PAINT, plan_id="00000000000a")
        assert queries(tools) == ["paint"]


async def test_an_outage_of_the_guards_stops_no_call(tmp_path: Path) -> None:
    tools = Tools()
    async with running(tmp_path, tools, evidence_addr=NOBODY, planner_guards_dataset="planner") as planner:
        await tools_are_known(planner)
        tools.calls.clear()
        found = await execute(planner, PAINT, plan_id="00000000000a")
        assert queries(tools) == ["paint"]
        assert kinds(found)[-1] in ("finished", "intervention_requested")
