"""Tables of measured quality."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
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
    total = count_noun(scores["n"], "labelled trajectory")
    used = (
        "in conversations with a user hansei blames the first writing call, in other logs the step with the most signs"
    )
    return Group(table, Text(f"share that agrees with the labels, {total}", FAINT), Text(used, FAINT))


def render_lift(report: Mapping[str, Any]) -> RenderableType:
    """Show the scores of each memory, and how much better hansei is in the same tasks; it fits 80 columns."""
    table = make_score_table("memory", "right", "95 %", "done", "95 %", "hansei better by")
    for row in report["rows"]:
        shares = ((f"{row[name]:.2f}", row[f"{name}_95"].replace(" to ", "-")) for name in ("right_call", "success"))
        table.add_row(row["memory"], *chain(*shares), row["hansei_minus_this_right_call"])
    world = f"{report['world']}, {count_noun(report['tasks'], 'task')}, {report['tokens']} tokens of memory"
    notes = (
        f"{world}; {report['method']}",
        "right: share of right calls at the deciding turn; done: share of tasks that succeeded",
        "last column: difference of the right calls in the same tasks, 95 %; an interval with 0 shows no difference",
    )
    return Group(table, *(Text(note, FAINT) for note in notes))


def render_guards(report: Mapping[str, Any]) -> RenderableType:
    """Show the coverage and the false alarms of mined guards by domain, of trivial rules, and the guards."""
    table = make_score_table("rule", "failing trajectories", "95 %", "passing trajectories", "95 %")
    for domain, shares in report["by_domain"].items():
        table.add_row(f"guards, {domain}", *_show_shares(shares))
    for name, baseline in report["baselines"].items():
        table.add_row(name.replace("_", " "), *_show_shares(baseline["by_domain"]["all"]))
    total = report["by_domain"]["all"]
    tried = f"{total['predicates_tried']} predicates tried, {total['tests_counted']} tests counted"
    notes = [
        f"share of trajectories in which one fires; {count_noun(len(report['guards']), 'guard')} from all; {tried}"
    ]
    if total["coverage_before_wrong_step"] is not None:
        notes.append(f"at or before the first wrong write: {total['coverage_before_wrong_step']:.3f}")
    repeats = list(zip(total["coverage_firing_by_repeat"], total["false_alarms_firing_by_repeat"], strict=True))
    if len(repeats) > 1:
        counts = ", ".join(f"{failing} and {passing}" for failing, passing in repeats)
        notes.append(f"failing and passing trajectories with a firing in each division into folds: {counts}")
    for guard in report["guards"]:
        counts = (
            f"{guard['failed_firing']} of {guard['failed_trajectories']} failing, "
            f"{guard['passed_firing']} of {guard['passed_trajectories']} passing trajectories"
        )
        notes.append(f"{guard['target']}\n  {counts}, p {guard['p_value']:.1g}, {guard['kind']}")
    return Group(table, *(Text(note, FAINT) for note in notes))


def render_guard_sources(report: Mapping[str, Any]) -> RenderableType:
    """Show the coverage and the false alarms of written targets, of mined guards and of both, by domain."""
    table = make_score_table("source", "failing trajectories", "95 %", "passing trajectories", "95 %")
    for source, by_domain in report["by_source"].items():
        for domain, shares in by_domain.items():
            table.add_row(f"{source}, {domain}", *_show_shares(shares))
    notes = [
        f"{item['target']}\n  used in {item['folds']} of {report['folds']} folds"
        for item in report["targets"]
        if item["folds"]
    ]
    notes.append(f"{sum(not item['folds'] for item in report['targets'])} of the model's targets were used in no fold")
    return Group(table, *(Text(note, FAINT) for note in notes))


def _show_shares(shares: Mapping[str, Any]) -> list[str]:
    return [
        text
        for name in ("coverage", "false_alarms")
        for text in (
            f"{shares[name]:.3f} ({shares[f'{name}_firing']:g}/{shares[f'{name}_trajectories']})",
            f"{shares[f'{name}_low']:.3f} to {shares[f'{name}_high']:.3f}",
        )
    ]


def render_foresight(counts: ForesightCounts) -> RenderableType:
    """Show how often memories show how to avoid an error, and how often the playbook warns of one."""
    avoided = make_score_table("shows how to avoid it", "of repaired errors", "in new tasks")
    for name, passed in counts.avoided.items():
        avoided.add_row(name, str(passed), str(counts.avoided_in_new_tasks[name]))
    table = make_score_table("warned by", "of all errors", "of those seen before")
    for source in ("playbook", "uncurated", "random"):
        shares = counts.shares(getattr(counts, source))
        table.add_row(source, f"{shares['foreseen_of_all']:.3f}", f"{shares['foreseen_of_seen']:.3f}")
    totals = f"{count_noun(counts.errors, 'error')}, {counts.seen} seen before, {counts.trajectories} trajectories"
    bullets = f"{count_noun(counts.bullets, 'bullet')}, {count_noun(counts.duplicates, 'duplicate')}"
    repaired = f"{counts.repaired} first failing calls of an operation that a later call repaired"
    repaired += f", {counts.repaired_in_new_tasks} in new tasks; 95 % intervals"
    return Group(avoided, Text(repaired, FAINT), table, Text(f"{totals}, {bullets}", FAINT))
