"""The built-in tools and the registry (P-25 to P-35, P-39, P-40)."""

import json

import pytest

from services.planner.domain.events import Effect
from services.planner.domain.results import Hit
from services.planner.domain.tools import ToolInput
from services.planner.prompts.steps import build_reasoning_prompt
from services.planner.tests.parts import FixedBackend, ScriptedModel, ScriptedTool, answer
from services.planner.usecases.legacy_agent import MAX_TURNS, LegacyAgentTool
from services.planner.usecases.tools import (
    AskUserTool,
    ExtractiveReasoningTool,
    RAGSearchTool,
    ReasoningTool,
    ToolRegistry,
)

HITS = (Hit(content="空は青い。", source="b1", score=0.9), Hit(content="海も青い。", source="b2", score=0.7))


async def test_an_unknown_tool_is_a_failed_result() -> None:  # P-25
    found = await ToolRegistry([AskUserTool()]).run("sing", ToolInput("q"))
    assert (found.success, found.error) == (False, "Unknown tool: sing")


async def test_search_keeps_what_is_above_the_threshold() -> None:  # P-29, P-30
    low = Hit(content="x", source="b3", score=0.34)
    found = await RAGSearchTool(FixedBackend([*HITS, low])).run(ToolInput("q", collection="c"))
    assert found.hits == HITS
    assert found.confidence_factors == pytest.approx(
        {
            "search_result_count": 2,
            "search_avg_score": 0.8,
            "search_max_score": 0.9,
            "search_score_variance": 0.01,
        }
    )


async def test_a_search_without_hits_is_a_failure() -> None:  # P-31
    found = await RAGSearchTool(FixedBackend()).run(ToolInput("q", collection="c"))
    assert (found.success, found.output, found.error) == (False, (), "No relevant results found in any collection.")


@pytest.mark.parametrize("collections", [["a", "wikipedia_ja"], []])
async def test_a_search_without_collection_searches_all(collections: list[str]) -> None:
    backend = FixedBackend(HITS, collections)
    found = await RAGSearchTool(backend).run(ToolInput("q"))
    assert backend.searched == [("q", name) for name in collections]
    assert found.searched_collections == tuple(collections)
    assert found.success == bool(collections)


async def test_a_search_of_all_survives_the_failure_of_one() -> None:
    class Backend(FixedBackend):
        async def search(self, query: str, collection: str, *limits: float) -> list[Hit]:
            if collection.startswith("broken"):
                raise ConnectionError("down")
            return [Hit(content=collection, source=collection, score=0.5 + 0.1 * len(collection))]

    found = await RAGSearchTool(Backend(collections=["a", "broken", "cc"])).run(ToolInput("q"))
    assert ([hit.source for hit in found.hits], found.searched_collections) == (["cc", "a"], ("a", "cc"))
    with pytest.raises(ConnectionError):
        await RAGSearchTool(Backend(collections=["broken"])).run(ToolInput("q"))


async def test_the_prompt_of_reasoning_has_facts_and_rules() -> None:  # P-32, P-33
    model = ScriptedModel("青い [b1]", tokens=7)
    tool_input = ToolInput(
        "なぜ？", sources=(Hit(content="x" * 2_000, source="b1"),), context=(("ユーザー入力", "赤"),), language="ja"
    )
    found = await ReasoningTool(model).run(tool_input)
    system, prompt = model.prompts[0]
    for rule in ("与えられた事実だけ", "最初に結論", "出典", "丁寧", "創作しない"):
        assert rule in system
    assert "x" * 1_000 in prompt
    assert "x" * 1_001 not in prompt
    assert "ユーザー入力: 赤" in prompt
    assert found.confidence_factors == {"has_sources": 1, "source_count": 1, "answer_length": 7, "token_usage": 7}


@pytest.mark.parametrize("reply", ["", " \n　"])
async def test_a_blank_answer_is_a_failure(reply: str) -> None:  # P-33
    found = await ReasoningTool(ScriptedModel(reply)).run(ToolInput("q"))
    assert (found.success, found.error) == (False, "Empty answer")


