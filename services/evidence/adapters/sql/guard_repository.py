"""Sessions and firings of guards in SQL."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

from cachetools import LRUCache
from sqlalchemy import ColumnElement, Connection, Integer, ScalarSelect, cast, delete, func, insert, select, update

from chassis.targets.guard import CallGuard, GuardMode
from libs.guards.backtest import Backtest
from libs.storage.database import Database
from libs.storage.engines import get_insert
from libs.storage.idempotency import IdempotencyKey
from libs.storage.migrations import take_turn
from libs.storage.partitions import TimePartitions
from libs.storage.timestamps import utc_now
from services.evidence.adapters.sql.archive_schema import archive_dataset, archive_trajectory
from services.evidence.adapters.sql.guard_schema import (
    DROPPED_BY_TIME,
    digest_text,
    guard_backtest,
    guard_dataset,
    guard_decision,
    guard_event,
    guard_firing,
    guard_session,
    guard_trial,
)
from services.evidence.adapters.sql.schema import requests
from services.evidence.domain.assignment import KEY_BYTES
from services.evidence.domain.guard_modes import AllowedModes, find_highest_mode
from services.evidence.domain.guard_sessions import DecidedMatch, SessionEvent, decode_event, encode_event
from services.evidence.domain.stored_backtest import StoredBacktest
from services.evidence.usecases.guard_ports import FiringCounts, OutdatedBacktest

CACHED_KEYS = 10_000
EVENTS_PER_READ = 100
"""Events of a session that are in memory at once; each has up to 500,000 characters."""
MAX_LISTED_GUARDS = 100
"""Guards that a query lists; for more, all backtests and measurements of the dataset are read."""


class GuardRepository:
    """Stores sessions and firings in the database of the evidence service."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._keys: LRUCache[str, bytes] = LRUCache(CACHED_KEYS)
        self._partitions = TimePartitions(database, *DROPPED_BY_TIME)

    @property
    def is_exclusive(self) -> bool:
        """Return whether no other process writes to the store: one process opens a SQLite file."""
        return not self._database.is_postgresql

    async def load_events(self, dataset: str, session_id: str, after: int) -> list[SessionEvent]:
        """Return the next events of a session after the first `after`, and none only if there are no more."""
        table = guard_event.c
        query = (
            select(table.body)
            .where(table.dataset == dataset, table.session_id == session_id, table.number > after)
            .order_by(table.number)
            .limit(EVENTS_PER_READ)
        )
        bodies = await self._database.read(lambda connection: list(connection.execute(query).scalars()))
        return [decode_event(body) for body in bodies]

    async def append_events(
        self, key: IdempotencyKey, dataset: str, session_id: str, events: Sequence[SessionEvent]
    ) -> int:
        """Add events to a session once for each key; return their number in all. Raises RequestIdReused."""
        now = self._clock()
        await self._partitions.prepare(now)

        def append(connection: Connection) -> int:
            take_turn(connection, f"{dataset}/{session_id}")  # another replica may number events of the session
            count = _count_events(connection, dataset, session_id)
            rows = [
                {
                    "dataset": dataset,
                    "session_id": session_id,
                    "number": number,
                    "body": encode_event(event),
                    "created_at": now,
                }
                for number, event in enumerate(events, count + 1)
            ]
            if rows:
                connection.execute(insert(guard_event), rows)
            return count + len(rows)

        return int(await requests.write_once(self._database, key, now, append, f"{dataset}/{session_id}"))

    async def get_assignment_key(self, dataset: str) -> bytes:
        """Return the key of the random assignments of a dataset."""
        key = self._keys.get(dataset)
        if key is None:
            key = self._keys[dataset] = await self._database.write(
                lambda c: find_assignment_key(c, dataset), key=dataset
            )
        return key

    async def store_firings(
        self, dataset: str, session_id: str, step: int, call_key: str, matches: Sequence[DecidedMatch]
    ) -> None:
        """Store the firings of the check of one call; a repeated check adds none."""
        now = self._clock()
        await self._partitions.prepare(now)
        digest = digest_text(call_key)
        table = guard_firing.c
        its_firings = (table.dataset == dataset, table.session_id == session_id, table.step == step)
        query = select(table.bullet_id).where(*its_firings, table.call_digest == digest)
        rows = [
            {
                "dataset": dataset,
                "session_id": session_id,
                "step": step,
                "call_digest": digest,
                "bullet_id": match.guard.bullet_id,
                "mode": int(match.guard.mode),
                "is_withheld": match.is_withheld,
                "probability": match.probability,
                "created_at": now,
            }
            for match in matches
        ]

        def insert_firings(connection: Connection) -> None:
            take_turn(connection, f"{dataset}/{session_id}")
            stored = set(connection.scalars(query))
            if new := [row for row in rows if row["bullet_id"] not in stored]:
                connection.execute(insert(guard_firing), new)

        await self._database.write(insert_firings, key=f"{dataset}/{session_id}")

    async def count_firings(self, dataset: str) -> Mapping[str, FiringCounts]:
        """Return the counts of firings by bullet."""
        table = guard_firing.c
        withheld = func.sum(cast(table.is_withheld, Integer))
        query = select(table.bullet_id, func.count(), withheld).where(table.dataset == dataset)
        rows = await self._database.read(lambda connection: list(connection.execute(query.group_by(table.bullet_id))))
        return {bullet_id: FiringCounts(int(firings), int(silent)) for bullet_id, firings, silent in rows}

    async def store_backtest(self, dataset: str, target: str, backtest: Backtest, archived_number: int) -> None:
        """Store the counts of the last backtest of a target, and the last archived trajectory before it."""
        row = {
            "dataset": dataset,
            "target_digest": digest_text(target),
            "false_alarm_bound": backtest.false_alarm_bound,
            "counts": json.dumps(asdict(StoredBacktest.from_backtest(backtest))),
            "created_at": self._clock(),
            "archived_number": archived_number,
        }
        table = guard_backtest.c

        def replace_backtest(connection: Connection) -> None:
            connection.execute(
                delete(guard_backtest).where(table.dataset == dataset, table.target_digest == row["target_digest"])
            )
            connection.execute(insert(guard_backtest).values(row))

        await self._database.write(replace_backtest, key=dataset)

    async def find_archived_number(self, dataset: str) -> int:
        """Return the number of the last archived trajectory of a dataset, 0 without one."""
        query = select(_select_newest(archive_dataset.c.id)).where(archive_dataset.c.dataset == dataset)
        newest = await self._database.read(lambda connection: connection.execute(query).scalar())
        return newest or 0

    async def list_grown_archives(self) -> list[tuple[str, int]]:
        """Return the datasets with trajectories that a stored backtest does not count, each with the last number."""
        table, archive = guard_backtest.c, archive_dataset.c
        newest = _select_newest(archive.id)
        query = (
            select(table.dataset, newest)
            .join(archive_dataset, archive.dataset == table.dataset)
            .group_by(table.dataset, archive.id)
            .having(func.min(table.archived_number) < newest)
        )
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [(dataset, int(number)) for dataset, number in rows]

    async def find_outdated_backtests(
        self, dataset: str, targets: Sequence[str], newest: int
    ) -> dict[str, OutdatedBacktest]:
        """Return the stored backtests of targets that do not count all trajectories up to a number."""
        sources = {digest_text(target): target for target in targets}
        table = guard_backtest.c
        query = select(guard_backtest).where(table.dataset == dataset, table.archived_number < newest)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return {
            sources[bytes(row.target_digest)]: OutdatedBacktest(_parse_counts(row.counts), row.archived_number)
            for row in rows
            if bytes(row.target_digest) in sources
        }

    async def add_to_backtests(
        self, dataset: str, outdated: Mapping[str, OutdatedBacktest], added: Mapping[str, Backtest], newest: int
    ) -> dict[str, StoredBacktest]:
        """Add later trajectories to backtests that nobody changed meanwhile, and return these.

        Backtests of other targets, which guard nothing, count nothing more.
        """
        table = guard_backtest.c
        tested = [digest_text(target) for target in outdated]

        def update_backtests(connection: Connection) -> dict[str, StoredBacktest]:
            updated: dict[str, StoredBacktest] = {}
            for target, stored in outdated.items():
                counts = stored.counts.add(added[target])
                statement = update(guard_backtest).where(
                    table.dataset == dataset,
                    table.target_digest == digest_text(target),
                    table.archived_number == stored.archived_number,
                )
                values = {"false_alarm_bound": counts.false_alarm_bound, "counts": json.dumps(asdict(counts))}
                if connection.execute(statement.values(archived_number=newest, **values)).rowcount:
                    updated[target] = counts
            others = update(guard_backtest).where(table.dataset == dataset, table.archived_number < newest)
            connection.execute(others.where(table.target_digest.not_in(tested)).values(archived_number=newest))
            return updated

        return await self._database.write(update_backtests, key=dataset)

    async def find_allowed_modes(self, dataset: str, guards: Sequence[CallGuard]) -> Mapping[str, AllowedModes]:
        """Return what stored backtests and measurements allow, by bullet; nothing for a guard with neither."""
        table, trials = guard_backtest.c, guard_trial.c
        backtests = select(table.target_digest, table.false_alarm_bound).where(table.dataset == dataset)
        measured = select(trials.bullet_id, trials.target, trials.earned, trials.cap).where(trials.dataset == dataset)
        if len(guards) <= MAX_LISTED_GUARDS:
            backtests = backtests.where(table.target_digest.in_([digest_text(guard.target.source) for guard in guards]))
            measured = measured.where(trials.bullet_id.in_([guard.bullet_id for guard in guards]))

        def read(connection: Connection) -> dict[str, AllowedModes]:
            bounds = {bytes(digest): bound for digest, bound in connection.execute(backtests)}
            # The measurements of an earlier target of a bullet allow nothing.
            trial_modes = {(bullet_id, target): modes for bullet_id, target, *modes in connection.execute(measured)}
            allowed: dict[str, AllowedModes] = {}
            for guard in guards:
                bound = bounds.get(digest_text(guard.target.source))
                trial = trial_modes.get((guard.bullet_id, guard.target.source))
                if trial is not None:
                    earned, cap = trial
                    allowed[guard.bullet_id] = AllowedModes(find_highest_mode(bound), GuardMode(earned), GuardMode(cap))
                elif bound is not None:
                    allowed[guard.bullet_id] = AllowedModes(find_highest_mode(bound))
            return allowed

        return await self._database.read(read)

    async def erase(self, dataset: str, until: datetime) -> bool:
        """Delete the sessions, firings and backtests of a dataset until a time; return whether there were any."""

        def erase_guards(connection: Connection) -> bool:
            deleted = [
                connection.execute(delete(table).where(table.c.dataset == dataset, table.c.created_at <= until))
                for table in (guard_event, guard_firing, guard_backtest, guard_session, guard_decision)
            ]
            deleted.append(
                connection.execute(
                    delete(guard_trial).where(guard_trial.c.dataset == dataset, guard_trial.c.since <= until)
                )
            )
            return any(result.rowcount for result in deleted)

        return await self._database.write(erase_guards, key=dataset)

    async def delete_older(self, retention: timedelta) -> None:
        """Delete events, firings and outcomes of sessions that are older than this; see `TimePartitions`."""
        await self._partitions.drop_older(self._clock() - retention)


