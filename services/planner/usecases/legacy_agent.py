"""run_legacy_agent: a reason-and-act loop over the registered tools (P-35)."""

from __future__ import annotations

import json

from libs.llm.errors import ReplyNotStructured
from libs.llm.replies import extract_json_object
from services.planner.domain.events import Effect
from services.planner.domain.plans import Action
from services.planner.domain.results import ToolResult, failed_call
from services.planner.domain.tools import ToolInput
from services.planner.prompts.steps import agent_rules
from services.planner.usecases.ports import CompletionModel
from services.planner.usecases.tools import ToolRegistry

MAX_TURNS = 10
MAX_QUESTIONS = 3
_REFUSALS = ("申し訳", "見つかりません", "わかりません")
_OBSERVATION_CHARS = 2_000


class LegacyAgentTool:
    """Lets a model choose tools until it answers."""

    name = "run_legacy_agent"
    effect = Effect.PURE

    def __init__(self, model: CompletionModel, registry: ToolRegistry) -> None:
        self._model = model
        self._registry = registry

    async def run(self, tool_input: ToolInput) -> ToolResult:
        """Return the answer of the agent with confidence 0.8, or 0.3 if the agent gives up (P-35).

        If the agent chooses `ask_user`, return its question; the executor asks it and calls the agent again with the
        answer in the context of the call.
        """
        tools = sorted(
            name for name, tool in self._registry.tools.items() if tool.effect is Effect.PURE and name != self.name
        )
        if len(tool_input.context) >= MAX_QUESTIONS and Action.ASK_USER in tools:
            tools.remove(Action.ASK_USER)
        system = agent_rules(tools)
        transcript = [f"質問: {tool_input.query}", *(f"{label}: {text}" for label, text in tool_input.context)]
        tokens = cost = 0
        for _ in range(MAX_TURNS):
            reply = await self._model.complete(system, "\n".join(transcript))
            tokens, cost = tokens + reply.tokens, cost + reply.cost_micro_usd
            try:
                choice = extract_json_object(reply.text)
            except ReplyNotStructured as error:
                transcript += [reply.text[:_OBSERVATION_CHARS], _observation(failed_call(str(error)))]
                continue
            if isinstance(answer := choice.get("answer"), str):
                return _result(answer, tokens, cost)
            name, query = str(choice.get("tool", "")), str(choice.get("query", ""))
            if name in tools:
                result = await self._registry.run(name, ToolInput(query, prefix=tool_input.prefix))
                if result.question is not None:
                    return result.model_copy(update={"token_usage": tokens, "cost_micro_usd": cost})
            else:
                result = failed_call(f"Unknown tool: {name}")
            transcript += [json.dumps(choice, ensure_ascii=False)[:_OBSERVATION_CHARS], _observation(result)]
        return ToolResult(
            success=False, error=f"no answer after {MAX_TURNS} turns", token_usage=tokens, cost_micro_usd=cost
        )


def _observation(result: ToolResult) -> str:
    text = result.text or "\n".join(f"({hit.source}) {hit.content}" for hit in result.hits) or result.error or ""
    return f"観察: {text[:_OBSERVATION_CHARS]}"


def _result(answer: str, tokens: int, cost: int) -> ToolResult:
    is_answer = bool(answer.strip()) and not any(word in answer for word in _REFUSALS)
    return ToolResult(
        success=bool(answer.strip()),
        output=answer or None,
        confidence_factors={"confidence": 0.8 if is_answer else 0.3},
        error=None if answer.strip() else "Empty answer",
        token_usage=tokens,
        cost_micro_usd=cost,
    )
