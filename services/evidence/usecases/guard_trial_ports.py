"""The ports of the measurements of guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from chassis.targets.guard import CallGuard, GuardMode
from services.evidence.domain.guard_trials import GuardTrial, ModeDecision
from services.evidence.domain.stored_backtest import Demotion


class NumberedDecision(NamedTuple):
    """A decision with its number in the dataset."""

    number: int
    decision: ModeDecision


class SessionReport(NamedTuple):
    """The result of a report: `is_counted` unless the session had an outcome, and the guards that fired in it."""

    is_counted: bool
    firings: int


@dataclass(frozen=True, slots=True)
class GuardEvaluation:
    """The decisions on the guards of a dataset; `candidates` need a stored backtest to leave SHADOW."""

    decisions: tuple[NumberedDecision, ...] = ()
    candidates: tuple[GuardTrial, ...] = ()
    passed: int = 0


class GuardTrialStore(Protocol):
    """The store of the measurements of guards."""

    async def report_session(self, dataset: str, session_id: str, passed: bool) -> SessionReport:
        """Count the outcome of a session for the guards that fired in it, once."""

    async def list_changed(self) -> Sequence[str]:
        """Return the datasets with sessions that ended since the last evaluation of their guards."""

    async def evaluate(
        self, dataset: str, guards: Sequence[CallGuard], backtested: Mapping[str, GuardMode]
    ) -> GuardEvaluation:
        """Decide about the modes of guards; each has the mode in effect.

        `backtested` are the highest modes that stored backtests allow, by target.
        """

    async def demote(self, dataset: str, demotions: Sequence[Demotion]) -> None:
        """Decide that guards fall to other modes; a guard with a decision that is not published yet is left out."""

    async def find_trials(self, dataset: str) -> Mapping[str, GuardTrial]:
        """Return the measurements of the guards of a dataset, by bullet."""

    async def count_passed(self, dataset: str) -> int:
        """Return the number of passing sessions of a dataset."""

    async def list_decisions(self, dataset: str, before: int | None, limit: int) -> Sequence[NumberedDecision]:
        """Return at most `limit` decisions, the newest first, from before a number."""

    async def list_unpublished(
        self, limit: int, dataset: str = "", *, skipped: int = 0
    ) -> Sequence[tuple[str, NumberedDecision]]:
        """Return the decisions that are not in their playbooks yet, the oldest first; all datasets, or one.

        The first `skipped` ones are left out.
        """

    async def set_published(self, dataset: str, number: int, revision: int) -> None:
        """Store in which revision a mode was changed; 0 if the guard had been pinned, edited or removed."""

    async def undo_decision(self, dataset: str, number: int, author: str) -> NumberedDecision:
        """Add the decision that takes back another one; a repeat returns the same.

        Raises DecisionNotFound, DecisionNotCurrent.
        """


class ModeEditor(Protocol):
    """Changes the modes of guards in playbooks."""

    async def set_mode(self, request_id: str, dataset: str, decision: ModeDecision) -> int:
        """Set the mode of a guard; return the revision, 0 if it is pinned, edited or removed. Raises HanseiError."""
