"""A plan with a prefix reads only names with this prefix: created, run, answered, replaced and resumed (ADR 070)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from libs.storage.idempotency import IdempotencyKey
from services.planner.domain.errors import InvalidPlan
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.domain.plans import ExecutionPlan, create_plan_id, parse_prefix, prepare_plan
from services.planner.domain.results import Hit, OverallStatus
from services.planner.domain.tools import ToolInput
from services.planner.tests.parts import (
    FixedBackend,
    ScriptedModel,
    ScriptedTool,
    agent_plan,
    agent_step,
    answer,
    executor,
    failure,
)
from services.planner.tests.replicas import question, replica, until_quiet
from services.planner.usecases.calls import call_tool
from services.planner.usecases.legacy_agent import LegacyAgentTool
from services.planner.usecases.plan import Planner
from services.planner.usecases.ports import ExecutionFilter
from services.planner.usecases.tools import RAGSearchTool, ToolRegistry

ACME = "acme--"
HARD = "AとBの違いを比較して詳しく教えて"
NAMES = ["wikipedia_ja", "evil--a", "acme--b", "acme--c", "acme", "acme-", "Acme--d"]


class SharedBackend(FixedBackend):
    """The collections of all tenants, in a service of an earlier release that ignores the prefix."""

    def __init__(self, names: Any = tuple(NAMES)) -> None:
        super().__init__([Hit(id="1", content="c", source="s", score=0.9)], names)
        self.prefixes_asked: list[str] = []

    async def list_collections(self, prefix: str = "") -> Any:
        self.prefixes_asked.append(prefix)
        return self.collections


def looking(collection: str | None, plan_id: str | None = None) -> ExecutionPlan:
    step = agent_step(1, action="rag_search", collection=collection)
    return agent_plan(step, agent_step(2, 1), plan_id=plan_id)


def reply(*collections: str | None) -> str:
    steps = [
        {"step_id": i, "action": "rag_search", "description": "d", "query": f"s{i}", "collection": item}
        for i, item in enumerate(collections, start=1)
    ]
    return json.dumps({"steps": steps, "plan_id": "evil--000000000000"})


@given(st.from_regex(r"\A([A-Za-z0-9_-]{0,127}-)?\Z"))
def test_for_all_prefixes_an_id_contains_its_prefix(prefix: str) -> None:
    plan_id = create_plan_id(prefix)
    assert re.fullmatch(r"[0-9a-f]{12}", plan_id.removeprefix(prefix))  # P-06
    assert (parse_prefix(plan_id), prepare_plan(agent_plan(agent_step(1), plan_id=plan_id)).prefix) == (prefix, prefix)


@pytest.mark.parametrize("plan_id", ["acme0a1b2c3d4e5f", "acme--0a1b", "a b-0a1b2c3d4e5f", "-" * 129 + "0a1b2c3d4e5f"])
def test_an_id_has_a_hyphen_between_its_prefix_and_itself(plan_id: str) -> None:
    with pytest.raises(ValidationError):
        agent_plan(agent_step(1), plan_id=plan_id)


async def test_a_plan_searches_only_names_with_its_prefix() -> None:  # P-18, P-20, P-21
    backend = SharedBackend()
    made = await Planner(backend).create_plan(HARD, prefix=ACME)
    assert (made.plan.prefix, made.plan.steps[0].collection, backend.prefixes_asked) == (ACME, None, [ACME])
    for names, expected in (([], None), (["evil--a"], None), (["acme--z", "acme--wikipedia_ja"], "acme--wikipedia_ja")):
        made = await Planner(SharedBackend(names)).create_plan(HARD, prefix=ACME)
        assert made.plan.steps[0].collection == expected


async def test_the_prompt_names_only_permitted_collections() -> None:  # P-16
    model = ScriptedModel(reply("acme--b"))
    made = await Planner(SharedBackend(), model).create_plan(HARD, prefix=ACME)
    refined = await Planner(SharedBackend(), model).refine_plan(made.plan, "more")
    assert [parse_prefix(item.plan.plan_id or "") for item in (made, refined)] == [ACME, ACME]
    assert made.plan.plan_id != "evil--000000000000"
    for system, prompt in model.prompts:
        assert "acme--b, acme--c" in system
        assert "evil" not in system + prompt

    class BrokenBackend(SharedBackend):
        async def list_collections(self, prefix: str = "") -> Any:
            raise ConnectionError("down")

    unknown = ScriptedModel(reply("acme--b"))
    await Planner(BrokenBackend(), unknown).create_plan(HARD, prefix=ACME)
    assert "acme--wikipedia_ja, acme--livedoor" in unknown.prompts[0][0]


@pytest.mark.parametrize("foreign", ["evil--a", "wikipedia_ja", "acme", "acme-", "Acme--d", " acme--b", "e--acme--b"])
async def test_a_collection_of_another_prefix_in_the_reply_is_ignored(foreign: str) -> None:  # P-19, P-22
    model = ScriptedModel(reply("acme--b", foreign))
    made = await Planner(SharedBackend(), model).create_plan(HARD, prefix=ACME)
    assert [step.collection for step in made.plan.steps] == ["acme--b", None, None]  # None: all datasets of the prefix
    refined = await Planner(SharedBackend(), model).refine_plan(looking("acme--b", create_plan_id(ACME)), "more")
    assert [step.collection for step in refined.plan.steps] == ["acme--b", None, None]


@pytest.mark.parametrize(
    ("collection", "plan_id"),
    [("evil--a", None), ("evil--a", "acme--0a1b2c3d4e5f"), ("acme--b", "evil--0a1b2c3d4e5f"), (None, "0a1b2c3d4e5f")],
)
def test_a_plan_of_another_prefix_does_not_start(collection: Any, plan_id: Any) -> None:
    with pytest.raises(InvalidPlan, match="does not begin with 'acme--'"):
        prepare_plan(looking(collection, plan_id), ACME)


def test_the_id_limits_a_plan_without_a_prefix_in_the_request() -> None:
    with pytest.raises(InvalidPlan):
        prepare_plan(looking("evil--a", "acme--0a1b2c3d4e5f"))
    assert prepare_plan(looking("acme--team-b", "acme--team-0a1b2c3d4e5f"), ACME).prefix == "acme--team-"


async def test_a_step_without_a_collection_searches_all_permitted_ones() -> None:
    backend = SharedBackend()
    plan = looking(None, create_plan_id(ACME))
    result = await executor(RAGSearchTool(backend), ScriptedTool()).execute_plan(plan)
    assert (result.overall_status, backend.searched) == (
        OverallStatus.SUCCESS,
        [("s1", "acme--b"), ("s1", "acme--c")],
    )


async def test_no_tool_is_called_for_a_collection_of_another_prefix() -> None:
    tool = ScriptedTool(name="rag_search")
    for prefix, collection, called in ((ACME, "evil--a", 0), (ACME, "acme--b", 1), ("", "evil--a", 2), (ACME, None, 3)):
        result = await call_tool(tool, ToolInput("q", collection=collection, prefix=prefix))
        assert (result.success, len(tool.calls)) == (bool(called), called)


async def test_an_agent_in_a_step_searches_only_names_with_the_prefix() -> None:  # P-35
    backend = SharedBackend()
    model = ScriptedModel('{"tool": "rag_search", "query": "x"}', '{"answer": "done"}')
    agent = LegacyAgentTool(model, ToolRegistry([RAGSearchTool(backend)]))
    await executor(agent).execute_plan(agent_plan(agent_step(1), plan_id=create_plan_id(ACME)))
    assert backend.searched == [("x", "acme--b"), ("x", "acme--c")]


async def test_a_replan_keeps_to_the_prefix() -> None:  # P-101, P-109
    backend = SharedBackend()
    for second in ("evil--a", "acme--c"):
        model = ScriptedModel(reply(second))
        planner = Planner(backend, model)
        failing = ScriptedTool({"s1": failure()})
        made = executor(RAGSearchTool(backend), failing, planner=planner)
        plan = agent_plan(agent_step(1), plan_id=create_plan_id(ACME))
        await made.execute_plan(plan)
        assert "acme--b, acme--c" in model.prompts[0][0]
    assert {collection for _, collection in backend.searched} <= {"acme--b", "acme--c"}
    assert ("s1", "acme--c") in backend.searched


async def test_a_resumed_execution_keeps_to_the_prefix(tmp_path: Path) -> None:
    """The next planner over the database knows nothing but the log."""
    plan = agent_plan(agent_step(1), plan_id=create_plan_id(ACME))
    asking = ScriptedTool({"s1": answer("one", 0.5)})
    async with replica(tmp_path / "p.db", executor(asking)) as executions:
        execution_id = await executions.start(plan, None, None)
        await until_quiet(executions, execution_id)
    backend, model = SharedBackend(), ScriptedModel(reply("acme--c"))
    made = executor(asking, RAGSearchTool(backend), planner=Planner(backend, model))
    async with replica(tmp_path / "p.db", made) as executions:
        bound = await question(executions, execution_id)
        modify = InterventionResponse(action=InterventionAction.MODIFY, modified_plan=looking("evil--a"))
        with pytest.raises(InvalidPlan, match="does not begin with 'acme--'"):
            await executions.answer(execution_id, modify, *bound, None)
        plan_change = InterventionResponse(action=InterventionAction.MODIFY, user_input="別の方法で")
        await executions.answer(execution_id, plan_change, *bound, None)
        state = await until_quiet(executions, execution_id)
    assert "acme--b, acme--c" in model.prompts[0][0]
    assert state.plan.prefix == ACME
    assert backend.searched
    assert {collection for _, collection in backend.searched} == {"acme--c"}


async def test_executions_are_listed_by_the_prefix_of_their_ids(tmp_path: Path) -> None:
    prefixes = ["", "acme--", "acme--team-", "Acme--", "acme_-", "evil--"]
    ids = {prefix: create_plan_id(prefix) for prefix in prefixes}
    async with replica(tmp_path / "p.db", executor(ScriptedTool())) as executions:
        for plan_id in ids.values():
            await executions.start(agent_plan(agent_step(1), plan_id=plan_id), None, None)

        async def list_ids(prefix: str) -> set[str]:
            return {
                item.execution_id for item in await executions.store.list_executions(ExecutionFilter(prefix=prefix))
            }

        assert await list_ids("acme--") == {ids["acme--"], ids["acme--team-"]}
        assert await list_ids("evil--") == {ids["evil--"]}
        assert await list_ids("") == set(ids.values())
        assert await list_ids("acme--z-") == set()


async def test_each_prefix_has_request_ids_of_its_own(tmp_path: Path) -> None:
    """Otherwise the answer to an id that another has used would tell that it was."""
    tool = ScriptedTool()
    async with replica(tmp_path / "p.db", executor(tool)) as executions:
        for prefix in ("", "acme--", "evil--", "evil--"):
            plan = agent_plan(agent_step(1), plan_id=f"{prefix}0a1b2c3d4e5f")
            request = IdempotencyKey("6d1f", "Method", prefix.encode(), prefix)
            await until_quiet(executions, await executions.start(plan, None, request))
        assert len(await executions.store.list_executions(ExecutionFilter())) == 3
    assert len(tool.calls) == 3
