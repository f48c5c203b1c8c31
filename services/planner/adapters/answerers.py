"""Answer questions for the generator: with a chat model, or with the offline rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from libs.llm.client import LLMClient
from libs.llm.errors import ReplyNotStructured
from libs.llm.replies import extract_json_object
from libs.llm.usage import UsageTotal, collect_usage
from libs.prompts.templates import PromptTemplates, fill
from services.planner.domain.extraction import extractive_answer
from services.planner.domain.generation import (
    AnswerStyle,
    GeneratedAnswer,
    Question,
    TokenUse,
    cited_context,
    plain_context,
)
from services.planner.prompts.generator import CITED, PLAIN

MAX_ANSWER_CHARS = 1_000_000
"""The limit of a trajectory."""


class ModelAnswerer:
    """Answers with one call of a chat model."""

    def __init__(self, client: LLMClient, name: str, prompts_dir: Path | None, language: str) -> None:
        """Read templates from `<prompts_dir>/generator/<dataset>.txt` and `default.txt` (P-114)."""
        self._client = client
        self._name = name
        self._templates = PromptTemplates(prompts_dir and prompts_dir / "generator", CITED[language])

    @property
    def name(self) -> str:
        """Return the name of the model."""
        return self._name

    async def answer(self, question: Question) -> tuple[GeneratedAnswer, TokenUse | None]:
        """Return the answer of the model. Raises ValueError for a too long one, and the errors of libs.llm."""
        with collect_usage() as usage:
            reply = await self._client.ainvoke(self._messages(question))
        text: str = reply.content
        answer = GeneratedAnswer(text) if question.style is AnswerStyle.PLAIN else _parse_reply(text)
        if len(answer.text) > MAX_ANSWER_CHARS:
            raise ValueError(f"the answer has {len(answer.text)} characters, more than {MAX_ANSWER_CHARS}")
        return answer, _token_use(usage)

    def _messages(self, question: Question) -> list[tuple[str, str]]:
        """Return one human message (C-52), after the instruction as a system message, if there is one (P-122)."""
        messages = [("human", self._prompt(question))]
        return [("system", question.instruction), *messages] if question.instruction else messages

    def _prompt(self, question: Question) -> str:
        if question.style is AnswerStyle.PLAIN:
            return fill(PLAIN, {"context": plain_context(question.bullets), "query": question.query})
        values = {"context": cited_context(question.bullets), "query": question.query}
        return self._templates.fill_first([question.dataset, "default"], values)


def _parse_reply(text: str) -> GeneratedAnswer:
    """Return the answer in a reply; the stripped text itself if it is not `{reasoning, answer}` (P-117)."""
    try:
        reply: dict[str, Any] = extract_json_object(text)
    except ReplyNotStructured:
        reply = {}
    answer, reasoning = reply.get("answer"), reply.get("reasoning")
    if not isinstance(answer, str) or not isinstance(reasoning, str):
        return GeneratedAnswer(text.strip())
    return GeneratedAnswer(answer, tuple(line for line in reasoning.splitlines() if line.strip()))


def _token_use(usage: UsageTotal) -> TokenUse | None:
    if not usage.calls or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return TokenUse(usage.input_tokens, usage.output_tokens, usage.cost_usd)


class OfflineAnswerer:
    """Answers with quotations, by rules, and is named as such."""

    @property
    def name(self) -> str:
        """Return `offline`."""
        return "offline"

    async def answer(self, question: Question) -> tuple[GeneratedAnswer, TokenUse | None]:
        """Return the sentences of the bullets closest to the query; the rules ignore the instruction."""
        return extractive_answer(question.query, question.bullets), None
