"""What the tests of a run share is made once and ends after its last user, however that one ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.shared_resources import ROOT, shared

OTHER = """
import sys
from pathlib import Path
from tests.behaviour.harness.test_shared import told
from tests.support.shared_resources import shared

with shared(told, Path(sys.argv[1])) as place:
    print(place, flush=True)
    sys.stdin.read()
"""


@contextmanager
def told(data: Path) -> Iterator[Path]:
    """Its place; who reads the pipe there is told when it ends."""
    os.mkfifo(data / "end")
    (data / "keeper").write_text(str(os.getpid()))
    try:
        yield data
    finally:
        (data / "end").write_text("it ended")


@contextmanager
def failing(_data: Path) -> Iterator[Path]:
    raise ValueError("not today")
    yield


@contextmanager
def another_user(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that has it, and the place it was given."""
    command = [sys.executable, "-c", OTHER, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())


def test_it_is_one_for_all_and_outlives_who_asked_first(tmp_path: Path) -> None:
    with another_user(tmp_path) as (first, theirs):
        with shared(told, tmp_path) as ours:
            assert ours == theirs
            first.kill()
            first.wait()
            with shared(told, tmp_path) as still:
                assert still == theirs
        assert (theirs / "end").read_text() == "it ended"


def test_after_its_end_it_is_made_anew(tmp_path: Path) -> None:
    with another_user(tmp_path) as (only, theirs):
        only.kill()
        assert (theirs / "end").read_text() == "it ended"
    with another_user(tmp_path) as (again, theirs_again):
        assert theirs_again != theirs
        again.kill()
        (theirs_again / "end").read_text()


def test_it_ends_when_its_keeper_is_asked_to(tmp_path: Path) -> None:
    with another_user(tmp_path) as (user, theirs):
        os.kill(int((theirs / "keeper").read_text()), signal.SIGTERM)
        assert (theirs / "end").read_text() == "it ended"
        user.kill()


def test_what_cannot_be_made_says_why(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="not today"), shared(failing, tmp_path):
        pass
