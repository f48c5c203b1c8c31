"""Read deploy/README.md and the page about capacity, and make deploy/.env."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.support.systems import ROOT

TEXT = (ROOT / "deploy/README.md").read_text(encoding="utf-8")


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


def make_env_file(folder: Path) -> Path:
    """Make deploy/.env in a folder as `make compose-up` does; return the path of the file."""
    (folder / "deploy").mkdir()
    command = ["make", "--silent", "-f", str(ROOT / "Makefile"), "-I", str(ROOT), "deploy/.env"]
    (folder / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    (folder / "deploy/services.yaml").symlink_to(ROOT / "deploy/services.yaml")
    subprocess.run(command, cwd=folder, check=True, timeout=60, env={"PATH": os.environ["PATH"]})
    return folder / "deploy/.env"


def variables(environment: Path) -> dict[str, str]:
    """Return the variables of an environment file."""
    return dict(line.split("=", 1) for line in environment.read_text().splitlines())


def read_connections() -> dict[str, int]:
    """Return the connections of a pod to PostgreSQL, by service, as the page about capacity states them."""
    page = (ROOT / "docs/operations/capacity.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| service \| connections of a pod .*\n\|.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    return {name: int(count) for name, count in re.findall(r"^\| (\w+) \| (\d+) \|", table, re.MULTILINE)}
