"""The data of deleted datasets is erased once, without that of a new dataset of the name."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from services.evidence.usecases.erase_deleted import CLOCK_TOLERANCE, DatasetDeletion, EraseDeletedDatasets

DELETED_AT = datetime(2026, 11, 28, tzinfo=UTC)


@dataclass
class Playbooks:
    """Lists the deletion of one dataset."""

    is_replaced: bool

    async def list_deletions(self) -> dict[str, DatasetDeletion]:
        return {"devtools": DatasetDeletion(DELETED_AT, self.is_replaced)}


@dataclass
class Trials:
    """Trials that began at a time."""

    began_at: datetime
    erasures: list[datetime] = field(default_factory=list)

    async def erase(self, dataset: str, until: datetime) -> bool:
        self.erasures.append(until)
        return self.began_at <= until


@pytest.mark.parametrize(("is_replaced", "is_erased"), [(False, True), (True, False)])
async def test_a_clock_that_is_a_little_ahead_saves_no_deleted_data(is_replaced: bool, is_erased: bool) -> None:
    trials = Trials(DELETED_AT + timedelta(seconds=1))
    now = [DELETED_AT + timedelta(seconds=2)]
    erase = EraseDeletedDatasets(Playbooks(is_replaced), trials, now=lambda: now[0])
    await erase()
    assert trials.erasures == [DELETED_AT]  # a new dataset may still be created
    now[0] += 2 * CLOCK_TOLERANCE
    await erase()
    await erase()
    assert trials.erasures[1:] == ([DELETED_AT + CLOCK_TOLERANCE] if is_erased else [])
    assert (trials.began_at <= trials.erasures[-1]) is is_erased
