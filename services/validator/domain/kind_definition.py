"""Kinds of reports as users define them: a JSON Schema and rules."""

from __future__ import annotations

from dataclasses import dataclass

from services.validator.domain.findings import Severity


@dataclass(frozen=True, slots=True)
class Required:
    """The value at `path` must be there and not be blank."""

    path: str


@dataclass(frozen=True, slots=True)
class Reference:
    """The value at `path`, or each element of it, must be one of `values`; without values, of the request's ids."""

    path: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """The array at `path` must have `least` to `most` elements; a value that is no array has none."""

    path: str
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class ForbiddenWords:
    """No text at the `paths`, nor inside them, may use one of the `phrases`."""

    paths: tuple[str, ...]
    phrases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """The CEL expression must be true for each value at `path`, which it calls `this`. Empty path: the report."""

    expression: str
    path: str = ""


Check = Required | Reference | Count | ForbiddenWords | Expression


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: the code of its findings, whether they are errors, their text (empty: built in), and the check."""

    code: str
    check: Check
    severity: Severity = Severity.ERROR
    message: str = ""


@dataclass(frozen=True, slots=True)
class KindDefinition:
    """A kind as it is registered; `json_schema` is JSON text, empty for any object."""

    name: str
    title: str = ""
    json_schema: str = ""
    rules: tuple[Rule, ...] = ()
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class RuleLimits:
    """The limits of one rule on one report; the schema counts as one rule."""

    steps: int = 20_000
    seconds: float = 0.25
