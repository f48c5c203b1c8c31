"""Answer questions for the generator: with a chat model, or with the offline rules."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, field_validator

from libs.llm.client import LLMClient
from libs.llm.structured_output import parse_structured
from libs.prompts.language import LanguageSetting, choose_language
from libs.prompts.templates import PromptTemplates, fill
from services.planner.domain.extraction import extract_answer
from services.planner.domain.generation import (
    AnswerStyle,
    GeneratedAnswer,
    Question,
    format_cited_context,
    format_plain_context,
)
from services.planner.prompts.texts import PROMPTS

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

    def __init__(self, client: LLMClient, name: str, prompts_dir: Path | None, language: LanguageSetting) -> None:
        """Read templates from `<prompts_dir>/generator/<dataset>.txt` and `default.txt` (P-114)."""
        self._client = client
        self._name = name
        self._folder = prompts_dir and prompts_dir / "generator"
        self._language: LanguageSetting = language

    @property
    def name(self) -> str:
        """Return the name of the model."""
        return self._name

    async def answer(self, question: Question) -> GeneratedAnswer:
        """Return the answer of the model. Raises ValueError for a too long one, and the errors of libs.llm."""
        messages = self._build_messages(question)
        if question.style is AnswerStyle.PLAIN:
            answer = GeneratedAnswer((await self._client.ainvoke(messages)).content)
        else:
            reply = await self._client.ainvoke_structured(
                messages, AnswerReply, describe_schema=False, parse=_parse_reply
            )
            answer = GeneratedAnswer(reply.answer, reply.reasoning_steps)
        if len(answer.text) > MAX_ANSWER_CHARS:
            raise ValueError(f"the answer has {len(answer.text)} characters, more than {MAX_ANSWER_CHARS}")
        return answer

    def _build_messages(self, question: Question) -> list[tuple[str, str]]:
        """Return one human message (C-52), after the instruction as a system message, if there is one (P-122)."""
        messages = [("human", self._build_prompt(question))]
        return [("system", question.instruction), *messages] if question.instruction else messages

    def _build_prompt(self, question: Question) -> str:
        texts = PROMPTS[choose_language(self._language, question.query)]
        if question.style is AnswerStyle.PLAIN:
            return fill(texts.plain, {"context": format_plain_context(question.bullets), "query": question.query})
        values = {"context": format_cited_context(question.bullets) or texts.empty_knowledge, "query": question.query}
        return PromptTemplates(self._folder, texts.generator).fill_first([question.dataset, "default"], values)


def _parse_reply(text: str, shape: type[AnswerReply]) -> AnswerReply:
    """Return the answer in a reply; a text that is no JSON is the answer itself (P-117). Raise ReplyNotStructured."""
    if _LOOKS_LIKE_JSON.search(text):
        return parse_structured(text, shape)
    return shape(answer=text.strip())


class OfflineAnswerer:
    """Answers with quotations, by rules, and is named as such."""

    def __init__(self, language: LanguageSetting = "auto") -> None:
        self._language: LanguageSetting = language

    @property
    def name(self) -> str:
        """Return `offline`."""
        return "offline"

    async def answer(self, question: Question) -> GeneratedAnswer:
        """Return the sentences of the bullets closest to the query; the rules ignore the instruction."""
        return extract_answer(question.query, question.bullets, self._language)
