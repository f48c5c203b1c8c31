"""Finds the last run of a project's tests in the tool calls of a coding agent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from services.reflector.domain.trajectory import Step

_RUNS_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|vitest|jest|rspec|phpunit|ctest"
    r"|(?:npm|pnpm|yarn|bun|go|cargo|mvn|gradle|gradlew|dotnet|bazel|rake|deno)\s+(?:run\s+)?test|make\s+(?:test|check))\b"
)
_PUNCTUATION = re.compile(r'[\s"\[\],\\]+')
"""Characters between the words of a command, also of one that is a list in JSON."""
_MAX_COMMAND = 200
_MAX_OUTPUT = 4_000


class LastTestRun(NamedTuple):
    """The report of a call that ran tests, and whether they failed; the report is empty if no call ran any."""

    report: str = ""
    has_failed: bool = False


def find_last_test_run(steps: Sequence[Step]) -> LastTestRun:
    """Return the last call that ran tests, with `passed` or `failed` first in its report.

    A result whose text begins with `Error` is a failure: readers mark the results of failed calls so.
    """
    results = {step.tool_call_id: step.content for step in steps if step.role == "tool" and step.tool_call_id}
    for step in reversed(steps):
        for call in reversed(step.tool_calls):
            result = results.get(call.id)
            words = _PUNCTUATION.sub(" ", call.arguments)
            if result is None or not (command := _RUNS_TESTS.search(words)):
                continue
            has_failed = result.lstrip().lower().startswith("error")
            headline = f"The last test run of the trajectory {'failed' if has_failed else 'passed'}."
            shown = words[max(0, command.start() - _MAX_COMMAND // 2) :][:_MAX_COMMAND]
            return LastTestRun(f"{headline}\n{call.name}: {shown}\n{result[-_MAX_OUTPUT:]}", has_failed)
    return LastTestRun()
