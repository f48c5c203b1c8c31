"""What was learned from a run, as a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hansei.client.cli.output import as_json
from hansei.client.cli.show.words import BAD, CHANGED, FAINT, GOOD, ID, SIGN, STATUS, VOTE, counted, hanging, one_line
from hansei.client.learning import Outcome
from hansei.curator.v1.curator_service_pb2 import CurateResponse
from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.reflector.v1.trajectory_pb2 import Insight, ReflectionResult


def report(outcome: Outcome) -> RenderableType:
    """Everything that became of one run."""
    return Group(heading(outcome), *_body(outcome), Text())


def heading(outcome: Outcome) -> Text:
    """The run: its name, dataset and how it ended."""
    run = outcome.run.trajectory
    line = Text("● ", BAD if outcome.failure else GOOD)
    line.append(run.id or outcome.run.source, "bold")
    line.append(f"  {run.dataset}  ", FAINT)
    return line.append_text(STATUS[run.status])


def _body(outcome: Outcome) -> Iterator[RenderableType]:
    yield hanging("asked", one_line(outcome.run.trajectory.query))
    if outcome.failure:
        yield hanging(Text("failed", BAD), outcome.failure)
    if outcome.response is None:
        return
    yield from _reflected(outcome.response.reflection)
    if outcome.response.HasField("curation"):
        yield from _curated(outcome.response.curation)
    else:
        yield hanging("playbook", Text("unchanged: the reflection gave nothing", FAINT))


def _reflected(reflection: ReflectionResult) -> Iterator[RenderableType]:
    if reflection.HasField("attribution"):
        at = reflection.attribution
        where = f"step {at.step}" + (f", {at.agent}" if at.agent else "")
        yield hanging("went wrong", f"at {where}: {one_line(at.reason)}")
    for insight in reflection.insights:
        yield hanging("insight", _insight(insight))
    if not reflection.insights:
        yield hanging("insight", Text("none", FAINT))


def _insight(insight: Insight) -> Text:
    text = Text(one_line(insight.key_insight))
    if insight.error_identification:
        text.append(f"\nfrom: {one_line(insight.error_identification, 200)}", FAINT)
    return text


def _curated(curation: CurateResponse) -> Iterator[RenderableType]:
    for operation in curation.operations:
        yield hanging(_sign(operation), _operation(operation))
    for outcome in curation.votes:
        yield hanging("vote", _vote(outcome))
    for conflict in curation.conflicts:
        yield hanging(Text("conflict", CHANGED), one_line(f"{conflict.delta.bullet_id}: {conflict.reason}"))
    for change in curation.pending:
        yield hanging(Text("waits", CHANGED), one_line(f"{change.id}: {change.waits_because}"))
    if curation.saved:
        yield hanging("playbook", f"revision {curation.revision}: {counted(curation.result.bullets_after, 'bullet')}")


def _sign(operation: playbook.Operation) -> Text:
    kind = playbook.DeltaType.Name(operation.delta.type).removeprefix("DELTA_TYPE_").lower()
    return Text.assemble(SIGN[operation.delta.type], f" {kind}") if operation.applied else Text(f"· {kind}", FAINT)


def _operation(operation: playbook.Operation) -> Text:
    text = Text()
    if operation.bullet_id:
        text.append(f"{operation.bullet_id} ", ID)
    if not operation.applied:
        return text.append(f"skipped: {operation.skipped_reason}", FAINT)
    if operation.delta.section:
        text.append(f"{operation.delta.section} ", FAINT)
    return text.append(one_line(operation.delta.content))


def _vote(outcome: playbook.VoteOutcome) -> Text:
    text = Text.assemble((f"{outcome.vote.bullet_id} ", ID), VOTE[outcome.vote.tag])
    if outcome.applied:
        return text.append(f"  {one_line(outcome.vote.reason)}", FAINT)
    return text.append(f"  not counted: {outcome.skipped_reason}", FAINT)


def line(outcome: Outcome) -> Text:
    """One run on one line."""
    text = heading(outcome)
    if outcome.failure:
        return text.append(f"  {one_line(outcome.failure, 100)}", BAD)
    if outcome.response is None or not outcome.response.HasField("curation"):
        return text.append("  nothing to learn", FAINT)
    curation = outcome.response.curation
    text.append(f"  {counted(len(outcome.response.reflection.insights), 'insight')}, {curation.result.summary}")
    return text.append(f", revision {curation.revision}", FAINT)


def summary(outcomes: Sequence[Outcome], seconds: float) -> Table:
    """One line for each dataset: how much was learned."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=FAINT)
    for column in ("dataset", "runs", "insights", "added", "updated", "deleted", "votes", "revision"):
        table.add_column(column, justify="left" if column == "dataset" else "right")
    for dataset in dict.fromkeys(outcome.run.trajectory.dataset for outcome in outcomes):
        table.add_row(*_totals(dataset, [each for each in outcomes if each.run.trajectory.dataset == dataset]))
    table.caption = f"{counted(len(outcomes), 'run')} in {seconds:.1f} s"
    table.caption_justify = "left"
    return table


def _totals(dataset: str, outcomes: Sequence[Outcome]) -> list[str]:
    responses = [outcome.response for outcome in outcomes if outcome.response is not None]
    curations = [response.curation for response in responses]
    applied = [operation.delta.type for each in curations for operation in each.operations if operation.applied]
    kinds = (playbook.DELTA_TYPE_ADD, playbook.DELTA_TYPE_UPDATE, playbook.DELTA_TYPE_DELETE)
    return [
        dataset,
        str(len(outcomes)),
        str(sum(len(response.reflection.insights) for response in responses)),
        *(str(applied.count(kind)) for kind in kinds),
        str(sum(vote.applied for each in curations for vote in each.votes)),
        str(max((each.revision for each in curations), default=0)),
    ]


def document(outcome: Outcome) -> dict[str, object]:
    """An outcome as JSON: where the run was read, its ids, the response of Learn, and why it failed if it did."""
    return {
        "source": outcome.run.source,
        "trajectory_id": outcome.run.trajectory.id,
        "dataset": outcome.run.trajectory.dataset,
        "request_id": outcome.run.request_id,
        "failure": outcome.failure or None,
        "response": as_json(outcome.response) if outcome.response is not None else None,
    }
