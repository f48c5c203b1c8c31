from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from libs.llm.client import LLMClient
from libs.llm.errors import ModelUnavailable
from services.planner.adapters.answerers import MAX_ANSWER_CHARS, ModelAnswerer
from services.planner.domain.generation import (
    AnswerStatus,
    AnswerStyle,
    GenerationOutcome,
    Question,
    RetrievedBullet,
    format_cited_context,
    list_cited_ids,
)
from services.planner.usecases.generate import GeneratorAgent

NOW = datetime(2025, 1, 1, tzinfo=UTC)
BULLETS = (
    RetrievedBullet("shr-00001", "strategies_and_hard_rules", "Log in first."),
    RetrievedBullet("aup-00002", "api_usage_patterns", "Page with {page_index}."),
)


class ScriptedModel:
    """A chat model that answers from a list and records its prompts."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.prompts: list[Any] = []

    async def ainvoke(self, messages: Any, /, **options: Any) -> Any:
        self.prompts.append(messages)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return AIMessage(content=reply)

    def invoke(self, messages: Any, /, **options: Any) -> Any:
        raise AssertionError("services do not block")


def generator_of(model: ScriptedModel, prompts_dir: Path | None = None, language: Any = "ja") -> GeneratorAgent:
    return GeneratorAgent(ModelAnswerer(LLMClient(model), "m", prompts_dir, language), clock=lambda: NOW)


async def outcome_of(reply: Any, question: Question) -> GenerationOutcome:
    return await generator_of(ScriptedModel(reply)).generate(question)


async def prompt_of(question: Question, prompts_dir: Path | None = None, language: Any = "ja") -> Any:
    model = ScriptedModel("ok")
    await generator_of(model, prompts_dir, language).generate(question)
    (messages,) = model.prompts
    return messages


async def test_a_generation_has_the_fields_of_a_trajectory() -> None:
    reply = '{"reasoning": "a\\n\\n  b \\n", "answer": "Use [aup-00002], then [shr-00001], [aup-00002] and [other]."}'
    assert await outcome_of(reply, Question("Q", "appworld", BULLETS)) == GenerationOutcome(
        query="Q",
        dataset="appworld",
        generated_answer="Use [aup-00002], then [shr-00001], [aup-00002] and [other].",
        reasoning_steps=("a", "  b "),  # P-117
        used_bullet_ids=("shr-00001", "aup-00002"),  # P-119
        cited_bullet_ids=("aup-00002", "shr-00001"),  # P-120
        status=AnswerStatus.SUCCESS,
        error_message=None,
        created_at=NOW,
        model="m",
    )


def test_context_entries_carry_id_and_section() -> None:
    assert format_cited_context(BULLETS) == (  # P-115
        "[shr-00001] [strategies_and_hard_rules] Log in first.\n\n"
        "[aup-00002] [api_usage_patterns] Page with {page_index}."
    )


@pytest.mark.parametrize(
    ("setting", "query", "expected"),
    [
        ("auto", "何？", "(知識ベースは空です)"),
        ("auto", "What?", "(The knowledge base is empty)"),
        ("ja", "What?", "(知識ベースは空です)"),
    ],
)
async def test_an_empty_context_is_stated_in_the_prompt(setting: Any, query: str, expected: str) -> None:  # P-115
    ((_, prompt),) = await prompt_of(Question(query, "d"), None, setting)
    assert expected in prompt


async def test_the_datasets_template_comes_first_then_default_then_the_built_in_one(tmp_path: Path) -> None:
    folder = tmp_path / "generator"
    folder.mkdir()
    question = Question("Q {query} {x}", "appworld", BULLETS[:1])
    entry = "[shr-00001] [strategies_and_hard_rules] Log in first."
    built_in = await prompt_of(question, tmp_path)
    (folder / "default.txt").write_text("default {context} | {query} {{}}", encoding="utf-8")
    assert await prompt_of(question, tmp_path) == [("human", f"default {entry} | Q {{query}} {{x}} {{}}")]  # P-114
    (folder / "appworld.txt").write_text("質問 {query}", encoding="utf-8")
    assert await prompt_of(question, tmp_path) == [("human", "質問 Q {query} {x}")]  # P-114
    (folder / "appworld.txt").write_text('{"stray"}', encoding="utf-8")
    assert (await prompt_of(question, tmp_path))[0][1].startswith("default ")  # C-48
    (folder / "default.txt").write_text("{unknown}", encoding="utf-8")
    assert await prompt_of(question, tmp_path) == built_in  # C-48


@pytest.mark.parametrize("language", ["ja", "en"])
async def test_the_built_in_prompt_asks_for_json_and_citations(language: str) -> None:
    ((role, prompt),) = await prompt_of(Question("質問 {q}?", "d", BULLETS), None, language)
    assert role == "human"  # C-52
    for part in (
        format_cited_context(BULLETS),
        "質問 {q}?",
        '"reasoning":',
        '"answer":',
        "[ID]" if language == "ja" else "[id]",
    ):
        assert part in prompt  # P-116
    assert "{{" not in prompt


@given(st.text(min_size=1), st.text(min_size=1), st.sampled_from(AnswerStyle))
async def test_braces_in_query_and_bullets_reach_the_model_unchanged(
    query: str, content: str, style: AnswerStyle
) -> None:
    ((_, prompt),) = await prompt_of(Question(query, "d", (RetrievedBullet("b", "s", content),), style))
    assert query in prompt  # G-67
    assert content in prompt  # G-67


async def test_the_plain_prompt_is_exact_and_its_answer_unchanged() -> None:
    bullets = (RetrievedBullet("a", "s", "X"), RetrievedBullet("b", "s", "Y {z}"))
    question = Question("Q", "d", bullets, AnswerStyle.PLAIN)
    assert await prompt_of(question) == [("human", "Context:\nX\nY {z}\n\nQuery: Q\n\nAnswer:")]  # P-118, G-35
    outcome = await outcome_of(' {"reasoning": "r", "answer": "x"} [b]\n', question)
    assert outcome.generated_answer == ' {"reasoning": "r", "answer": "x"} [b]\n'  # P-118
    assert (outcome.reasoning_steps, outcome.used_bullet_ids, outcome.cited_bullet_ids) == ((), ("a", "b"), ("b",))
    empty = Question("Q", "d", (), AnswerStyle.PLAIN)
    assert await prompt_of(empty) == [("human", "Context:\n\n\nQuery: Q\n\nAnswer:")]  # G-36


@pytest.mark.parametrize("style", AnswerStyle)
async def test_an_instruction_is_the_system_message_and_nowhere_else(style: AnswerStyle) -> None:
    without = await prompt_of(Question("Q", "d", BULLETS, style))
    messages = await prompt_of(Question("Q", "d", BULLETS, style, instruction="Be {brief}"))
    assert messages == [("system", "Be {brief}"), *without]  # P-122
    assert [role for role, _ in without] == ["human"]


@pytest.mark.parametrize(
    ("reply", "answer", "steps"),
    [
        ('```json\n{"reasoning": "r", "answer": "a"}\n```', "a", ("r",)),
        ('Here: {"reasoning": "", "answer": " a "} bye', " a ", ()),
        ("  just text \n", "just text", ()),
        ('{"answer": 7, "reasoning": "r"}', "7", ("r",)),
        ('[{"answer": "a"}]', "a", ()),
        ("", "", ()),
    ],
)
async def test_a_reply_is_repaired_or_is_itself_the_answer(reply: str, answer: str, steps: tuple[str, ...]) -> None:
    outcome = await outcome_of(reply, Question("Q", "d"))
    assert (outcome.generated_answer, outcome.reasoning_steps) == (answer, steps)  # P-117
    assert (outcome.status, outcome.error_message) == (AnswerStatus.SUCCESS, None)  # P-121


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ModelUnavailable("model m answered HTTP 500"), "ModelUnavailable: model m answered HTTP 500"),
        (ValueError("odd"), "ValueError: odd"),
        (RuntimeError(), "RuntimeError: "),
    ],
)
@pytest.mark.parametrize("style", AnswerStyle)
async def test_any_exception_becomes_a_failed_trajectory(error: Exception, message: str, style: AnswerStyle) -> None:
    outcome = await outcome_of(error, Question("Q", "d", BULLETS, style))
    assert (outcome.status, outcome.generated_answer, outcome.error_message) == (AnswerStatus.FAILURE, "", message)
    assert outcome.used_bullet_ids == ("shr-00001", "aup-00002")  # P-121
    assert outcome.cited_bullet_ids == ()


async def test_a_dataset_with_an_invalid_name_becomes_a_failed_trajectory() -> None:
    outcome = await outcome_of("never", Question("Q", "../secret"))
    assert outcome.error_message == "InvalidArgument: Invalid dataset name: '../secret'"  # P-121, C-82


async def test_an_answer_that_no_trajectory_can_hold_is_a_failure() -> None:
    outcome = await outcome_of("x" * (MAX_ANSWER_CHARS + 1), Question("Q", "d"))
    assert outcome.error_message == "ValueError: the answer has 1000001 characters, more than 1000000"


ids = st.sampled_from(["a", "b", "ab", "a]", "[b", ""])


@given(st.lists(ids), st.lists(ids.map("[{}]".format) | st.text(alphabet="ab[] ")).map("".join))
def test_cited_ids_are_served_ids_in_the_order_of_the_answer(ids: list[str], answer: str) -> None:
    cited = list_cited_ids(answer, [RetrievedBullet(bullet_id, "", "") for bullet_id in ids])
    positions = [answer.index(f"[{bullet_id}]") for bullet_id in cited]  # P-120
    assert positions == sorted(positions)
    assert len(set(cited)) == len(cited)
    assert set(cited) == {bullet_id for bullet_id in ids if f"[{bullet_id}]" in answer}
