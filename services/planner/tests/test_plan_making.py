"""Plans are made by the model or by the template (P-14 to P-24)."""

import json
from typing import Any

import pytest

from services.planner.domain.errors import EmptyQuery, InvalidPlan
from services.planner.domain.execution import ExecutionState
from services.planner.domain.plan_rules import PlanRules
from services.planner.domain.plans import Action, ExecutionPlan
from services.planner.domain.replanning import ReplanManager, ReplanTrigger
from services.planner.domain.tools import ToolInput, build_tool_input
from services.planner.prompts.planning import format_planning_rules
from services.planner.tests.parts import FixedBackend, ScriptedModel, ScriptedTool, agent_plan, agent_step
from services.planner.usecases.legacy_agent import LegacyAgentTool
from services.planner.usecases.plan import Planner
from services.planner.usecases.replan import ReplanOrchestrator
from services.planner.usecases.tools import AskUserTool, ExtractiveReasoningTool, RAGSearchTool, ToolRegistry
from tests.support.wrong_inputs import find_python_form

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


async def test_the_model_gets_the_rules_the_tools_and_the_schema() -> None:  # P-16, P-18, P-23
    model = ScriptedModel(json.dumps(GOOD))
    await Planner(FixedBackend(collections=["a", "wikipedia_ja"]), model).create_plan(HARD, "use fewer words")
    system, prompt = model.prompts[0]
    assert "a, wikipedia_ja" in system
    rules = [line for line in system.splitlines() if line.startswith("- ")]
    for rule in (
        "2 から 5",
        "depends_on は、結果を使うステップの step_id。自分より前",
        "最後のステップは reasoning",
        "最初の検索は wikipedia_ja を使う",
        "fallback を検討",
        "空白で区切る",
    ):
        assert any(rule in line for line in rules), rule
    assert prompt == f"# 質問\n{HARD}\n# ヒント\nuse fewer words"


def actions_in_schema(system: str) -> list[str]:
    schema = next(json.loads(line) for line in system.splitlines() if line.startswith('{"type": "object"'))
    actions: list[str] = schema["properties"]["steps"]["items"]["properties"]["action"]["enum"]
    return actions


async def test_the_prompt_lists_the_available_tools() -> None:  # P-16, P-25, P-26
    model, backend = ScriptedModel(json.dumps(GOOD)), FixedBackend()
    search = ScriptedTool(name="web_search", description="Find\npages. query: search words")
    tools = ToolRegistry([RAGSearchTool(backend), ExtractiveReasoningTool(), AskUserTool()])
    planner = Planner(backend, model, tools=tools)
    await planner.create_plan("Why is A slower than B? Compare them.")
    for tool in (search, ScriptedTool(), ScriptedTool(name="files.read", description="Read a file.")):
        tools.add(tool)
    await planner.create_plan("Why is A slower than B? Compare them.")
    before, after = (system for system, _ in model.prompts)
    assert actions_in_schema(before) == ["ask_user", "rag_search", "reasoning"]
    assert "web_search" not in before
    assert actions_in_schema(after) == ["ask_user", "rag_search", "reasoning", "run_legacy_agent", "web_search"]
    assert "- web_search: Find pages. query: search words" in after.splitlines()
    assert "  Tools that this agent uses: files.read" in after.splitlines()


def test_the_schema_has_only_what_the_model_chooses() -> None:  # P-16, P-17
    for language in ("ja", "en"):
        system = format_planning_rules(PlanRules(frozenset(["rag_search", "reasoning"]), ["a"], language=language), [])
        assert "P-" not in system
        assert not {"original_query", "complexity", "plan_id", "created_at", "estimated_steps"} & set(system.split('"'))
        example = ExecutionPlan(
            **json.loads(system.splitlines()[-1]), original_query="q", complexity=0.5
        )  # the one example is a plan
        assert [step.action for step in example.steps] == ["rag_search", "rag_search", "reasoning"]


async def test_unknown_collections_have_names_all_the_same() -> None:  # P-18
    model = ScriptedModel(json.dumps(GOOD))
    await Planner(BrokenBackend(), model).create_plan(HARD)
    assert "wikipedia_ja, livedoor, cc_news, japanese_text" in model.prompts[0][0]
    assert "wikipedia_ja を使う" not in format_planning_rules(PlanRules(frozenset(["reasoning"]), ["a"]), [])