def _select_newest(dataset_id: ColumnElement[int]) -> ScalarSelect[int]:
    """Select the number of the last archived trajectory of a dataset."""
    numbers = archive_trajectory.c
    return select(func.max(numbers.number)).where(numbers.dataset_id == dataset_id).scalar_subquery()


def _parse_counts(text: str) -> StoredBacktest:
    """Return stored counts; earlier releases counted all firings in passing trajectories as false alarms."""
    counts = json.loads(text)
    return StoredBacktest(**{"false_alarms": counts["passed_firing"], **counts})


def _count_events(connection: Connection, dataset: str, session_id: str) -> int:
    table = guard_event.c
    query = select(func.max(table.number)).where(table.dataset == dataset, table.session_id == session_id)
    return int(connection.execute(query).scalar() or 0)


def find_assignment_key(connection: Connection, dataset: str) -> bytes:
    """Return the key of the random assignments of a dataset; it is made if there is none."""
    row: dict[str, object] = {"dataset": dataset, "assignment_key": secrets.token_bytes(KEY_BYTES)}
    row |= dict.fromkeys(("sessions", "passed", "evaluated", "trials", "decisions"), 0)
    connection.execute(get_insert(connection.dialect.name)(guard_dataset).values(row).on_conflict_do_nothing())
    query = select(guard_dataset.c.assignment_key).where(guard_dataset.c.dataset == dataset)
    return bytes(connection.execute(query).scalar_one())
