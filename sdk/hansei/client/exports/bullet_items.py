"""Bullets as items of a Markdown list, and back. The text of a bullet is untrusted: it cannot end its item.

An item is `- [id] text`; further lines of the text are indented, so that code fences, headings and `---` in it stay
inside the item. Comments in a text are escaped, because the markers of a managed block are comments.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hansei.client.errors import InvalidArgument, Violation

INDENT = "  "
HEADING = "### "

_ITEM = re.compile(r"- (?:\[([^\[\]\s]{1,128})\](?: |$))?(.*)", re.DOTALL)
_ID = re.compile(r"[^\[\]\s]{1,128}")
# Other line ends, control characters, and invisible characters that reorder or hide text.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f\ud800-\udfff]"
)
_COMMENT = re.compile(r"<!--|&(?=(?:amp;)*lt;!--)")
_ESCAPED_COMMENT = re.compile(r"&lt;!--|&amp;(?=(?:amp;)*lt;!--)")


@dataclass(frozen=True, slots=True)
class BulletItem:
    """A bullet in a file. `bullet_id` is empty for an item that a person added."""

    bullet_id: str
    section: str
    text: str


def is_writable(bullet_id: str) -> bool:
    """Return whether an id can stand in brackets: without brackets and white space."""
    return bool(_ID.fullmatch(bullet_id))


def normalize_text(text: str) -> str:
    """Return a text as an item holds it: without control characters and spaces at the ends of lines."""
    text = _UNSAFE.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def format_section(section: str) -> str:
    """Return the heading of a section, on one line."""
    return HEADING + _escape(" ".join(normalize_text(section).split()) or "others")


def format_item(item: BulletItem) -> list[str]:
    """Return the lines of an item."""
    first, *others = _escape(normalize_text(item.text)).split("\n")
    return [f"- [{item.bullet_id}] {first}", *(INDENT + line if line else "" for line in others)]


def parse_items(
    lines: Sequence[str], sections: Mapping[str, str], other_lines: Collection[str], first_line: int = 1
) -> list[BulletItem]:
    """Return the items of a block.

    Args:
        lines: the lines of the block.
        sections: the sections by their headings; a heading that is not there names a section itself.
        other_lines: lines that are neither headings nor items, and are ignored.
        first_line: the number of the first line in its file, for errors.

    Raises InvalidArgument with the number of the line.
    """
    items = list(_iterate_items(lines, sections, other_lines, first_line))
    ids = [item.bullet_id for item in items if item.bullet_id]
    if repeated := next((id_ for id_ in ids if ids.count(id_) > 1), ""):
        raise InvalidArgument(f"the block has [{repeated}] twice", reason="BLOCK_UNREADABLE")
    return items


def _iterate_items(
    lines: Sequence[str], sections: Mapping[str, str], other_lines: Collection[str], first_line: int
) -> Iterator[BulletItem]:
    section, bullet_id = "", ""
    text: list[str] | None = None
    for number, line in enumerate(lines, start=first_line):
        if text is not None and (not line.strip() or line.startswith((INDENT, "\t"))):
            text.append(line.removeprefix("\t").removeprefix(INDENT))
            continue
        if text is not None:
            yield BulletItem(bullet_id, section, _join_lines(text))
            text = None
        if line.startswith(HEADING):
            section = sections.get(line.rstrip(), line.removeprefix(HEADING).strip())
        elif found := _ITEM.fullmatch(line):
            bullet_id, text = found[1] or "", [found[2]]
        elif line.strip() and line not in other_lines:
            problem = "is neither a heading `### section` nor an item `- text`; move it out of the block"
            raise InvalidArgument(
                f"line {number} {problem}", reason="BLOCK_UNREADABLE", violations=[Violation(f"line {number}", problem)]
            )
    if text is not None:
        yield BulletItem(bullet_id, section, _join_lines(text))


def _join_lines(lines: Iterable[str]) -> str:
    return normalize_text(_ESCAPED_COMMENT.sub(_unescape_match, "\n".join(lines)))


def _escape(text: str) -> str:
    return _COMMENT.sub(lambda found: "&lt;!--" if found[0] == "<!--" else "&amp;", text)


def _unescape_match(found: re.Match[str]) -> str:
    return "<!--" if found[0] == "&lt;!--" else "&"
