"""The measurements of one dataset: assignments of servings, sums of reports, and decisions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from services.evidence.domain.assignment import draw, make_serving_id
from services.evidence.domain.assignment_check import FAILURE_EVIDENCE, compute_mismatch
from services.evidence.domain.discoveries import Block, find_block, select_discoveries
from services.evidence.domain.drift import ALARM_EVIDENCE, DriftStatistics, watch
from services.evidence.domain.effects import EffectStatistics, estimate_effect, update
from services.evidence.domain.intervals import is_within
from services.evidence.domain.policy import TrialPolicy

INTERVAL_ERROR = 0.05
"""Error probability of the intervals that are shown."""
NO_SESSIONS = EffectStatistics()
NO_AUDITS = DriftStatistics()
WHOLE_PLAYBOOK = 0
"""The id of the whole playbook in the history, where a bullet has that of its trial; those begin at 1."""


class EffectPoint(NamedTuple):
    """The measurements of a trial, or of the whole playbook, after a session that the history keeps."""

    trial_id: int
    statistics: EffectStatistics
    time: datetime

    @property
    def sessions(self) -> int:
        """Return the number of sessions with an outcome."""
        return int(self.statistics.served + self.statistics.withheld)


class BulletState(Enum):
    """State of a bullet on trial."""

    TRIAL = "trial"
    PROVEN = "proven"
    HARMFUL = "harmful"
    NO_EFFECT = "no effect"

    def compute_serving_probability(self, policy: TrialPolicy) -> float:
        """Return the probability with which a session is served a bullet in this state."""
        match self:
            case BulletState.TRIAL:
                return 1.0 - policy.bullet_holdout
            case BulletState.PROVEN:
                return 1.0 - policy.audit_holdout
            case BulletState.NO_EFFECT:
                return 1.0
            case BulletState.HARMFUL:
                return 0.0


class EnrolledBullet(NamedTuple):
    """A bullet on trial without its measurements: all that its assignment to a session depends on."""

    trial_id: int
    bullet_id: str
    text_version: str
    state: BulletState


@dataclass(slots=True)
class BulletTrial:
    """The measurements of one bullet with one text; `position` is its rank among the trials of the dataset."""

    id: int
    bullet_id: str
    text_version: str
    position: int
    state: BulletState
    since: datetime
    statistics: EffectStatistics = NO_SESSIONS
    drift: DriftStatistics = NO_AUDITS
    measured_after: int = 0
    """The number of the last report that does not count, because the bullet was put back on trial after it."""


class Exposure(NamedTuple):
    """A bullet that search returned for a session, with the random draw that served or withheld it."""

    trial_id: int
    is_served: bool
    probability: float


@dataclass(frozen=True, slots=True)
class BulletDecision:
    """A change of a bullet's state, with the measurements that it rests on."""

    bullet_id: str
    text_version: str
    before: BulletState
    after: BulletState
    statistics: EffectStatistics
    time: datetime
    revision: int = 0
    is_undone: bool = False
    is_published: bool = False
    """True once the curator has the removal of the bullet, which may wait for a review, or had nothing to remove."""


@dataclass(slots=True)
class ArmCounts:
    """Sessions that were served the playbook, and those from which it was withheld."""

    served: int = 0
    withheld: int = 0

    def add(self, is_served: bool) -> None:
        """Count one session."""
        if is_served:
            self.served += 1
        else:
            self.withheld += 1

    @property
    def total(self) -> int:
        """Return the number of sessions."""
        return self.served + self.withheld


