"""Compile targets to functions of a call and its session, which are bounded in steps.

A target is true for a call that repeats the mistake of its lesson. Its vocabulary:

- `call.tool`, `call.args`: the tool and the arguments of the next call
- `called(tool)`, `succeeded(tool)`, `count(tool)`: of the earlier calls of the session
- `last_result(tool)`: the last result of a tool, parsed if it is JSON; null without a call
- `repeats()`: the number of earlier calls with the same tool and the same arguments
- `last_args(tool)`: the arguments of the last call of a tool; null without a call
- `failures()`: the number of earlier calls with the same tool and the same arguments that failed
- `seen(value)`: the value occurs in a message of the user, in the instructions, or in an earlier result
- `found(value)`: the value occurs in an earlier result; `said(value)`: it occurs in a message of the user
- `user_confirmed()`: the last message of the user agrees to what the agent proposed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import ge, gt, le, lt
from typing import Any, NoReturn

from chassis.targets.errors import EvaluationFailed, InvalidTarget
from chassis.targets.session import MAX_KEY_ARGUMENTS_CHARS, SessionHistory, ToolCallRequest
from chassis.targets.syntax import (
    MAX_INTEGER,
    Binary,
    Conditional,
    Field,
    FunctionCall,
    Index,
    ListOf,
    Literal,
    Logic,
    Macro,
    Name,
    Node,
    Unary,
    count_nodes,
    parse,
)

MAX_STEPS = 5_000
"""Steps of one evaluation: parts of conditions that macros repeat, compared items, and searched characters."""
CHARS_PER_STEP = 300
MAX_TEXT_CHARS = 10_000
"""Characters of a text that a target builds."""


@dataclass(slots=True)
class TargetEvaluation:
    """The evaluation of targets for one call: `steps` are those that the target in evaluation may still take."""

    call: ToolCallRequest
    session: SessionHistory
    steps: int = MAX_STEPS
    variables: dict[str, Any] = field(default_factory=dict)

    def spend(self, steps: int) -> None:
        """Take steps. Raises EvaluationFailed when there are none left."""
        self.steps -= steps
        if self.steps < 0:
            raise EvaluationFailed(f"takes more than {MAX_STEPS} steps")


_Function = Callable[[TargetEvaluation], Any]


class Target:
    """A compiled target. `tools` are the tools whose calls alone can match it; None if every call can."""

    __slots__ = ("_evaluate", "source", "tools")

    def __init__(self, source: str) -> None:
        """Compile a target. Raises InvalidTarget."""
        tree = parse(source)
        self.source = source
        self.tools = _find_tools(tree)
        self._evaluate = _Compiler(source).compile(tree, frozenset())

    def matches(self, call: ToolCallRequest, session: SessionHistory) -> bool:
        """Return whether a call, after the earlier calls of its session, repeats the mistake.

        Raises:
            EvaluationFailed: a field is missing, a type is wrong, or the evaluation takes too many steps.
        """
        return (self.tools is None or call.tool in self.tools) and self.evaluate(TargetEvaluation(call, session))

    def evaluate(self, evaluation: TargetEvaluation) -> bool:
        """Return whether the target matches; many targets may share the evaluation of a call, one after another.

        Raises EvaluationFailed, as `matches` does.
        """
        evaluation.steps = MAX_STEPS
        try:
            value = self._evaluate(evaluation)
        except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
            raise EvaluationFailed(f"{type(error).__name__}: {error}") from error
        if value is not True and value is not False:
            raise EvaluationFailed(f"is {type(value).__name__}, must be true or false")
        return value


def _find_tools(node: Node) -> frozenset[str] | None:
    """Return the tools that a condition requires by comparing `call.tool` with texts; None without one."""
    if isinstance(node, Logic):
        tools = [_find_tools(condition) for condition in node.conditions]
        if node.operator == "&&":
            return next((found for found in tools if found is not None), None)
        return None if None in tools else frozenset().union(*(found for found in tools if found is not None))
    if isinstance(node, Binary) and _is_tool(node.left):
        if node.operator == "==" and isinstance(node.right, Literal) and isinstance(node.right.value, str):
            return frozenset([node.right.value])
        if node.operator == "in" and isinstance(node.right, ListOf):
            values = [item.value for item in node.right.items if isinstance(item, Literal)]
            if len(values) == len(node.right.items):
                return frozenset(value for value in values if isinstance(value, str))
    return None


def _is_tool(node: Node) -> bool:
    return isinstance(node, Field) and node.field == "tool" and isinstance(node.operand, Name)


class _Compiler:
    def __init__(self, source: str) -> None:
        self._source = source

    def compile(self, node: Node, variables: frozenset[str]) -> _Function:
        match node:
            case Literal(value):
                return lambda _: value
            case ListOf(items):
                functions = [self.compile(item, variables) for item in items]
                return lambda evaluation: [function(evaluation) for function in functions]
            case Name(name, position):
                if name not in variables:
                    self._refuse(f"has the unknown name {name!r} at character {position}; known: {_KNOWN}")
                return lambda evaluation: evaluation.variables[name]
            case Field(Name("call"), name, is_test) if "call" not in variables:
                return self._compile_call_field(name, is_test)
            case Field(operand, name, is_test):
                return _compile_field(self.compile(operand, variables), name, is_test)
            case Index(operand, index):
                return _compile_index(self.compile(operand, variables), self.compile(index, variables))
            case FunctionCall():
                return self._compile_function(node, variables)
            case Macro(operand, variable, condition, is_all):
                inner = self.compile(condition, variables | {variable})
                cost = 3 + count_nodes(condition)
                return _compile_macro(self.compile(operand, variables), variable, inner, is_all, cost)
            case Unary(operator, operand):
                return _UNARY[operator](self.compile(operand, variables))
            case Logic(operator, conditions):
                return _compile_logic(operator, [self.compile(condition, variables) for condition in conditions])
            case Binary(operator, left, Literal(int() | float() as value)) if operator in _COMPARISONS and _is_number(
                value
            ):
                return _compile_limit(operator, self.compile(left, variables), value)
            case Binary("==", left, Literal(str(value))) if len(value) < CHARS_PER_STEP:
                return _compile_text_test(self.compile(left, variables), value)
            case Binary(operator, left, right):
                return _compile_binary(operator, self.compile(left, variables), self.compile(right, variables))
            case Conditional(condition, then, otherwise):
                functions = [self.compile(part, variables) for part in (condition, then, otherwise)]
                return lambda evaluation: functions[1 if _as_bool(functions[0](evaluation)) else 2](evaluation)

    def _compile_call_field(self, name: str, is_test: bool) -> _Function:
        if name not in ("tool", "args"):
            self._refuse(f"has the unknown field call.{name}; known: call.tool, call.args")
        if is_test:
            return lambda _: True
        if name == "tool":
            return lambda evaluation: evaluation.call.tool
        return lambda evaluation: evaluation.call.args

    def _compile_function(self, node: FunctionCall, variables: frozenset[str]) -> _Function:
        table: Mapping[str, tuple[int, Callable[..., Any]]] = _FUNCTIONS if node.operand is None else _METHODS
        if node.function not in table:
            listed = ", ".join(sorted(table))
            reason = "regular expressions are not supported; " if node.function == "matches" else ""
            self._refuse(
                f"has the unknown function {node.function!r} at character {node.position}; {reason}known: {listed}"
            )
        count, function = table[node.function]
        if len(node.arguments) != count:
            self._refuse(f"has {node.function} with {len(node.arguments)} arguments, it takes {count}")
        if node.function in _TOOL_FACTS and node.operand is None:
            return _compile_tool_fact(
                node.function, node.arguments[0], self.compile(node.arguments[0], variables), variables
            )
        operands = (*((node.operand,) if node.operand else ()), *node.arguments)
        compiled = [self.compile(operand, variables) for operand in operands]
        if len(compiled) == 1:
            single = compiled[0]
            return lambda evaluation: function(evaluation, single(evaluation))
        return lambda evaluation: function(evaluation, *(operand(evaluation) for operand in compiled))

    def _refuse(self, rule: str) -> NoReturn:
        raise InvalidTarget(self._source, rule)


def _compile_field(operand: _Function, name: str, is_test: bool) -> _Function:
    if is_test:
        return lambda evaluation: name in _as_object(operand(evaluation))
    return lambda evaluation: _as_object(operand(evaluation))[name]


def _compile_index(operand: _Function, index: _Function) -> _Function:
    def evaluate(evaluation: TargetEvaluation) -> Any:
        value, key = operand(evaluation), index(evaluation)
        if isinstance(value, list):
            if not _is_number(key) or key < 0 or int(key) != key:
                raise EvaluationFailed(f"has the index {key!r} for a list")
            return value[int(key)]
        return _as_object(value)[key]

    return evaluate


def _compile_macro(operand: _Function, variable: str, condition: _Function, is_all: bool, cost: int) -> _Function:
    def evaluate(evaluation: TargetEvaluation) -> bool:
        items = operand(evaluation)
        if not isinstance(items, list | dict):
            raise EvaluationFailed(f"goes through {type(items).__name__}, must be a list or an object")
        outer = evaluation.variables
        try:
            for item in items:
                evaluation.spend(cost)
                evaluation.variables = {**outer, variable: item}
                if _as_bool(condition(evaluation)) is not is_all:
                    return not is_all
        finally:
            evaluation.variables = outer
        return is_all

    return evaluate


def _compile_logic(operator: str, conditions: list[_Function]) -> _Function:
    decisive: bool = operator == "||"
    other: bool = not decisive
    failures = (EvaluationFailed, KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError)

    def evaluate(evaluation: TargetEvaluation) -> bool:
        # A decisive condition counts even if another one cannot be evaluated, as in CEL.
        failure: Exception | None = None
        for condition in conditions:
            try:
                value = condition(evaluation)
                if value is decisive:
                    return bool(decisive)
                if value is not other:
                    _as_bool(value)
            except failures as error:
                if evaluation.steps < 0:
                    raise
                failure = error
        if failure is not None:
            raise failure
        return other

    return evaluate


def _compile_limit(operator: str, left: _Function, limit: int | float) -> _Function:
    """Compile the comparison with a number, the most frequent one."""
    compare, general = _COMPARISONS[operator], _BINARY[operator]

    def evaluate(evaluation: TargetEvaluation) -> bool:
        value = left(evaluation)
        if type(value) is int or type(value) is float:
            return compare(value, limit)
        return bool(general(evaluation, value, limit))

    return evaluate


def _compile_text_test(left: _Function, text: str) -> _Function:
    """Compile the comparison with a short text, which takes one step."""

    def evaluate(evaluation: TargetEvaluation) -> bool:
        value = left(evaluation)
        if type(value) is str:
            evaluation.spend(1)
            return value == text
        return _equal(evaluation, value, text)

    return evaluate


def _compile_tool_fact(function: str, argument: Node, operand: _Function, variables: frozenset[str]) -> _Function:
    """Compile a fact about the earlier calls of a tool; the type of a tool that is known is not tested."""
    fact = _TOOL_FACTS[function]
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        tool = argument.value
        return lambda evaluation: fact(evaluation.session, tool)
    if _is_tool(argument) and "call" not in variables:
        return lambda evaluation: fact(evaluation.session, evaluation.call.tool)
    return lambda evaluation: fact(evaluation.session, _as_text(operand(evaluation)))


def _compile_binary(operator: str, left: _Function, right: _Function) -> _Function:
    function = _BINARY[operator]
    return lambda evaluation: function(evaluation, left(evaluation), right(evaluation))


def _as_bool(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise EvaluationFailed(f"has a condition of type {type(value).__name__}, must be true or false")


def _as_object(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise EvaluationFailed(f"reads a field of {type(value).__name__}, must be an object")


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise EvaluationFailed(f"has {type(value).__name__}, must be a text")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(evaluation: TargetEvaluation, left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, str) and isinstance(right, str):
        evaluation.spend(1 + min(len(left), len(right)) // CHARS_PER_STEP)
        return left == right
    if isinstance(left, list) and isinstance(right, list):
        evaluation.spend(1 + len(left))
        return len(left) == len(right) and all(
            _equal(evaluation, first, second) for first, second in zip(left, right, strict=True)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        evaluation.spend(1 + len(left))
        return left.keys() == right.keys() and all(_equal(evaluation, left[key], right[key]) for key in left)
    return bool(left == right)


def _contains(evaluation: TargetEvaluation, value: Any, container: Any) -> bool:
    if isinstance(container, dict):
        return isinstance(value, str) and value in container
    if not isinstance(container, list):
        raise EvaluationFailed(f"searches {type(container).__name__}, must be a list or an object")
    return any(_equal(evaluation, value, item) for item in container)


def _compare(compare: Callable[[Any, Any], bool]) -> Callable[[TargetEvaluation, Any, Any], bool]:
    def evaluate(evaluation: TargetEvaluation, left: Any, right: Any) -> bool:
        if (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
            return compare(left, right)
        raise EvaluationFailed(f"compares {type(left).__name__} with {type(right).__name__}")

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
    if not (_is_number(left) and _is_number(right)):
        raise EvaluationFailed(f"cannot calculate with {type(left).__name__} and {type(right).__name__}")
    value = operation(left, right)
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise EvaluationFailed("overflows the range of integers")
    return value


def _negate(operand: _Function) -> _Function:
    return lambda evaluation: _calculate(0, operand(evaluation), lambda zero, value: zero - value)


def _invert(operand: _Function) -> _Function:
    return lambda evaluation: not _as_bool(operand(evaluation))


def _search(evaluation: TargetEvaluation, text: Any, part: Any, search: Callable[[str, str], bool]) -> bool:
    text, part = _as_text(text), _as_text(part)
    evaluation.spend(1 + (len(text) + len(part)) // CHARS_PER_STEP)
    return search(text, part)


def _lower(evaluation: TargetEvaluation, text: Any) -> str:
    evaluation.spend(1 + len(_as_text(text)) // CHARS_PER_STEP)
    return _as_text(text).lower()


def _measure(evaluation: TargetEvaluation, value: Any) -> int:
    if isinstance(value, str | list | dict):
        return len(value)
    raise EvaluationFailed(f"has the size of {type(value).__name__}, must be a text, a list or an object")


def _occurs(evaluation: TargetEvaluation, value: Any, occurs: Callable[[Any], bool]) -> bool:
    if isinstance(value, list | dict):
        evaluation.spend(1 + len(value))
        return all(_occurs(evaluation, item, occurs) for item in (value.values() if isinstance(value, dict) else value))
    if isinstance(value, str):
        evaluation.spend(1 + (len(value) + evaluation.session.size) // CHARS_PER_STEP)
    return occurs(value)


def _find_key(call: ToolCallRequest) -> str:
    if call.is_large:
        raise EvaluationFailed(f"compares calls whose arguments have more than {MAX_KEY_ARGUMENTS_CHARS:,} characters")
    return call.key


def _convert_to_number(evaluation: TargetEvaluation, value: Any) -> float:
    if isinstance(value, str) and len(value) > 40:
        raise EvaluationFailed("converts a text of more than 40 characters to a number")
    if not isinstance(value, str) and not _is_number(value):
        raise EvaluationFailed(f"converts {type(value).__name__} to a number")
    return float(value)


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_TOOL_FACTS: Mapping[str, Callable[[SessionHistory, str], Any]] = {
    "called": lambda session, tool: session.counts[tool] > 0,
    "succeeded": lambda session, tool: session.successes[tool] > 0,
    "count": lambda session, tool: session.counts[tool],
    "last_result": lambda session, tool: session.results.get(tool),
    "last_args": lambda session, tool: session.arguments.get(tool),
}
_UNARY = {"!": _invert, "-": _negate}
_BINARY: Mapping[str, Callable[[TargetEvaluation, Any, Any], Any]] = {
    "==": _equal,
    "!=": lambda evaluation, left, right: not _equal(evaluation, left, right),
    **{operator: _compare(compare) for operator, compare in _COMPARISONS.items()},
    "in": _contains,
    "+": _add,
    "-": lambda _, left, right: _calculate(left, right, lambda first, second: first - second),
    "*": lambda _, left, right: _calculate(left, right, lambda first, second: first * second),
    "/": lambda _, left, right: _calculate(left, right, _divide),
    "%": lambda _, left, right: _calculate(left, right, _take_remainder),
}
_FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    **{name: (1, fact) for name, fact in _TOOL_FACTS.items()},
    "repeats": (0, lambda evaluation: evaluation.session.repeats[_find_key(evaluation.call)]),
    "failures": (0, lambda evaluation: evaluation.session.failures[_find_key(evaluation.call)]),
    "seen": (1, lambda evaluation, value: _occurs(evaluation, value, evaluation.session.has_seen)),
    "found": (1, lambda evaluation, value: _occurs(evaluation, value, evaluation.session.has_found)),
    "said": (1, lambda evaluation, value: _occurs(evaluation, value, evaluation.session.is_from_user)),
    "user_confirmed": (0, lambda evaluation: evaluation.session.is_confirmed),
    "size": (1, _measure),
    "double": (1, _convert_to_number),
}
_METHODS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "contains": (1, lambda evaluation, text, part: _search(evaluation, text, part, lambda a, b: b in a)),
    "startsWith": (1, lambda evaluation, text, part: _search(evaluation, text, part, str.startswith)),
    "endsWith": (1, lambda evaluation, text, part: _search(evaluation, text, part, str.endswith)),
    "lowerAscii": (0, _lower),
    "size": (0, _measure),
}
_KNOWN = f"call.tool, call.args, {', '.join(f'{name}()' for name in _FUNCTIONS)}"
