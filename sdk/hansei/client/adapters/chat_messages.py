"""Chat messages in OpenAI's form, for frameworks without a format of their own that the reflector reads."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chassis.json_texts import format_as_text
from hansei.client.recording import describe_error, format_error

if TYPE_CHECKING:
    from hansei.client.adapters.agent_memory import AgentMemory


class ChatTranscript:
    """The messages of one task in their order, `messages`, as a document for `AgentMemory.report` has them."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._tools: dict[str, str] = {}

    def add_text(self, role: str, text: str | None) -> None:
        """Add a message of a person or of the agent, unless it is empty."""
        if text:
            self.messages.append({"role": role, "content": text})

    def add_call(self, call_id: str | None, tool: str | None, arguments: object) -> None:
        """Add a tool call of the agent; `arguments` are JSON, or a value that is encoded."""
        call_id = call_id or ""
        self._tools[call_id] = tool or ""
        function = {"name": self._tools[call_id], "arguments": format_as_text(arguments)}
        self.messages.append({"role": "assistant", "tool_calls": [{"id": call_id, "function": function}]})

    def add_result(self, call_id: str | None, result: object, error: object = None) -> None:
        """Add the result of a tool call, or the error with which it ended."""
        call_id = call_id or ""
        if error is None:
            content = format_as_text(result)
        else:
            content = format_error(describe_error(error) if isinstance(error, BaseException) else format_as_text(error))
        name = self._tools.get(call_id, "")
        self.messages.append({"role": "tool", "tool_call_id": call_id, "name": name, "content": content})

    def run_tool(
        self, memory: AgentMemory, tool: str, arguments: Mapping[str, Any], run: Callable[[], object]
    ) -> object:
        """Run a tool if the memory allows the call, and add the call with its result: of a refused one, the lesson."""
        call_id = str(uuid.uuid4())
        self.add_call(call_id, tool, arguments)
        try:
            verdict = memory.check(tool, arguments)
            result = run() if verdict.is_allowed else verdict.refusal
        except Exception as error:
            self.add_result(call_id, None, error)
            raise
        self.add_result(call_id, result)
        return result
