"""JSON Schema 2020-12 without remote references, with RE2 patterns and a budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from decimal import Decimal, localcontext
from typing import Any

import re2  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from chassis.errors import shorten
from services.validator.adapters.rules.budget import RuleBudget, RuleTooExpensive
from services.validator.domain.findings import ALLOWED_VALUES_SHOWN, Finding, display_text
from services.validator.domain.kind_rules import MAX_FINDINGS_PER_RULE
from services.validator.domain.pointers import build_pointer, format_path

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFUSED = frozenset(
    (
        "$id",
        "$anchor",
        "$dynamicRef",
        "$dynamicAnchor",
        "$vocabulary",
        "patternProperties",
        "unevaluatedProperties",
        "unevaluatedItems",
    )
)
_NAMES_INSIDE = frozenset(["properties", "$defs", "definitions", "dependentSchemas", "dependentRequired"])
_VALUES_INSIDE = frozenset(["const", "enum", "default", "examples"])

DECIMAL_DIGITS = 400
"""More than the quotients of most floats have."""

_budget: ContextVar[RuleBudget] = ContextVar("schema_budget")


class SchemaInvalid(ValueError):
    """The text is no schema that the validator accepts."""


class CompiledSchema:
    """A valid schema, compiled."""

    def __init__(self, text: str) -> None:
        """Raise SchemaInvalid."""
        try:
            schema = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SchemaInvalid(f"not JSON: {shorten(str(error))}") from None
        if not isinstance(schema, dict):
            raise SchemaInvalid("must be an object")
        _refuse_keywords(schema)
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise SchemaInvalid(
                f"{build_pointer(*error.absolute_path) or 'the schema'}: {shorten(error.message)}"
            ) from None
        except RecursionError:
            raise SchemaInvalid("nested too deeply") from None
        self._validator = _Validator(schema, registry=Registry())

    def list_findings(self, report: object, budget: RuleBudget) -> list[Finding]:
        """Return every fault, at most `MAX_FINDINGS_PER_RULE`; an exceeded budget is a fault, too."""
        token = _budget.set(budget)
        found: list[Finding] = []
        try:
            for error in self._validator.iter_errors(report):
                found.append(_build_finding(error))
                if len(found) >= MAX_FINDINGS_PER_RULE:
                    break
        except (RuleTooExpensive, RecursionError):
            found.append(Finding("SCHEMA_LIMIT", "report passed the limit of its JSON Schema", ""))
        except ArithmeticError:
            found.append(Finding("SCHEMA_LIMIT", "report has a number that the JSON Schema cannot check", ""))
        except Unresolvable as error:
            problem = f"the JSON Schema refers to {shorten(error.ref)}, which it does not contain"
            found.append(Finding("SCHEMA_REFERENCE", problem, ""))
        finally:
            _budget.reset(token)
        return found


def _refuse_keywords(schema: Mapping[str, Any]) -> None:
    """Raise SchemaInvalid for an unsupported keyword in the schema or a schema inside it."""
    pending: list[object] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(node)
        if not isinstance(node, dict):
            continue
        for keyword, value in node.items():
            if keyword in REFUSED:
                raise SchemaInvalid(f"the keyword {keyword} is not supported")
            if keyword == "$schema" and value != DIALECT:
                raise SchemaInvalid(f"$schema must be {DIALECT}")
            if keyword == "$ref" and not (isinstance(value, str) and value.startswith("#")):
                raise SchemaInvalid("$ref must stay inside the schema and start with #")
            if keyword == "pattern":
                _compile_pattern(value)
            if keyword in _NAMES_INSIDE and isinstance(value, dict):
                pending.extend(value.values())
            elif keyword not in _VALUES_INSIDE:
                pending.append(value)


def _compile_pattern(pattern: object) -> Any:
    try:
        return re2.compile(pattern)
    except (re2.error, TypeError, ValueError):
        raise SchemaInvalid(f"pattern {shorten(display_text(pattern))} is no RE2 expression") from None


def _build_finding(error: ValidationError) -> Finding:
    pointer = build_pointer(*error.absolute_path)
    keyword = str(error.validator or "false")  # the schema `false` has no keyword
    allowed: tuple[str, ...] = ()
    if keyword == "enum" and isinstance(error.validator_value, list):
        allowed = tuple(display_text(value) for value in error.validator_value)
    elif keyword == "const":
        allowed = (display_text(error.validator_value),)
    words = _REQUIREMENTS.get(keyword)
    requirement = words(error.validator_value) if words else shorten(error.message, 200)
    code = f"SCHEMA_{keyword.lstrip('$').upper()}"
    message = f"{format_path(pointer)} {requirement}"
    return Finding(
        code, message, pointer, allowed_values=allowed[:ALLOWED_VALUES_SHOWN], allowed_values_total=len(allowed)
    )


_REQUIREMENTS: Mapping[str, Callable[[Any], str]] = {
    "required": lambda value: "is required",
    "type": lambda value: f"must be of type {' or '.join(value) if isinstance(value, list) else value}",
    "enum": lambda value: "must be one of the allowed values",
    "const": lambda value: "must be the allowed value",
    "minItems": lambda value: f"must have at least {value} items",
    "maxItems": lambda value: f"must have at most {value} items",
    "minLength": lambda value: f"must have at least {value} characters",
    "maxLength": lambda value: f"must have at most {value} characters",
    "minimum": lambda value: f"must be >= {value}",
    "maximum": lambda value: f"must be <= {value}",
    "exclusiveMinimum": lambda value: f"must be > {value}",
    "exclusiveMaximum": lambda value: f"must be < {value}",
    "pattern": lambda value: f"must match {shorten(value)}",
    "uniqueItems": lambda value: "must not repeat items",
    "multipleOf": lambda value: f"must be a multiple of {value}",
    "false": lambda value: "must be absent",
    "additionalProperties": lambda value: "has properties that are not allowed",
}

Keyword = Callable[..., Iterator[ValidationError] | None]


def _check_required(validator: Any, names: list[str], instance: object, schema: object) -> Iterator[ValidationError]:
    """Yield an error that points at each missing property; the standard's points at the object."""
    if isinstance(instance, dict):
        for name in names:
            if name not in instance:
                yield ValidationError("is required", path=[name])


