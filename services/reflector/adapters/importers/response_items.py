"""Reads items of OpenAI's Responses API: messages, reasoning, calls and their outputs.

Source of the format: the Responses API reference, https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from services.reflector.adapters.importers.json_records import Record, build_model, join_content, to_json_text
from services.reflector.adapters.importers.step_collector import StepCollector, mark_as_error
from services.reflector.domain.trajectory import Role, ToolCall

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "developer": "system", "system": "system"}
_CALL, _OUTPUT = "_call", "_call_output"
_TERMINAL = re.compile(
    r"(?:Chunk ID: .*\n|Exit code: (-?\d+)\n)?Wall time: .*\n"
    r"(?:Process (?:exited with code (-?\d+)|running with .*)\n)?(?:.*\n)??Output:\n"
)
"""The head that Codex writes before the output of a command, with its exit code."""
_FAILURES = ("An error occurred while running the tool.", "apply_patch verification failed")
"""The beginnings of results that the Agents SDK and Codex give a model in place of an error."""


def is_item(value: object) -> bool:
    """Return whether a JSON value is an item other than a message, which other formats have as well."""
    kind = value.get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and (kind == "reasoning" or kind.endswith((_CALL, _OUTPUT)))


class ItemSteps:
    """Collects the steps of items.

    `failed` has the reasons for which calls failed, by call id. Messages that begin with a text of `left_out` are no
    steps.
    """

    def __init__(self, root: str, failed: Mapping[str, str], left_out: tuple[str, ...] = ()) -> None:
        self.collector = StepCollector(root)
        self._failed = failed
        self._left_out = left_out
        self._thought = ""

    def add(self, item: Record) -> None:
        """Append the step of an item, if it is one. Raise MalformedTrajectory naming item and field."""
        kind = item.get_text("type") or ("message" if item.has("role") else "")
        if kind == "message":
            self._add_message(item)
        elif kind == "reasoning":
            summary = "\n\n".join(part.get_text("text") for part in item.list_records("summary"))
            self._thought = "\n\n".join(part for part in (self._thought, summary) if part)
        elif kind.endswith(_OUTPUT):
            self._add_output(item)
        elif kind.endswith(_CALL):
            self.collector.add(
                item.location, "assistant", "", thought=self._take_thought(), calls=[_read_call(kind, item)]
            )

    def _add_message(self, item: Record) -> None:
        role, text = item.get_choice("role", _ROLES), join_content(item)
        if self._left_out and text.lstrip().startswith(self._left_out):
            return
        thought = self._take_thought() if role == "assistant" else ""
        self.collector.add(item.location, role, text, thought=thought)

    def _add_output(self, item: Record) -> None:
        call_id = item.get_text("call_id")
        text, code = _read_output(item)
        reason = self._failed.get(call_id) or (f"exit code {code}" if code else "")
        if text.startswith(_FAILURES):
            text = mark_as_error(text)
        elif reason:
            text = mark_as_error(f"{text}\n({reason})" if text.strip() else reason)
        name = self.collector.find_tool_name(call_id)
        self.collector.add(item.location, "tool", text, name=name, call_id=call_id)

    def _take_thought(self) -> str:
        thought, self._thought = self._thought, ""
        return thought


def _read_call(kind: str, item: Record) -> ToolCall:
    is_named = kind in ("function_call", "custom_tool_call")
    name = item.require_name("name") if is_named else kind.removesuffix("_call")
    field = next((field for field in ("arguments", "input", "action") if item.has(field)), "arguments")
    call_id = item.get_text("call_id") or item.get_text("id")
    arguments = _unwrap_command(to_json_text(item.value.get(field)))
    return build_model(ToolCall, item.location, id=call_id, name=name, arguments=arguments)


def _unwrap_command(arguments: str) -> str:
    """Return arguments with the command of a shell, such as `npm test` in place of `["bash", "-lc", "npm test"]`."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    command = parsed.get("command") if isinstance(parsed, dict) else None
    if isinstance(command, list) and len(command) == 3 and command[1] in ("-c", "-lc"):
        return to_json_text({**parsed, "command": command[2]})
    return arguments


def _read_output(item: Record) -> tuple[str, int]:
    """Return the text of an output, and its exit code if it has one; older rollouts write both as JSON in a text."""
    value = item.value.get("output")
    if isinstance(value, dict):
        return join_content(Record(value, item.build_path("output"))), int(value.get("success") is False)
    text = join_content(item, "output")
    code = 0
    while head := _TERMINAL.match(text):  # A tool that the terminal runs writes a head of its own.
        text, code = text[head.end() :], code or int(head[1] or head[2] or 0)
    if code:
        return text, code
    if not text.startswith('{"output"'):
        return text, 0
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text, 0
    metadata = parsed.get("metadata")
    exit_code = metadata.get("exit_code") if isinstance(metadata, dict) else 0
    return to_json_text(parsed.get("output")), exit_code if isinstance(exit_code, int) else 0
