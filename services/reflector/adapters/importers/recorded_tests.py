"""Finds the last run of a project's tests in the tool calls of a coding agent."""

from __future__ import annotations

import re
from collections.abc import Sequence

from services.reflector.domain.trajectory import Step

_RUNS_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|vitest|jest|rspec|phpunit|ctest"
    r"|(?:npm|pnpm|yarn|bun|go|cargo|mvn|gradle|gradlew|dotnet|bazel|rake|deno)\s+(?:run\s+)?test|make\s+(?:test|check))\b"
)
_PUNCTUATION = re.compile(r'[\s"\[\],\\]+')
"""Characters between the words of a command, also of one that is a list in JSON."""
_MAX_COMMAND = 200
_MAX_OUTPUT = 4_000


def build_test_report(steps: Sequence[Step]) -> str:
    """Return a report of the last call that ran tests, `passed` or `failed` first; empty if no call ran any.

    A result whose text begins with `Error` is a failure: readers mark the results of failed calls so.
    """
    results = {step.tool_call_id: step.content for step in steps if step.role == "tool" and step.tool_call_id}
    for step in reversed(steps):
        for call in reversed(step.tool_calls):
            result = results.get(call.id)
            words = _PUNCTUATION.sub(" ", call.arguments)
            if result is None or not (command := _RUNS_TESTS.search(words)):
                continue
            verdict = "failed" if result.lstrip().lower().startswith("error") else "passed"
            shown = words[max(0, command.start() - _MAX_COMMAND // 2) :][:_MAX_COMMAND]
            return f"The last test run of the trajectory {verdict}.\n{call.name}: {shown}\n{result[-_MAX_OUTPUT:]}"
    return ""