def _check_properties(
    validator: Any, properties: Mapping[str, Any], instance: object, schema: object
) -> Iterator[ValidationError]:
    """Yield an error that points at a forbidden property; that of the library has no path."""
    if isinstance(instance, dict):
        for name, inner in properties.items():
            if name in instance and inner is False:
                yield ValidationError("must be absent", validator="false", path=[name])
            elif name in instance:
                yield from validator.descend(instance[name], inner, path=name, schema_path=name)


def _check_pattern(validator: Any, pattern: str, instance: object, schema: object) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not re2.search(pattern, instance):
        yield ValidationError(f"does not match the pattern {shorten(pattern)}")


def _check_unique_items(validator: Any, wanted: bool, instance: object, schema: object) -> Iterator[ValidationError]:
    """Compare JSON text, in time linear in the size of the array."""
    if wanted and isinstance(instance, list):
        texts = {json.dumps(_normalise_numbers(item), sort_keys=True) for item in instance}
        if len(texts) < len(instance):
            yield ValidationError("has duplicate items")


def _check_multiple(validator: Any, divisor: float, instance: object, schema: object) -> Iterator[ValidationError]:
    """Compare decimal numbers, as JSON writes them: 0.3 is a multiple of 0.1, although its float is not."""
    if isinstance(instance, int | float) and not isinstance(instance, bool):
        with localcontext(prec=DECIMAL_DIGITS):  # raises ArithmeticError for a quotient with more digits
            is_multiple = Decimal(str(instance)) % Decimal(str(divisor)) == 0
        if not is_multiple:
            yield ValidationError(f"must be a multiple of {divisor}")


def _normalise_numbers(value: object) -> object:
    """Replace 1.0 by 1, because they are equal in JSON Schema."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_normalise_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _normalise_numbers(item) for key, item in value.items()}
    return value


def _charge_step(keyword: Keyword) -> Keyword:
    def validate(validator: Any, value: Any, instance: object, schema: object) -> Iterator[ValidationError]:
        _budget.get().spend_step()
        yield from keyword(validator, value, instance, schema) or ()

    return validate


_OWN: Mapping[str, Keyword] = {
    "required": _check_required,
    "properties": _check_properties,
    "pattern": _check_pattern,
    "uniqueItems": _check_unique_items,
    "multipleOf": _check_multiple,
}
_Validator = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {name: _charge_step(keyword) for name, keyword in {**Draft202012Validator.VALIDATORS, **_OWN}.items()},
)
