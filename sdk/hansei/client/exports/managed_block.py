"""The part of a file that hansei writes: lines between two markers, with a digest that shows hand edits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hansei.client.errors import InvalidArgument

_BEGIN = re.compile(
    r"<!-- hansei:begin playbook=([A-Za-z0-9_-]{1,128}) revision=(\d{1,18}) digest=([0-9a-f]{16}) -->\s*"
)
_END = re.compile(r"<!-- hansei:end playbook=([A-Za-z0-9_-]{1,128}) -->\s*")
_MARKER = re.compile(r"<!-- hansei:(?:begin|end)\b")


@dataclass(frozen=True, slots=True)
class ManagedBlock:
    """A block in a file: the lines between its markers, and the indexes of the markers in the lines of the file."""

    revision: int
    digest: str
    body: tuple[str, ...]
    begin: int
    end: int

    @property
    def is_edited(self) -> bool:
        """Return whether somebody changed the block after hansei wrote it."""
        return compute_digest(self.body) != self.digest


def compute_digest(body: Iterable[str]) -> str:
    """Return the digest of the lines of a block; spaces at their ends do not count."""
    return hashlib.sha256("\n".join(line.rstrip() for line in body).encode()).hexdigest()[:16]


def find_block(lines: Sequence[str], playbook: str) -> ManagedBlock | None:
    """Return the block of a playbook in the lines of a file; None if there is none.

    Raises InvalidArgument for markers that do not form blocks.
    """
    found: ManagedBlock | None = None
    begin: tuple[int, re.Match[str]] | None = None
    for index, line in enumerate(lines):
        if not _MARKER.match(line):
            continue
        if begin is None and (head := _BEGIN.fullmatch(line)):
            begin = index, head
            continue
        end = _END.fullmatch(line)
        if begin is None or not end or end[1] != begin[1][1]:
            raise _build_marker_error(index, line)
        start, head = begin
        begin = None
        if head[1] != playbook:
            continue
        if found:
            raise _build_marker_error(start, lines[start])
        found = ManagedBlock(int(head[2]), head[3], tuple(lines[start + 1 : index]), start, index)
    if begin is not None:
        raise _build_marker_error(begin[0], lines[begin[0]])
    return found


def _build_marker_error(index: int, line: str) -> InvalidArgument:
    problem = f"line {index + 1}: the marker `{line.strip()[:80]}` has no counterpart or is repeated"
    return InvalidArgument(problem, reason="MARKER_INVALID")


def format_block(playbook: str, revision: int, body: Sequence[str]) -> list[str]:
    """Return the lines of a block with its markers."""
    begin = f"<!-- hansei:begin playbook={playbook} revision={revision} digest={compute_digest(body)} -->"
    return [begin, *body, f"<!-- hansei:end playbook={playbook} -->"]


def replace_block(lines: Sequence[str], block: ManagedBlock | None, new_lines: Sequence[str]) -> list[str]:
    """Return the lines of a file with the new block in place of `block`, or at the end."""
    if block:
        return [*lines[: block.begin], *new_lines, *lines[block.end + 1 :]]
    kept_lines = list(lines)
    while kept_lines and not kept_lines[-1].strip():
        kept_lines.pop()
    return [*kept_lines, *([""] if kept_lines else []), *new_lines, ""]
