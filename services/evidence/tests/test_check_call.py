"""Checks of calls read the events of a session in parts, and keep a bounded number of bytes of sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from chassis.targets.guard import CallDecision, CallGuard, GuardIndex, GuardMode
from chassis.targets.session import ToolCallRequest
from chassis.targets.target import Target
from libs.storage.idempotency import IdempotencyKey
from services.evidence.adapters.sql.guard_repository import EVENTS_PER_READ, GuardRepository
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.guard_sessions import SessionCall, SessionText
from services.evidence.usecases import check_call
from services.evidence.usecases.check_call import CheckCall
from services.evidence.usecases.guard_ports import DatasetGuards

SEARCH = ToolCallRequest("search", {"q": "x"})


class OneGuard:
    """A source of one guard, whose mode a person set."""

    def __init__(self, target: str) -> None:
        guards = (CallGuard("b-1", Target(target), GuardMode.DENY, "Do not."),)
        self._guards = DatasetGuards(1, guards, GuardIndex(guards), frozenset({"b-1"}))

    async def find(self, dataset: str) -> DatasetGuards:
        return self._guards


@asynccontextmanager
async def open_check(folder: Path, target: str) -> AsyncIterator[CheckCall]:
    database = EvidenceRepository(str(folder / "evidence.db")).database
    await database.open()
    try:
        yield CheckCall(OneGuard(target), GuardRepository(database), lambda decision, matches, failures: None)
    finally:
        await database.close()


async def report(check: CheckCall, session_id: str, *events: SessionCall | SessionText) -> int:
    return await check.report(IdempotencyKey(str(uuid4()), "ReportCall", b""), "d", session_id, events)


async def test_a_long_session_is_read_in_parts(tmp_path: Path) -> None:
    async with open_check(tmp_path, f"count('search') == {2 * EVENTS_PER_READ}") as check:
        for _ in range(2):
            await report(check, "s", *[SessionCall(SEARCH)] * EVENTS_PER_READ)
        assert len(await check._store.load_events("d", "s", 0)) == EVENTS_PER_READ
        assert (await check("d", "s", SEARCH)).decision is CallDecision.DENY
        await report(check, "s", SessionCall(SEARCH))
        assert (await check("d", "s", SEARCH)).decision is CallDecision.ALLOW


async def test_the_sessions_that_are_cached_have_a_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_call, "CACHED_BYTES", 3_000_000)
    async with open_check(tmp_path, "repeats() > 0") as check:
        for number in range(30):
            assert (await check("d", f"s-{number}", SEARCH)).decision is CallDecision.ALLOW
            await report(check, f"s-{number}", SessionText("word " * 40_000), SessionCall(SEARCH, "y" * 100_000))
        for number in range(30):
            assert (await check("d", f"s-{number}", SEARCH)).decision is CallDecision.DENY
            assert sum(session.history.stored_bytes for session in check._sessions.values()) <= 3_000_000
        assert 0 < len(check._sessions) < 30
