"""Worlds that a seed generates: tools, words and conventions that no model can know, of ten families.

The families cover common mistakes with real tools: units, spellings of ids, dates and names, codes, values that
another argument decides, options and names of programs, the fields of nested values, and calls before or after another.
Each convention has a kind: the tool's error states it, the error is a bare code, or no error shows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hansei.client.lift.world import Convention, Kind, MadeUpWorld

CONVENTIONS = 12
KINDS: tuple[Kind, ...] = ("error states it", "bare code", "no error")

_VERBS = (
    ("issue", "issued", "granted"), ("move", "moved", "relocated"), ("seal", "sealed", "closed up"),
    ("rate", "rated", "assessed"), ("split", "split", "divided"), ("print", "printed", "put on paper"),
    ("rent", "rented", "hired"), ("mark", "marked", "tagged"), ("weigh", "weighed", "put on the scales"),
    ("repair", "repaired", "mended"), ("tune", "tuned", "adjusted"), ("fill", "filled", "topped up"),
    ("audit", "audited", "examined"), ("trade", "traded", "exchanged"), ("lock", "locked", "secured"),
)  # fmt: skip
_ONSETS = ("br", "d", "fl", "g", "k", "m", "pl", "qu", "r", "s", "t", "v", "w", "z")
_VOWELS = ("a", "e", "i", "o", "u", "ei", "ou")
_ENDS = ("b", "ck", "dle", "ft", "l", "m", "nt", "p", "rn", "sk", "x")
_TRAINING = ("{Verb} the {noun} {id}{detail}.", "Please {verb} {noun} {id}{detail}.")
_TEST = ("{id}: this {noun} has to be {done}{detail}.", "We need {noun} {id} {other}{detail}; see to it.")
_FIRST = ("Ines", "Boris", "Tilda", "Amir", "Keiko", "Pavel", "Nora", "Luca")
_LAST = ("Varga", "Okoye", "Stern", "Marin", "Falk", "Rossi", "Duarte", "Engel")

Draw = Callable[[random.Random], dict[str, str]]


@dataclass(frozen=True, slots=True)
class Family:
    """An argument that a family adds to a tool, its words in a request, and its right and wrong values."""

    argument: str
    detail: str
    rule: str
    right_value: str
    wrong: tuple[str, ...]
    right: str
    stated: str
    make: Draw
    extra: Mapping[str, str] | None = None
    """Further arguments of the call."""
    depends_on: tuple[str, Mapping[str, str]] | None = None
    error: str = ""
    """The error that states the rule for one task, if it is not the rule."""


def generate_world(seed: int, conventions: int = CONVENTIONS) -> MadeUpWorld:
    """Return the world of a seed: the same in every process."""
    chance = random.Random(f"world {seed}")
    words = _draw_words(chance)
    verbs = chance.sample(_VERBS, len(_VERBS))
    join = chance.choice([_join_snake, _join_camel, _join_kebab])
    families = chance.sample(_FAMILIES, len(_FAMILIES))
    made = [
        _make_convention(
            chance, families[number % len(families)], KINDS[(number + number // len(families)) % 3],
            verbs[number % len(verbs)], words, join,
        )
        for number in range(conventions)
    ]  # fmt: skip
    lookups = [(join("find", next(words)), {"text": '"{id}"'}) for _ in range(3)]
    lookups.append((join("note", next(words)), {"text": '"<started|later|asked|by phone>"'}))
    return MadeUpWorld(f"generated-{seed}", tuple(made), tuple(lookups), _draw_values)


def _draw_words(chance: random.Random) -> Iterator[str]:
    seen: set[str] = set()
    while True:
        word = chance.choice(_ONSETS) + chance.choice(_VOWELS) + chance.choice(_ENDS)
        if word not in seen:
            seen.add(word)
            yield word


def _draw_values(chance: random.Random) -> dict[str, str]:
    return {"id": f"{chance.choice('BCDFGHJKLM')}{chance.randint(100, 999)}"}


def _make_convention(
    chance: random.Random,
    build: Callable[[random.Random, Iterator[str]], Family | str],
    kind: Kind,
    verb: tuple[str, str, str],
    words: Iterator[str],
    join: Callable[[str, str], str],
) -> Convention:
    noun = next(words)
    tool = join(verb[0], noun)
    code = _draw_code(chance)
    made = build(chance, words)
    fields = {"verb": verb[0], "Verb": verb[0].capitalize(), "done": verb[1], "other": verb[2], "noun": noun}
    detail = made.detail if isinstance(made, Family) else ""
    requests = tuple(_fill_placeholders(text, {**fields, "detail": detail}) for text in (*_TRAINING, *_TEST))
    if isinstance(made, str):
        return _make_sequence(kind, tool, join(made, next(words)), requests, code)
    return _make_argument(kind, tool, made, requests, code)


def _fill_placeholders(text: str, fields: Mapping[str, str]) -> str:
    for name, value in fields.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _draw_code(chance: random.Random) -> str:
    number = chance.randint(11, 99)
    return chance.choice([f"E-{number}", f"rc={number}", f"0x{number:X}F", f"refused ({number}/4)", f"NAK {number}"])


def _make_sequence(kind: Kind, tool: str, other: str, requests: tuple[str, ...], code: str) -> Convention:
    """Return a convention that another call must come before, or after if no error shows."""
    calls: list[tuple[str, Mapping[str, str]]] = [(tool, {"id": '"{id}"'}), (other, {"id": '"{id}"'})]
    if kind == "no error":
        return Convention(tool, kind, f"{tool}: call {other} afterwards.", requests, tuple(calls), also=other)
    error = f"{other} has not been called for this id" if kind == "error states it" else code
    rule = f"{tool}: call {other} first."
    return Convention(tool, kind, rule, requests, tuple(reversed(calls)), error=error, also=other)


def _make_argument(kind: Kind, tool: str, family: Family, requests: tuple[str, ...], code: str) -> Convention:
    is_command = family.argument == "command"
    arguments = dict(family.extra or {}) if is_command else {"id": '"{id}"', **(family.extra or {})}
    arguments[family.argument] = family.right_value.replace("{tool}", tool)
    called = "shell" if is_command else tool
    error = (family.error or family.rule) if kind == "error states it" else code if kind == "bare code" else ""
    return Convention(
        tool, kind, f"{tool}: {family.rule}.".replace("{tool}", tool), requests, ((called, arguments),),
        error=error.replace("{tool}", tool),
        stated=family.stated, argument=family.argument, right=family.right.replace("{tool}", tool),
        wrong=tuple(value.replace("{tool}", tool) for value in family.wrong),
        depends_on=family.depends_on, make=family.make,
    )  # fmt: skip


def _join_snake(verb: str, noun: str) -> str:
    return f"{verb}_{noun}"


def _join_camel(verb: str, noun: str) -> str:
    return f"{verb}{noun.capitalize()}"


def _join_kebab(verb: str, noun: str) -> str:
    return f"{verb}-{noun}"


def _build_unit(chance: random.Random, words: Iterator[str]) -> Family:
    unit, small, factor = chance.choice(
        [("metres", "centimetres", 100), ("hours", "minutes", 60), ("litres", "millilitres", 1000)]
    )
    name = chance.choice(["size", "amount", "span", "extent"])

    def make(drawn: random.Random) -> dict[str, str]:
        tenths = drawn.choice([number for number in range(15, 95) if number % 10])
        return {"large": f"{tenths / 10}", "small": str(tenths * factor // 10)}

    return Family(
        name, f", {{large}} {unit}", f"{name} is a whole number of {small}", "{small}",
        ("{large}", f'"{{large}} {unit}"'), r"\d{2,5}", small, make,
    )  # fmt: skip


def _build_spelling(chance: random.Random, words: Iterator[str]) -> Family:
    name = chance.choice(["ref", "key", "object"])
    right, shape = chance.choice([("{tail}/{head}", r"\d{4}/[A-Z]{2}"), ("{head}.{tail}", r"[A-Z]{2}\.\d{4}")])

    def make(drawn: random.Random) -> dict[str, str]:
        return {"head": "".join(drawn.choices("ABCDEFGH", k=2)), "tail": str(drawn.randint(1000, 9999))}

    rule = f"{name} is written like {right.format(head='AB', tail='1234')}"
    stated = rf"like {right.format(head='AB', tail='1234')}".replace(".", r"\.")
    wrong = ('"{head}{tail}"', '"{head} {tail}"')
    return Family(name, " with number {head}-{tail}", rule, f'"{right}"', wrong, shape, stated, make)


def _build_date(chance: random.Random, words: Iterator[str]) -> Family:
    name = chance.choice(["on", "due", "when"])
    right, shape, words_of_rule = chance.choice(
        [("{d}.{m}.{yy}", r"\d\d\.\d\d\.\d\d", "day.month.year with two digits each"),
         ("{yy}{m}{d}", r"\d{6}", "YYMMDD without separators")]
    )  # fmt: skip

    def make(drawn: random.Random) -> dict[str, str]:
        day, month, year = drawn.randint(10, 28), drawn.randint(10, 12), drawn.randint(30, 39)
        return {"d": str(day), "m": str(month), "yy": str(year), "day": f"20{year}-{month}-{day}"}

    rule = f"{name} is {words_of_rule}"
    return Family(
        name, " on {day}", rule, f'"{right}"', ('"{day}"', '"{day}T00:00"'), shape, words_of_rule[:8], make
    )  # fmt: skip


def _build_name(chance: random.Random, words: Iterator[str]) -> Family:
    name = chance.choice(["for", "owner", "client"])

    def make(drawn: random.Random) -> dict[str, str]:
        first, last = drawn.choice(_FIRST), drawn.choice(_LAST)
        return {"first": first, "last": last, "LAST": last.upper(), "initial": first[0]}

    rule = f"{name} is the surname in capitals and the initial, like DOE J"
    return Family(
        name, " for {first} {last}", rule, '"{LAST} {initial}"', ('"{first} {last}"', '"{last}, {first}"'),
        r"[A-Z]{4,} [A-Z]", "surname in capitals", make,
    )  # fmt: skip


def _build_code(chance: random.Random, words: Iterator[str]) -> Family:
    name, words_of_request, natural = chance.choice(
        [("reason", "at the customer's wish", ("customer wish", "customer")),
         ("mode", "in a hurry", ("fast", "express")), ("state", "as damaged goods", ("damaged", "broken"))]
    )  # fmt: skip
    code = f"{chance.choice('PQRSTVW')}{chance.randint(2, 9)}{chance.choice('XYZ')}"
    rule = f"{name} must be {code} in this case"
    wrong = tuple(f'"{word}"' for word in natural)
    return Family(
        name, f" {words_of_request}", rule, f'"{code}"', wrong, code, rf"{name}\W.{{0,40}}{code}", lambda drawn: {}
    )


def _build_decision(chance: random.Random, words: Iterator[str]) -> Family:
    states = [next(words) for _ in range(3)]
    codes = dict(
        zip(states, (f"{letter}{chance.randint(10, 99)}" for letter in chance.sample("ABCDE", 3)), strict=True)
    )
    condition, name = chance.choice([("grade", "bay"), ("colour", "lane"), ("region", "desk")])

    def make(drawn: random.Random) -> dict[str, str]:
        state, other = drawn.sample(states, 2)
        return {"state": state, "code": codes[state], "other_code": codes[other]}

    spelled = ", ".join(f"{code} for {state}" for state, code in codes.items())
    return Family(
        name, f", {condition} {{state}}", f"{name} is {spelled}", '"{code}"', ('"{other_code}"', '"any"'), "", "",
        make, extra={condition: '"{state}"'}, depends_on=("state", codes), error=f"{name} of {{state}} is {{code}}",
    )  # fmt: skip


def _build_option(chance: random.Random, words: Iterator[str]) -> Family:
    option = f"--{next(words)}"
    return Family(
        "command", "", f"the option {option} is needed", f'"{{tool}} {{id}} {option}"',
        ('"{tool} {id}"', '"{tool} {id} --force"'), "", option, lambda drawn: {},
    )  # fmt: skip


def _build_program(chance: random.Random, words: Iterator[str]) -> Family:
    program = next(words)
    return Family(
        "command", "", f"use {program} instead of {{tool}}", f'"{program} {{id}}"',
        ('"{tool} {id}"', '"{tool} -f {id}"'), "", rf"\b{program}\b", lambda drawn: {},
    )  # fmt: skip


def _build_nested(chance: random.Random, words: Iterator[str]) -> Family:
    name, natural = chance.choice([("place", "room"), ("target", "unit"), ("load", "weight")])
    field = next(words)

    def make(drawn: random.Random) -> dict[str, str]:
        return {"number": str(drawn.randint(2, 60))}

    return Family(
        name, f", {natural} {{number}}", f"{name} needs the field {field}", f'{{"{field}": {{number}}}}',
        (f'{{"{natural}": {{number}}}}', "{number}"), "", rf"\b{field}\b", make,
    )  # fmt: skip


def _build_sequence(chance: random.Random, words: Iterator[str]) -> str:
    return chance.choice(["open", "check", "register", "reserve"])


_FAMILIES: tuple[Callable[[random.Random, Iterator[str]], Family | str], ...] = (
    _build_unit, _build_spelling, _build_date, _build_name, _build_code, _build_decision, _build_option, _build_program,
    _build_nested, _build_sequence, _build_sequence,
)  # fmt: skip
