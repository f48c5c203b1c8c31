"""The prompts of steps: reasoning, the legacy agent, and the evaluation of their results."""

from __future__ import annotations

from collections.abc import Sequence

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
    sources = [
        f"[{i}] ({hit.source}) {hit.content[:SOURCE_CHARS]}" for i, hit in enumerate(tool_input.sources, start=1)
    ]
    context = [f"{label}: {text}" for label, text in tool_input.context]
    values = {
        "sources": "\n".join(sources) or texts.nothing,
        "context": "\n".join(context) or texts.nothing,
        "query": tool_input.query,
    }
    return fill(texts.step_input, values)


def answer_to_judge(query: str, answer: str, language: Language) -> str:
    """Return the prompt with a question and its answer, for an evaluation (P-69)."""
    return fill(PROMPTS[language].answer_to_judge, {"query": query, "answer": answer})
