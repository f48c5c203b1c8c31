"""Simple conditions: those that take no steps, so that one look at a call decides them for many targets.

A target that begins with simple conditions is false if one of them is. `SimpleConditionIndex` looks once at each tool
and each number that the conditions of many targets name, and finds the targets that are false.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import or_

from chassis.targets.evaluation import TargetEvaluation
from chassis.targets.operations import COMPARISONS, is_number
from chassis.targets.syntax import Binary, Field, FunctionCall, Literal, Logic, Name, Node, Unary


@dataclass(frozen=True, slots=True)
class ToolFact:
    """`called(tool)` or `succeeded(tool)`, or with `is_true` false its negation."""

    function: str
    tool: str
    is_true: bool


@dataclass(frozen=True, slots=True)
class NumberLimit:
    """The comparison of an argument with a number; without an argument, that of `count(call.tool)`."""

    argument: str | None
    operator: str
    limit: int | float


SimpleCondition = ToolFact | NumberLimit


def find_simple_conditions(tree: Node) -> tuple[SimpleCondition, ...]:
    """Return the simple conditions with which the conditions of a target begin, joined by `&&`.

    Those after another condition are left out: that one may take all steps, and then the target fails.
    """
    found: list[SimpleCondition] = []
    for node in tree.conditions if isinstance(tree, Logic) and tree.operator == "&&" else (tree,):
        match node:
            case Binary("==" | "in", Field(Name("call"), "tool", False)):
                continue  # The index of guards has decided it.
            case FunctionCall("called" | "succeeded" as function, (Literal(str(tool)),), _, None):
                found.append(ToolFact(function, tool, True))
            case Unary("!", FunctionCall("called" | "succeeded" as function, (Literal(str(tool)),), _, None)):
                found.append(ToolFact(function, tool, False))
            case Binary(operator, left, Literal(int() | float() as limit)) if operator in COMPARISONS and is_number(
                limit
            ):
                match left:
                    case FunctionCall("count", (Field(Name("call"), "tool", False),), _, None):
                        found.append(NumberLimit(None, operator, limit))
                    case Field(Field(Name("call"), "args", False), argument, False):
                        found.append(NumberLimit(argument, operator, limit))
                    case _:
                        break
            case _:
                break
    return tuple(found)


class _FactTable:
    """The tools of one function, with the masks of the targets that are false without a call of it, or with one."""

    def __init__(self, facts: Iterable[tuple[ToolFact, int]]) -> None:
        self._needed: dict[str, int] = {}
        self._excluded: dict[str, int] = {}
        for fact, mask in facts:
            masks = self._needed if fact.is_true else self._excluded
            masks[fact.tool] = masks.get(fact.tool, 0) | mask
        self._needed_tools, self._excluded_tools = frozenset(self._needed), frozenset(self._excluded)

    def find_false_targets(self, counts: Mapping[str, int]) -> int:
        mask = 0
        for tool in self._needed_tools.difference(counts):
            mask |= self._needed[tool]
        for tool in self._excluded_tools.intersection(counts):
            mask |= self._excluded[tool]
        return mask


class _LimitTable:
    """The limits of one number and one operator in ascending order.

    A number is not greater than the limits from its position on, and not less than those before its position.
    """

    def __init__(self, operator: str, limits: Iterable[tuple[int | float, int]]) -> None:
        ascending = sorted(limits)
        masks = [mask for _, mask in ascending]
        self._limits = [limit for limit, _ in ascending]
        self._bisect = bisect_left if operator in (">", "<=") else bisect_right
        self._masks = (
            list(accumulate(reversed(masks), or_, initial=0))[::-1]
            if operator in (">", ">=")
            else list(accumulate(masks, or_, initial=0))
        )

    def find_false_targets(self, value: int | float) -> int:
        return self._masks[self._bisect(self._limits, value)]


class SimpleConditionIndex:
    """The simple conditions of several targets. A mask is an integer in which bit n stands for target n."""

    def __init__(self, conditions: Iterable[Iterable[SimpleCondition]]) -> None:
        """Index the simple conditions of each target."""
        facts: dict[str, list[tuple[ToolFact, int]]] = {"called": [], "succeeded": []}
        limits: dict[str | None, dict[str, list[tuple[int | float, int]]]] = {}
        for number, of_target in enumerate(conditions):
            for condition in of_target:
                if isinstance(condition, ToolFact):
                    facts[condition.function].append((condition, 1 << number))
                else:
                    by_operator = limits.setdefault(condition.argument, {})
                    by_operator.setdefault(condition.operator, []).append((condition.limit, 1 << number))
        self._called, self._succeeded = _FactTable(facts["called"]), _FactTable(facts["succeeded"])
        self._limits = [
            (argument, [_LimitTable(operator, compared) for operator, compared in by_operator.items()])
            for argument, by_operator in limits.items()
        ]

    def find_false_targets(self, evaluation: TargetEvaluation) -> int:
        """Return the mask of the targets of which a simple condition is false."""
        session, args = evaluation.session, evaluation.call.args
        mask = self._called.find_false_targets(session.counts) | self._succeeded.find_false_targets(session.successes)
        for argument, tables in self._limits:
            value = evaluation.earlier if argument is None else args.get(argument)
            if type(value) is int or type(value) is float:
                for table in tables:
                    mask |= table.find_false_targets(value)
        return mask
