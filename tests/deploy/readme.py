"""The commands of deploy/README.md, and what they make."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.support.systems import ROOT

TEXT = (ROOT / "deploy/README.md").read_text(encoding="utf-8")
# Those that make deploy/.env, from which compose takes passwords.
OF_THE_ENVIRONMENT = (r"install -m 600 \S+ deploy/\.env", r"for service in .*\.env", r"echo .*GATEWAY_API_TOKEN.*")


def commands() -> list[str]:
    """What the shell blocks hold, without comments; a loop is one command."""
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
    """Whether a command is one of those that make deploy/.env."""
    return any(re.fullmatch(pattern, command, re.DOTALL) for pattern in OF_THE_ENVIRONMENT)


def environment_of_compose(folder: Path) -> Path:
    """The file deploy/.env that the commands make in a folder."""
    (folder / "deploy").mkdir()
    lines = [each for each in commands() if makes_the_environment(each)]
    subprocess.run(
        ["sh", "-eu", "-c", "\n".join(lines)], cwd=folder, check=True, timeout=60, env={"PATH": os.environ["PATH"]}
    )
    return folder / "deploy/.env"


def variables(environment: Path) -> dict[str, str]:
    """What a file of variables says."""
    return dict(line.split("=", 1) for line in environment.read_text().splitlines())