@dataclass(slots=True)
class DatasetTrials:
    """The trials of a dataset. `generation` counts the restarts of the measurements."""

    dataset: str
    key: bytes
    policy: TrialPolicy
    is_running: bool
    generation: int
    began_at: datetime
    lift: EffectStatistics = NO_SESSIONS
    servings: ArmCounts = field(default_factory=ArmCounts)
    reports: ArmCounts = field(default_factory=ArmCounts)
    enrolled: int = 0
    decisions: int = 0
    corrections: int = 0

    def enrol(self) -> int:
        """Return the position of one more bullet on trial. A bullet that goes back on trial is one more test, too."""
        self.enrolled += 1
        return self.enrolled - 1

    def make_serving_id(self, session_id: str) -> str:
        """Return the id of the serving of a session."""
        return make_serving_id(self.key, f"{self.generation}:{session_id}")

    def gets_playbook(self, session_id: str) -> bool:
        """Return whether a session is served any bullets."""
        return draw(self.key, f"{self.generation}:{session_id}", "") >= self.policy.playbook_holdout

    def expose(self, session_id: str, bullet: EnrolledBullet) -> Exposure:
        """Return the assignment of a bullet to a session that is served the playbook."""
        probability = bullet.state.compute_serving_probability(self.policy)
        drawn = draw(self.key, f"{self.generation}:{session_id}", f"{bullet.bullet_id}:{bullet.text_version}")
        return Exposure(bullet.trial_id, drawn < probability, probability)

    def list_checks(self) -> list[tuple[str, ArmCounts, bool]]:
        """Return name, counts and failure of each check of the random assignment.

        Reports are split like servings unless sessions of one arm report more often than those of the other.
        """
        expected = 1.0 - self.policy.playbook_holdout
        return [
            (name, counts, compute_mismatch(counts.served, counts.withheld, expected) >= FAILURE_EVIDENCE)
            for name, counts in (("servings", self.servings), ("reports", self.reports))
        ]

    def count_session(
        self,
        has_playbook: bool,
        exposures: Sequence[Exposure],
        outcome: float,
        bullet_trials: Callable[[Iterable[int]], dict[int, BulletTrial]],
        trials_of_block: Callable[[Block], list[BulletTrial]],
        now: datetime,
    ) -> tuple[list[BulletTrial], list[BulletDecision]]:
        """Count a session that has ended; return the measurements that changed, and the decisions.

        `bullet_trials` loads trials by their ids, `trials_of_block` those of a block; both return the same objects. A
        bullet that was decided while the session ran is not measured by it: its probability is another one now.
        """
        self.reports.add(has_playbook)
        if self.policy.playbook_holdout:
            share = 1.0 - self.policy.playbook_holdout
            self.lift = update(self.lift, float(has_playbook), share, outcome)
        changed: dict[int, BulletTrial] = {}
        decisions: list[BulletDecision] = []
        trials = bullet_trials(exposure.trial_id for exposure in exposures)
        for exposure in exposures:
            trial = trials.get(exposure.trial_id)
            if trial is None or abs(trial.state.compute_serving_probability(self.policy) - exposure.probability) > 1e-6:
                continue
            if trial.state is BulletState.TRIAL:
                trial.statistics = update(trial.statistics, float(exposure.is_served), exposure.probability, outcome)
                changed[trial.id] = trial
            elif trial.state is BulletState.PROVEN:
                trial.drift = watch(trial.drift, float(exposure.is_served), exposure.probability, outcome)
                changed[trial.id] = trial
        if not any(failed for _, _, failed in self.list_checks()):
            for trial in self._decide(list(changed.values()), trials_of_block, now, decisions):
                changed[trial.id] = trial
        self.decisions += len(decisions)
        return list(changed.values()), decisions

    def undo(self, trial: BulletTrial, now: datetime) -> BulletDecision:
        """Put a bullet back on trial; return the new decision."""
        decisions: list[BulletDecision] = []
        self._change(trial, BulletState.TRIAL, now, decisions)
        trial.measured_after = self.reports.total
        self.decisions += 1
        return decisions[0]

    def list_points(self, changed: Iterable[BulletTrial], now: datetime) -> list[EffectPoint]:
        """Return the points that the history keeps after a report: every session up to 99, every tenth up to 990, …

        A point without sessions says that a bullet is measured again from the start.
        """
        points = [EffectPoint(trial.id, trial.statistics, now) for trial in changed]
        if self.policy.playbook_holdout:
            points.append(EffectPoint(WHOLE_PLAYBOOK, self.lift, now))
        return [point for point in points if point.sessions % _compute_history_step(point.sessions) == 0]

    def _decide(
        self,
        measured: Sequence[BulletTrial],
        trials_of_block: Callable[[Block], list[BulletTrial]],
        now: datetime,
        decisions: list[BulletDecision],
    ) -> Iterable[BulletTrial]:
        for trial in measured:
            block = find_block(trial.position, self.policy.false_discovery_rate)
            if trial.state is BulletState.PROVEN and trial.drift.alarm >= ALARM_EVIDENCE:
                yield self._change(trial, BulletState.TRIAL, now, decisions)
            elif trial.state is not BulletState.TRIAL:
                continue
            elif trial.statistics.evidence >= block.least_requirement:
                members = trials_of_block(block)
                for index in select_discoveries([float(member.statistics.evidence) for member in members], block):
                    member = members[index]
                    if member.state is BulletState.TRIAL:
                        helps = estimate_effect(member.statistics) > 0
                        after = BulletState.PROVEN if helps else BulletState.HARMFUL
                        yield self._change(member, after, now, decisions)
            if trial.state is BulletState.TRIAL and self._is_without_effect(trial):
                yield self._change(trial, BulletState.NO_EFFECT, now, decisions)

    def _is_without_effect(self, trial: BulletTrial) -> bool:
        margin, error = self.policy.margin, self.policy.false_discovery_rate
        probability = trial.state.compute_serving_probability(self.policy)
        return is_within(trial.statistics, probability, margin, error) and (
            abs(float(estimate_effect(trial.statistics))) <= margin
        )

    def _change(
        self, trial: BulletTrial, after: BulletState, now: datetime, decisions: list[BulletDecision]
    ) -> BulletTrial:
        before, trial.state, trial.since = trial.state, after, now
        decisions.append(BulletDecision(trial.bullet_id, trial.text_version, before, after, trial.statistics, now))
        if after is BulletState.TRIAL:
            trial.statistics, trial.position = NO_SESSIONS, self.enrol()
        trial.drift = NO_AUDITS
        return trial


def _compute_history_step(sessions: int) -> int:
    """Return the power of ten that leaves two digits."""
    return int("1".ljust(len(str(sessions)) - 1, "0"))


_EXPOSURE = struct.Struct("<I?f")


def pack_exposures(exposures: Iterable[Exposure]) -> bytes:
    """Return exposures as nine bytes each."""
    return b"".join(_EXPOSURE.pack(*exposure) for exposure in exposures)


def unpack_exposures(content: bytes) -> list[Exposure]:
    """Return the exposures of `pack_exposures`."""
    return [Exposure(*values) for values in _EXPOSURE.iter_unpack(content)]
