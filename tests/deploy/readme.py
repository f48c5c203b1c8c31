"""Read the commands of deploy/README.md, and make deploy/.env with them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.support.systems import ROOT

TEXT = (ROOT / "deploy/README.md").read_text(encoding="utf-8")
# The commands that make deploy/.env, from which compose reads passwords.
ENVIRONMENT_COMMANDS = (r"install -m 600 \S+ deploy/\.env", r"for service in .*\.env", r"echo .*GATEWAY_API_TOKEN.*")


def commands() -> list[str]:
    """Return the commands of the shell blocks, without comments; a loop is one command."""
    found: list[str] = []
    for block in re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL):
        pending = ""
        for line in block.splitlines():
            text = re.sub(r"(^|\s)# .*$", "", line).rstrip()
            pending = f"{pending}\n{text}" if pending else text
            if pending and not (pending.startswith("for ") and "\ndone" not in pending):
                found.append(pending)
                pending = ""
    return found


def makes_the_environment(command: str) -> bool:
    """Return whether a command helps to make deploy/.env."""
    return any(re.fullmatch(pattern, command, re.DOTALL) for pattern in ENVIRONMENT_COMMANDS)


def environment_of_compose(folder: Path) -> Path:
    """Make deploy/.env in a folder with the commands, and return its path."""
    (folder / "deploy").mkdir()
    lines = [command for command in commands() if makes_the_environment(command)]
    subprocess.run(
        ["sh", "-eu", "-c", "\n".join(lines)], cwd=folder, check=True, timeout=60, env={"PATH": os.environ["PATH"]}
    )
    return folder / "deploy/.env"


def variables(environment: Path) -> dict[str, str]:
    """Return the variables of an environment file."""
    return dict(line.split("=", 1) for line in environment.read_text().splitlines())
