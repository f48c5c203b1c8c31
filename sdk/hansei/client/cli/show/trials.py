"""Trials, the effects of bullets, and decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.show.words import (
    BAD,
    CHANGED,
    FAINT,
    GOOD,
    ID,
    count_noun,
    format_enum_name,
    format_percent,
    format_points,
    format_time,
    keep_ids_whole,
    label_row,
    make_score_table,
)
from hansei.evidence.v1 import evidence_pb2 as epb

if TYPE_CHECKING:
    from hansei.evidence.v1.evidence_service_pb2 import (
        GetTrialsResponse,
        StartTrialsResponse,
        StopTrialsResponse,
        UndoDecisionResponse,
    )

STATE_STYLES = {
    epb.BULLET_STATE_TRIAL: CHANGED,
    epb.BULLET_STATE_PROVEN: GOOD,
    epb.BULLET_STATE_HARMFUL: BAD,
    epb.BULLET_STATE_NO_EFFECT: FAINT,
}


def render_started(response: StartTrialsResponse) -> RenderableType:
    """Show the policy, and whether the measurements so far were discarded."""
    heading = "Trials are running" + ("; all measurements begin now." if response.restarted else ".")
    return Group(Text(heading), *_build_policy_rows(response.policy))


def render_stopped(response: StopTrialsResponse) -> RenderableType:
    """Show that trials have stopped."""
    return Text("Trials have stopped: no bullet is withheld from a session any longer. Measurements are kept.")


def render_undone(response: UndoDecisionResponse) -> RenderableType:
    """Show the bullet that is on trial again."""
    if response.added_bullet_id:
        rest = f"; it was added again as {response.added_bullet_id} at revision {response.revision}."
    else:
        rest = "."
    return Text(f"{response.decision.bullet_id} is on trial again, and measured from the start{rest}")


def _render_never_started(dataset: str) -> RenderableType:
    return Text(f"{dataset} never had trials; start them with: hansei trials start {dataset}")


def render_trials(trials: GetTrialsResponse, dataset: str) -> RenderableType:
    """Show the policy, the sessions, the checks and the number of bullets in each state."""
    if not trials.HasField("policy"):
        return _render_never_started(dataset)
    states = [f"{count.bullets} {_format_state(count.state)}" for count in trials.bullets]
    return Group(
        Text(f"Trials {'are running' if trials.running else 'have stopped'}", GOOD if trials.running else FAINT),
        *_build_policy_rows(trials.policy),
        label_row("since", format_time(trials.started_at), width=18),
        label_row("sessions", f"{trials.sessions}, {trials.sessions_without_outcome} without an outcome", width=18),
        label_row("bullets", ", ".join(states) or "none yet", width=18),
        *(label_row(f"check {check.name}", _format_check(check), width=18) for check in trials.checks),
    )


def render_effects(measured: Mapping[str, Any], dataset: str) -> RenderableType:
    """Show a table of the effects of the playbook and its bullets, and the questions that are still undecided."""
    trials, lift, bullets = measured["trials"], measured["lift"], measured["effects"]
    if not trials.HasField("policy"):
        return _render_never_started(dataset)
    table = make_score_table(
        "bullet", "served", "success", "withheld", "success", "difference", "95 % interval", "evidence", "required"
    )
    table.add_column("state", overflow="fold")
    if lift.HasField("lift"):
        table.add_row(Text("whole playbook", "bold"), *_format_effect(lift.lift), "", "")
    for bullet in bullets:
        required = "" if bullet.state != epb.BULLET_STATE_TRIAL else f"{bullet.required_evidence:.0f}"
        state = Text(_format_state(bullet.state), STATE_STYLES.get(bullet.state, ""))
        table.add_row(Text(bullet.bullet_id, ID), *_format_effect(bullet.effect), required, state)
    return Group(
        keep_ids_whole(table), Text(), *(Text(line) for line in _list_conclusions(trials, lift.conclusion, bullets))
    )


def render_decision(made: epb.Decision) -> RenderableType:
    """Show a decision on one line: its number, time, bullet, states and measurements."""
    line = Text(f"#{made.number}  {format_time(made.time)}  ", FAINT)
    line.append(made.bullet_id, ID).append(f"  {_format_state(made.before)} → ")
    line.append(_format_state(made.after), STATE_STYLES.get(made.after, ""))
    effect = made.effect
    interval = f"{format_points(effect.lower)} to {format_points(effect.upper)}"
    line.append(f"  {format_points(effect.difference)} ({interval}) points")
    sessions = f"{effect.served.sessions} served, {effect.withheld.sessions} withheld"
    line.append(f"  {sessions}, evidence {effect.evidence:.4g}", FAINT)
    if made.revision:
        line.append(f", removed in revision {made.revision}", FAINT)
    return line.append(", undone", CHANGED) if made.undone else line


def _build_policy_rows(policy: epb.TrialPolicy) -> Iterator[RenderableType]:
    shares = (
        ("a bullet on trial", policy.bullet_holdout),
        ("a proven bullet", policy.audit_holdout),
        ("the playbook", policy.playbook_holdout),
    )
    withheld = ", ".join(f"{name} from {share:.0%}" for name, share in shares)
    yield label_row("withheld", f"{withheld} of sessions", width=18)
    rules = f"at most {policy.false_discovery_rate:.1%} wrong; no effect is within ±{100 * policy.margin:g} points"
    yield label_row("decisions", rules, width=18)


def _format_check(check: epb.AssignmentCheck) -> Text:
    counts = f"{check.served} with the playbook, {check.withheld} without; expected {check.expected_share:.0%} with"
    return Text(f"FAILED: {counts}; nothing is decided", BAD) if check.failed else Text(f"passed: {counts}")


def _format_effect(effect: epb.Effect) -> Iterator[str]:
    """Yield the cells of an effect; differences and intervals in points of a hundred."""
    for arm in (effect.served, effect.withheld):
        yield str(arm.sessions)
        yield format_percent(arm.success_rate) if arm.sessions else "–"
    if effect.served.sessions and effect.withheld.sessions:
        yield format_points(effect.difference)
        yield f"{format_points(effect.lower)} to {format_points(effect.upper)}"
        yield f"{effect.evidence:.4g}"
    else:
        yield from ("–", "–", "–")


def _format_state(state: epb.BulletState.ValueType) -> str:
    return format_enum_name(epb.BulletState, state).replace("_", " ")


def _list_conclusions(trials: GetTrialsResponse, conclusion: str, bullets: list[epb.BulletEffect]) -> Iterator[str]:
    """Yield the sentences under the table."""
    if not trials.running:
        yield "Trials have stopped: no further session is measured."
    for check in trials.checks:
        if check.failed:
            yield f"The check of the {check.name} failed, so nothing is decided: see hansei trials status."
    if conclusion:
        yield conclusion
    undecided = [bullet for bullet in bullets if bullet.state == epb.BULLET_STATE_TRIAL]
    if undecided:
        yield f"{count_noun(len(undecided), 'bullet')} of {len(bullets)} on trial: nothing is known about them yet."
    if any(bullet.state not in (epb.BULLET_STATE_TRIAL, epb.BULLET_STATE_UNSPECIFIED) for bullet in bullets):
        yield "The numbers of a decided bullet are those at its decision; later sessions do not change them."
    if trials.sessions_without_outcome:
        yield f"{trials.sessions_without_outcome} of {count_noun(trials.sessions, 'session')} reported no outcome."
