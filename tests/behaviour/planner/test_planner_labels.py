"""Labels of steps as a person sees them: given by answers, counted while missing, and contradicting a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from services.planner.adapters.sql import schema
from services.planner.adapters.sql.repository import SqlExecutionStore
from services.planner.usecases.ports import AuditEntry, AuditKind
from tests.support.planner_service import Tools, answer, events, kinds, plan, running, step, tools_are_known

SEARCH = plan(step(1, pb.ACTION_WEB_SEARCH, "空の色"))


@pytest.fixture
def use_guaranteed_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRACE_CONFIDENCE_MODE", "guaranteed")


async def evidence(stub: Any) -> dict[str, pb.ToolEvidence]:
    response = await stub.GetThresholds(service_pb.GetThresholdsRequest())
    return {tool.tool: tool for tool in response.tools}


def counts(tool: pb.ToolEvidence) -> tuple[int, int, int, int]:
    return tool.selected, tool.labelled, tool.waiting, tool.missing


@pytest.mark.usefixtures("use_guaranteed_mode")
async def test_an_answer_is_a_label_and_a_missing_one_is_counted(tmp_path: Path) -> None:
    tools = Tools()
    async with running(tmp_path, tools) as stub:
        await tools_are_known(stub)
        first = await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=SEARCH)))
        assert kinds(first)[-1] == "intervention_requested"
        assert counts((await evidence(stub))["web_search"]) == (1, 0, 1, 0)
        await events(stub.ResumePlan(answer(first[-1], action=pb.INTERVENTION_ACTION_PROCEED)))
        assert counts((await evidence(stub))["web_search"]) == (1, 1, 0, 0)
        second = await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=SEARCH)))
        cancel = service_pb.CancelExecutionRequest(execution_id=second[0].execution_id)
        await stub.CancelExecution(cancel)
        assert counts((await evidence(stub))["web_search"]) == (2, 1, 1, 0)
        late = service_pb.SubmitFeedbackRequest(execution_id=second[0].execution_id, step_id=1, correct=False)
        await stub.SubmitFeedback(late)
        assert counts((await evidence(stub))["web_search"]) == (2, 2, 0, 0)


async def store_labels(folder: Path, labels: Sequence[bool | None], first: int = 0) -> None:
    """Store the audits of as many executions of one step, each labelled correct, wrong or not at all."""
    rows = []
    for number, wrong in enumerate(labels, first):
        execution_id = f"{number:012x}"
        entries = [AuditEntry(0, AuditKind.SELECTED, execution_id, 1, "web_search", 0.97, 1.0, 1.0)]
        if wrong is not None:
            entries.append(AuditEntry(0, AuditKind.LABELLED, execution_id, 1, wrong=wrong))
        entries.append(AuditEntry(0, AuditKind.ENDED, execution_id))
        rows += [{k: v for k, v in asdict(entry).items() if k != "number"} for entry in entries]
    store = SqlExecutionStore(str(folder / "planner.db"))
    await store.database.open()
    await store.database.write(lambda connection: connection.execute(insert(schema.audits), rows))
    await store.database.close()


@pytest.mark.usefixtures("use_guaranteed_mode")
async def test_missing_labels_do_not_stop_the_others(tmp_path: Path) -> None:
    await store_labels(tmp_path, [None if number % 10 == 0 else False for number in range(300)])
    async with running(tmp_path) as stub:
        found = (await evidence(stub))["web_search"]
        assert found.proven_threshold == 0.95
        assert found.audit_rate < 1
        assert counts(found) == (300, 270, 10, 20)


@pytest.mark.usefixtures("use_guaranteed_mode")
async def test_a_threshold_that_later_labels_contradict_is_revoked(tmp_path: Path) -> None:
    await store_labels(tmp_path, [False] * 60)
    async with running(tmp_path) as stub:
        assert (await evidence(stub))["web_search"].proven_threshold == 0.95
    await store_labels(tmp_path, [True] * 15, first=60)
    async with running(tmp_path) as stub:
        found = (await evidence(stub))["web_search"]
        assert not found.HasField("proven_threshold")
        assert (found.revocations, found.audit_rate) == (1, 1.0)
        thresholds = (await stub.GetThresholds(service_pb.GetThresholdsRequest())).thresholds
        assert thresholds.notify > 0.999  # everything is asked again
