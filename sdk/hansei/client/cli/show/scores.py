"""Tables of measured quality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hansei.client.cli.show.words import FAINT, counted

if TYPE_CHECKING:
    from hansei.client.cli.foresight import Foresight


def retrieval(qualities: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    """One line for each way to rank."""
    table = _table("ranking", "nDCG@10", "recall@5", "recall@10")
    for name, each in qualities.items():
        table.add_row(name, *(f"{each[measure]:.4f}" for measure in ("ndcg_at_10", "recall_at_5", "recall_at_10")))
    queries = max((each["queries"] for each in qualities.values()), default=0)
    return Group(table, Text(f"{queries} judged queries", FAINT))


def blame(scores: Mapping[str, Any]) -> RenderableType:
    """The rules, and beneath them rules of one line for comparison."""
    table = _table("rule", "step", "agent")
    table.add_row("hansei, offline", *_accuracies(scores))
    for name, each in scores["baselines"].items():
        table.add_row(name.replace("_", " "), *_accuracies(each))
    return Group(table, Text(f"share named as people did, {counted(scores['n'], 'labelled run')}", FAINT))


def _accuracies(scores: Mapping[str, Any]) -> tuple[str, str]:
    return f"{scores['step_accuracy']:.3f}", f"{scores['agent_accuracy']:.3f}"


def foresight(found: Foresight) -> RenderableType:
    """The playbook, and beside it the same insights uncurated, and bullets taken at random."""
    table = _table("warned by", "of all errors", "of those seen before")
    for name, hits in (("playbook", found.playbook), ("uncurated", found.uncurated), ("random", found.random)):
        shares = found.shares(hits)
        table.add_row(name, f"{shares['foreseen_of_all']:.3f}", f"{shares['foreseen_of_seen']:.3f}")
    counts = f"{counted(found.errors, 'error')}, {found.seen} seen before, {counted(found.runs, 'run')}"
    return Group(
        table,
        Text(f"{counts}, {counted(found.bullets, 'bullet')} kept, {counted(found.duplicates, 'duplicate')}", FAINT),
    )


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=FAINT)
    table.add_column(first)
    for column in numbers:
        table.add_column(column, justify="right")
    return table
