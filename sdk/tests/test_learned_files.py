"""The list of learned files: a file is skipped only if it is the same, for the same server and dataset."""

from __future__ import annotations

import os
from pathlib import Path

from hansei.client.learned_files import LearnedFiles, read_state


def test_a_file_is_skipped_until_it_changes_or_its_dataset_is_deleted(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("one")
    learned = LearnedFiles(tmp_path / "data", "host:1", "coding")
    assert learned.list_unchanged([read_state(str(file))], {"coding": 0}) == set()
    assert not (tmp_path / "data").exists()
    state = read_state(str(file))
    learned.add({state: {"coding": 0, "shop": 0}})
    assert learned.list_unchanged([state], {"coding": 0, "shop": 0}) == {str(file)}
    assert learned.list_unchanged([state], {"coding": 0}) == set()
    assert learned.list_unchanged([state], {"coding": 7, "shop": 0}) == set()
    assert (
        LearnedFiles(tmp_path / "data", "host:2", "coding").list_unchanged([state], {"coding": 0, "shop": 0}) == set()
    )
    assert LearnedFiles(tmp_path / "data", "host:1", "other").list_unchanged([state], {"coding": 0, "shop": 0}) == set()
    with file.open("a") as lines:
        lines.write("two")
    grown = read_state(str(file))
    assert learned.list_unchanged([grown], {"coding": 0, "shop": 0}) == set()
    learned.add({grown: {"coding": 0}})
    assert learned.list_unchanged([grown], {"coding": 0}) == {str(file)}
    os.utime(file, ns=(1, 1))
    assert learned.list_unchanged([read_state(str(file))], {"coding": 0}) == set()


def test_the_file_of_a_command_that_was_killed_at_its_creation_is_used(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.touch()
    (tmp_path / "learned-files.sqlite").touch()
    learned, state = LearnedFiles(tmp_path, "host:1", "coding"), read_state(str(file))
    assert learned.list_unchanged([state], {"coding": 0}) == set()
    learned.add({state: {"coding": 0}})
    assert learned.list_unchanged([state], {"coding": 0}) == {str(file)}
