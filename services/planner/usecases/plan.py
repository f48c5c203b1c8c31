"""Make plans: by the model where the query needs it, else by the template (P-14 to P-24)."""

from __future__ import annotations

from dataclasses import dataclass

from chassis.errors import shorten
from chassis.logging import get_logger
from libs.llm.replies import extract_json_object
from services.planner.domain.complexity import keyword_complexity
from services.planner.domain.confidence import clamp01
from services.planner.domain.errors import EmptyQuery, InvalidPlan, UnknownCollection
from services.planner.domain.plans import ExecutionPlan, find_faults, new_plan_id, utc_now, with_plan_id
from services.planner.domain.template import (
    COLLECTIONS_WHEN_UNKNOWN,
    COMPLEXITY_AFTER_ERROR,
    template_plan,
)
from services.planner.prompts.planning import planning_rules
from services.planner.usecases.ports import CompletionModel, SearchBackend
from services.planner.usecases.tools import collections_within

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MadePlan:
    """A plan and its origin. `template_reason` is empty unless the model failed or is missing."""

    plan: ExecutionPlan
    from_template: bool = False
    template_reason: str = ""
    tokens: int = 0
    cost_micro_usd: int = 0


class Planner:
    """Makes a plan for a query. Without a model (offline) every plan is the template."""

    def __init__(
        self,
        backend: SearchBackend,
        model: CompletionModel | None = None,
        *,
        simple_threshold: float = 0.4,
        estimator: CompletionModel | None = None,
    ) -> None:
        self._backend = backend
        self._model = model
        self._estimator = estimator
        self.simple_threshold = simple_threshold

    async def estimate_complexity(self, query: str) -> float:
        """Return the complexity of a query: by keywords, or by the model where that is configured (P-13, P-14)."""
        value = keyword_complexity(query)
        if self._estimator is None:
            return value
        try:
            reply = await self._estimator.complete("質問の複雑さを 0 から 1 の数値だけで答えてください。", query)
            return clamp01(_parse_number(reply.text))
        except Exception as error:  # P-14: any error gives the keyword value
            _log.warning("complexity estimate failed", error=shorten(str(error)))
            return value

    async def collections(self, prefix: str = "") -> list[str] | None:
        """Return the collections that can be searched; None if listing them fails (P-18)."""
        try:
            return await collections_within(self._backend, prefix)
        except Exception as error:  # P-18: planning goes on without a search service
            _log.warning("listing collections failed", error=shorten(str(error)))
            return None

    async def create_plan(
        self, query: str, hints: str | None = None, *, gate: bool = True, prefix: str = "", collection: str = ""
    ) -> MadePlan:
        """Make a plan for `query` (P-15, P-19). `gate` false: use the model however simple the query is (P-101).

        The plan may access only names that begin with `prefix`. Its searches search `collection`; empty: any.
        Raises EmptyQuery, UnknownCollection.
        """
        if not query.strip():
            raise EmptyQuery
        complexity = await self.estimate_complexity(query)
        collections = await self.collections(prefix)
        if collection:
            if collections is not None and collection not in collections:
                raise UnknownCollection(collection, collections)
            collections = [collection]
        if gate and complexity < self.simple_threshold:
            return MadePlan(template_plan(query, complexity, collections, prefix), from_template=True)
        if self._model is None:
            template = template_plan(query, complexity, collections, prefix)
            return MadePlan(template, True, "offline: no model is configured")
        return await self._plan_by_model(self._model, query, hints, collections, prefix)

    async def _plan_by_model(
        self, model: CompletionModel, query: str, hints: str | None, collections: list[str] | None, prefix: str
    ) -> MadePlan:
        tokens = cost = 0
        try:
            prompt = f"# 質問\n{query}" + (f"\n# ヒント\n{hints}" if hints else "")
            names = collections or [prefix + name for name in COLLECTIONS_WHEN_UNKNOWN]
            reply = await model.complete(planning_rules(names, prefix), prompt)
            tokens, cost = reply.tokens, reply.cost_micro_usd
            plan = validated_plan(extract_json_object(reply.text), query, prefix)
        except Exception as error:  # P-19: whatever the model does, there is a plan
            reason = f"{type(error).__name__}: {shorten(str(error), 300)}"
            _log.warning("planning failed; using the template", reason=reason)
            template = template_plan(query, COMPLEXITY_AFTER_ERROR, collections, prefix)
            return MadePlan(template, True, reason, tokens, cost)
        return MadePlan(plan, tokens=tokens, cost_micro_usd=cost)

    async def refine_plan(self, plan: ExecutionPlan, feedback: str) -> MadePlan:
        """Make a plan again with feedback; return the same plan if that fails (P-22). Its id is kept (P-109)."""
        if self._model is None:
            return MadePlan(plan, template_reason="offline: no model is configured")
        plan_json = plan.model_dump_json(exclude={"created_at", "plan_id"})
        hints = f"今の計画: {plan_json}\nフィードバック: {feedback}"
        collections = await self.collections(plan.prefix)
        made = await self._plan_by_model(self._model, plan.original_query, hints, collections, plan.prefix)
        if made.from_template:
            return MadePlan(plan, False, made.template_reason, made.tokens, made.cost_micro_usd)
        refined = made.plan.model_copy(update={"plan_id": with_plan_id(plan).plan_id})
        return MadePlan(refined, tokens=made.tokens, cost_micro_usd=made.cost_micro_usd)


def validated_plan(fields: dict[str, object], query: str, prefix: str = "") -> ExecutionPlan:
    """Return the plan of a model, validated, with the fields that the model may not choose (P-17).

    Raises pydantic.ValidationError, InvalidPlan.
    """
    fixed = {
        "original_query": query,
        "complexity": keyword_complexity(query),
        "plan_id": new_plan_id(prefix),
        "created_at": utc_now(),
        "estimated_steps": None,
    }
    plan = ExecutionPlan.model_validate({"requires_confirmation": False, **fields, **fixed})
    if messages := find_faults(plan, prefix):
        raise InvalidPlan(messages)
    return plan


def _parse_number(text: str) -> float:
    value = float(text.strip())
    if value != value:
        raise ValueError("not a number")
    return value
