"""The operators and functions of targets: their types are checked, and they take steps by the size of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Any

from chassis.errors import shorten
from chassis.json_texts import MAX_NESTING
from chassis.targets.errors import EvaluationFailed
from chassis.targets.evaluation import CHARS_PER_STEP, MAX_TEXT_CHARS, Evaluate, TargetEvaluation
from chassis.targets.session import (
    MAX_CALL_KEYS,
    MAX_KEY_ARGUMENTS_CHARS,
    MAX_STORED_BYTES,
    MAX_SUCCESSFUL_ARGUMENTS,
    SessionHistory,
    ToolCallRequest,
)
from chassis.targets.syntax import MAX_INTEGER


def describe_kind(value: Any) -> str:
    """Return the kind of a value in the words of JSON, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case dict():
            return "an object"
        case _:
            return "a list"


def require_bool(value: Any) -> bool:
    """Return the value of a condition. Raises EvaluationFailed unless it is true or false."""
    if value is True or value is False:
        return value
    raise EvaluationFailed(f"uses {describe_kind(value)} as a condition, must be true or false")


def require_object(value: Any) -> dict[str, Any]:
    """Return an object. Raises EvaluationFailed for another value."""
    if isinstance(value, dict):
        return value
    raise EvaluationFailed(f"reads a field of {describe_kind(value)}, must be an object")


def require_text(value: Any) -> str:
    """Return a text. Raises EvaluationFailed for another value."""
    if isinstance(value, str):
        return value
    raise EvaluationFailed(f"uses {describe_kind(value)} as a text")


