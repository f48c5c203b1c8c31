"""Tables of measured quality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.show.words import FAINT, count_noun, make_score_table

if TYPE_CHECKING:
    from hansei.client.cli.foresight import ForesightCounts


def render_retrieval(qualities: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    """Show the quality of each ranking, one a line."""
    table = make_score_table("ranking", "nDCG@10", "95 % low", "95 % high", "recall@5", "recall@10")
    for name, quality in qualities.items():
        scores = ("ndcg_at_10", "ndcg_low", "ndcg_high", "recall_at_5", "recall_at_10")
        table.add_row(name, *(f"{quality[score]:.4f}" for score in scores))
    queries = max((quality["queries"] for quality in qualities.values()), default=0)
    return Group(table, Text(f"{queries} judged queries", FAINT))


def render_blame(scores: Mapping[str, Any]) -> RenderableType:
    """Show the accuracy of reflection, and of simple rules for comparison."""
    table = make_score_table("rule", "step", "step in top 3", "any labelled failure", "agent")
    for name, accuracy in {"hansei, offline": scores, **scores["baselines"]}.items():
        shares = (accuracy[key] for key in ("step_accuracy", "top_3", "any_labelled_failure", "agent_accuracy"))
        table.add_row(name.replace("_", " "), *("-" if share is None else f"{share:.3f}" for share in shares))
    total = f"{scores['n']} labelled trajector{'y' if scores['n'] == 1 else 'ies'}"
    return Group(table, Text(f"share that agrees with the labels, {total}", FAINT))


def render_foresight(counts: ForesightCounts) -> RenderableType:
    """Show the foresight of the playbook, of the insights without curation, and of random bullets."""
    table = make_score_table("warned by", "of all errors", "of those seen before")
    for source in ("playbook", "uncurated", "random"):
        shares = counts.shares(getattr(counts, source))
        table.add_row(source, f"{shares['foreseen_of_all']:.3f}", f"{shares['foreseen_of_seen']:.3f}")
    totals = f"{count_noun(counts.errors, 'error')}, {counts.seen} seen before, {counts.trajectories} trajectories"
    bullets = f"{count_noun(counts.bullets, 'bullet')}, {count_noun(counts.duplicates, 'duplicate')}"
    return Group(table, Text(f"{totals}, {bullets}", FAINT))