async def test_offline_reasoning_quotes_and_marks_it() -> None:
    found = await ExtractiveReasoningTool().run(ToolInput("海も何色？", sources=HITS, language="ja"))
    assert found.text == "（オフライン: 資料からの抜粋）海も青い。 [b2] 空は青い。 [b1]"
    assert not (await ExtractiveReasoningTool().run(ToolInput("q"))).success


def test_the_prompt_contains_texts_unchanged() -> None:  # P-135
    prompt = build_reasoning_prompt(ToolInput("{q}", sources=(Hit(content="{query} $HOME", source="s"),)))
    assert "{query} $HOME" in prompt
    assert prompt.endswith("{q}")


async def test_ask_user_phrases_a_question() -> None:  # P-34
    found = await AskUserTool().run(ToolInput("何色？"))
    assert found.success
    assert found.output == {
        "question": "何色？",
        "reason": "",
        "urgency": "blocking",
        "options": [],
        "awaiting_response": True,
    }


async def test_the_legacy_agent_uses_tools_and_answers() -> None:  # P-35
    search = ScriptedTool({"空": answer("空は青い")}, name="rag_search")
    model = ScriptedModel('{"tool":"rag_search","query":"空"}', '{"answer":"青いです\\nSource: b1"}', tokens=3)
    found = await LegacyAgentTool(model, ToolRegistry([search])).run(ToolInput("空は何色？", language="ja"))
    assert (found.output, found.confidence_factors, found.token_usage) == (
        "青いです\nSource: b1",
        {"confidence": 0.8},
        6,
    )
    assert "観察: 空は青い" in model.prompts[1][1]


async def test_the_usage_of_an_agent_has_that_of_its_tools_and_of_turns_before_an_error() -> None:  # P-35
    search = ScriptedTool({"空": answer("空は青い", token_usage=100, cost_micro_usd=7)}, name="rag_search")
    for last, error in (('{"answer":"青い"}', None), (RuntimeError("away"), "RuntimeError: away")):
        model = ScriptedModel('{"tool":"rag_search","query":"空"}', last, tokens=3)
        found = await LegacyAgentTool(model, ToolRegistry([search])).run(ToolInput("空は何色？"))
        assert (found.error, found.token_usage, found.cost_micro_usd) == (error, 103 if error else 106, 7)


@pytest.mark.parametrize("text", ["申し訳ありません", "何も見つかりません", "わかりません"])
async def test_an_agent_that_gives_up_has_low_confidence(text: str) -> None:  # P-35
    model = ScriptedModel(json.dumps({"answer": text}))
    found = await LegacyAgentTool(model, ToolRegistry([])).run(ToolInput("q"))
    assert found.confidence_factors == {"confidence": 0.3}


async def test_an_agent_that_never_answers_stops() -> None:  # P-35
    model = ScriptedModel('{"tool":"nothing","query":"q"}')
    found = await LegacyAgentTool(model, ToolRegistry([])).run(ToolInput("q"))
    assert (found.success, len(model.prompts)) == (False, MAX_TURNS)


async def test_an_agent_does_not_call_itself_and_survives_a_reply_that_is_no_json() -> None:
    registry = ToolRegistry([])
    model = ScriptedModel('{"tool":"run_legacy_agent","query":"q"}', "no json", '{"answer":"done"}')
    agent = LegacyAgentTool(model, registry)
    registry.add(agent)
    assert (await agent.run(ToolInput("q"))).output == "done"
    assert len(model.prompts) == 3
    assert "run_legacy_agent" not in model.prompts[0][0]
    assert "Unknown tool: run_legacy_agent" in model.prompts[1][1]


async def test_an_agent_is_not_given_tools_with_effects() -> None:
    unsafe = ScriptedTool(name="code_execute", effect=Effect.UNSAFE)
    model = ScriptedModel('{"tool":"code_execute","query":"rm"}', '{"answer":"no"}')
    await LegacyAgentTool(model, ToolRegistry([unsafe])).run(ToolInput("q"))
    assert unsafe.calls == []
