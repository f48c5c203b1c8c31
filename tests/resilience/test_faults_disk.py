"""The disk of the databases is full: refusals name the reason, acknowledged data stay, and free space repairs all."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chassis.errors import HanseiError
from hansei.client import Client
from tests.resilience.load import Ledger, check_ledger
from tests.support import systems
from tests.support.bulk_jobs import build_trajectory, jobs_at

SIZE = "24m"
BEFORE = 10
ENOUGH = 400
"""Runs that are more than fit."""


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of `SIZE`; skip the test if that is not possible, or fail it in CI."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        missing = f"a full disk needs a file system of its own, and mounting one needs root: {done.stderr.strip()}"
        if os.environ.get("HANSEI_REQUIRE_ROOT"):
            pytest.fail(missing)
        pytest.skip(missing)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Fill the file system with a file."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65_536))
        except OSError:
            return ballast


def test_a_full_disk_is_reported_and_recovered_from(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        files = (
            "HANSEI_GATEWAY_DATABASE_URL",
            "HANSEI_PLANNER_DATABASE_URL",
            "HANSEI_SEARCH_DATABASE_URL",
            "HANSEI_VALIDATOR_DATABASE_URL",
            "HANSEI_EVIDENCE_DATABASE_URL",
        )
        databases = {name: str(disk / f"{name.lower()}.db") for name in files} | {"PLAYBOOK_DATA_DIR": str(disk)}
        with systems.one_process(tmp_path, **databases) as system, Client(system.address) as client:
            ledger = Ledger(f"disk-{uuid.uuid4().hex[:8]}")
            assert all(learn(client, ledger, n) for n in range(BEFORE))
            ballast = fill(disk)
            number = next(n for n in range(BEFORE, ENOUGH) if not learn(client, ledger, n))
            assert sum(ledger.refused.values()) == 1
            # Reads succeed, and return the acknowledged lessons.
            with jobs_at(system.address) as jobs:
                assert sorted(jobs.sources(ledger.dataset)) == sorted(ledger.acknowledged)
            ballast.unlink()
            assert learn(client, ledger, number)
            check_ledger("disk full", system.address, ledger)


def learn(client: Client, ledger: Ledger, number: int) -> bool:
    """Return whether a trajectory was acknowledged; a response that says "not saved" must name the disk."""
    request_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{ledger.dataset}/{number}"))
    request = build_trajectory(ledger.dataset, number, lessons=10**6)
    try:
        learned = client.gateway.learn(request_id=request_id, dataset=ledger.dataset, trajectory=request)
    except HanseiError as error:
        ledger.refuse(error)
        return False
    if not ledger.record_response(learned):
        assert "is full: nothing was written; free space and retry" in learned.curation.error
        return False
    ledger.acknowledged.append(request.id)
    return True
