"""The prompts of steps: reasoning, the legacy agent, and the evaluation of their results."""

from __future__ import annotations

from collections.abc import Sequence

from libs.prompts.fences import PROCESS_KEY, fence
from libs.prompts.language import Language
from libs.prompts.templates import fill
from services.planner.domain.tools import ToolInput
from services.planner.prompts.texts import PROMPTS

SOURCE_CHARS = 1_000


def format_agent_rules(tools: Sequence[str], language: Language) -> str:
    """Return the system prompt of `run_legacy_agent` with the lines that describe its tools (P-35)."""
    return fill(PROMPTS[language].agent, {"tools": "\n".join(tools)})


def build_reasoning_prompt(tool_input: ToolInput) -> str:
    """Return the prompt of a reasoning step: facts, context, then the question (P-32)."""
    texts = PROMPTS[tool_input.language]
    values = {
        "sources": _list_sources(tool_input) or texts.nothing,
        "context": _list_context(tool_input) or texts.nothing,
        "query": tool_input.query,
    }
    return fill(texts.step_input, values)


def build_judge_prompt(tool_input: ToolInput, expected: str, output: str, key: bytes = PROCESS_KEY) -> str:
    """Return the prompt that asks for a judgement of a step: its own query, expectation, sources and output (P-69)."""
    nothing = PROMPTS[tool_input.language].nothing
    sources = "\n".join(filter(None, (_list_sources(tool_input), _list_context(tool_input))))
    parts = {"asked": tool_input.query, "expected": expected, "sources": sources, "output": output}
    return "\n".join(fence(tag, text or nothing, key) for tag, text in parts.items())


def _list_sources(tool_input: ToolInput) -> str:
    return "\n".join(
        f"[{i}] ({hit.source}) {hit.content[:SOURCE_CHARS]}" for i, hit in enumerate(tool_input.sources, start=1)
    )


def _list_context(tool_input: ToolInput) -> str:
    return "\n".join(f"{label}: {text}" for label, text in tool_input.context)
