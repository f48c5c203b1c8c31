"""Encode and parse the three formats of a playbook: JSON and two text dialects. All are lossless.

Text dialects have a heading `## SECTION` whenever the section changes, and one bullet a line: `[id] text`, or
`[id] helpful=5 harmful=0 :: text` with counters. A section in snake case stands there in capitals with spaces
(`others` as `OTHERS`); any other section stands as it is. Further lines of a text begin with four spaces. Blank lines
between bullets have no meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

from pydantic import ValidationError

from chassis.errors import Violation, shorten
from chassis.field_errors import describe_error, describe_rule
from services.curator.domain.errors import InvalidBullet, NotWritableAsText, UnreadablePlaybook
from services.curator.domain.playbook import DEFAULT_SECTION, Bullet, Playbook, validate_bullet

MAX_BULLETS = 100_000
CONTINUED = "    "

_SNAKE = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
_CAPITALS = re.compile(r"[A-Z0-9]+(?: [A-Z0-9]+)*")
_BULLET = re.compile(r"\[([^\]\n]+)\] ?(.*)", re.DOTALL)
_COUNTED = re.compile(r"helpful=(\d{1,10}) harmful=(\d{1,10}) ::(?: (.*)|)", re.DOTALL)


class PlaybookFormat(StrEnum):
    """A format of playbooks."""

    JSON = "json"
    COUNTED = "counted"
    PLAIN = "plain"


def detect_format(text: str) -> PlaybookFormat:
    """Return the format of a text, by its first character and its first bullet."""
    if text.lstrip().startswith("{"):
        return PlaybookFormat.JSON
    for line in text.split("\n"):
        found = _BULLET.fullmatch(line)
        if found:
            return PlaybookFormat.COUNTED if _COUNTED.fullmatch(found[2]) else PlaybookFormat.PLAIN
    return PlaybookFormat.PLAIN


def parse_playbook(text: str, form: PlaybookFormat) -> Playbook:
    """Return the playbook in `text`. Raises UnreadablePlaybook, which names line or field; InvalidBullet."""
    text = text.removeprefix("\ufeff")
    playbook = _parse_json(text) if form is PlaybookFormat.JSON else Playbook(bullets=list(_parse_text(text, form)))
    if len(playbook.bullets) > MAX_BULLETS:
        raise _build_read_error("bullets", f"{len(playbook.bullets)} bullets, at most {MAX_BULLETS} are allowed")
    for index, bullet in enumerate(playbook.bullets):
        validate_bullet(bullet, f"bullets[{index}]")
    return playbook


def encode_playbook(playbook: Playbook, form: PlaybookFormat) -> str:
    """Return the encoded playbook. Raises NotWritableAsText for an id or section that a dialect cannot hold."""
    if form is PlaybookFormat.JSON:
        return playbook.model_dump_json(indent=2) + "\n"
    return "\n".join(_iterate_lines(playbook.bullets, form)) + "\n" if playbook.bullets else ""


def _parse_json(text: str) -> Playbook:
    try:
        playbook = Playbook.model_validate_json(text)
    except ValidationError as error:
        field, _, problem = describe_error(error.errors(include_url=False)[0], "the file").partition(": ")
        raise _build_read_error(field, problem) from error
    if "bullets" not in playbook.model_fields_set:
        raise _build_read_error("bullets", "is missing: the file is JSON, but not a playbook")
    return playbook


def _parse_text(text: str, form: PlaybookFormat) -> Iterator[Bullet]:
    section = DEFAULT_SECTION
    head: tuple[int, str] | None = None
    body: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith(CONTINUED) and head:
            body.append(line.removeprefix(CONTINUED))
            continue
        if head:
            yield _create_bullet(head, "\n".join(body), section, form)
            head, body = None, []
        found = _BULLET.fullmatch(line)
        if found:
            head, body = (number, found[1]), [found[2]]
        elif line.startswith("##"):
            section = _get_section(line.removeprefix("##").removeprefix(" "))
        elif line.strip():
            raise _build_read_error(
                f"line {number}", f'"{shorten(line)}" is neither a heading nor a bullet `[id] text`'
            )
    if head:
        yield _create_bullet(head, "\n".join(body), section, form)


def _create_bullet(head: tuple[int, str], text: str, section: str, form: PlaybookFormat) -> Bullet:
    number, bullet_id = head
    helpful = harmful = 0
    if form is PlaybookFormat.COUNTED:
        found = _COUNTED.fullmatch(text)
        if not found:
            raise _build_read_error(
                f"line {number}", f"bullet {shorten(bullet_id)} has no `helpful=N harmful=N :: text`"
            )
        helpful, harmful, text = int(found[1]), int(found[2]), found[3] or ""
    try:
        return Bullet(
            id=bullet_id, section=section, content=text, searchable_text=text, helpful=helpful, harmful=harmful
        )
    except ValidationError as error:
        raise InvalidBullet(f"line {number}", describe_rule(error.errors()[0])) from error


def _iterate_lines(bullets: Iterable[Bullet], form: PlaybookFormat) -> Iterator[str]:
    section: str | None = None
    for bullet in bullets:
        if bullet.section != section:
            section = bullet.section
            yield f"## {_format_heading(section, bullet)}"
        if "]" in bullet.id or "\n" in bullet.id:
            raise _build_write_error(bullet, 'its id has "]" or a line break')
        counters = f"helpful={bullet.helpful} harmful={bullet.harmful} :: " if form is PlaybookFormat.COUNTED else ""
        text = f"\n{CONTINUED}".join(bullet.content.split("\n"))
        yield f"[{bullet.id}] {counters}{text}"


def _get_section(heading: str) -> str:
    return heading.lower().replace(" ", "_") if _CAPITALS.fullmatch(heading) else heading


def _format_heading(section: str, bullet: Bullet) -> str:
    heading = section.upper().replace("_", " ") if _SNAKE.fullmatch(section) else section
    if _get_section(heading) != section or "\n" in section:
        raise _build_write_error(bullet, f'its section "{shorten(section)}" would be parsed as another one')
    return heading


def _build_write_error(bullet: Bullet, reason: str) -> NotWritableAsText:
    return NotWritableAsText(f'bullet "{shorten(bullet.id)}" cannot be written as text: {reason}; export as JSON')


def _build_read_error(field: str, problem: str) -> UnreadablePlaybook:
    return UnreadablePlaybook(f"{field}: {problem}", violations=[Violation(field, problem)])
