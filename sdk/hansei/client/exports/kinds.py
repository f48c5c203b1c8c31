"""The kinds of files that agents read. The command line imports nothing else of the exports to show its help."""

from __future__ import annotations

from enum import StrEnum


class ExportKind(StrEnum):
    """A kind of file that agents read."""

    SKILL = "skill"
    AGENTS_MD = "agents-md"
    CLAUDE_RULES = "claude-rules"
    CURSOR_RULES = "cursor-rules"
    HOOKIFY = "hookify"
