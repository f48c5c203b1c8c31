"""The measurements of guards, and the modes that follow from them (ADR 200).

A session that has ended counts once for each guard that fired in it, by the first firing. The mistake followed if the
session failed, or if the call was made and failed. A firing is a false alarm if the session passed without the mistake.
If the guard stops calls, the call must also have been made all the same. In ADVISE only sessions without the advice can
have false alarms, because advice may be the reason why a session passed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from math import log

from chassis.targets.guard import GuardMode
from services.evidence.domain.discoveries import find_block
from services.evidence.domain.effects import EffectStatistics, estimate_effect, update
from services.evidence.domain.false_alarms import compute_evidence_above, compute_evidence_below
from services.evidence.domain.guard_modes import MAX_BOUND_OF_ADVISE, MAX_BOUND_OF_ASK
from services.evidence.domain.guard_sessions import WITHHELD_SHARE
from services.evidence.domain.intervals import is_within
from services.evidence.domain.trials import NO_SESSIONS

REQUIRED_EVIDENCE = log(20.0)
FALSE_DISCOVERY_RATE = 0.05
"""The largest rate of guards with a wrongly proven effect; guards are tested in blocks (`discoveries`)."""
MARGIN = 0.1
"""The difference of the rate of mistakes within which advice has no effect."""


@dataclass(frozen=True, slots=True)
class FiredSession:
    """A session with a firing that has ended. `is_made`: the call was made all the same; `has_failed`: it failed."""

    passed: bool
    is_withheld: bool
    is_made: bool
    has_failed: bool

    @property
    def has_mistake(self) -> bool:
        """Return whether the mistake followed."""
        return not self.passed or (self.is_made and self.has_failed)


@dataclass(frozen=True, slots=True)
class GuardTrial:
    """The measurements of a guard in one mode, since the time when it got the mode.

    `passed_before` are the passing sessions of the dataset until then. Evidence sets no mode above `cap`, and a mode up
    to `earned` needs no other backtest.
    """

    bullet_id: str
    target: str
    mode: GuardMode
    position: int
    since: datetime
    passed_before: int
    alarms: int = 0
    hits: int = 0
    effect: EffectStatistics = NO_SESSIONS
    is_proven: bool = False
    earned: GuardMode = GuardMode.SHADOW
    cap: GuardMode = GuardMode.DENY

    def add(self, session: FiredSession) -> GuardTrial:
        """Return the measurements with one more session that fired."""
        is_shown = self.mode is GuardMode.ADVISE and not session.is_withheld
        is_stopped = self.mode >= GuardMode.ASK and not session.is_made
        is_alarm = not session.has_mistake and not is_shown and not is_stopped
        effect = self.effect
        if self.mode is GuardMode.ADVISE:
            outcome = float(not session.has_mistake)
            effect = EffectStatistics(*map(float, update(effect, float(is_shown), 1.0 - WITHHELD_SHARE, outcome)))
        return replace(
            self, alarms=self.alarms + is_alarm, hits=self.hits + (session.has_mistake and not is_shown), effect=effect
        )

    def begin(self, mode: GuardMode, now: datetime, passed: int) -> GuardTrial:
        """Return a guard that is measured from the start in a mode."""
        return replace(self, mode=mode, since=now, passed_before=passed, alarms=0, hits=0, effect=NO_SESSIONS)


@dataclass(frozen=True, slots=True)
class ModeDecision:
    """A change of the mode of a guard, with the reason in words."""

    bullet_id: str
    target: str
    before: GuardMode
    after: GuardMode
    reason: str
    time: datetime
    author: str = "evidence"
    revision: int = 0
    is_undone: bool = False


def decide_mode(trial: GuardTrial, passed: int) -> tuple[GuardMode, str] | None:
    """Return the mode that the measurements demand, with the reason; None if they demand no change.

    `passed` are the passing sessions of the dataset. The step from SHADOW to ADVISE also needs a stored backtest.
    """
    sessions = passed - trial.passed_before
    limit = MAX_BOUND_OF_ADVISE if trial.mode <= GuardMode.ADVISE else MAX_BOUND_OF_ASK
    counts = f"{trial.alarms} false alarms in {sessions} passing sessions"
    if trial.mode > GuardMode.SHADOW:
        if compute_evidence_above(sessions, trial.alarms, _scale(trial, limit)) >= REQUIRED_EVIDENCE:
            return GuardMode.SHADOW, f"false alarms above {limit:.0%}: {counts}"
        if missing := _describe_useless_advice(trial):
            return GuardMode.SHADOW, missing
    if trial.mode >= trial.cap:
        return None
    after = GuardMode(trial.mode + 1)
    limit = MAX_BOUND_OF_ADVISE if after is GuardMode.ADVISE else MAX_BOUND_OF_ASK
    if compute_evidence_below(sessions, trial.alarms, _scale(trial, limit)) < REQUIRED_EVIDENCE:
        return None
    reason = f"false alarms below {limit:.0%}: {counts}"
    match after:
        case GuardMode.ADVISE if trial.hits:
            return after, f"{reason}; the mistake followed {trial.hits} firings"
        case GuardMode.ASK if is_effect_proven(trial):
            return after, f"{reason}; {_describe_effect(trial)}"
        case GuardMode.DENY if trial.is_proven:
            return after, f"{reason}; a person allows DENY, and advice avoids the mistake"
    return None


def is_effect_proven(trial: GuardTrial) -> bool:
    """Return whether fewer mistakes follow advice than follow silence."""
    requirement = find_block(trial.position, FALSE_DISCOVERY_RATE).largest_requirement
    return bool(trial.effect.evidence >= requirement and estimate_effect(trial.effect) > 0)


def apply_decision(trial: GuardTrial, after: GuardMode, now: datetime, passed: int) -> GuardTrial:
    """Return the guard in its new mode; one that evidence has demoted stays in SHADOW until a person undoes that."""
    is_demoted = after < trial.mode
    is_proven = not is_demoted and (trial.is_proven or is_effect_proven(trial))
    cap = after if is_demoted else trial.cap
    return replace(trial.begin(after, now, passed), is_proven=is_proven, earned=after, cap=cap)


def undo_decision(trial: GuardTrial, decision: ModeDecision, now: datetime, passed: int) -> GuardTrial:
    """Return the guard in the mode before a decision; evidence does not repeat a promotion that a person undid."""
    is_promotion = decision.after > decision.before
    cap = decision.before if is_promotion else GuardMode.DENY
    return replace(trial.begin(decision.before, now, passed), earned=decision.before, cap=cap, is_proven=False)


def _scale(trial: GuardTrial, limit: float) -> float:
    """Return the limit of the share of sessions that count as false alarms: in ADVISE only a quarter can."""
    return limit * WITHHELD_SHARE if trial.mode is GuardMode.ADVISE else limit


def _describe_useless_advice(trial: GuardTrial) -> str:
    if trial.mode is not GuardMode.ADVISE:
        return ""
    requirement = find_block(trial.position, FALSE_DISCOVERY_RATE).largest_requirement
    difference = float(estimate_effect(trial.effect))
    if trial.effect.evidence >= requirement and difference < 0:
        return f"advice does harm: {_describe_effect(trial)}"
    if abs(difference) <= MARGIN and is_within(trial.effect, 1.0 - WITHHELD_SHARE, MARGIN, FALSE_DISCOVERY_RATE):
        return f"advice has no effect: {_describe_effect(trial)}"
    return ""


def _describe_effect(trial: GuardTrial) -> str:
    effect = trial.effect
    shown, withheld = effect.served - effect.served_total, effect.withheld - effect.withheld_total
    return (
        f"the mistake followed {shown:.0f} of {effect.served:.0f} firings with advice"
        f" and {withheld:.0f} of {effect.withheld:.0f} without"
    )
