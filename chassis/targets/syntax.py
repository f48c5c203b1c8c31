"""Parse targets, expressions in a subset of CEL (Common Expression Language), into a syntax tree.

The subset has literals, lists, fields, indexes, the operators of CEL, `has`, the macros `exists` and `all`, and calls.
It has no regular expressions, maps, bytes or messages, so that a target's cost is bounded (ADR 157).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from chassis.targets.errors import InvalidTarget

MAX_SOURCE_CHARS = 2_000
MAX_NODES = 400
MAX_NESTING = 24
"""Levels of parentheses, brackets, arguments and unary operators."""
MAX_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, true, false or null."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of expressions."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object; with `is_test` the question if the object has it, `has(x.y)`."""

    operand: Node
    field: str
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """An item of a list or an object."""

    operand: Node
    index: Node


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function, or of a method of `operand`."""

    function: str
    arguments: tuple[Node, ...]
    position: int
    operand: Node | None = None


@dataclass(frozen=True, slots=True)
class Macro:
    """`list.exists(variable, condition)` or `list.all(variable, condition)`."""

    operand: Node
    variable: str
    condition: Node
    is_all: bool


@dataclass(frozen=True, slots=True)
class Unary:
    """`!x` or `-x`."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator between two expressions."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Logic:
    """Conditions joined by `&&` or `||`, at least two."""

    operator: str
    conditions: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? then : otherwise`."""

    condition: Node
    then: Node
    otherwise: Node


Node = Literal | ListOf | Name | Field | Index | FunctionCall | Macro | Unary | Binary | Logic | Conditional

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.\d+|\d+)(?:[eE][+-]?\d{1,4})?)(?![\w.])"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark>&&|\|\||==|!=|<=|>=|[-+*/%!<>()\[\],.?:]))"
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_CONSTANTS = {"true": True, "false": False, "null": None}
_LEVELS = (("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
"""Binary operators from the weakest to the strongest; `||` and `&&` are weaker."""


def parse(source: str) -> Node:
    """Return the syntax tree of a target.

    Raises:
        InvalidTarget: the source is too long, too large, nested too deeply, or not in the subset of CEL.
    """
    if len(source) > MAX_SOURCE_CHARS:
        raise InvalidTarget(source, f"has {len(source)} characters, at most {MAX_SOURCE_CHARS} are allowed")
    return _Parser(source).parse()


def count_nodes(node: Node) -> int:
    """Return the number of parts of a syntax tree."""
    match node:
        case ListOf(items) | Logic(_, items):
            children: tuple[Node, ...] = items
        case FunctionCall(_, arguments, _, operand):
            children = arguments if operand is None else (operand, *arguments)
        case Field(operand) | Unary(_, operand):
            children = (operand,)
        case Index(left, right) | Binary(_, left, right) | Macro(left, _, right):
            children = (left, right)
        case Conditional(condition, then, otherwise):
            children = (condition, then, otherwise)
        case _:
            children = ()
    return 1 + sum(count_nodes(child) for child in children)


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = list(_split_tokens(source))
        self._next = 0
        self._nodes = 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._parse_expression()
        kind, text, position = self._tokens[self._next]
        if kind != "end":
            self._refuse(f"has {text!r} at character {position}, where the expression should end")
        return node

    def _parse_expression(self) -> Node:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self._refuse(f"is nested deeper than {MAX_NESTING} levels")
        node = self._parse_disjunction()
        if self._take_if_next("?"):
            then = self._parse_expression()
            self._require(":")
            node = self._count_node(Conditional(node, then, self._parse_expression()))
        self._depth -= 1
        return node

    def _parse_disjunction(self) -> Node:
        conditions = [self._parse_conjunction()]
        while self._take_if_next("||"):
            conditions.append(self._parse_conjunction())
        return conditions[0] if len(conditions) == 1 else self._count_node(Logic("||", tuple(conditions)))

    def _parse_conjunction(self) -> Node:
        conditions = [self._parse_binary(0)]
        while self._take_if_next("&&"):
            conditions.append(self._parse_binary(0))
        return conditions[0] if len(conditions) == 1 else self._count_node(Logic("&&", tuple(conditions)))

    def _parse_binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._parse_unary()
        left, length = self._parse_binary(level + 1), 0
        while (operator := self._tokens[self._next][1]) in _LEVELS[level] and self._tokens[self._next][0] != "text":
            self._next += 1
            length += 1
            if length > MAX_NESTING:
                self._refuse(f"has more than {MAX_NESTING} operators {operator!r} in a row")
            left = self._count_node(Binary(operator, left, self._parse_binary(level + 1)))
        return left

    def _parse_unary(self) -> Node:
        operators: list[str] = []
        while (operator := self._tokens[self._next][1]) in ("!", "-") and self._tokens[self._next][0] == "mark":
            self._next += 1
            operators.append(operator)
        if len(operators) > MAX_NESTING:
            self._refuse(f"has {len(operators)} operators in a row, at most {MAX_NESTING} are allowed")
        node = self._parse_member_chain(self._parse_primary())
        for operator in reversed(operators):
            node = self._count_node(Unary(operator, node))
        return node

    def _parse_member_chain(self, node: Node) -> Node:
        length = 0
        while True:
            length += 1
            if length > MAX_NESTING:
                self._refuse(f"has more than {MAX_NESTING} fields in a row")
            if self._take_if_next("."):
                name, position = self._parse_name()
                node = (
                    self._parse_method(node, name, position)
                    if self._take_if_next("(")
                    else self._count_node(Field(node, name))
                )
            elif self._take_if_next("["):
                node = self._count_node(Index(node, self._parse_expression()))
                self._require("]")
            else:
                return node

    def _parse_method(self, operand: Node, name: str, position: int) -> Node:
        if name in ("exists", "all"):
            variable, _ = self._parse_name()
            self._require(",")
            node: Node = Macro(operand, variable, self._parse_expression(), name == "all")
            self._require(")")
            return self._count_node(node)
        return self._count_node(FunctionCall(name, self._parse_arguments(")"), position, operand))

    def _parse_primary(self) -> Node:
        kind, text, position = self._tokens[self._next]
        self._next += 1
        if kind == "number":
            return self._count_node(Literal(self._parse_number(text)))
        if kind == "text":
            return self._count_node(Literal(self._unescape(text[1:-1])))
        if text == "(" and kind == "mark":
            node = self._parse_expression()
            self._require(")")
            return node
        if text == "[" and kind == "mark":
            return self._count_node(ListOf(self._parse_arguments("]")))
        if kind != "name":
            self._refuse_token(text, position, "a value")
        if text in _CONSTANTS:
            return self._count_node(Literal(_CONSTANTS[text]))
        if not self._take_if_next("("):
            return self._count_node(Name(text, position))
        arguments = self._parse_arguments(")")
        if text != "has":
            return self._count_node(FunctionCall(text, arguments, position))
        if len(arguments) != 1 or not isinstance(arguments[0], Field):
            self._refuse("has `has` without a field: write has(call.args.name)")
        return Field(arguments[0].operand, arguments[0].field, is_test=True)

    def _parse_arguments(self, end: str) -> tuple[Node, ...]:
        nodes: list[Node] = []
        if self._take_if_next(end):
            return ()
        while True:
            nodes.append(self._parse_expression())
            if self._take_if_next(end):
                return tuple(nodes)
            self._require(",")

    def _parse_number(self, text: str) -> int | float:
        if text.isdigit():
            if len(text) > len(str(MAX_INTEGER)) or int(text) > MAX_INTEGER:
                self._refuse(f"has the number {text[:30]}, at most {MAX_INTEGER} is allowed")
            return int(text)
        return float(text)

    def _unescape(self, text: str) -> str:
        def replace(found: re.Match[str]) -> str:
            code = found.group(1)
            if len(code) == 5:
                return chr(int(code[1:], 16))
            if code not in _ESCAPES:
                self._refuse(f"has the unknown escape \\{code}")
            return _ESCAPES[code]

        return _ESCAPE.sub(replace, text)

    def _parse_name(self) -> tuple[str, int]:
        kind, text, position = self._tokens[self._next]
        if kind != "name":
            self._refuse_token(text, position, "a name")
        self._next += 1
        return text, position

    def _take_if_next(self, mark: str) -> bool:
        kind, text, _ = self._tokens[self._next]
        if kind != "mark" or text != mark:
            return False
        self._next += 1
        return True

    def _require(self, mark: str) -> None:
        if not self._take_if_next(mark):
            _, text, position = self._tokens[self._next]
            self._refuse_token(text, position, repr(mark))

    def _count_node(self, node: Node) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._refuse(f"has more than {MAX_NODES} parts")
        return node

    def _refuse_token(self, text: str, position: int, expected: str) -> NoReturn:
        found = f"has {text!r} at" if text else "ends at"
        self._refuse(f"{found} character {position}, where {expected} should be")

    def _refuse(self, rule: str) -> NoReturn:
        raise InvalidTarget(self._source, rule)


def _split_tokens(source: str) -> list[tuple[str, str, int]]:
    tokens: list[tuple[str, str, int]] = []
    position, end = 0, len(source.rstrip())
    while position < end:
        found = _TOKEN.match(source, position)
        if found is None:
            raise InvalidTarget(source, f"has {source[position : position + 10].strip()!r} at character {position}")
        kind = found.lastgroup or ""
        tokens.append((kind, found.group(kind), found.start(kind)))
        position = found.end()
    tokens.append(("end", "", end))
    return tokens
