import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from chassis.errors import DataLoss, Unavailable
from chassis.settings import BadSetting
from libs.storage.engines import create_database_engine, parse_location
from libs.storage.startup import report_setting, wait_until_open

SERVER = parse_location("postgresql://me:geheim@db.example/plans")


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class Database:
    """Fails with each of these in turn, then opens."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self.attempts = 0

    async def open(self) -> None:
        self.attempts += 1
        if self._failures:
            raise self._failures.pop(0)


def refusal(message: str = "connection refused\nmore lines", state: str | None = None) -> Exception:
    return OperationalError("SELECT 1", {}, ConnectionFailure(message, state))


class ConnectionFailure(Exception):
    """A driver's own error; without a state the server could not be talked to."""

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


async def start(database: Database, seconds: float = 30) -> Clock:
    clock = Clock()
    await wait_until_open(
        database.open, SERVER, "PLANNER_DATABASE_URL", seconds, clock=clock, sleep=clock.sleep, rng=lambda: 1.0
    )
    return clock


async def test_a_client_waits_for_a_server_that_starts_late() -> None:
    database = Database(refusal(), Unavailable("not yet"), refusal("the database system is starting up", "57P03"))
    clock = await start(database)
    assert (database.attempts, clock.now) == (4, 0.5 + 1 + 2)


async def test_a_migration_that_a_deadlock_rolled_back_is_tried_again() -> None:
    database = Database(refusal("deadlock detected", "40P01"))
    clock = await start(database)
    assert (database.attempts, clock.now) == (2, 0.5)


async def test_an_unavailable_server_is_one_line_with_the_setting_and_no_password() -> None:
    database = Database(*(refusal("geheim is no password of mine\nsecond line") for _ in range(99)))
    with pytest.raises(BadSetting) as caught:
        await start(database, 5)
    assert database.attempts == 4, "after 0, 0.5, 1.5 and 3.5 s"
    assert str(caught.value) == (
        "PLANNER_DATABASE_URL: the database postgresql+psycopg://me:***@db.example/plans did not answer for 5 s:"
        " *** is no password of mine"
    )


async def test_a_permanent_error_is_reported_at_once_with_its_own_text() -> None:
    database = Database(DataLoss("the store is damaged; put back a backup"))
    with pytest.raises(BadSetting, match=r"^PLANNER_DATABASE_URL: the store is damaged; put back a backup$"):
        await start(database)
    assert database.attempts == 1


async def test_a_permanent_refusal_of_a_server_is_not_retried() -> None:
    database = Database(refusal('permission denied for schema "public"', "42501"))
    with pytest.raises(BadSetting, match=r"cannot be used: permission denied for schema"):
        await start(database)
    assert database.attempts == 1


def opening(engine: Engine) -> Callable[[], None]:
    def connect() -> None:
        with engine.begin():
            pass

    return connect


@pytest.mark.parametrize(
    ("seconds", "message"), [(2, "did not answer for 2 s: database is locked"), (0, "did not answer for 0 s")]
)
async def test_a_locked_file_is_waited_for(tmp_path: Path, seconds: float, message: str) -> None:
    path, clock = tmp_path / "a.db", Clock()
    engine = create_database_engine(parse_location(str(path)), "test", writes=True)
    opening(engine)()
    engine.dispose()
    impatient = create_database_engine(parse_location(str(path)), "test", writes=True, lock_seconds=0)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def connect() -> None:
        opening(impatient)()

    with pytest.raises(BadSetting, match=message):
        await wait_until_open(connect, impatient.url, "PLANNER_DATABASE_URL", seconds, clock=clock, sleep=clock.sleep)
    assert clock.now <= seconds
    other.close()
    impatient.dispose()


async def test_a_file_that_is_no_database_is_not_waited_for(tmp_path: Path) -> None:
    path, clock = tmp_path / "a.db", Clock()
    path.write_bytes(b"something else" * 1000)
    engine = create_database_engine(parse_location(str(path)), "test", writes=True)

    async def connect() -> None:
        opening(engine)()

    with pytest.raises(
        BadSetting, match=r"^PLANNER_DATABASE_URL: the database .*a\.db cannot be used: file is not a database$"
    ):
        await wait_until_open(connect, engine.url, "PLANNER_DATABASE_URL", 30, clock=clock, sleep=clock.sleep)
    assert clock.now == 0
    engine.dispose()


@pytest.mark.parametrize(
    "location", ["nosuch://me:geheim@db/x", "postgresql://me:geheim@db:port/x", "mysql://me:geheim@db/x", "://geheim"]
)
def test_a_location_that_is_no_database_names_the_setting(location: str) -> None:
    with pytest.raises(BadSetting, match=r"^PLANNER_DATABASE_URL: ") as caught, report_setting("PLANNER_DATABASE_URL"):
        create_database_engine(parse_location(location), "test", writes=True)
    assert "geheim" not in str(caught.value)


def test_a_bad_setting_is_raised_as_it_is() -> None:
    with pytest.raises(BadSetting, match=r"^CURATOR_SECTIONS_FILE: too large$"), report_setting("PLANNER_DATABASE_URL"):
        raise BadSetting("CURATOR_SECTIONS_FILE: too large")


def test_a_folder_that_cannot_be_made_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadSetting, match=r"^PLANNER_DATABASE_URL: "), report_setting("PLANNER_DATABASE_URL"):
        create_database_engine(parse_location(str(tmp_path / "file" / "a.db")), "test", writes=True)


async def test_an_error_with_itself_as_cause_still_ends_the_start() -> None:
    first, other = ValueError("migrations of another version"), KeyError("0009")
    first.__cause__, other.__cause__ = other, first
    failure = DataLoss("the schema is newer than this service", reason="SCHEMA_NEWER")
    failure.__cause__ = first
    with pytest.raises(BadSetting, match="the schema is newer than this service"):
        await start(Database(failure))
