"""Front matter: the YAML between two lines `---` at the beginning of a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

FENCE = "---"
_REPEATED_HYPHEN = re.compile("(?<=-)-")


def quote(text: str) -> str:
    """Return a text as a double-quoted scalar of YAML, on one line and without `---`, where simple readers split."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return _REPEATED_HYPHEN.sub(r"\\x2d", json.dumps(" ".join(printable.split()), ensure_ascii=False))


def format_front_matter(fields: Mapping[str, str | Sequence[str] | Mapping[str, str]]) -> list[str]:
    """Return the lines of front matter, with the fences. Values are scalars of YAML, lists or mappings of them."""
    lines: list[str] = [FENCE]
    for name, value in fields.items():
        if isinstance(value, str):
            lines.append(f"{name}: {value}")
        elif isinstance(value, Mapping):
            lines += [f"{name}:", *(f"  {key}: {member}" for key, member in value.items())]
        else:
            lines += [f"{name}:", *(f"  - {member}" for member in value)]
    return [*lines, FENCE]


def replace_metadata(lines: Sequence[str], name: str, value: str) -> list[str]:
    """Return the lines of a file whose front matter has another value under `metadata`, if it has the name there."""
    end = find_end(lines)
    prefix = f"  {name}: "
    return [f"{prefix}{value}" if index < end and line.startswith(prefix) else line for index, line in enumerate(lines)]


def find_end(lines: Sequence[str]) -> int:
    """Return the index of the first line after the front matter; 0 without front matter."""
    if not lines or lines[0].rstrip() != FENCE:
        return 0
    return next((index + 1 for index, line in enumerate(lines) if index and line.rstrip() == FENCE), 0)


def is_blank(lines: Iterable[str]) -> bool:
    """Return whether the lines hold nothing but white space."""
    return not any(line.strip() for line in lines)
