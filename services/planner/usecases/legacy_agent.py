"""run_legacy_agent: a reason-and-act loop over the registered tools (P-35)."""

from __future__ import annotations

import json
from dataclasses import replace

from libs.llm.errors import ReplyNotStructured
from libs.llm.replies import extract_json_object
from libs.prompts.templates import fill
from services.planner.domain.events import Effect
from services.planner.domain.plans import Action
from services.planner.domain.results import ToolResult, build_failed_result
from services.planner.domain.texts import TEXTS, contains_words
from services.planner.domain.tools import ToolInput
from services.planner.prompts.steps import format_agent_rules
from services.planner.prompts.texts import PROMPTS, PlannerPrompts
from services.planner.usecases.calls import describe_tool_error
from services.planner.usecases.guarded_calls import GuardedToolCalls
from services.planner.usecases.ports import CompletionModel
from services.planner.usecases.tools import ToolRegistry

MAX_TURNS = 10
MAX_QUESTIONS = 3
_OBSERVATION_CHARS = 2_000


class LegacyAgentTool:
    """Lets a model choose tools until it answers."""

    name = "run_legacy_agent"
    effect = Effect.PURE
    description = ""

    def __init__(self, model: CompletionModel, registry: ToolRegistry, calls: GuardedToolCalls | None = None) -> None:
        self._model = model
        self._registry = registry
        self._calls = calls or GuardedToolCalls()

    async def run(self, tool_input: ToolInput) -> ToolResult:
        """Return the answer of the agent with confidence 0.8, or 0.3 if the agent gives up (P-35).

        If the agent chooses `ask_user`, return its question; the executor asks it and calls the agent again with the
        answer in the context of the call. Guards check each of its calls: a lesson that advises takes the place of the
        first result of a call, and a call that waits for a person ends the turn until the person has decided.
        """
        tools = self._registry.agent_tools
        answers = [text for label, text in tool_input.context if label == TEXTS[tool_input.language].user_input]
        if len(answers) >= MAX_QUESTIONS and Action.ASK_USER in tools:
            tools.remove(Action.ASK_USER)
        texts, language = PROMPTS[tool_input.language], tool_input.language
        system = format_agent_rules(self._registry.describe(tools, language), language)
        question = fill(texts.agent_question, {"query": tool_input.query})
        transcript = [question, *(f"{label}: {text}" for label, text in tool_input.context)]
        tokens = cost = 0
        advised: set[str] = set()
        advice: tuple[str, ...] = ()

        def finish(result: ToolResult) -> ToolResult:
            """Return the result of the agent with the usage of all its calls."""
            return result.model_copy(update={"token_usage": tokens, "cost_micro_usd": cost, "advice": advice})

        for turn in range(MAX_TURNS):
            try:
                reply = await self._model.complete(system, "\n".join(transcript))
            except Exception as error:  # the calls before it count
                return finish(describe_tool_error(error))
            tokens, cost = tokens + reply.tokens, cost + reply.cost_micro_usd
            try:
                choice = extract_json_object(reply.text)
            except ReplyNotStructured as error:
                transcript += [
                    reply.text[:_OBSERVATION_CHARS],
                    _format_observation(build_failed_result(str(error)), texts),
                ]
                continue
            if isinstance(answer := choice.get("answer"), str):
                return finish(_build_result(answer))
            name, query = str(choice.get("tool", "")), str(choice.get("query", ""))
            tool = self._registry.get(name) if name in tools else None
            if tool is not None:
                key = f"{tool_input.key}:{turn}"
                call = replace(tool_input, query=query, key=key, sources=(), context=())
                result = await self._calls.run(tool, call, advised)
                tokens, cost = tokens + result.token_usage, cost + result.cost_micro_usd
                advice += result.advice
                if result.question is not None or result.held_call is not None:
                    return finish(result)
            else:
                result = build_failed_result(f"Unknown tool: {name}")
            transcript += [
                json.dumps(choice, ensure_ascii=False)[:_OBSERVATION_CHARS],
                _format_observation(result, texts),
            ]
        return finish(build_failed_result(f"no answer after {MAX_TURNS} turns"))


def _format_observation(result: ToolResult, texts: PlannerPrompts) -> str:
    text = result.text or "\n".join(f"({hit.source}) {hit.content}" for hit in result.hits) or result.error or ""
    return fill(texts.observation, {"text": text[:_OBSERVATION_CHARS]})


def _build_result(answer: str) -> ToolResult:
    is_answer = bool(answer.strip()) and not contains_words(answer, "refusals")
    return ToolResult(
        success=bool(answer.strip()),
        output=answer or None,
        confidence_factors={"confidence": 0.8 if is_answer else 0.3},
        error=None if answer.strip() else "Empty answer",
    )
