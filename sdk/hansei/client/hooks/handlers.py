"""The entries that `hansei hooks install` writes for each agent, and the files that they belong to."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hansei.client.hooks.agents import AGENTS, DEFAULT_URL, HookAgent
from hansei.client.hooks.settings_file import Handlers

TIMEOUT_SECONDS = 5
"""The agent ends a hook that takes longer; `hansei hook` itself ends much earlier."""


@dataclass(frozen=True, slots=True)
class HookOptions:
    """The options of an agent's hooks: the dataset, the gateway, and the way to reach it."""

    dataset: str
    url: str = ""
    address: str = ""
    checks_calls: bool = True
    over_http: bool = False
    """Let Claude Code post prompts and tool calls itself: no process starts, and nothing is masked before."""


def find_settings_file(name: str, *, is_user: bool) -> Path:
    """Return the settings file of an agent: of the user, or of the project in the current folder."""
    agent = AGENTS[name]
    variable, directory = agent.home
    if not is_user:
        return Path.cwd() / directory / agent.settings
    chosen = os.environ.get(variable) if variable else None
    return (Path(chosen) if chosen else Path.home() / directory) / agent.settings


def get_base(name: str) -> Mapping[str, Any]:
    """Return the fields that a settings file without hooks needs."""
    return {"version": 1} if name == "cursor" else {}


def build_handlers(name: str, options: HookOptions, program: str) -> Handlers:
    """Return the entry of each event; `program` is the command that starts hansei."""
    agent = AGENTS[name]
    command = _build_command(name, options, program)
    asking = [agent.start, agent.prompt, *(agent.checks if options.checks_calls else ())]
    timeouts = {**dict.fromkeys(asking, TIMEOUT_SECONDS), **agent.ends}
    # Claude Code starts no hook of type http at the start of a session.
    posted = {agent.prompt, *agent.checks} if options.over_http else set()
    return {
        event: _wrap(
            name, _build_post(agent, options, timeout) if event in posted else _build_run(command, timeout, name)
        )
        for event, timeout in timeouts.items()
    }


def find_program(*, is_user: bool) -> str:
    """Return the command of hansei: its name for a project, whose settings are shared, else its path."""
    beside = Path(sys.executable).with_name("hansei.exe" if sys.platform == "win32" else "hansei")
    found = str(beside) if beside.is_file() else shutil.which("hansei")
    return shlex.quote(found) if is_user and found else "hansei"


def _build_command(name: str, options: HookOptions, program: str) -> str:
    words = [program, "hook", name, "--dataset", shlex.quote(options.dataset)]
    if options.url:
        words += ["--url", shlex.quote(options.url)]
    if options.address:
        words += ["--addr", shlex.quote(options.address)]
    return " ".join(words)


def _build_run(command: str, timeout: int, name: str) -> dict[str, Any]:
    kind = {} if name == "cursor" else {"type": "command"}
    return {**kind, "command": command, "timeout": timeout}


def _build_post(agent: HookAgent, options: HookOptions, timeout: int) -> dict[str, Any]:
    url = f"{(options.url or DEFAULT_URL).rstrip('/')}/v1/hooks/{agent.endpoint}?dataset={options.dataset}"
    return {
        "type": "http",
        "url": url,
        "headers": {"Authorization": "Bearer $HANSEI_TOKEN"},
        "allowedEnvVars": ["HANSEI_TOKEN"],
        "timeout": timeout,
    }


def _wrap(name: str, handler: dict[str, Any]) -> dict[str, Any]:
    return handler if name == "cursor" else {"hooks": [handler]}
