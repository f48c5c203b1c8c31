"""The `grpcurl` lines of the READMEs, and how they are run: by `buf curl`, which speaks the same and installs by name.

A line stands in a fenced block as a user would copy it, with `\\` at the end of a line to go on. Blocks run in order,
so that a line may build on those before it.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUF = Path(sys.executable).parent / "buf"
READMES = sorted(path for path in ROOT.glob("**/README.md") if not {".venv", "build"} & set(path.parts))
_BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_METHOD = re.compile(r"hansei\.\w+\.v1\.\w+/\w+")


@dataclass(frozen=True)
class Example:
    """One command of a README."""

    readme: Path
    command: str


@cache
def example_lines() -> tuple[Example, ...]:
    """Every `grpcurl` command of every README, in order."""
    return tuple(Example(readme, command) for readme in READMES for command in _commands(readme))


def _commands(readme: Path) -> Iterator[str]:
    for block in _BLOCK.findall(readme.read_text(encoding="utf-8")):
        joined = block.replace("\\\n", " ")
        yield from (line.strip() for line in _lines(joined) if line.strip().startswith("grpcurl "))


def _lines(text: str) -> Iterator[str]:
    """Lines of shell text; a quoted argument may go over several."""
    pending = ""
    for line in text.splitlines():
        pending = f"{pending}\n{line}" if pending else line
        if pending.count("'") % 2 == 0:
            yield pending
            pending = ""


def run(example: Example, address: str) -> str:
    """The output of a command against `address`. Fails with the command's own words."""
    words = shlex.split(example.command)
    known = {"-plaintext", "-d", "-emit-defaults"}
    unknown = [word for word in words[1:] if word.startswith("-") and word not in known]
    assert not unknown, f"{example.readme}: {unknown} has no counterpart here"
    target = next((word for word in words if _METHOD.fullmatch(word)), None)
    assert target, f"{example.readme}: no method in {example.command!r}"
    arguments = [str(BUF), "curl", "--protocol", "grpc", "--http2-prior-knowledge", f"http://{address}/{target}"]
    if "-d" in words:
        arguments += ["--data", words[words.index("-d") + 1]]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{example.command}\n{done.stdout}{done.stderr}"
    return done.stdout
