"""CEL expressions (Common Expression Language), evaluated within a budget."""

from __future__ import annotations

from typing import Any

import celpy
import lark
from celpy.adapter import json_to_cel
from celpy.celparser import CELParseError
from celpy.celtypes import BoolType
from celpy.evaluation import CELEvalError, Context, Evaluator

from chassis.errors import shorten
from services.validator.adapters.rules.budget import RuleBudget, RuleTooExpensive

MAX_VALUE_SIZE = 100_000
MAX_NESTING = 60


class ExpressionInvalid(ValueError):
    """The text is no CEL expression."""


class _BudgetedEvaluator(Evaluator):
    """Counts a step for every visited node, also inside macros, and refuses to build huge values."""

    budget: RuleBudget

    def _visit_tree(self, tree: lark.Tree[Any]) -> Any:
        self.budget.spend_step()
        value = super()._visit_tree(tree)
        if isinstance(value, str | bytes | list):
            self.budget.refuse_larger(len(value), MAX_VALUE_SIZE)
        return value

    def sub_evaluator(self, ast: lark.Tree[Any]) -> Evaluator:
        """Return the evaluator of a macro's body, with the same budget."""
        inner = _BudgetedEvaluator(ast, activation=self.activation)
        inner.budget = self.budget
        return inner


class _BudgetedRunner(celpy.InterpretedRunner):
    """Runs a compiled expression within a budget."""

    def evaluate_within(self, budget: RuleBudget, context: Context) -> Any:
        """Return the value of the expression."""
        evaluator = _BudgetedEvaluator(ast=self.ast, activation=self.new_activation())
        evaluator.budget = budget
        return evaluator.evaluate(context)


class CelExpression:
    """A compiled expression over `report`, `valid_node_ids` and `this`. `matches` uses RE2, which takes linear time."""

    def __init__(self, text: str) -> None:
        """Raise ExpressionInvalid."""
        environment = celpy.Environment(runner_class=_BudgetedRunner)
        try:
            tree = environment.compile(text)
        except (CELParseError, RecursionError, ValueError) as error:
            reason = str(error).strip().splitlines()
            raise ExpressionInvalid(shorten(reason[0]) if reason else "not a CEL expression") from None
        if _compute_depth(tree) > MAX_NESTING:
            raise ExpressionInvalid(f"nested deeper than {MAX_NESTING} levels")
        self._runner = _BudgetedRunner(environment, tree)

    def find_failure(self, variables: Context, budget: RuleBudget) -> str:
        """Return the reason why the expression is not true; empty if it is true."""
        try:
            value = self._runner.evaluate_within(budget, variables)
        except RuleTooExpensive as error:
            return f"exceeded its limit of {error}"
        except (CELEvalError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            if budget.spent:
                return "exceeded a limit of the evaluation"
            return f"cannot be evaluated: {shorten(str(error.args[0] if error.args else error))}"
        if isinstance(value, BoolType):
            return "" if value else "does not hold"
        return "must evaluate to true or false"


def _compute_depth(tree: lark.Tree[Any]) -> int:
    """Return the levels of operators and calls; levels with a single child are grammar, not nesting."""
    deepest = 0
    pending: list[tuple[lark.Tree[Any], int]] = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        children = [child for child in node.children if isinstance(child, lark.Tree)]
        deepest = max(deepest, depth)
        pending.extend((child, depth + (len(node.children) > 1)) for child in children)
    return deepest


def to_cel(value: Any) -> Any:
    """Return a JSON value as a CEL value."""
    return json_to_cel(value)