STEPS: Any = GOOD["steps"]
SEARCH, ANSWER = STEPS


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([{**SEARCH, "collection": "nowhere"}, ANSWER], [("rag_search", None, ()), ("reasoning", None, (1,))]),
        (
            [{**SEARCH, "action": "web_search", "fallback": "rag_search"}, ANSWER],
            [("rag_search", "wikipedia_ja", ()), ("reasoning", None, (1,))],
        ),
        (
            [{**SEARCH, "action": "sing", "fallback": "ask_user"}, {**ANSWER, "collection": "x"}],
            [("ask_user", None, ()), ("reasoning", None, (1,))],
        ),
        (
            [{**SEARCH, "fallback": "code_execute"}, ANSWER],
            [("rag_search", "wikipedia_ja", ()), ("reasoning", None, (1,))],
        ),
        ([SEARCH], [("rag_search", "wikipedia_ja", ()), ("reasoning", None, (1,))]),
        ([SEARCH, {**ANSWER, "depends_on": []}], [("rag_search", "wikipedia_ja", ()), ("reasoning", None, (1,))]),
    ],
)
async def test_a_plan_that_cannot_run_is_repaired(steps: list[Any], expected: list[Any]) -> None:  # P-16
    made = await Planner(FixedBackend(), ScriptedModel(json.dumps({"steps": steps}))).create_plan(HARD)
    assert not made.from_template, made.template_reason
    assert [(step.action, step.collection, step.depends_on) for step in made.plan.steps] == expected
    assert all(step.fallback is None for step in made.plan.steps)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([{**SEARCH, "action": "web_search"}, ANSWER], "there is no tool for the action web_search"),
        ([ANSWER | {"depends_on": []}], "the plan has 1 steps; 2 to 5 are allowed"),
        ([SEARCH | {"step_id": i} for i in range(1, 6)], "the plan has 6 steps; 2 to 5 are allowed"),
        ([SEARCH, ANSWER | {"step_id": 1_000_001}], "InvalidPlan: steps[1].step_id: 1000001 must be at most 1000000"),
        (
            [SEARCH | {"step_id": 1_000_000}],
            "InvalidPlan: the plan needs a reasoning step after step 1000000, and 1000000 is the highest step_id",
        ),
        ([], "InvalidPlan: steps: a list must have 1 or more items, not 0"),
    ],
)
async def test_a_plan_beyond_repair_is_refused_when_it_is_made(steps: list[Any], reason: str) -> None:  # P-16, P-19
    made = await Planner(FixedBackend(), ScriptedModel(json.dumps({"steps": steps}))).create_plan("Compare, in detail.")
    assert made.from_template
    assert reason in made.template_reason
    assert find_python_form(made.template_reason) == ""


async def test_a_query_that_is_an_object_becomes_its_text() -> None:
    steps = [{**SEARCH, "query": {"words": "空"}}, ANSWER]
    made = await Planner(FixedBackend(), ScriptedModel(json.dumps({"steps": steps}))).create_plan(HARD)
    assert (made.from_template, made.plan.steps[0].query) == (False, '{"words": "空"}')


async def test_searches_stay_in_the_collection_of_the_caller() -> None:
    model = ScriptedModel(json.dumps({"steps": [{**SEARCH, "collection": None}, ANSWER]}))
    made = await Planner(FixedBackend(collections=["a", "b"]), model).create_plan(HARD, collection="b")
    assert [step.collection for step in made.plan.steps] == ["b", None]


async def test_a_refined_plan_searches_the_collection_of_its_plan() -> None:
    model = ScriptedModel(json.dumps({"collection": "a", "steps": [{**SEARCH, "collection": "a"}, ANSWER]}))
    planner = Planner(FixedBackend(collections=["a", "b"]), model)
    made = await planner.create_plan(HARD, collection="b")
    refined = await planner.refine_plan(made.plan, "search a instead")
    for plan in (made.plan, refined.plan):
        assert (plan.collection, plan.steps[0].collection) == ("b", "b")


@pytest.mark.parametrize("trigger", [ReplanTrigger.STEP_FAILED, ReplanTrigger.NEW_INFORMATION])
async def test_a_replan_searches_the_collection_of_its_plan(trigger: ReplanTrigger) -> None:
    searches = [{**SEARCH, "collection": "a", "query": query} for query in ("words", "other words")]
    replies = [json.dumps({"steps": [search, ANSWER]}) for search in searches]
    planner = Planner(FixedBackend(collections=["a", "b"]), ScriptedModel(*replies))
    made = await planner.create_plan(HARD, collection="b")
    replanned = await ReplanOrchestrator(planner, ReplanManager()).replan(ExecutionState(made.plan), trigger, 1, "x")
    plan = replanned.result.new_plan
    assert plan is not None, replanned.result.reason
    assert (plan.collection, plan.steps[0].collection) == ("b", "b")


