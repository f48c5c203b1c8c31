"""The events and files of each agent with hooks.

Sources: https://code.claude.com/docs/en/hooks; https://github.com/openai/codex, codex-rs/hooks/schema/generated;
https://cursor.com/docs/hooks.
"""

from __future__ import annotations

URL_VARIABLE = "HANSEI_URL"
DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_DATASET = "coding"


class HookAgent:
    """The names of an agent: of its endpoint, of the moments at which it calls hooks, and of its files."""

    __slots__ = ("checks", "endpoint", "ends", "home", "prompt", "settings", "shows_messages", "start", "title")

    def __init__(
        self,
        title: str,
        endpoint: str,
        home: tuple[str, str],
        settings: str,
        *,
        moments: tuple[str, str],
        checks: tuple[str, ...],
        ends: dict[str, int],
        shows_messages: bool,
    ) -> None:
        """Name the events of an agent.

        `home` is the variable with the agent's folder, and the folder. `moments` are the start of a session and a
        prompt. `checks` are the events before and after a tool call; empty for an agent that does not report whether a
        call succeeded, because guards need that. `ends` are the last events of a session, with their timeouts.
        """
        self.title = title
        self.endpoint = endpoint
        self.home = home
        self.settings = settings
        self.start, self.prompt = moments
        self.checks = checks
        self.ends = ends
        self.shows_messages = shows_messages
        """True if the user sees the `systemMessage` of a hook."""


AGENTS = {
    "claude": HookAgent(
        "Claude Code",
        "claude-code",
        ("CLAUDE_CONFIG_DIR", ".claude"),
        "settings.json",
        moments=("SessionStart", "UserPromptSubmit"),
        checks=("PreToolUse", "PostToolUse", "PostToolUseFailure"),
        ends={"SessionEnd": 10},
        shows_messages=True,
    ),
    "codex": HookAgent(
        "Codex",
        "codex",
        ("CODEX_HOME", ".codex"),
        "hooks.json",
        moments=("SessionStart", "UserPromptSubmit"),
        checks=(),
        ends={"SessionEnd": 3},
        shows_messages=True,
    ),
    "cursor": HookAgent(
        "Cursor",
        "cursor",
        ("", ".cursor"),
        "hooks.json",
        moments=("sessionStart", "beforeSubmitPrompt"),
        checks=(),
        # A chat of Cursor may never end, so each stop is learned as well.
        ends={"stop": 5, "sessionEnd": 5},
        shows_messages=False,
    ),
}
