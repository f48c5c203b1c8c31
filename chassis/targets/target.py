"""Compile targets to functions of a call and its session, which are bounded in steps.

A target is true for a call that repeats the mistake of its lesson. Its vocabulary:

- `call.tool`, `call.args`: the tool and the arguments of the next call
- `called(tool)`, `succeeded(tool)`, `count(tool)`: of the earlier calls of the session
- `last_result(tool)`: the last result of a tool, parsed if it is JSON; null without a call
- `repeats()`: the number of earlier calls with the same tool and the same arguments
- `last_args(tool)`: the arguments of the last call of a tool; null without a call
- `succeeded_args(tool)`: the list of the arguments of the earlier calls of a tool that succeeded
- `failures()`: the number of earlier calls with the same tool and the same arguments that failed
- `retries()`: the number of the calls directly before this one that were the same and failed
- `seen(value)`: the value occurs in a message of the user, in the instructions, or in an earlier result
- `found(value)`: the value occurs in an earlier result; `said(value)`: it occurs in a message of the user
- `user_confirmed()`: the last message of the user agrees to the proposal of the agent
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from chassis.errors import shorten
from chassis.targets.errors import EvaluationFailed, InvalidTarget
from chassis.targets.evaluation import CHARS_PER_STEP, Evaluate, TargetEvaluation
from chassis.targets.operations import (
    BINARY,
    COMPARISONS,
    FUNCTIONS,
    KNOWN,
    METHODS,
    TOOL_FACTS,
    UNARY,
    are_equal,
    describe_kind,
    is_number,
    require_bool,
    require_object,
    require_text,
)
from chassis.targets.session import SessionHistory, ToolCallRequest
from chassis.targets.simple_conditions import find_simple_conditions
from chassis.targets.syntax import (
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

FAILURES = (
    EvaluationFailed,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)
"""The errors with which the evaluation of a target fails."""


class Target:
    """A compiled target.

    `tools` are the tools whose calls alone can match it; None if every call can. `evaluate` is the compiled condition:
    it is true or false, or fails with one of FAILURES. It is false if one of `simple_conditions` is.
    """

    __slots__ = ("evaluate", "simple_conditions", "source", "tools")

    def __init__(self, source: str) -> None:
        """Compile a target. Raises InvalidTarget."""
        tree = parse(source)
        self.source = source
        self.tools = _find_tools(tree)
        self.simple_conditions = find_simple_conditions(tree)
        self.evaluate = _Compiler(source).compile(tree, frozenset())

    def matches(self, call: ToolCallRequest, session: SessionHistory) -> bool:
        """Return whether a call, after the earlier calls of its session, repeats the mistake.

        Raises:
            EvaluationFailed: a field is missing, a type is wrong, or the evaluation takes too many steps.
        """
        if self.tools is not None and call.tool not in self.tools:
            return False
        try:
            return require_bool(self.evaluate(TargetEvaluation(call, session)))
        except FAILURES as error:
            raise EvaluationFailed(describe_failure(error)) from error


def describe_failure(error: Exception) -> str:
    """Return the reason for which a target cannot be evaluated, one of FAILURES."""
    match error:
        case EvaluationFailed():
            return str(error)
        case KeyError():
            return f"reads the missing field {shorten(repr(error.args[0]))}"
        case IndexError():
            return "reads beyond the end of a list"
        case ZeroDivisionError():
            return "divides by zero"
        case RecursionError():
            return "nests values too deeply"
        case ValueError():
            return "converts a text to a number that it does not hold"
        case _:
            return "combines values of unsuitable kinds"


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

    def compile(self, node: Node, variables: frozenset[str]) -> Evaluate:
        match node:
            case Literal(value):
                return lambda _: value
            case ListOf(items):
                functions = [self.compile(item, variables) for item in items]
                return lambda evaluation: [function(evaluation) for function in functions]
            case Name(name, position):
                if name not in variables:
                    self._refuse(f"has the unknown name {name!r} at character {position}; known: {KNOWN}")
                return lambda evaluation: evaluation.variables[name]
            case Field(Name("call"), name, is_test) if "call" not in variables:
                return self._compile_call_field(name, is_test)
            case Field(Field(Name("call"), "args", False), name, False) if "call" not in variables:
                return lambda evaluation: evaluation.call.args[name]
            case Field(operand, name, is_test):
                return _compile_field(self.compile(operand, variables), name, is_test)
            case Index(operand, index):
                return _compile_index(self.compile(operand, variables), self.compile(index, variables))
            case FunctionCall("called", (Literal(str(tool)),), _, None):
                return lambda evaluation: tool in evaluation.session.counts
            case FunctionCall("succeeded", (Literal(str(tool)),), _, None):
                return lambda evaluation: tool in evaluation.session.successes
            case FunctionCall():
                return self._compile_function(node, variables)
            case Macro(operand, variable, condition, is_all):
                inner = self.compile(condition, variables | {variable})
                cost = 3 + count_nodes(condition)
                return _compile_macro(self.compile(operand, variables), variable, inner, is_all, cost)
            case Unary("!", FunctionCall("called", (Literal(str(tool)),), _, None)):
                return lambda evaluation: tool not in evaluation.session.counts
            case Unary("!", FunctionCall("succeeded", (Literal(str(tool)),), _, None)):
                return lambda evaluation: tool not in evaluation.session.successes
            case Unary(operator, operand):
                return UNARY[operator](self.compile(operand, variables))
            case Logic(operator, conditions):
                return _compile_logic(operator, [self.compile(condition, variables) for condition in conditions])
            case Binary(
                operator, FunctionCall("count", (Field(Name("call"), "tool", False),), _, None), Literal(int(value))
            ) if operator in COMPARISONS and "call" not in variables and is_number(value):
                return _compile_call_count_comparison(operator, value)
            case Binary(
                operator, Field(Field(Name("call"), "args", False), name, False), Literal(int() | float() as value)
            ) if operator in COMPARISONS and "call" not in variables and is_number(value):
                return _compile_argument_limit(operator, name, value)
            case Binary(operator, left, Literal(int() | float() as value)) if operator in COMPARISONS and is_number(
                value
            ):
                return _compile_limit(operator, self.compile(left, variables), value)
            case Binary("==", left, Literal(str(value))) if len(value) < CHARS_PER_STEP:
                return _compile_text_test(self.compile(left, variables), value)
            case Binary(operator, left, right):
                return _compile_binary(operator, self.compile(left, variables), self.compile(right, variables))
            case Conditional(condition, then, otherwise):
                functions = [self.compile(part, variables) for part in (condition, then, otherwise)]
                return lambda evaluation: functions[1 if require_bool(functions[0](evaluation)) else 2](evaluation)

    def _compile_call_field(self, name: str, is_test: bool) -> Evaluate:
        if name not in ("tool", "args"):
            self._refuse(f"has the unknown field call.{name}; known: call.tool, call.args")
        if is_test:
            return lambda _: True
        if name == "tool":
            return lambda evaluation: evaluation.call.tool
        return lambda evaluation: evaluation.call.args

    def _compile_function(self, node: FunctionCall, variables: frozenset[str]) -> Evaluate:
        table: Mapping[str, tuple[int, Callable[..., Any]]] = FUNCTIONS if node.operand is None else METHODS
        if node.function not in table:
            listed = ", ".join(sorted(table))
            reason = "regular expressions are not supported; " if node.function == "matches" else ""
            self._refuse(
                f"has the unknown function {node.function!r} at character {node.position}; {reason}known: {listed}"
            )
        count, function = table[node.function]
        if len(node.arguments) != count:
            self._refuse(f"has {node.function} with {len(node.arguments)} arguments, it takes {count}")
        if node.function in TOOL_FACTS and node.operand is None:
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


def _compile_field(operand: Evaluate, name: str, is_test: bool) -> Evaluate:
    if is_test:
        return lambda evaluation: name in require_object(operand(evaluation))
    return lambda evaluation: require_object(operand(evaluation))[name]


def _compile_index(operand: Evaluate, index: Evaluate) -> Evaluate:
    def evaluate(evaluation: TargetEvaluation) -> Any:
        value, key = operand(evaluation), index(evaluation)
        if isinstance(value, list):
            if not is_number(key) or key < 0 or int(key) != key:
                raise EvaluationFailed(
                    f"uses {shorten(repr(key))} as the index of a list, must be a whole number from 0"
                )
            return value[int(key)]
        return require_object(value)[key]

    return evaluate


def _compile_macro(operand: Evaluate, variable: str, condition: Evaluate, is_all: bool, cost: int) -> Evaluate:
    def evaluate(evaluation: TargetEvaluation) -> bool:
        items = operand(evaluation)
        if not isinstance(items, list | dict):
            raise EvaluationFailed(f"iterates over {describe_kind(items)}, must be a list or an object")
        outer = evaluation.variables
        try:
            for item in items:
                evaluation.spend(cost)
                evaluation.variables = {**outer, variable: item}
                if require_bool(condition(evaluation)) is not is_all:
                    return not is_all
        finally:
            evaluation.variables = outer
        return is_all

    return evaluate


def _compile_logic(operator: str, conditions: Sequence[Evaluate]) -> Evaluate:
    """Compile joined conditions as pairs of halves, so that a check passes through few functions."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    first, second = _compile_logic(operator, conditions[:middle]), _compile_logic(operator, conditions[middle:])
    decisive: bool = operator == "||"
    other: bool = not decisive

    def evaluate(evaluation: TargetEvaluation) -> bool:
        value: object
        try:
            value = first(evaluation)
            if value is decisive:
                return decisive
            if value is not other:
                require_bool(value)
        except FAILURES:
            # A decisive condition counts even if another one cannot be evaluated, as in CEL.
            if evaluation.steps >= 0 and second(evaluation) is decisive:
                return not other
            raise
        value = second(evaluation)
        return value if value is decisive or value is other else require_bool(value)

    return evaluate