async def test_an_agent_searches_the_collection_of_its_plan() -> None:
    agent = agent_step(1)
    for collection, expected in (("b", "b"), ("", None)):
        state = ExecutionState(agent_plan(agent, collection=collection))
        assert build_tool_input(state, agent, Action.RUN_LEGACY_AGENT, "k").collection == expected
    backend = FixedBackend(collections=["a", "b"])
    registry = ToolRegistry([RAGSearchTool(backend)])
    model = ScriptedModel('{"tool": "rag_search", "query": "sky"}', '{"answer": "blue"}')
    await LegacyAgentTool(model, registry).run(ToolInput("What?", collection="b"))
    assert backend.searched == [("sky", "b")]


async def test_the_rest_of_a_plan_may_use_results_that_are_kept() -> None:  # P-101, P-102
    rest = [{"step_id": 3, "action": "reasoning", "description": "d", "depends_on": [1, 2]}]
    planner = Planner(FixedBackend(), ScriptedModel(json.dumps({"steps": rest})))
    made = await planner.create_plan(HARD, gate=False, kept_ids=[1, 2])
    assert not made.from_template, made.template_reason
    assert [(step.step_id, step.depends_on) for step in made.plan.steps] == [(3, ())]


async def test_a_plan_of_a_caller_is_checked() -> None:  # P-144
    planner = Planner(FixedBackend(collections=["notes"]))
    search = agent_step(1, action="rag_search", collection="note", fallback="web_search")
    with pytest.raises(InvalidPlan) as caught:
        await planner.check_plan(agent_plan(search, original_query="What?"))
    assert [violation.description for violation in caught.value.violations] == [
        "Step 1: there is no tool for the action web_search; the present ones: ask_user, rag_search, reasoning",
        "Step 1: there is no dataset or collection note; similar names: notes",
    ]
    plan = agent_plan(search.model_copy(update={"collection": "notes", "fallback": None}))
    assert await planner.check_plan(plan) == plan
    assert await Planner(BrokenBackend()).check_plan(plan) == plan  # the collections are unknown


async def test_english_users_read_english_and_japanese_users_japanese() -> None:
    model = ScriptedModel("no json")
    for query, word in (("Compare A with B, in detail.", "Answer from the results"), (HARD, "検索結果をもとに")):
        made = await Planner(FixedBackend(), model).create_plan(query)
        assert made.plan.steps[1].description.startswith(word)
    english, japanese = (system for system, _ in model.prompts)
    assert english.isascii()
    assert not japanese.isascii()
    fixed = Planner(FixedBackend(), model, language="ja")
    assert (await fixed.create_plan("Why?")).plan.steps[1].description.startswith("検索結果")


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
async def test_any_reply_of_the_model_leads_to_a_plan(reply: Any) -> None:  # P-05, P-19, P-20
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


async def test_offline_every_plan_is_the_template_and_marked_as_such() -> None:
    made = await Planner(FixedBackend(collections=["notes"])).create_plan(HARD)
    assert (made.from_template, made.template_reason) == (True, "offline: no model is configured")
    assert made.plan.steps[0].collection == "notes"  # P-21


async def test_a_plan_is_refined_or_stays_the_same() -> None:  # P-22, P-109
    plan = agent_plan(agent_step(1))
    model = ScriptedModel(json.dumps(GOOD))
    made = await Planner(FixedBackend(), model).refine_plan(plan, "more")
    assert (made.plan.plan_id, len(made.plan.steps)) == (plan.plan_id, 2)
    assert "Feedback: more" in model.prompts[0][1]
    for broken in (ScriptedModel("no json"), None):
        assert (await Planner(FixedBackend(), broken).refine_plan(plan, "more")).plan == plan


async def test_without_a_gate_the_model_makes_every_plan() -> None:  # P-101
    model = ScriptedModel(json.dumps(GOOD))
    await Planner(FixedBackend(), model).create_plan("Pythonとは何ですか", gate=False)
    assert len(model.prompts) == 1
