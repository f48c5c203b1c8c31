"""The `grpcurl` lines of the READMEs and of the docs site, and how they are run: by `buf curl`, which speaks the same
and installs by name, or without a process of their own (`described.py`).
Of the site and of the top README, the `hansei` lines and the Python blocks are run, too.

A line stands in a fenced block as a user would copy it, with `\\` at the end of a line to go on. Blocks run in order,
so that a line may build on those before it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUF = Path(sys.executable).parent / "buf"
PARTS = [part for part in ROOT.iterdir() if not part.name.startswith(".") and part.name != "build"]
READMES = sorted([ROOT / "README.md", *(path for part in PARTS for path in part.glob("**/README.md"))])
SITE = sorted(path for path in (ROOT / "docs").glob("**/*.md") if path.name != "README.md")
PAGES = READMES + SITE
_BLOCK = re.compile(r"^```(sh|bash|console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_BLANK = re.compile(r"<([a-z]\w*)>")
KNOWN = {"-plaintext", "-d", "-emit-defaults", "-max-time"}
_METHOD = re.compile(r"hansei\.\w+\.v1\.\w+/\w+")
CALL_SECONDS = 60


@dataclass(frozen=True)
class Example:
    """One command of a README or of a page, or one Python block."""

    readme: Path
    command: str
    language: str = "sh"


@cache
def example_lines() -> tuple[Example, ...]:
    """Everything that is run, page by page and in order."""
    return tuple(example for page in PAGES for example in all_lines(page) if _is_run(example))


def _is_run(example: Example) -> bool:
    is_for_users = example.readme in SITE or example.readme == ROOT / "README.md"
    return example.command.startswith("grpcurl ") or (
        is_for_users and (example.language == "python" or example.command.startswith("hansei "))
    )


def all_lines(page: Path) -> Iterator[Example]:
    """Every command of the shell blocks of a page, and every Python block."""
    for language, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            yield Example(page, block, language)
            continue
        for line in _lines(block.replace("\\\n", " ")):
            if line.strip() and not line.strip().startswith("#"):
                yield Example(page, line.strip())


def _lines(text: str) -> Iterator[str]:
    """Lines of shell text; a quoted argument may go over several."""
    pending = ""
    for line in text.splitlines():
        pending = f"{pending}\n{line}" if pending else line
        if pending.count("'") % 2 == 0:
            yield pending
            pending = ""


def complete_example(example: Example, output: str) -> Example:
    """Return the command with each `<key>` replaced by its last value in earlier output, as a user would."""

    def value(found: re.Match[str]) -> str:
        values = re.findall(rf'"{found[1]}":\s*"([^"]*)"', output)
        assert values, f"{example.readme}: nothing before {example.command!r} told its {found[1]}"
        return str(values[-1])

    if example.language != "sh":
        return example
    return replace(example, command=_BLANK.sub(value, example.command))


@dataclass(frozen=True)
class Call:
    """A parsed `grpcurl` line: its method (empty to list services), its JSON, and the time after which it stops.

    A line that ends with `|| true` may fail, because its text says that nothing is there yet.
    """

    line: str
    method: str
    data: str
    stopped_after: float | None
    may_fail: bool = False


def parse_call(example: Example) -> Call:
    """Parse a `grpcurl` line; fail if it has options that are not supported here."""
    words = shlex.split(example.command)
    unknown = [word for word in words[1:] if word.startswith("-") and word not in KNOWN]
    assert not unknown, f"{example.readme}: {unknown} has no counterpart here"
    method = next((word for word in words if _METHOD.fullmatch(word)), "")
    assert method or words[-1] == "list", f"{example.readme}: no method in {example.command!r}"
    options = {word: words[at + 1] for at, word in enumerate(words) if word in ("-d", "-max-time")}
    stopped_after = float(options["-max-time"]) if "-max-time" in options else None
    return Call(example.command, method, options.get("-d", ""), stopped_after, example.command.endswith("|| true"))


def by_buf(example: Example, address: str) -> str:
    """Return the output of a command against `address`. Fails with the command's own words.

    A command with `-max-time` watches something that does not end: it is stopped after that time, and must have told
    something by then.
    """
    call = parse_call(example)
    command = [str(BUF), "curl", "--protocol", "grpc", "--http2-prior-knowledge"]
    command += [f"http://{address}/{call.method}"] if call.method else ["--list-methods", f"http://{address}"]
    command += ["--data", call.data] if call.data else []
    seconds = call.stopped_after or CALL_SECONDS
    # The process ends before garbage collection is worthwhile.
    environment = {**os.environ, "GOGC": "off"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            output, complaint = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            output, complaint = process.communicate()
            assert call.stopped_after, f"no answer within {seconds} s: {call.line}\n{complaint}"
            assert output or call.may_fail, f"nothing was told within {seconds} s: {call.line}\n{complaint}"
            return output
    assert process.returncode == 0 or call.may_fail, f"{call.line}\n{output}{complaint}"
    return output
