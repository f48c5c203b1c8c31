"""Claude Agent SDK with a memory: hooks that add lessons to each prompt and check tool calls.

    memory = ClaudeMemory(AgentMemory(client, "devtools"))
    async for message in query(prompt=task, options=memory.add_hooks(ClaudeAgentOptions())):
        ...
    memory.report(succeeded=True)

Requires the extra `claude-agent-sdk`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hansei.client.adapters.agent_memory import AgentMemory
from hansei.client.extras import import_from_extra
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse

with import_from_extra("claude-agent-sdk", "claude_agent_sdk"):
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher


class ClaudeMemory:
    """The memory of one session of Claude Code."""

    def __init__(self, memory: AgentMemory) -> None:
        self._memory = memory
        self._transcript = ""

    def add_hooks(self, options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        """Return the options with hooks; other hooks stay."""
        hooks = {event: list(matchers) for event, matchers in (options.hooks or {}).items()}
        hooks.setdefault("UserPromptSubmit", []).append(HookMatcher(hooks=[self._add_lessons]))
        hooks.setdefault("PreToolUse", []).append(HookMatcher(hooks=[self._check_call]))
        return replace(options, hooks=hooks)

    def report(self, *, succeeded: bool) -> LearnResponse | None:
        """Report how the session ended, and learn from its transcript.

        Raises FileNotFoundError if the session wrote none.
        """
        if not self._transcript:
            raise FileNotFoundError("the session has no transcript: it got no prompt")
        with Path(self._transcript).open(encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines if line.strip()]
        return self._memory.report(records, succeeded=succeeded)

    async def _add_lessons(self, event: Any, tool_use_id: str | None, context: Any) -> Any:
        self._transcript = event["transcript_path"]
        text = await self._memory.recall_async(event["prompt"])
        if not text:
            return {}
        return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}}

    async def _check_call(self, event: Any, tool_use_id: str | None, context: Any) -> Any:
        """Return an empty reply for an allowed call: "allow" would skip the permission prompt of Claude Code."""
        verdict = await self._memory.check_async(event["tool_name"], event["tool_input"])
        if verdict.is_allowed:
            return {}
        denial = {"permissionDecision": "deny", "permissionDecisionReason": verdict.text}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **denial}}
