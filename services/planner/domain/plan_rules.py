"""Check and repair plans by the tools and collections that are there (P-16)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from chassis.errors import shorten
from libs.prompts.language import Language
from services.planner.domain.errors import InvalidPlan
from services.planner.domain.plans import (
    MAX_STEP_ID,
    Action,
    ExecutionPlan,
    PlanStep,
    find_faults,
    replace_steps,
)
from services.planner.domain.texts import TEXTS

FEWEST_STEPS, MOST_STEPS = 2, 5


@dataclass(frozen=True, slots=True)
class PlanRules:
    """The tools and collections that the steps of a plan may use.

    `collections` is None if they are unknown. All searches search `collection`, if one is named. `kept_ids` are the
    steps of a replaced plan whose results are kept.
    """

    actions: frozenset[str]
    collections: Sequence[str] | None = None
    collection: str = ""
    prefix: str = ""
    kept_ids: frozenset[int] = frozenset()
    language: Language = "ja"

    @property
    def fewest_steps(self) -> int:
        """Return the fewest steps of a plan: one is enough to complete a plan that keeps steps."""
        return 1 if self.kept_ids else FEWEST_STEPS


def repair_fields(fields: Mapping[str, Any], rules: PlanRules) -> dict[str, Any]:
    """Return the fields of a model's plan, repaired where the intention is clear.

    A query that is a JSON object becomes its text, an unknown fallback is left out, an unknown action is replaced by
    its fallback, a search of an unknown collection searches all, and dependencies on kept steps, which a joined plan
    has anyway, are left out (P-104).
    """
    steps = fields.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return dict(fields)
    own_ids = [step.get("step_id") for step in steps]
    dropped_ids = [step_id for step_id in rules.kept_ids if step_id not in own_ids]
    return {**fields, "steps": [_repair_step(step, rules, dropped_ids) for step in steps]}


def _repair_step(step: Mapping[str, Any], rules: PlanRules, dropped_ids: Sequence[int]) -> dict[str, Any]:
    action, collection, depends_on = step.get("action"), step.get("collection"), step.get("depends_on")
    fallback = step.get("fallback") if str(step.get("fallback")) in rules.actions else None
    if str(action) not in rules.actions and fallback is not None:
        action, fallback = fallback, None
    if rules.collection or (rules.collections is not None and collection not in rules.collections):
        collection = rules.collection or None
    if isinstance(depends_on, list):
        depends_on = [dependency for dependency in depends_on if dependency not in dropped_ids]
    searches = Action.RAG_SEARCH in (action, fallback)
    query = step.get("query")
    return {
        **step,
        "query": json.dumps(query, ensure_ascii=False) if isinstance(query, dict) else query,
        "action": action,
        "fallback": fallback,
        "collection": collection if searches else None,
        "depends_on": depends_on or (),
    }


def complete_plan(plan: ExecutionPlan, rules: PlanRules) -> ExecutionPlan:
    """Return a model's plan that ends with a reasoning step which sees results (P-16).

    Raises InvalidPlan if the plan cannot be executed, or has too few or too many steps.
    """
    if faults := [*find_faults(plan, rules.prefix, rules.language), *find_unavailable(plan, rules)]:
        raise InvalidPlan(faults)
    *before, last = plan.steps
    earlier_ids = tuple(step.step_id for step in before)
    if last.action is not Action.REASONING:
        last_id = max(last.step_id, *earlier_ids, 0) + 1
        if last_id > MAX_STEP_ID:
            rule = f"and {MAX_STEP_ID} is the highest step_id"
            raise InvalidPlan([f"the plan needs a reasoning step after step {last_id - 1}, {rule}"])
        description = TEXTS[rules.language].answer_description
        reasoning = PlanStep(step_id=last_id, action=Action.REASONING, description=description)
        before, last, earlier_ids = [*before, last], reasoning, (*earlier_ids, last.step_id)
    if not last.depends_on:
        last = last.model_copy(update={"depends_on": tuple(i for i in earlier_ids if i < last.step_id)})
    steps = [*before, last]
    if not rules.fewest_steps <= len(steps) <= MOST_STEPS:
        text = TEXTS[rules.language].step_count
        raise InvalidPlan([text.format(count=len(steps), fewest=rules.fewest_steps, most=MOST_STEPS)])
    return replace_steps(plan, steps)


def find_unavailable(plan: ExecutionPlan, rules: PlanRules) -> list[str]:
    """Return a message for each action without a tool, and for each collection that does not exist."""
    return [message for step in plan.steps for message in _list_unavailable_parts(step, rules)]


def _list_unavailable_parts(step: PlanStep, rules: PlanRules) -> Iterable[str]:
    texts, actions = TEXTS[rules.language], [step.action, *([step.fallback] if step.fallback else [])]
    for action in actions:
        if action not in rules.actions:
            present = ", ".join(sorted(rules.actions))
            yield texts.unknown_action.format(step_id=step.step_id, action=action.value, present=present)
    name = step.collection
    if name and Action.RAG_SEARCH in actions and rules.collections is not None and name not in rules.collections:
        near = ", ".join(get_close_matches(name, rules.collections, n=3, cutoff=0.5)) or texts.none_near
        yield texts.unknown_collection.format(step_id=step.step_id, name=shorten(name), near=near)