def is_number(value: Any) -> bool:
    """Return whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_equal(evaluation: TargetEvaluation, left: Any, right: Any) -> bool:
    """Return whether two values are equal; true and false equal no number. Each compared item takes a step."""
    if isinstance(left, str) and isinstance(right, str):
        evaluation.spend(1 + min(len(left), len(right)) // CHARS_PER_STEP)
        return left == right
    evaluation.spend(1)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            are_equal(evaluation, first, second) for first, second in zip(left, right, strict=True)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        evaluation.spend(len(left))
        return left.keys() == right.keys() and all(are_equal(evaluation, left[key], right[key]) for key in left)
    return bool(left == right)


def _contains(evaluation: TargetEvaluation, value: Any, container: Any) -> bool:
    if isinstance(container, dict):
        return isinstance(value, str) and value in container
    if not isinstance(container, list):
        raise EvaluationFailed(f"searches {describe_kind(container)} for a value, must be a list or an object")
    return any(are_equal(evaluation, value, item) for item in container)


def _build_comparison(compare: Callable[[Any, Any], bool]) -> Callable[[TargetEvaluation, Any, Any], bool]:
    def evaluate(evaluation: TargetEvaluation, left: Any, right: Any) -> bool:
        if (is_number(left) and is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
            return compare(left, right)
        raise EvaluationFailed(f"compares {describe_kind(left)} with {describe_kind(right)}")

    return evaluate


def _add(evaluation: TargetEvaluation, left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > MAX_TEXT_CHARS:
            raise EvaluationFailed(f"builds a text of more than {MAX_TEXT_CHARS} characters")
        return left + right
    return _calculate(left, right, lambda first, second: first + second)


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right


def _take_remainder(left: Any, right: Any) -> Any:
    return left - right * _divide(left, right) if isinstance(left, int) and isinstance(right, int) else left % right


def _calculate(left: Any, right: Any, operation: Callable[[Any, Any], Any]) -> Any:
    if not (is_number(left) and is_number(right)):
        raise EvaluationFailed(f"calculates with {describe_kind(left)} and {describe_kind(right)}, must be numbers")
    value = operation(left, right)
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise EvaluationFailed("computes an integer that is too large")
    return value


def _negate(operand: Evaluate) -> Evaluate:
    return lambda evaluation: _calculate(0, operand(evaluation), lambda zero, value: zero - value)


def _invert(operand: Evaluate) -> Evaluate:
    def evaluate(evaluation: TargetEvaluation) -> bool:
        value = operand(evaluation)
        return False if value is True else True if value is False else not require_bool(value)

    return evaluate


def _search(evaluation: TargetEvaluation, text: Any, part: Any, search: Callable[[str, str], bool]) -> bool:
    text, part = require_text(text), require_text(part)
    evaluation.spend(1 + (len(text) + len(part)) // CHARS_PER_STEP)
    return search(text, part)


def _lower(evaluation: TargetEvaluation, text: Any) -> str:
    evaluation.spend(1 + len(require_text(text)) // CHARS_PER_STEP)
    return require_text(text).lower()


def _measure(evaluation: TargetEvaluation, value: Any) -> int:
    if isinstance(value, str | list | dict):
        return len(value)
    raise EvaluationFailed(f"takes the size of {describe_kind(value)}, must be a text, a list or an object")


def _all_occur(evaluation: TargetEvaluation, value: Any, occurs: Callable[[Any], bool]) -> bool:
    if isinstance(value, list | dict):
        evaluation.spend(1 + len(value))
        return all(
            _all_occur(evaluation, item, occurs) for item in (value.values() if isinstance(value, dict) else value)
        )
    if isinstance(value, str):
        evaluation.spend(1 + (len(value) + evaluation.session.size) // CHARS_PER_STEP)
    return occurs(value)


def _find_key(call: ToolCallRequest) -> str:
    if call.is_large:
        limits = f"{MAX_KEY_ARGUMENTS_CHARS:,} characters or {MAX_NESTING} levels"
        raise EvaluationFailed(f"compares calls whose arguments have more than {limits}")
    return call.key


def _list_successful_arguments(session: SessionHistory, tool: str) -> list[dict[str, Any]]:
    """Return the arguments of the earlier successful calls of a tool. Raises EvaluationFailed if some are not kept."""
    stored = session.successful_arguments.get(tool, [])
    if len(stored) < session.successes.get(tool, 0):
        raise EvaluationFailed(f"reads the arguments of more than {MAX_SUCCESSFUL_ARGUMENTS:,} calls, or of large ones")
    return stored


def _read_last_call(session: SessionHistory, tool: str, stored: Mapping[str, Any]) -> Any:
    """Return the arguments or the result of the last call of a tool. Raises EvaluationFailed if they are not kept."""
    if tool not in stored and session.counts.get(tool):
        raise EvaluationFailed(
            f"reads the last call of {shorten(tool)!r}, which is not kept: those kept have {MAX_STORED_BYTES:,} bytes"
        )
    return stored.get(tool)


def _count_equal_calls(evaluation: TargetEvaluation, counts: Mapping[str, int]) -> int:
    """Return the count of the calls that equal this one. Raises EvaluationFailed if it may not be kept."""
    key = _find_key(evaluation.call)
    if key not in counts and evaluation.session.has_lost_keys:
        raise EvaluationFailed(
            f"counts calls of a session with more than {MAX_CALL_KEYS:,} different ones, or {MAX_STORED_BYTES:,} bytes"
        )
    return counts.get(key, 0)


def _count_retries(evaluation: TargetEvaluation) -> int:
    last_key, count = evaluation.session.failed_in_a_row
    return count if last_key and last_key == _find_key(evaluation.call) else 0


def _convert_to_number(evaluation: TargetEvaluation, value: Any) -> float:
    if isinstance(value, str) and len(value) > 40:
        raise EvaluationFailed("converts a text of more than 40 characters to a number")
    if not isinstance(value, str) and not is_number(value):
        raise EvaluationFailed(f"converts {describe_kind(value)} to a number")
    return float(value)


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
TOOL_FACTS: Mapping[str, Callable[[SessionHistory, str], Any]] = {
    # `get`: a counter calls a function for a tool that it lacks.
    "called": lambda session, tool: session.counts.get(tool, 0) > 0,
    "succeeded": lambda session, tool: session.successes.get(tool, 0) > 0,
    "count": lambda session, tool: session.counts.get(tool, 0),
    "last_result": lambda session, tool: _read_last_call(session, tool, session.results),
    "last_args": lambda session, tool: _read_last_call(session, tool, session.arguments),
    "succeeded_args": _list_successful_arguments,
}
UNARY = {"!": _invert, "-": _negate}
BINARY: Mapping[str, Callable[[TargetEvaluation, Any, Any], Any]] = {
    "==": are_equal,
    "!=": lambda evaluation, left, right: not are_equal(evaluation, left, right),
    **{operator: _build_comparison(compare) for operator, compare in COMPARISONS.items()},
    "in": _contains,
    "+": _add,
    "-": lambda _, left, right: _calculate(left, right, lambda first, second: first - second),
    "*": lambda _, left, right: _calculate(left, right, lambda first, second: first * second),
    "/": lambda _, left, right: _calculate(left, right, _divide),
    "%": lambda _, left, right: _calculate(left, right, _take_remainder),
}
FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    **{name: (1, fact) for name, fact in TOOL_FACTS.items()},
    "repeats": (0, lambda evaluation: _count_equal_calls(evaluation, evaluation.session.repeats)),
    "failures": (0, lambda evaluation: _count_equal_calls(evaluation, evaluation.session.failures)),
    "retries": (0, _count_retries),
    "seen": (1, lambda evaluation, value: _all_occur(evaluation, value, evaluation.session.has_seen)),
    "found": (1, lambda evaluation, value: _all_occur(evaluation, value, evaluation.session.has_found)),
    "said": (1, lambda evaluation, value: _all_occur(evaluation, value, evaluation.session.is_from_user)),
    "user_confirmed": (0, lambda evaluation: evaluation.session.is_confirmed),
    "size": (1, _measure),
    "double": (1, _convert_to_number),
}
METHODS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "contains": (1, lambda evaluation, text, part: _search(evaluation, text, part, lambda a, b: b in a)),
    "startsWith": (1, lambda evaluation, text, part: _search(evaluation, text, part, str.startswith)),
    "endsWith": (1, lambda evaluation, text, part: _search(evaluation, text, part, str.endswith)),
    "lowerAscii": (0, _lower),
    "size": (0, _measure),
}
KNOWN = f"call.tool, call.args, {', '.join(f'{name}()' for name in FUNCTIONS)}"
