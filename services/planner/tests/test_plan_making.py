"""Plans are made by the model or by the template (P-14 to P-24)."""

import json
from typing import Any

import pytest

from services.planner.domain.errors import EmptyQuery
from services.planner.domain.plans import ExecutionPlan
from services.planner.prompts.planning import planning_rules
from services.planner.tests.parts import FixedBackend, ScriptedModel, agent_plan, agent_step
from services.planner.usecases.plan import Planner

HARD = "AとBの違いを比較して詳しく教えて"
GOOD = {
    "original_query": "forged",
    "complexity": 0.01,
    "plan_id": "ffffffffffff",
    "requires_confirmation": True,
    "steps": [
        {"step_id": 1, "action": "rag_search", "description": "d", "query": "A B", "collection": "wikipedia_ja"},
        {"step_id": 2, "action": "reasoning", "description": "d", "depends_on": [1]},
    ],
}


class BrokenBackend(FixedBackend):
    async def list_collections(self, prefix: str = "") -> Any:
        raise ConnectionError("down")


async def test_a_simple_query_gets_the_template_without_a_model_call() -> None:  # P-15
    model = ScriptedModel("never")
    made = await Planner(FixedBackend(), model).create_plan("Pythonとは何ですか")
    assert (made.from_template, made.template_reason, made.plan.complexity) == (True, "", 0.3)
    assert model.prompts == []


async def test_the_gate_is_strict() -> None:  # P-15: 0.4 is not below 0.4
    model = ScriptedModel(json.dumps(GOOD))
    made = await Planner(FixedBackend(), model).create_plan("なぜ空は青い？")
    assert not made.from_template
    assert len(model.prompts) == 1


async def test_an_accepted_plan_has_the_users_query_and_our_numbers() -> None:  # P-06, P-17
    made = await Planner(FixedBackend(), ScriptedModel(f"Here:\n```json\n{json.dumps(GOOD)}\n```")).create_plan(HARD)
    assert (made.plan.original_query, made.plan.complexity) == (HARD, 0.75)
    assert made.plan.plan_id != "ffffffffffff"
    assert made.plan.requires_confirmation


async def test_the_model_gets_the_rules_and_the_schema() -> None:  # P-16, P-18, P-23
    model = ScriptedModel(json.dumps(GOOD))
    await Planner(FixedBackend(collections=["a", "wikipedia_ja"]), model).create_plan(HARD, "use fewer words")
    system, prompt = model.prompts[0]
    assert json.dumps(ExecutionPlan.model_json_schema(), ensure_ascii=False) in system
    assert "a, wikipedia_ja" in system
    rules = [line for line in system.splitlines() if line.startswith("- ")]
    for rule in (
        "2 から 5",
        "depends_on は自分より前",
        "最後のステップは reasoning",
        "fallback を検討",
        "空白で区切る",
    ):
        assert any(rule in line for line in rules), rule
    assert prompt == f"# 質問\n{HARD}\n# ヒント\nuse fewer words"


async def test_unknown_collections_have_names_all_the_same() -> None:  # P-18
    model = ScriptedModel(json.dumps(GOOD))
    await Planner(BrokenBackend(), model).create_plan(HARD)
    assert "wikipedia_ja, livedoor, cc_news, japanese_text" in model.prompts[0][0]
    assert "wikipedia_ja を使う" not in planning_rules(["a"])


BAD = [
    RuntimeError("down"),
    "no json",
    json.dumps({**GOOD, "steps": []}),
    json.dumps({**GOOD, "steps": [{**GOOD["steps"][0], "action": "sing"}]}),  # type: ignore[index]
    json.dumps({**GOOD, "steps": [GOOD["steps"][0], GOOD["steps"][0]]}),  # type: ignore[index]
    json.dumps({**GOOD, "steps": [{**GOOD["steps"][1], "depends_on": [7]}]}),  # type: ignore[index]
    json.dumps({**GOOD, "steps": [{**GOOD["steps"][0], "step_id": i} for i in range(1, 22)]}),  # type: ignore[index]
]


@pytest.mark.parametrize("reply", BAD)
async def test_whatever_the_model_does_there_is_a_plan(reply: Any) -> None:  # P-05, P-19, P-20
    made = await Planner(FixedBackend(), ScriptedModel(reply)).create_plan(HARD)
    assert made.from_template
    assert made.template_reason
    assert made.plan.complexity == 0.5
    assert [step.query for step in made.plan.steps] == [HARD, HARD]  # P-138


@pytest.mark.parametrize("query", ["", " ", "　\n"])
async def test_an_empty_query_is_refused(query: str) -> None:  # P-24
    with pytest.raises(ValueError, match=r"^query cannot be empty$"):
        await Planner(FixedBackend()).create_plan(query)
    with pytest.raises(EmptyQuery):
        await Planner(FixedBackend()).create_plan(query)


@pytest.mark.parametrize(
    ("reply", "expected"), [("0.9", 0.9), ("7", 1.0), ("-1", 0.0), ("nan", 0.4), ("high", 0.4), (OSError("x"), 0.4)]
)
async def test_the_model_may_estimate_the_complexity(reply: Any, expected: float) -> None:  # P-14
    planner = Planner(FixedBackend(), estimator=ScriptedModel(reply))
    assert await planner.estimate_complexity("なぜ空は青い？") == expected


async def test_offline_every_plan_is_the_template_and_says_so() -> None:
    made = await Planner(FixedBackend(collections=["notes"])).create_plan(HARD)
    assert (made.from_template, made.template_reason) == (True, "offline: no model is configured")
    assert made.plan.steps[0].collection == "notes"  # P-21


async def test_a_plan_is_refined_or_stays_the_same() -> None:  # P-22, P-109
    plan = agent_plan(agent_step(1))
    model = ScriptedModel(json.dumps(GOOD))
    made = await Planner(FixedBackend(), model).refine_plan(plan, "more")
    assert (made.plan.plan_id, len(made.plan.steps)) == (plan.plan_id, 2)
    assert "フィードバック: more" in model.prompts[0][1]
    for broken in (ScriptedModel("no json"), None):
        assert (await Planner(FixedBackend(), broken).refine_plan(plan, "more")).plan == plan


async def test_no_gate_means_that_the_model_is_asked() -> None:  # P-101
    model = ScriptedModel(json.dumps(GOOD))
    await Planner(FixedBackend(), model).create_plan("Pythonとは何ですか", gate=False)
    assert len(model.prompts) == 1
