"""The built-in tools and the registry of all tools (P-25 to P-34)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence

from chassis.errors import shorten
from chassis.logging import get_logger
from libs.prompts.language import Language
from libs.prompts.templates import fill
from services.planner.domain.confidence import compute_search_factors
from services.planner.domain.events import Effect
from services.planner.domain.plans import ANSWERS, Action
from services.planner.domain.results import Hit, ToolResult, build_failed_result
from services.planner.domain.texts import TEXTS
from services.planner.domain.tools import ToolInput
from services.planner.prompts.steps import SOURCE_CHARS, build_reasoning_prompt
from services.planner.prompts.texts import PROMPTS
from services.planner.usecases.ports import CompletionModel, SearchBackend, Tool

_log = get_logger(__name__)

_CONCURRENT_SEARCHES = 8
_DESCRIPTION_CHARS = 1_000

NO_RESULTS = "No relevant results found in any collection."
EMPTY_ANSWER = "Empty answer"


class ToolRegistry:
    """The tools that steps may use, by name (P-25)."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def add(self, tool: Tool) -> None:
        """Register a tool; it replaces another of the same name."""
        self._tools[tool.name] = tool

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name, None if none is registered."""
        return self._tools.get(name)

    @property
    def agent_tools(self) -> list[str]:
        """Return the names of the tools that `run_legacy_agent` may use: those without effects that do not answer."""
        return sorted(name for name, tool in self._tools.items() if tool.effect is Effect.PURE and name not in ANSWERS)

    def describe(self, names: Sequence[str], language: Language) -> list[str]:
        """Return a line for models on each of these tools; the agent also has one on its own tools."""
        texts, lines = PROMPTS[language], []
        for name in names:
            text = self._tools[name].description or texts.tools.get(name, "")
            lines.append(f"- {name}: {shorten(' '.join(text.split()), _DESCRIPTION_CHARS)}")
            others = [other for other in self.agent_tools if other not in names]
            if name == Action.RUN_LEGACY_AGENT and others:
                lines.append(fill(texts.agent_only, {"tools": ", ".join(others)}))
        return lines

    async def run(self, name: str, tool_input: ToolInput) -> ToolResult:
        """Run a tool by name; an unknown name is a failed result, not an error."""
        tool = self._tools.get(name)
        return build_failed_result(f"Unknown tool: {name}") if tool is None else await tool.run(tool_input)


class RAGSearchTool:
    """Searches one collection, or all of them if the step names none (P-27 to P-31)."""

    name = "rag_search"
    effect = Effect.PURE
    description = ""

    def __init__(
        self,
        backend: SearchBackend,
        *,
        search_limit: int = 5,
        score_threshold: float = 0.35,
    ) -> None:
        self._backend = backend
        self._limit = search_limit
        self._threshold = score_threshold

    async def run(self, tool_input: ToolInput) -> ToolResult:
        """Return the hits at or above the threshold; none is a failure, never a success (P-31, P-134)."""
        collection = tool_input.collection
        names = [collection] if collection else await list_collections_within(self._backend, tool_input.prefix)
        searched, found = await self._search_all(tool_input.query, names)
        ranked = sorted(found, key=lambda hit: -hit.score) if len(names) > 1 else found
        hits = tuple(hit for hit in ranked if hit.score >= self._threshold)[: self._limit]
        return ToolResult(
            success=bool(hits),
            output=hits,
            confidence_factors=compute_search_factors([hit.score for hit in hits]),
            error=None if hits else NO_RESULTS,
            searched_collections=tuple(searched),
        )

    async def _search_all(self, query: str, names: list[str]) -> tuple[list[str], list[Hit]]:
        """Return the collections that were searched, and their hits. Raises the first error if all searches fail."""
        slots = asyncio.Semaphore(_CONCURRENT_SEARCHES)

        async def search(name: str) -> list[Hit]:
            async with slots:
                return list(await self._backend.search(query, name, self._limit, self._threshold))

        replies = await asyncio.gather(*map(search, names), return_exceptions=True)
        errors = [reply for reply in replies if isinstance(reply, BaseException)]
        if errors and len(errors) == len(replies):
            raise errors[0]
        searched, hits = [], []
        for name, reply in zip(names, replies, strict=True):
            if isinstance(reply, BaseException):
                _log.warning("collection could not be searched", collection=name, error=shorten(str(reply)))
            else:
                searched.append(name)
                hits.extend(reply)
        return searched, hits


class ReasoningTool:
    """Answers a question from sources with a model (P-32, P-33)."""

    name = "reasoning"
    effect = Effect.PURE
    description = ""

    def __init__(self, model: CompletionModel) -> None:
        self._model = model

    async def run(self, tool_input: ToolInput) -> ToolResult:
        """Return the answer of the model; a blank one is a failure."""
        reply = await self._model.complete(PROMPTS[tool_input.language].reasoning, build_reasoning_prompt(tool_input))
        return _build_result(tool_input, reply.text, reply.tokens, reply.cost_micro_usd)


def _build_result(tool_input: ToolInput, text: str, tokens: int = 0, cost_micro_usd: int = 0) -> ToolResult:
    has_text = bool(text.strip())
    return ToolResult(
        success=has_text,
        output=text if has_text else None,
        confidence_factors={
            "has_sources": float(bool(tool_input.sources)),
            "source_count": float(len(tool_input.sources)),
            "answer_length": float(len(text)),
            "token_usage": float(tokens),
        },
        error=None if has_text else EMPTY_ANSWER,
        token_usage=tokens,
        cost_micro_usd=cost_micro_usd,
    )


class ExtractiveReasoningTool:
    """Answers by quotations: the reasoning of the offline mode, which adds nothing and is marked as such."""

    name = "reasoning"
    effect = Effect.PURE
    description = ""
    _SENTENCE = re.compile(r"[^。．.!?！？\n]+[。．.!?！？]?")
    _QUOTED_SENTENCES = 3

    async def run(self, tool_input: ToolInput) -> ToolResult:
        """Return the sentences most similar to the question, each with its source; without any, a failure."""
        query_bigrams = _split_bigrams(tool_input.query)
        texts = [(hit.source, hit.content[:SOURCE_CHARS]) for hit in tool_input.sources] + list(tool_input.context)
        ranked = sorted(
            (
                (-len(query_bigrams & _split_bigrams(sentence)), position, sentence.strip(), source)
                for position, (source, text) in enumerate(texts)
                for sentence in self._SENTENCE.findall(text)
                if sentence.strip()
            ),
        )
        quoted = [f"{sentence} [{source}]" for _, _, sentence, source in ranked[: self._QUOTED_SENTENCES]]
        extract = TEXTS[tool_input.language].extract.format(sentences=" ".join(quoted))
        return _build_result(tool_input, extract if quoted else "")


def _split_bigrams(text: str) -> set[str]:
    folded = text.casefold()
    return {folded[i : i + 2] for i in range(len(folded) - 1) if not folded[i : i + 2].isspace()}


class AskUserTool:
    """Phrases a question to a person; the executor asks it (P-34)."""

    name = "ask_user"
    effect = Effect.PURE
    description = ""

    async def run(self, tool_input: ToolInput) -> ToolResult:
        """Return the question; always a success."""
        output = {
            "question": tool_input.query,
            "reason": "",
            "urgency": "blocking",
            "options": [],
            "awaiting_response": True,
        }
        return ToolResult(success=True, output=output)


async def list_collections_within(backend: SearchBackend, prefix: str) -> list[str]:
    """Return the collections whose names begin with this prefix. Raises the errors of the backend.

    A backend without tenants takes no prefix (P-27), and one of an earlier release ignores it.
    """
    names = await (backend.list_collections(prefix) if prefix else backend.list_collections())
    return [name for name in names if name.startswith(prefix)]
