"""Decide tool calls by the guards of a dataset and the earlier events of the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cachetools import LRUCache

from chassis.errors import HanseiError
from chassis.logging import get_logger
from chassis.targets.guard import CallDecision, CallGuard, GuardMode, find_matches
from chassis.targets.session import SessionHistory, ToolCallRequest
from libs.storage.idempotency import IdempotencyKey
from services.evidence.domain.guard_modes import limit_mode, needs_backtest
from services.evidence.domain.guard_sessions import DecidedMatch, SessionEvent, add_events, decide_matches
from services.evidence.usecases.guard_ports import GuardSource, GuardStore

CACHED_SESSIONS = 1_000
CACHED_BYTES = 250_000_000
"""Bytes of memory of the cached sessions, about; the others are read from the store again."""
UNAVAILABLE = "the guards cannot be read: the call is allowed unchecked"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """The decision about a call, and the guards that match it."""

    decision: CallDecision = CallDecision.ALLOW
    matches: tuple[DecidedMatch, ...] = ()
    revision: int = 0
    note: str = ""
    failures: int = 0
    """Guards that could not be evaluated."""


@dataclass(slots=True)
class _CachedSession:
    history: SessionHistory = field(default_factory=SessionHistory)
    events: int = 0
    is_loaded: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class CheckCall:
    """Checks calls. Without guards or without the store, a call is allowed and counted as unchecked."""

    def __init__(self, source: GuardSource, store: GuardStore, count_check: Callable[[str, int, int], None]) -> None:
        self._source = source
        self._store = store
        self._count_check = count_check
        self._sessions: LRUCache[tuple[str, str], _CachedSession] = LRUCache(CACHED_BYTES, _measure_bytes)

    async def __call__(self, dataset: str, session_id: str, call: ToolCallRequest, min_events: int = 0) -> CheckedCall:
        """Return the decision about a call that a session is about to make.

        `min_events` is the number of events that the caller knows of, 0 if it does not know.
        """
        try:
            checked = await self._check(dataset, session_id, call, min_events)
        except HanseiError as error:
            _log.warning("tool call was not checked; it is allowed", dataset=dataset, error=str(error))
            checked = CheckedCall(note=f"{UNAVAILABLE} ({error})")
        decision = "unchecked" if checked.note else checked.decision.name.lower()
        self._count_check(decision, len(checked.matches), checked.failures)
        return checked

    async def report(self, key: IdempotencyKey, dataset: str, session_id: str, events: Sequence[SessionEvent]) -> int:
        """Add events to a session once for each key; return their number in all. Raises RequestIdReused."""
        count = await self._store.append_events(key, dataset, session_id, events)
        session = self._sessions.get((dataset, session_id))
        if session is not None:
            async with session.lock:
                if session.events == count - len(events):
                    self._add(dataset, session_id, session, events)
                elif session.events < count:  # another report came between: the next check reads the store
                    session.is_loaded = False
        return count

    async def erase(self, dataset: str, until: datetime) -> bool:
        """Forget the cached sessions of a dataset that was deleted; nothing is stored here."""
        for key in [key for key in self._sessions if key[0] == dataset]:
            self._sessions.pop(key, None)
        return False

    async def _check(self, dataset: str, session_id: str, call: ToolCallRequest, min_events: int) -> CheckedCall:
        guards = await self._source.find(dataset)
        if not any(True for _ in guards.index.select(call.tool)):
            return CheckedCall(revision=guards.revision)
        session = await self._load(dataset, session_id, min_events)
        found = find_matches(guards.index, call, session.history)
        for guard, reason in found.failures:
            _log.info("guard could not be evaluated; it allows the call", bullet=guard.bullet_id, reason=reason)
            if guard.failures.is_suspended:
                _log.warning(
                    "guard suspended: its target takes too many steps", dataset=dataset, bullet=guard.bullet_id
                )
        failures = len(found.failures)
        if not found.matches:
            return CheckedCall(revision=guards.revision, failures=failures)
        in_effect = await limit_modes(self._store, dataset, found.matches, guards.pinned)
        in_effect.sort(key=lambda guard: -guard.mode)
        matches = decide_matches(await self._store.get_assignment_key(dataset), session_id, in_effect)
        await self._store.store_firings(dataset, session_id, session.events, call.key, matches)
        return CheckedCall(_decide(matches), tuple(matches), guards.revision, failures=failures)

    async def _load(self, dataset: str, session_id: str, min_events: int) -> _CachedSession:
        """Return the session with the events that any replica stored, or with those that the caller knows of."""
        session = self._sessions.setdefault((dataset, session_id), _CachedSession())
        if self._has_events(session, min_events):
            return session
        async with session.lock:  # Two checks at once must not add the same events twice.
            if not self._has_events(session, min_events):
                while events := await self._store.load_events(dataset, session_id, session.events):
                    self._add(dataset, session_id, session, events)
                session.is_loaded = True
        return session

    def _add(self, dataset: str, session_id: str, session: _CachedSession, events: Sequence[SessionEvent]) -> None:
        """Add the next events to a session, whose size in the cache changes with them."""
        add_events(session.history, events)
        session.events += len(events)
        if self._sessions.get((dataset, session_id)) is session:
            self._sessions[dataset, session_id] = session

    def _has_events(self, session: _CachedSession, min_events: int) -> bool:
        return session.is_loaded and (self._store.is_exclusive or 0 < min_events <= session.events)


def _measure_bytes(session: _CachedSession) -> int:
    return max(session.history.stored_bytes, CACHED_BYTES // CACHED_SESSIONS)


async def limit_modes(
    store: GuardStore, dataset: str, guards: Sequence[CallGuard], pinned: frozenset[str]
) -> list[CallGuard]:
    """Return guards with the modes in effect: a guard leaves SHADOW by a backtest, by evidence, or by a pin."""
    limited = [guard for guard in guards if needs_backtest(guard, pinned)]
    allowed = await store.find_allowed_modes(dataset, limited) if limited else {}
    return [limit_mode(guard, pinned, allowed) for guard in guards]


def _decide(matches: Sequence[DecidedMatch]) -> CallDecision:
    modes = [match.guard.mode for match in matches if not match.is_withheld and match.guard.mode > GuardMode.SHADOW]
    return CallDecision(max(modes, default=CallDecision.ALLOW))
