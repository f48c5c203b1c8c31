"""Functions of the console's scripts are named by a verb and its object, as `docs/lexicon.md` asks for all code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.test_vocabulary import word_set

SCRIPTS = Path(__file__).parents[2] / "gateway/console/page/js"
MANY_CALLS = {"h", "s", "t"}
"""The functions of every line: an HTML element, an SVG element, a text."""
VERBS = word_set("""
    add address answer apply ask assign bind build cancel cast change choose classify collect compare compute count
    create decide decode delete describe diff draw edit encode export fetch fill filter find follow format get handle
    import indent insert join learn list load log mark match modify move note number offer open order parse pick place
    post put rank read refresh remove render reopen replace report resolve restore retry revoke run save schedule
    scroll search send set shorten show sign split start stop store stream submit sum summarize translate try undo
    vote wait watch write
""")
PREDICATES = ("is", "has", "can")

_STRING = re.compile(r'/\*.*?\*/|(?<!:)//[^\n]*|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`', re.DOTALL)
_DECLARED = re.compile(r"^(?:export )?(?:async )?function\*? (\w+)", re.MULTILINE)
_ASSIGNED = re.compile(
    r"^(?:export )?const (\w+) =\s+(?:async )?(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\w+) =>", re.MULTILINE
)


def list_functions(source: str) -> list[str]:
    """Return the names of the functions of a module."""
    code = _STRING.sub(lambda token: "\n" * token[0].count("\n") or '""', source)
    return [*_DECLARED.findall(code), *_ASSIGNED.findall(code)]


def is_verb_and_object(name: str) -> bool:
    """Return whether a name is a verb with its object, or a predicate such as `isOpen`."""
    first, *others = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
    return bool(others) and (first in VERBS or first in PREDICATES)


def test_functions_of_the_console_are_verbs_with_objects() -> None:
    functions = [
        (path.relative_to(SCRIPTS).as_posix(), name)
        for path in sorted(SCRIPTS.rglob("*.js"))
        for name in list_functions(path.read_text(encoding="utf-8"))
    ]
    assert len(functions) > 200
    wrong = [f"{file}: {name}" for file, name in functions if name not in MANY_CALLS and not is_verb_and_object(name)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["votes", "bar", "facts", "render", "oldRow", "layoutSteps"])
def test_other_names_are_found(name: str) -> None:
    assert not is_verb_and_object(name)
    assert list_functions(f"export const {name} = ({{ a }}) => a;\n") == [name]
