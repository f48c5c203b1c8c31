"""Make plans: by the model where the query needs it, else by the template (P-14 to P-24)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chassis.errors import shorten
from chassis.logging import get_logger
from libs.llm.replies import extract_json_object
from libs.prompts.language import Language, LanguageSetting, choose_language
from services.planner.domain.complexity import estimate_by_keywords
from services.planner.domain.confidence import clamp01
from services.planner.domain.errors import EmptyQuery, InvalidPlan, UnknownCollection
from services.planner.domain.plan_rules import PlanRules, complete_plan, find_unavailable, repair_fields
from services.planner.domain.plans import (
    Action,
    ExecutionPlan,
    create_plan_id,
    ensure_plan_id,
    parse_plan,
    prepare_plan,
    utc_now,
)
from services.planner.domain.template import COMPLEXITY_AFTER_ERROR, build_template_plan
from services.planner.prompts.planning import build_planning_prompt, build_refinement_hints, format_planning_rules
from services.planner.prompts.texts import PROMPTS
from services.planner.usecases.ports import CompletionModel, SearchBackend
from services.planner.usecases.tools import (
    AskUserTool,
    ExtractiveReasoningTool,
    RAGSearchTool,
    ToolRegistry,
    list_collections_within,
)

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
    """Makes a plan for a query with the tools that are there. Without a model (offline) every plan is the template."""

    def __init__(
        self,
        backend: SearchBackend,
        model: CompletionModel | None = None,
        *,
        tools: ToolRegistry | None = None,
        simple_threshold: float = 0.4,
        estimator: CompletionModel | None = None,
        language: LanguageSetting = "auto",
    ) -> None:
        self._backend = backend
        self._model = model
        self._tools = tools or ToolRegistry([RAGSearchTool(backend), ExtractiveReasoningTool(), AskUserTool()])
        self._estimator = estimator
        self._language: LanguageSetting = language
        self.simple_threshold = simple_threshold

    async def estimate_complexity(self, query: str) -> float:
        """Return the complexity of a query: by keywords, or by the model where that is configured (P-13, P-14)."""
        value = estimate_by_keywords(query)
        if self._estimator is None:
            return value
        try:
            reply = await self._estimator.complete(PROMPTS[self._choose_language(query)].complexity, query)
            return clamp01(_parse_number(reply.text))
        except Exception as error:  # P-14: any error gives the keyword value
            _log.warning("complexity estimate failed", error=shorten(str(error)))
            return value

    async def list_collections(self, prefix: str = "") -> list[str] | None:
        """Return the collections that can be searched; None if listing them fails (P-18)."""
        try:
            return await list_collections_within(self._backend, prefix)
        except Exception as error:  # P-18: planning continues without a search service
            _log.warning("listing collections failed", error=shorten(str(error)))
            return None

    async def create_plan(
        self,
        query: str,
        hints: str | None = None,
        *,
        gate: bool = True,
        prefix: str = "",
        collection: str = "",
        kept_ids: Iterable[int] = (),
    ) -> MadePlan:
        """Make a plan for `query` (P-15, P-19). `gate` false: use the model however simple the query is (P-101).

        The plan may access only names that begin with `prefix`. Its searches search `collection`; empty: any.
        `kept_ids` are the steps that a replan keeps. Raises EmptyQuery, UnknownCollection.
        """
        if not query.strip():
            raise EmptyQuery
        complexity = await self.estimate_complexity(query)
        rules = await self._load_plan_rules(query, prefix, collection, kept_ids)
        if gate and complexity < self.simple_threshold:
            return MadePlan(_build_plan_from_template(query, complexity, rules), from_template=True)
        if self._model is None:
            return MadePlan(
                _build_plan_from_template(query, complexity, rules), True, "offline: no model is configured"
            )
        return await self._plan_by_model(self._model, query, hints, rules)

    async def check_plan(self, plan: ExecutionPlan, prefix: str = "") -> ExecutionPlan:
        """Return a caller's plan with an id. Raises InvalidPlan if it cannot be executed with the present tools."""
        identified = prepare_plan(plan, prefix, self._language)
        names_collection = any(step.collection for step in identified.steps)
        collections = await self.list_collections(identified.prefix) if names_collection else None
        if messages := find_unavailable(identified, self._build_rules(identified.original_query, collections)):
            raise InvalidPlan(messages)
        return identified

    async def _load_plan_rules(
        self, query: str, prefix: str, collection: str = "", kept_ids: Iterable[int] = ()
    ) -> PlanRules:
        """Return the rules for a new plan. Raises UnknownCollection."""
        collections = await self.list_collections(prefix)
        if collection and collections is not None and collection not in collections:
            raise UnknownCollection(collection, collections)
        return self._build_rules(query, collections, collection, prefix, frozenset(kept_ids))

    def _build_rules(
        self,
        query: str,
        collections: Sequence[str] | None,
        collection: str = "",
        prefix: str = "",
        kept_ids: frozenset[int] = frozenset(),
    ) -> PlanRules:
        actions = frozenset(action for action in Action if self._tools.get(action))
        return PlanRules(actions, collections, collection, prefix, kept_ids, self._choose_language(query))

    def _choose_language(self, query: str) -> Language:
        return choose_language(self._language, query)

    async def _plan_by_model(self, model: CompletionModel, query: str, hints: str | None, rules: PlanRules) -> MadePlan:
        tokens = cost = 0
        try:
            tools = self._tools.describe([action for action in Action if action in rules.actions], rules.language)
            reply = await model.complete(
                format_planning_rules(rules, tools), build_planning_prompt(query, hints, rules.language)
            )
            tokens, cost = reply.tokens, reply.cost_micro_usd
            plan = validate_plan(extract_json_object(reply.text), query, rules)
        except Exception as error:  # P-19: there is always a plan, even if the model fails
            reason = f"{type(error).__name__}: {shorten(str(error), 300)}"
            _log.warning("planning failed; using the template", error=reason)
            return MadePlan(_build_plan_from_template(query, COMPLEXITY_AFTER_ERROR, rules), True, reason, tokens, cost)
        return MadePlan(plan, tokens=tokens, cost_micro_usd=cost)

    async def refine_plan(self, plan: ExecutionPlan, feedback: str) -> MadePlan:
        """Make a plan again with feedback; return the same plan if that fails (P-22). Its id is kept (P-109)."""
        if self._model is None:
            return MadePlan(plan, template_reason="offline: no model is configured")
        rules = await self._load_plan_rules(plan.original_query, plan.prefix, plan.collection)
        hints = build_refinement_hints(plan, feedback, rules.language)
        made = await self._plan_by_model(self._model, plan.original_query, hints, rules)
        if made.from_template:
            return MadePlan(plan, False, made.template_reason, made.tokens, made.cost_micro_usd)
        refined = made.plan.model_copy(update={"plan_id": ensure_plan_id(plan).plan_id})
        return MadePlan(refined, tokens=made.tokens, cost_micro_usd=made.cost_micro_usd)


def _build_plan_from_template(query: str, complexity: float, rules: PlanRules) -> ExecutionPlan:
    collections = [rules.collection] if rules.collection else rules.collections
    plan = build_template_plan(query, complexity, collections, rules.prefix, rules.language)
    return plan.model_copy(update={"collection": rules.collection})


def validate_plan(fields: dict[str, object], query: str, rules: PlanRules) -> ExecutionPlan:
    """Return the plan of a model, repaired and validated, with the fields that the model may not choose (P-17).

    Raises InvalidPlan.
    """
    fixed = {
        "original_query": query,
        "complexity": estimate_by_keywords(query),
        "plan_id": create_plan_id(rules.prefix),
        "created_at": utc_now(),
        "estimated_steps": None,
        "collection": rules.collection,
    }
    repaired = repair_fields(fields, rules)
    return complete_plan(parse_plan({"requires_confirmation": False, **repaired, **fixed}), rules)


def _parse_number(text: str) -> float:
    value = float(text.strip())
    if value != value:
        raise ValueError("not a number")
    return value
