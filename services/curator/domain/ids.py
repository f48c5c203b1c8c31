"""Bullet ids: a slug of the section and a number that counts over the whole playbook (C-68 to C-73)."""

from __future__ import annotations

import re
from collections.abc import Callable

from services.curator.domain.playbook import DEFAULT_SECTION

_NUMBERED = re.compile(r"^[a-z0-9]+-(\d{5,})$")
_WORD_BREAK = re.compile(r"[^a-z0-9]+")
_SLUGS = {"strategies_and_hard_rules": "shr", "troubleshooting_and_pitfalls": "ts", DEFAULT_SECTION: "misc"}
# A longer number exceeds the integer column of the database; its id counts as one without a number (C-73 still holds).
_MAX_DIGITS = 18


def build_slug(section: str) -> str:
    """Return the prefix of ids in `section` (C-69, C-70)."""
    if section in _SLUGS:
        return _SLUGS[section]
    words = [word for word in _WORD_BREAK.split(section.lower()) if word]
    if not words:
        return "misc"
    return "".join(word[0] for word in words[:5]) if len(words) > 1 else words[0][:4]


def parse_number(bullet_id: str) -> int | None:
    """Return the number in an id, None for a uuid or any other form (C-71)."""
    match = _NUMBERED.match(bullet_id)
    return int(match[1]) if match and len(match[1]) <= _MAX_DIGITS else None


def format_id(section: str, number: int) -> str:
    """Return ``<slug>-<number, at least five digits>``."""
    return f"{build_slug(section)}-{number:05d}"


def create_id(section: str, number: int, is_used: Callable[[str], bool], new_uuid: Callable[[], str]) -> str:
    """Return the id for a new bullet: the numbered one, or a uuid when that exists already (C-73)."""
    wanted = format_id(section, number)
    return new_uuid() if is_used(wanted) else wanted
