"""Count the reports of a dataset again after outcomes were corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from services.evidence.domain.discoveries import Block
from services.evidence.domain.trials import (
    NO_AUDITS,
    NO_SESSIONS,
    ArmCounts,
    BulletDecision,
    BulletState,
    BulletTrial,
    DatasetTrials,
    EffectPoint,
    Exposure,
)


class StoredReport(NamedTuple):
    """The `number`-th report of a dataset, with what its session was served."""

    number: int
    serving_id: str
    has_playbook: bool
    exposures: Sequence[Exposure]
    outcome: float
    reported_at: datetime


class Recount:
    """Computes all measurements of a dataset from its reports, in their order; `corrected` outcomes replace theirs."""

    def __init__(self, trials: DatasetTrials, bullets: Sequence[BulletTrial], corrected: Mapping[str, float]) -> None:
        """`bullets` are all trials of the dataset in the order of their ids; they are changed."""
        self.trials = replace(trials, lift=NO_SESSIONS, reports=ArmCounts(), enrolled=len(bullets))
        self.bullets = bullets
        self.counted = 0
        """The number of the last report that is counted."""
        self._corrected = corrected
        self._points: dict[int, dict[int, EffectPoint]] = {}
        for position, trial in enumerate(bullets):
            trial.position, trial.state = position, BulletState.TRIAL
            trial.statistics, trial.drift = NO_SESSIONS, NO_AUDITS
        self._by_id = {trial.id: trial for trial in bullets}

    def count(self, reports: Sequence[StoredReport]) -> None:
        """Count the next reports. A session from before a bullet was put back on trial does not measure it."""
        for report in reports:
            outcome = self._corrected.get(report.serving_id, report.outcome)
            measured = [exposure for exposure in report.exposures if self._is_measured(exposure, report.number)]
            changed, _ = self.trials.count_session(
                report.has_playbook, measured, outcome, lambda _: self._by_id, self._list_block, report.reported_at
            )
            for point in self.trials.list_points(changed, report.reported_at):
                if point.sessions:
                    self._points.setdefault(point.trial_id, {}).setdefault(point.sessions, point)
                else:
                    self._points.pop(point.trial_id, None)
            self.counted = report.number

    def list_points(self) -> list[EffectPoint]:
        """Return the history of all effects."""
        return [point for points in self._points.values() for point in points.values()]

    def matches(self, trials: DatasetTrials, bullets: Sequence[BulletTrial]) -> bool:
        """Return whether the dataset still has the trials, rules and corrections that the recount began with."""
        return _list_premises(trials, bullets) == _list_premises(self.trials, self.bullets)

    def list_changes(self, before: Sequence[BulletTrial], now: datetime) -> list[BulletDecision]:
        """Return a decision for each bullet whose state differs from that `before`."""
        return [
            BulletDecision(trial.bullet_id, trial.text_version, earlier.state, trial.state, trial.statistics, now)
            for trial, earlier in zip(self.bullets, before, strict=True)
            if trial.state is not earlier.state
        ]

    def _is_measured(self, exposure: Exposure, number: int) -> bool:
        trial = self._by_id.get(exposure.trial_id)
        return trial is not None and number > trial.measured_after

    def _list_block(self, block: Block) -> list[BulletTrial]:
        return [trial for trial in self.bullets if trial.position in block.positions]


def _list_premises(trials: DatasetTrials, bullets: Sequence[BulletTrial]) -> tuple[object, ...]:
    measured = [(trial.id, trial.measured_after) for trial in bullets]
    return trials.key, trials.generation, trials.policy, trials.corrections, measured
