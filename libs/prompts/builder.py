"""UserPromptBuilder: the prompts of teams, evaluators and judges (spec section 2)."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from libs.prompts.clock import get_current_datetime_with_timezone
from libs.prompts.contexts import EvaluatorPromptContext, RoundPromptContext
from libs.prompts.defaults import BUILT_IN_TEMPLATES
from libs.prompts.formatters import (
    Ranking,
    format_ranking_table,
    format_submission_history,
    generate_position_message,
)
from libs.prompts.labels import LABELS
from libs.prompts.language import Language, choose_language
from libs.prompts.sandbox import render
from libs.prompts.settings import PromptBuilderSettings


class UserPromptBuilder:
    """Builds prompts from the templates of its settings; `current_datetime` is asked once per prompt (B-11)."""

    def __init__(
        self,
        settings: PromptBuilderSettings,
        current_datetime: Callable[[], str] = get_current_datetime_with_timezone,
    ) -> None:
        self._settings = settings
        self._current_datetime = current_datetime

    def build_evaluator_prompt(self, context: EvaluatorPromptContext) -> str:
        """Return the prompt with a query and a submission for an evaluator (B-08). Raises RuntimeError (B-12)."""
        return render(
            self._get_template("evaluator_user_prompt", self._choose_language(context.user_query)),
            {
                "user_query": context.user_query,
                "user_prompt": context.user_query,
                "submission": context.submission,
                "current_datetime": self._current_datetime(),
            },
        )

    async def build_team_prompt(self, context: RoundPromptContext) -> str:
        """Return the prompt of a team for one round (B-09). Raises RuntimeError (B-12), errors of the store (B-19)."""
        return await self._build_round_prompt("team_user_prompt", context)

    async def build_judgment_prompt(self, context: RoundPromptContext) -> str:
        """Return the prompt about another round for a judge (B-09). Raises as `build_team_prompt`."""
        return await self._build_round_prompt("judgment_user_prompt", context)

    def _choose_language(self, query: str) -> Language:
        return choose_language(self._settings.language, query)

    def _get_template(self, name: str, language: Language) -> str:
        """Return a template of the settings; a built-in template is returned in the language of the prompt."""
        template: str = getattr(self._settings, name)
        is_built_in = any(template == getattr(templates, name) for templates in BUILT_IN_TEMPLATES.values())
        return getattr(BUILT_IN_TEMPLATES[language], name) if is_built_in else template

    async def _build_round_prompt(self, name: str, context: RoundPromptContext) -> str:
        language = self._choose_language(context.user_prompt)
        labels = LABELS[language]
        ranking = await _load_ranking(context)
        position, total = _find_position(ranking, context.team_id)
        return render(
            self._get_template(name, language),
            {
                "user_prompt": context.user_prompt,
                "user_query": context.user_prompt,
                "round_number": context.round_number,
                "submission_history": format_submission_history(context.round_history, labels),
                "ranking_table": format_ranking_table(ranking, context.team_id, context.team_name, labels),
                "team_position_message": generate_position_message(position, total, labels),
                "current_datetime": self._current_datetime(),
            },
        )


async def _load_ranking(context: RoundPromptContext) -> Ranking | None:
    """Return the ranking; None in round 1 and without a store (B-17)."""
    if context.round_number <= 1 or context.store is None:
        return None
    ranking = context.store.get_leader_board_ranking(context.execution_id)
    result: Ranking | None = await ranking if inspect.isawaitable(ranking) else ranking
    return result


def _find_position(ranking: Ranking | None, team_id: str) -> tuple[int | None, int | None]:
    """Return the position of the team, from 1, and the number of teams (B-18)."""
    if not ranking:
        return None, None
    ranks = (rank for rank, entry in enumerate(ranking, 1) if entry["team_id"] == team_id)
    return next(ranks, None), len(ranking)
