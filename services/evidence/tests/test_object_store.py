"""The object store of the archive against a server that speaks S3: moto, in an environment of its own.

Its packages need older versions of others than the product does.
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tenacity import retry, stop_after_delay, wait_fixed

from chassis.errors import HanseiError
from hansei.evidence.v1 import archive_service_pb2 as pb
from services.evidence.adapters.bodies import BodyMissing, ObjectStore
from services.evidence.domain.archive_errors import ArchiveNotFound, ObjectStoreUnavailable
from services.evidence.tests.archives import DATASET, LIMITS, list_ids, make_trajectory, open_archive, read, store
from tests.support.systems import free_port

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).with_name("uv")
BUCKET = "trajectories"


class S3Server:
    """A server process that speaks S3, at `url`."""

    def __init__(self, program: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [str(program), "-H", "127.0.0.1", "-p", str(port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._create_bucket()

    @retry(stop=stop_after_delay(60), wait=wait_fixed(0.1), reraise=True)
    def _create_bucket(self) -> None:
        httpx.put(f"{self.url}/{BUCKET}").raise_for_status()

    def list_objects(self) -> list[str]:
        """Return the keys in the bucket."""
        listing = ET.fromstring(httpx.get(f"{self.url}/{BUCKET}", params={"list-type": "2"}).text)
        return [key.text or "" for key in listing.iterfind(".//{*}Key")]

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the server's program in a new environment."""
    environment = tmp_path_factory.mktemp("s3")
    python = environment / "bin/python"
    lock = ROOT / "requirements/s3-server.lock"
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, environment], check=True)
    subprocess.run([UV, "pip", "install", "-q", "--python", python, "--require-hashes", "-r", lock], check=True)
    return environment / "bin/moto_server"


@pytest.fixture
def server(program: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Return a running server with an empty bucket; the environment holds its address and credentials."""
    server = S3Server(program)
    for name, value in {
        "AWS_ENDPOINT": server.url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    yield server
    server.stop()


async def test_large_bodies_are_objects_of_a_bucket(tmp_path: Path, server: S3Server) -> None:
    async with open_archive(tmp_path, replace(LIMITS, row_bytes=0), f"s3://{BUCKET}/hansei") as (servicer, archive, _):
        await store(servicer)
        (key,) = server.list_objects()
        assert key.startswith(f"hansei/{DATASET}/")
        assert (await read(servicer)).trajectory == make_trajectory()
        await archive.maintain()
        assert server.list_objects() == [key]
        await servicer.DeleteTrajectory(pb.DeleteTrajectoryRequest(dataset=DATASET, trajectory_id="t-1"), None)
        assert server.list_objects() == []


async def test_an_object_that_somebody_deleted_is_named(server: S3Server) -> None:
    with pytest.raises(BodyMissing, match="no object 'gone'"):
        await ObjectStore(f"s3://{BUCKET}").get("gone")
    await ObjectStore(f"s3://{BUCKET}").delete(["gone"])


async def test_nothing_is_stored_while_the_server_is_away_or_refuses(tmp_path: Path, server: S3Server) -> None:
    limits = replace(LIMITS, row_bytes=0)
    async with open_archive(tmp_path, limits, "s3://missing-bucket") as (servicer, _, _):
        with pytest.raises(HanseiError):
            await store(servicer, "refused")
        with pytest.raises(ArchiveNotFound):
            await list_ids(servicer)
    async with open_archive(tmp_path, limits, f"s3://{BUCKET}") as (servicer, _, _):
        server.stop()
        with pytest.raises(ObjectStoreUnavailable, match="nothing was stored"):
            await store(servicer, "away")
        with pytest.raises(ArchiveNotFound):
            await list_ids(servicer)
