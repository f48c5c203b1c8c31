"""CrewAI with a memory: lessons in the first message of each model call, tools whose calls are checked.

    memory = CrewMemory(AgentMemory(client, "devtools"))
    agent = Agent(role=role, goal=goal, backstory=backstory, tools=memory.guard_tools(tools))
    with memory:
        output = Crew(agents=[agent], tasks=[Task(description=task, agent=agent, expected_output=form)]).kickoff()
    memory.report(output, succeeded=True)

Requires the extra `crewai`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from hansei.client.adapters.agent_memory import AgentMemory
from hansei.client.adapters.chat_messages import ChatTranscript
from hansei.client.extras import import_from_extra
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse

with import_from_extra("crewai", "crewai"):
    from crewai import CrewOutput
    from crewai.hooks import LLMCallHookContext, register_before_llm_call_hook, unregister_before_llm_call_hook
    from crewai.tools import BaseTool


class CrewMemory:
    """The memory of one run of a crew. It records tool calls, because the messages of a crew have them as text only."""

    def __init__(self, memory: AgentMemory) -> None:
        self._memory = memory
        self._calls = ChatTranscript()

    def __enter__(self) -> Self:
        """Add lessons to the model calls of this process until the block ends; hooks of CrewAI are global."""
        register_before_llm_call_hook(self._add_lessons)
        return self

    def __exit__(self, *exception: object) -> None:
        unregister_before_llm_call_hook(self._add_lessons)

    def guard_tools(self, tools: Sequence[BaseTool]) -> list[BaseTool]:
        """Return copies of the tools; a call that the memory refuses is answered with the lesson."""
        return [self._guard(tool) for tool in tools]

    def report(self, output: CrewOutput, *, succeeded: bool) -> LearnResponse | None:
        """Report the outcome of a task, and learn from its tasks, its tool calls and its answer."""
        transcript = ChatTranscript()
        for task in output.tasks_output:
            transcript.add_text("user", task.description)
        transcript.messages += self._calls.messages
        transcript.add_text("assistant", output.raw)
        return self._memory.report({"messages": transcript.messages}, succeeded=succeeded)

    def _add_lessons(self, context: LLMCallHookContext) -> None:
        text = self._memory.recall(context.task.description if context.task else "")
        first = context.messages[0] if context.messages else None
        if text and first is not None and text not in str(first["content"]):
            first["content"] = f"{first['content']}\n\n{text}"

    def _guard(self, tool: BaseTool) -> BaseTool:
        guarded = tool.model_copy()
        run = tool._run  # CrewAI calls this method; `run` is for other callers.

        def checked_run(*values: Any, **arguments: Any) -> Any:
            named = {**dict(zip(tool.args_schema.model_fields, values, strict=False)), **arguments}
            return self._calls.run_tool(self._memory, tool.name, named, lambda: run(*values, **arguments))

        object.__setattr__(guarded, "_run", checked_run)
        return guarded