def _compile_argument_limit(operator: str, name: str, limit: int | float) -> Evaluate:
    """Compile the comparison of an argument with a number in one function, the most frequent one."""
    compare, general = COMPARISONS[operator], BINARY[operator]

    def evaluate(evaluation: TargetEvaluation) -> bool:
        value = evaluation.call.args[name]
        if type(value) is int or type(value) is float:
            return compare(value, limit)
        return bool(general(evaluation, value, limit))

    return evaluate


def _compile_limit(operator: str, left: Evaluate, limit: int | float) -> Evaluate:
    """Compile the comparison with a number."""
    compare, general = COMPARISONS[operator], BINARY[operator]

    def evaluate(evaluation: TargetEvaluation) -> bool:
        value = left(evaluation)
        if type(value) is int or type(value) is float:
            return compare(value, limit)
        return bool(general(evaluation, value, limit))

    return evaluate


def _compile_text_test(left: Evaluate, text: str) -> Evaluate:
    """Compile the comparison with a short text, which takes one step."""

    def evaluate(evaluation: TargetEvaluation) -> bool:
        value = left(evaluation)
        if type(value) is str:
            evaluation.spend(1)
            return value == text
        return are_equal(evaluation, value, text)

    return evaluate


def _compile_call_count_comparison(operator: str, limit: int) -> Evaluate:
    """Compile the comparison of `count(call.tool)` with a number in one function, because most checks evaluate it."""
    compare = COMPARISONS[operator]
    return lambda evaluation: compare(evaluation.earlier, limit)


def _compile_tool_fact(function: str, argument: Node, operand: Evaluate, variables: frozenset[str]) -> Evaluate:
    """Compile a fact about the earlier calls of a tool; the type of a tool that is known is not tested."""
    fact = TOOL_FACTS[function]
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        tool = argument.value
        return lambda evaluation: fact(evaluation.session, tool)
    if _is_tool(argument) and "call" not in variables:
        return lambda evaluation: fact(evaluation.session, evaluation.call.tool)
    return lambda evaluation: fact(evaluation.session, require_text(operand(evaluation)))


def _compile_binary(operator: str, left: Evaluate, right: Evaluate) -> Evaluate:
    function = BINARY[operator]
    return lambda evaluation: function(evaluation, left(evaluation), right(evaluation))
