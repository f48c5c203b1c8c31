"""The prompts that make, change and replace plans."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from libs.prompts.language import Language
from libs.prompts.templates import fill
from services.planner.domain.plan_rules import MOST_STEPS, PlanRules
from services.planner.domain.plans import ExecutionPlan, PlanStep
from services.planner.domain.replanning import ReplanContext
from services.planner.domain.template import COLLECTIONS_WHEN_UNKNOWN, PREFERRED_COLLECTION
from services.planner.prompts.texts import PROMPTS, PlannerPrompts

MAX_COLLECTIONS = 100
_NOTES = ("title", "description", "default", "minLength", "maxLength", "maxItems")
_PLAN_FIELDS = ("requires_confirmation", "success_criteria")
_SHOWN_FIELDS = ("step_id", "action", "query", "collection", "depends_on", "fallback")


def format_planning_rules(rules: PlanRules, tools: Sequence[str]) -> str:
    """Return the system prompt of the planning model (P-16); `tools` are the lines that describe the tools."""
    texts = PROMPTS[rules.language]
    collections = [rules.collection] if rules.collection else rules.collections
    if collections is None:
        collections = [rules.prefix + name for name in COLLECTIONS_WHEN_UNKNOWN]
    preferred = rules.prefix + PREFERRED_COLLECTION
    values = {
        "fewest": str(rules.fewest_steps),
        "most": str(MOST_STEPS),
        "first": fill(texts.first_collection, {"collection": preferred}) if preferred in collections else "",
        "tools": "\n".join(tools),
        "collections": _format_collections(collections, texts),
        "schema": json.dumps(_build_schema(sorted(rules.actions)), ensure_ascii=False),
        "example_query": texts.example_query,
        "example": _build_example(texts),
    }
    return fill(texts.planning, values)


def _format_collections(collections: Sequence[str], texts: PlannerPrompts) -> str:
    names = ", ".join(collections[:MAX_COLLECTIONS]) or texts.no_collections
    more = len(collections) - MAX_COLLECTIONS
    return f"{names} {fill(texts.more_collections, {'count': str(more)})}" if more > 0 else names


def _build_schema(actions: list[str]) -> dict[str, Any]:
    """Return the JSON schema of the fields that the model chooses, with the present tools as actions."""
    schema = ExecutionPlan.model_json_schema()
    plan, step = schema["properties"], schema["$defs"][PlanStep.__name__]
    fields = {name: _remove_notes(shape) for name, shape in step["properties"].items()}
    fields |= {"action": {"enum": actions}, "fallback": {"enum": [*actions, None]}}
    steps = {"type": "array", "items": {"type": "object", "properties": fields, "required": step["required"]}}
    properties = {"steps": steps, **{name: _remove_notes(plan[name]) for name in _PLAN_FIELDS}}
    return {"type": "object", "properties": properties, "required": ["steps", "requires_confirmation"]}


def _remove_notes(shape: Any) -> Any:
    """Return a schema without titles, defaults and limits that a plan hardly reaches."""
    if isinstance(shape, list):
        return [_remove_notes(item) for item in shape]
    if not isinstance(shape, dict):
        return shape
    return {name: _remove_notes(value) for name, value in shape.items() if name not in _NOTES}


def _build_example(texts: PlannerPrompts) -> str:
    first, second, last, *queries, expected, answer = texts.example_texts
    steps: list[dict[str, Any]] = [
        {"step_id": i, "action": "rag_search", "description": text, "query": query, "expected_output": expected}
        for i, (text, query) in enumerate(zip((first, second), queries, strict=True), start=1)
    ]
    steps.append(
        {
            "step_id": 3,
            "action": "reasoning",
            "description": last,
            "query": texts.example_query,
            "depends_on": [1, 2],
            "expected_output": answer,
        }
    )
    return json.dumps({"steps": steps, "requires_confirmation": False}, ensure_ascii=False)


def build_planning_prompt(query: str, hints: str | None, language: Language) -> str:
    """Return the prompt with a query; hints are a part of their own (P-23)."""
    texts = PROMPTS[language]
    parts = [fill(texts.query, {"query": query})]
    if hints:
        parts.append(fill(texts.hints, {"hints": hints}))
    return "\n".join(parts)


def build_refinement_hints(plan: ExecutionPlan, feedback: str, language: Language) -> str:
    """Return the hints with a plan and the feedback on it (P-22)."""
    texts = PROMPTS[language]
    return "\n".join([texts.current_plan, *_describe_steps(plan), fill(texts.feedback, {"text": feedback})])


def build_replan_hints(context: ReplanContext, plan: ExecutionPlan, *, broader: bool, language: Language = "ja") -> str:
    """Return the hints about a replan (P-101, P-105); only the prompt of the planning model contains them (P-138)."""
    texts = PROMPTS[language]
    parts = [texts.current_plan, *_describe_steps(plan)]
    if context.failed_step_id is not None:
        step = texts.failed_step if context.error_message else texts.questioned_step
        parts.append(fill(step, {"step_id": str(context.failed_step_id)}))
    causes = (
        (texts.error, context.error_message),
        (texts.user_feedback, context.user_feedback),
        (texts.new_information, context.new_information),
    )
    parts += [fill(template, {"text": text}) for template, text in causes if text]
    if broader:
        parts.append(texts.broader)
    elif context.completed_results:
        parts.append(texts.finished)
        parts += [f"- Step {i}: {(r.output or '')[:300]}" for i, r in sorted(context.completed_results.items())]
        parts.append(fill(texts.rest_only, {"next": str(max(step.step_id for step in plan.steps) + 1)}))
    parts.append(texts.no_repetition)
    return "\n".join(parts)


def _describe_steps(plan: ExecutionPlan) -> list[str]:
    """Return a line of JSON for each step."""
    return [
        json.dumps(
            {name: fields[name] for name in _SHOWN_FIELDS if fields[name]} | {"description": step.description[:200]},
            ensure_ascii=False,
        )
        for step in plan.steps
        for fields in [step.model_dump(mode="json")]
    ]
