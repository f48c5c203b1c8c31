"""The outcomes of learning, as reports, lines and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.output import encode_message
from hansei.client.cli.show.words import (
    BAD,
    CHANGED,
    FAINT,
    GOOD,
    ID,
    SIGN,
    STATUS,
    VOTE,
    count_noun,
    format_enum_name,
    format_usage,
    keep_ids_whole,
    label_row,
    make_score_table,
    put_on_one_line,
)
from hansei.playbook.v1 import playbook_pb2 as playbook

if TYPE_CHECKING:
    from hansei.client.learning import LearnOutcome
    from hansei.gateway.v1.gateway_service_pb2 import LearnResponse
    from hansei.reflector.v1.trajectory_pb2 import Insight

OFFLINE = "offline"
NEEDS_MODEL = "learned by rules, from responses of tools and calls of several tasks; a model learns more"


def render_outcome(outcome: LearnOutcome) -> RenderableType:
    """Show everything about the outcome of one trajectory."""
    return Group(_render_heading(outcome), *_render_rows(outcome), Text())


def _render_heading(outcome: LearnOutcome) -> Text:
    """Show the name, the dataset and the status of the trajectory."""
    trajectory = outcome.record.trajectory
    title = Text.assemble(("● ", BAD if outcome.failure else GOOD), (trajectory.id or outcome.record.source, "bold"))
    title.append(f"  {trajectory.dataset}  ", FAINT)
    return title.append_text(STATUS[trajectory.status])


def _render_rows(outcome: LearnOutcome) -> Iterator[RenderableType]:
    trajectory = outcome.record.trajectory
    yield label_row("query", put_on_one_line(trajectory.query))
    if outcome.failure:
        yield label_row(Text("failed", BAD), outcome.failure)
    if outcome.response is None:
        return
    reflection, edits = outcome.response.reflection, list(outcome.response.curation.operations)
    if reflection.HasField("attribution"):
        blamed = reflection.attribution
        source = trajectory.steps[blamed.step].source if blamed.step < len(trajectory.steps) else ""
        step = ", ".join(part for part in (f"step {blamed.step}", source, blamed.agent) if part)
        chance = f" ({blamed.probability:.0%})" if blamed.probability else ""
        yield label_row("blamed", f"{step}{chance}: {put_on_one_line(blamed.reason)}")
    for insight in reflection.insights:
        # An edit with the text of an insight is shown with the insight, and not again below.
        same = [edit for edit in edits if edit.delta.content == insight.key_insight]
        edits = [edit for edit in edits if edit.delta.content != insight.key_insight]
        yield _render_insight(insight, same)
    if reflection.error:
        yield label_row(Text("model", BAD), put_on_one_line(reflection.error, 400))
    if not reflection.insights:
        yield label_row("insight", Text("none", FAINT))
    for edit in edits:
        yield label_row(_render_sign(edit), _render_edit(edit))
    yield from _render_curation_rows(outcome.response)
    yield label_row("usage", Text(format_usage(outcome.response.usage), FAINT))


def _render_insight(insight: Insight, edits: Sequence[playbook.Operation]) -> RenderableType:
    """Show an insight with its edits, on one line if none was applied."""
    if edits and not any(edit.applied for edit in edits):
        text = Text(f"{edits[0].skipped_reason}: {put_on_one_line(insight.key_insight)}", FAINT, no_wrap=True)
        text.overflow = "ellipsis"
        return label_row(Text("not added", FAINT), text)
    text = Text(put_on_one_line(insight.key_insight, 400))
    if insight.error_identification:
        text.append(f"\nfrom: {put_on_one_line(insight.error_identification, 200)}", FAINT)
    for edit in edits:
        if edit.applied:
            text.append("\n").append_text(_render_sign(edit)).append("  ").append(edit.bullet_id, ID)
            text.append(f"  {edit.delta.section}", FAINT)
    return label_row("insight", text)


def _render_sign(edit: playbook.Operation) -> Text:
    kind = format_enum_name(playbook.DeltaType, edit.delta.type)
    return Text.assemble(SIGN[edit.delta.type], f" {kind}") if edit.applied else Text(f"· {kind}", FAINT)


def _render_edit(edit: playbook.Operation) -> Text:
    text = Text.assemble((f"{edit.bullet_id}  ", ID))
    if not edit.applied:
        return text.append(f"not applied: {edit.skipped_reason}", FAINT)
    text.append(f"{edit.delta.section}  ", FAINT)
    return text.append(put_on_one_line(edit.delta.content, 400))


def _render_curation_rows(response: LearnResponse) -> Iterator[RenderableType]:
    """Show the votes, the conflicts, the pending changes, and the revision of the playbook."""
    curation = response.curation
    for outcome in curation.votes:
        text = Text.assemble((f"{outcome.vote.bullet_id}  ", ID), VOTE[outcome.vote.tag])
        reason = put_on_one_line(outcome.vote.reason) if outcome.applied else f"not counted: {outcome.skipped_reason}"
        yield label_row("vote", text.append(f"  {reason}", FAINT))
    for conflict in curation.conflicts:
        conflict_text = put_on_one_line(f"{conflict.delta.bullet_id}: {conflict.reason}")
        yield label_row(Text("conflict", CHANGED), conflict_text)
    for change in curation.pending:
        yield label_row(Text("pending", CHANGED), put_on_one_line(f"{change.id}: {change.review_reason}"))
    if not response.HasField("curation"):
        yield label_row("playbook", Text("unchanged: the reflection has no lesson", FAINT))
    elif response.already_learned:
        yield label_row("playbook", f"unchanged: already learned in revision {curation.revision}")
    elif curation.saved:
        bullets = count_noun(curation.result.bullets_after, "bullet")
        yield label_row("playbook", f"revision {curation.revision}, {bullets}")


def render_line(outcome: LearnOutcome) -> Text:
    """Show the outcome of one trajectory on one line."""
    text = _render_heading(outcome)
    if outcome.failure:
        return text.append(f"  {put_on_one_line(outcome.failure, 100)}", BAD)
    if outcome.response is None or not outcome.response.HasField("curation"):
        return text.append("  nothing to learn", FAINT)
    if outcome.response.already_learned:
        return text.append(f"  already learned  revision {outcome.response.curation.revision}", FAINT)
    added, updated, deleted, votes = (str(number) for number in _count_effects([outcome]))
    text.append(f"  {count_noun(len(outcome.response.reflection.insights), 'insight')}  ")
    text.append(f"+{added} ", GOOD).append(f"~{updated} ", CHANGED).append(f"-{deleted}", BAD)
    if pending := len(outcome.response.curation.pending):
        text.append(f"  {_format_pending(pending)}", CHANGED)
    return text.append(f"  votes {votes}  revision {outcome.response.curation.revision}", FAINT)


def _format_pending(number: int) -> str:
    return f"{number} {'waits' if number == 1 else 'wait'} for review"


def _count_effects(outcomes: Sequence[LearnOutcome]) -> tuple[int, int, int, int]:
    """Return how many bullets were added, updated and deleted, and how many votes were counted."""
    curations = [outcome.response.curation for outcome in outcomes if outcome.response is not None]
    kinds = [edit.delta.type for curation in curations for edit in curation.operations if edit.applied]
    votes = sum(vote.applied for curation in curations for vote in curation.votes)
    added, updated, deleted = (kinds.count(kind) for kind in SIGN)
    return added, updated, deleted, votes


def render_summary(outcomes: Sequence[LearnOutcome], seconds: float) -> RenderableType:
    """Show the effects on each dataset, one a line, and the command that lists the changes that wait for review."""
    repeated = sum(outcome.response is not None and outcome.response.already_learned for outcome in outcomes)
    table = make_score_table("dataset", "trajectories", "insights", "added", "updated", "deleted", "votes", "revision")
    reviews = []
    for dataset in dict.fromkeys(outcome.record.trajectory.dataset for outcome in outcomes):
        of_dataset = [outcome for outcome in outcomes if outcome.record.trajectory.dataset == dataset]
        new = [outcome for outcome in of_dataset if outcome.response and not outcome.response.already_learned]
        insights = sum(len(outcome.response.reflection.insights) for outcome in new if outcome.response)
        responses = [outcome.response for outcome in of_dataset if outcome.response is not None]
        revision = max((response.curation.revision for response in responses), default=0)
        numbers = (len(of_dataset), insights, *_count_effects(new), revision)
        table.add_row(dataset, *map(str, numbers))
        if pending := sum(len(outcome.response.curation.pending) for outcome in new if outcome.response):
            # A later trajectory of the same command may have confirmed some of them.
            changes = f"{count_noun(pending, 'change')} {'was' if pending == 1 else 'were'} held for review"
            reviews.append(
                Text(f"{changes}; see which still wait: hansei playbook review --dataset {dataset}", CHANGED)
            )
    remark = f"; {repeated} already learned" if repeated else ""
    usage = format_usage(*(outcome.response.usage for outcome in outcomes if outcome.response is not None))
    if any(outcome.response is not None and outcome.response.reflection.model == OFFLINE for outcome in outcomes):
        usage += f"\n{NEEDS_MODEL}"
    return Group(
        keep_ids_whole(table),
        *reviews,
        Text(f"{count_noun(len(outcomes), 'trajectory')} in {seconds:.1f} s{remark}; {usage}", FAINT),
    )


def build_document(outcome: LearnOutcome) -> dict[str, object]:
    """Return an outcome as JSON: the source and the ids of the trajectory, the failure, and the response of Learn."""
    return {
        "source": outcome.record.source,
        "trajectory_id": outcome.record.trajectory.id,
        "dataset": outcome.record.trajectory.dataset,
        "request_id": outcome.record.request_id,
        "failure": outcome.failure or None,
        "response": encode_message(outcome.response) if outcome.response is not None else None,
    }
