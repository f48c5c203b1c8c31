"""The plan that needs no model: search, then answer (P-20)."""

from __future__ import annotations

from collections.abc import Sequence

from services.planner.domain.plans import Action, ExecutionPlan, PlanStep, new_plan_id

PREFERRED_COLLECTION = "wikipedia_ja"
COLLECTIONS_WHEN_UNKNOWN = ("wikipedia_ja", "livedoor", "cc_news", "japanese_text")
COMPLEXITY_AFTER_ERROR = 0.5


def template_collection(collections: Sequence[str] | None, prefix: str = "") -> str | None:
    """Return the collection that the template searches; None for all. None or empty: the collections are unknown."""
    preferred = prefix + PREFERRED_COLLECTION
    if not collections or preferred in collections:
        return preferred
    return collections[0] if len(collections) == 1 else None


def template_plan(
    query: str, complexity: float, collections: Sequence[str] | None = None, prefix: str = ""
) -> ExecutionPlan:
    """Return the two-step plan for a query (P-20); both steps contain the query as the user wrote it."""
    search = PlanStep(
        step_id=1,
        action=Action.RAG_SEARCH,
        description="質問に関連する情報を検索",
        query=query,
        collection=template_collection(collections, prefix),
        fallback=Action.REASONING,
        expected_output="関連する情報",
    )
    answer = PlanStep(
        step_id=2,
        action=Action.REASONING,
        description="検索結果をもとに回答を作成",
        query=query,
        depends_on=(1,),
        expected_output="質問への回答",
    )
    return ExecutionPlan(
        original_query=query,
        complexity=complexity,
        estimated_steps=2,
        requires_confirmation=False,
        steps=(search, answer),
        success_criteria="質問に答えている",
        plan_id=new_plan_id(prefix),
    )
