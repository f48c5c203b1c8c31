"""One process at a time serves the SQLite files of a directory."""

from __future__ import annotations

from pathlib import Path

from allinone.bootstrap import BOOTSTRAPS
from allinone.data_locks import list_data_directories
from allinone.parts import load_settings_class
from tests.support import systems


def test_a_second_process_names_the_directory_and_the_first_process(tmp_path: Path) -> None:
    with systems.one_process(tmp_path) as system:
        status, errors = systems.failed_start(tmp_path, "allinone")
        process = system.processes["allinone"]
        assert status == 1
        holder = f"process {process.pid} ("
        assert errors.splitlines()[-1].startswith(f"the data directory {tmp_path / 'data'} is in use by {holder}")
        assert errors.endswith("stop that process, or choose another directory with HANSEI_DATA_DIR\n")
        # A process that dies leaves no lock.
        system.kill("allinone")
        system.start("allinone")
        system.wait_until_started("allinone")


def test_servers_and_what_is_no_database_are_not_locked(tmp_path: Path) -> None:
    urls = [
        "postgresql://db/hansei",
        ":memory:",
        "sqlite:///file:x.db?mode=ro&uri=true",
        "nothing://",
        str(tmp_path / "a"),
    ]
    settings = [load_settings_class("evidence").model_validate({"evidence_database_url": url}) for url in urls]
    assert list_data_directories(settings) == [tmp_path]


def test_a_directory_is_locked_once_whatever_links_lead_to_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (tmp_path / "file.sqlite").symlink_to(tmp_path / "data/a.sqlite")
    names = ("data/a.sqlite", "link/b.sqlite", "file.sqlite")
    settings = [
        load_settings_class("evidence").model_validate({"evidence_database_url": str(tmp_path / name)})
        for name in names
    ]
    assert list_data_directories(settings) == [tmp_path / "data"]


def test_the_default_directories_are_those_of_the_databases() -> None:
    settings = [load_settings_class(name)() for name in BOOTSTRAPS]
    assert list_data_directories(settings) == [Path.cwd() / "data", Path.cwd() / "data/playbooks"]
