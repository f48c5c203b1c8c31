"""Answer questions for the generator: with a chat model, or with the offline rules."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, field_validator

from libs.llm.client import LLMClient
from libs.llm.structured_output import parse_structured
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

_LOOKS_LIKE_JSON = re.compile(r'^\s*(```\w*\s*)?\{|```json|"answer"\s*:')


class AnswerReply(BaseModel):
    """The reply of the model in style `cited` (P-116); a list of lines counts as text."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    reasoning: str = ""
    answer: str

    @field_validator("reasoning", "answer", mode="before")
    @classmethod
    def _join_lines(cls, value: object) -> object:
        if isinstance(value, list) and all(isinstance(line, str) for line in value):
            return "\n".join(value)
        return value

    @property
    def reasoning_steps(self) -> tuple[str, ...]:
        """Return the lines of the reasoning that are not blank."""
        return tuple(line for line in self.reasoning.splitlines() if line.strip())


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
        messages = self._messages(question)
        with collect_usage() as usage:
            if question.style is AnswerStyle.PLAIN:
                answer = GeneratedAnswer((await self._client.ainvoke(messages)).content)
            else:
                reply = await self._client.ainvoke_structured(
                    messages, AnswerReply, describe_schema=False, parse=_parse_reply
                )
                answer = GeneratedAnswer(reply.answer, reply.reasoning_steps)
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


def _parse_reply(text: str, shape: type[AnswerReply]) -> AnswerReply:
    """Return the answer in a reply; a text that is no JSON is the answer itself (P-117). Raise ReplyNotStructured."""
    if _LOOKS_LIKE_JSON.search(text):
        return parse_structured(text, shape)
    return shape(answer=text.strip())


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
