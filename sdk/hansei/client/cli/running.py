"""Every service in this process, until a signal."""

from __future__ import annotations

import os

from hansei.client.cli.embedded import OFFLINE, provider
from hansei.client.cli.output import say
from hansei.client.server import server


def run_stack(address: str | None) -> None:
    """Run the stack at `address` as this process; says what it runs on when it can answer."""
    commands = server()
    os.environ["HANSEI_LLM_PROVIDER"] = provider()
    os.environ.setdefault("HANSEI_LOG_FORMAT", "console")
    os.environ.setdefault("HANSEI_LOG_LEVEL", "WARNING")
    commands.run_stack(address, _announce)


def _announce(address: str) -> None:
    for line in announcement(address):
        say(line)


def announcement(address: str) -> list[str]:
    """What `hansei up` says when everything answers."""
    chat = provider()
    return [
        f"hansei is up at {address}",
        f"  model       {chat}{': rules, no model and no key' if chat == OFFLINE else ''}",
        "  try         hansei learn FILE · hansei search QUERY · hansei ask QUERY · hansei playbook show",
        "  ctrl-c      finishes the calls in progress and ends",
    ]
