from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from libs.storage.engines import create_database_engine, display_name, get_sqlite_error_name, parse_location
from tests.support.campaigns import campaign_size


def test_a_file_name_is_a_sqlite_file_in_a_folder_that_is_made(tmp_path: Path) -> None:
    file = tmp_path / "not" / "there" / "state.db"
    engine = create_database_engine(parse_location(str(file)), "test", writes=True)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (x INTEGER)"))
    engine.dispose()
    assert file.exists()


@pytest.mark.parametrize(("pragma", "value"), [("journal_mode", "wal"), ("synchronous", 2)])
def test_acknowledged_writes_survive_a_power_cut(tmp_path: Path, pragma: str, value: object) -> None:
    engine = create_database_engine(parse_location(str(tmp_path / "a.db")), "test", writes=True)
    with engine.connect() as connection:
        assert connection.execute(text(f"PRAGMA {pragma}")).scalar() == value
    engine.dispose()


def test_derived_data_is_written_without_waiting_for_the_disk(tmp_path: Path) -> None:
    engine = create_database_engine(parse_location(str(tmp_path / "a.db")), "test", writes=True, durable=False)
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 1
    engine.dispose()


def test_writers_take_turns_from_the_beginning_and_readers_do_not_wait(tmp_path: Path) -> None:
    url = parse_location(str(tmp_path / "a.db"))
    first, second = (create_database_engine(url, "test", writes=True, lock_seconds=0) for _ in range(2))
    reader = create_database_engine(url, "test", writes=False)
    with first.begin() as connection:
        connection.execute(text("CREATE TABLE t (x INTEGER)"))
    with first.begin() as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))
        with reader.begin() as reading:
            assert reading.execute(text("SELECT count(*) FROM t")).scalar() == 0
        with pytest.raises(OperationalError) as caught, second.begin():
            pass
    assert get_sqlite_error_name(caught.value) == "SQLITE_BUSY"
    for engine in (first, second, reader):
        engine.dispose()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_postgresql_is_reached_by_psycopg_and_named_without_its_password(scheme: str) -> None:
    url = parse_location(f"{scheme}://app:secret@db/hansei")
    assert url.drivername == "postgresql+psycopg"
    assert display_name(url) == "postgresql+psycopg://app:***@db/hansei"
    assert display_name(url.update_query_dict({"sslpassword": "hunter2"})) == display_name(url)


def test_two_services_may_open_a_new_file_at_the_same_moment(tmp_path: Path) -> None:
    together = Barrier(2)

    def open_once(file: Path) -> None:
        engine = create_database_engine(parse_location(str(file)), "test", writes=True)
        together.wait()
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS t (x INTEGER)"))
        engine.dispose()

    # Collisions are random: of 400 files about ten were refused as locked before engines waited for each other.
    files = campaign_size(400, 160)
    with ThreadPoolExecutor(2) as threads:
        for number in range(files):
            list(threads.map(open_once, [tmp_path / f"{number}.db"] * 2))
