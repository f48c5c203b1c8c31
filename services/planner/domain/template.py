"""The plan that needs no model: search, then answer (P-20)."""

from __future__ import annotations

from collections.abc import Sequence

from libs.prompts.language import Language
from services.planner.domain.plans import Action, ExecutionPlan, PlanStep, create_plan_id
from services.planner.domain.texts import TEXTS

PREFERRED_COLLECTION = "wikipedia_ja"
COLLECTIONS_WHEN_UNKNOWN = ("wikipedia_ja", "livedoor", "cc_news", "japanese_text")
COMPLEXITY_AFTER_ERROR = 0.5


def choose_template_collection(collections: Sequence[str] | None, prefix: str = "") -> str | None:
    """Return the collection that the template searches; None for all. `collections` is None if they are unknown."""
    preferred = prefix + PREFERRED_COLLECTION
    if collections is None or preferred in collections:
        return preferred
    return collections[0] if len(collections) == 1 else None


def build_template_plan(
    query: str, complexity: float, collections: Sequence[str] | None = None, prefix: str = "", language: Language = "ja"
) -> ExecutionPlan:
    """Return the two-step plan for a query (P-20); both steps contain the query as the user wrote it."""
    texts = TEXTS[language]
    search = PlanStep(
        step_id=1,
        action=Action.RAG_SEARCH,
        description=texts.search_description,
        query=query,
        collection=choose_template_collection(collections, prefix),
        fallback=Action.REASONING,
        expected_output=texts.search_output,
    )
    answer = PlanStep(
        step_id=2,
        action=Action.REASONING,
        description=texts.answer_description,
        query=query,
        depends_on=(1,),
        expected_output=texts.answer_output,
    )
    return ExecutionPlan(
        original_query=query,
        complexity=complexity,
        estimated_steps=2,
        requires_confirmation=False,
        steps=(search, answer),
        success_criteria=texts.success_criteria,
        plan_id=create_plan_id(prefix),
    )
