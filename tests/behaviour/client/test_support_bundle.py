"""Test `hansei doctor --bundle`: its content, its secrets, and that it is made when no server answers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import tarfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import chassis
from allinone.commands import load_settings_classes
from chassis.settings import list_settings
from hansei.client import Client
from hansei.client.cli.support import servers
from hansei.client.cli.support.archive import BundlePart
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from services.curator.bootstrap import build
from services.curator.settings import CuratorSettings
from tests.fakes.authority import Authority
from tests.support import systems
from tests.support.commands import Hansei, runner

FOLDER = "hansei-support/"
LOOKS = (
    "postgresql://hansei:{}@127.0.0.1:1/x",
    "postgresql://hansei:p@{}/w@127.0.0.1:1/x",
    "postgresql://127.0.0.1:1/x?sslmode=require&password={}",
    "https://user:{}@models.example/v1",
    "https://models.example/v1?key={}",
    "sk-{}",
    "Bearer {}",
    "AIza{}",
    "hansei_0123456789abcdef_{}",
    "eyJhbGciOi.eyJpc3Mi.{}",
    "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
    "OPENAI_API_KEY={}",
)
"""The forms of a secret in a variable that is not meant for one."""


@dataclass
class PlantedSecrets:
    """The secrets of a test, each a unique word."""

    words: list[str] = field(default_factory=list)

    def new_secret(self) -> str:
        self.words.append(f"planted{uuid.uuid4().hex}")
        return self.words[-1]

    def found_in(self, file: Path) -> list[tuple[str, str]]:
        """Return the files of a bundle whose name or content has a secret."""
        assert self.words
        with tarfile.open(file) as packed:
            contents = {entry.name: _content(packed, entry) for entry in packed}
        return [
            (name, word)
            for name, content in contents.items()
            for word in self.words
            if word.encode() in content or word in name
        ]


def _content(packed: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    opened = packed.extractfile(entry)
    assert opened is not None
    return opened.read()


def documents(file: Path) -> dict[str, Any]:
    """Return the JSON documents and texts of a bundle, by name."""
    with tarfile.open(file) as packed:
        contents = {entry.name.removeprefix(FOLDER): _content(packed, entry).decode() for entry in packed}
    return {name: json.loads(text) if name.endswith(".json") else text for name, text in contents.items()}


@pytest.fixture
def secrets() -> PlantedSecrets:
    return PlantedSecrets()


@pytest.fixture
def hansei(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hansei:
    """Return the command in an empty folder, without a server."""
    for name in ("LLM_PROVIDER", "HANSEI_LLM_PROVIDER", "OPENAI_API_KEY", "EMBEDDING_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    for name in systems.SERVICES:
        monkeypatch.setenv(f"{name.upper()}_ADDR", f"127.0.0.1:{systems.free_port()}")
    monkeypatch.setenv("HANSEI_ADDR", f"127.0.0.1:{systems.free_port()}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return runner(capfd)


def build_trajectory_with_secrets(dataset: str, secrets: PlantedSecrets) -> trajectory.Trajectory:
    """Return a failed trajectory with a secret in every text."""
    call = trajectory.ToolCall(id="1", name="push", arguments=json.dumps({"token": secrets.new_secret()}))
    return trajectory.Trajectory(
        id=f"{dataset}-1",
        dataset=dataset,
        query=f"Push with the password {secrets.new_secret()}",
        status=trajectory.TRAJECTORY_STATUS_FAILURE,
        generated_answer=f"I could not push as {secrets.new_secret()}.",
        steps=[
            trajectory.Step(role=trajectory.STEP_ROLE_ASSISTANT, content=secrets.new_secret(), tool_calls=[call]),
            trajectory.Step(
                role=trajectory.STEP_ROLE_TOOL,
                name="push",
                tool_call_id="1",
                content=f"exit code 1\nfatal: no access with {secrets.new_secret()}",
            ),
        ],
    )


def test_the_bundle_has_the_state_of_a_running_hansei_and_no_texts(
    hansei: Hansei, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secrets: PlantedSecrets
) -> None:
    token, metrics, dataset = (
        secrets.new_secret(),
        f"127.0.0.1:{systems.free_port()}",
        f"support-{uuid.uuid4().hex[:8]}",
    )
    settings = {"HANSEI_METRICS_ADDRESS": metrics, "GATEWAY_API_TOKEN": token, "HANSEI_LOG_LEVEL": "DEBUG"}
    data = tmp_path / "data-of-the-server"
    data.mkdir()
    with systems.one_process(data, **settings) as system:
        with Client(system.address, token=token) as client:
            learned = client.learn(
                build_trajectory_with_secrets(dataset, secrets),
                ground_truth=secrets.new_secret(),
                test_report=secrets.new_secret(),
            )
            client.ask(dataset, f"How do I push? {secrets.new_secret()}", min_revision=learned.curation.revision)
        log = data / "allinone.log"
        assert log.stat().st_size
        monkeypatch.setenv("HANSEI_METRICS_ADDRESS", metrics)
        monkeypatch.setenv("HANSEI_TOKEN", token)
        monkeypatch.setenv("HANSEI_ADDR", system.address)
        monkeypatch.setenv("CURATOR_DATABASE_URL", "")
        monkeypatch.setenv("PLAYBOOK_DATA_DIR", str(data / "playbooks"))
        outcome = hansei("doctor", "--bundle", "b.tar.gz", "--log", log, "--json")
    assert outcome.code == 0, outcome.err
    assert secrets.found_in(tmp_path / "b.tar.gz") == []
    found = documents(tmp_path / "b.tar.gz")
    assert outcome.document == found["manifest.json"]
    (book,) = found["playbooks.json"]
    assert (book["dataset"], book["revision"], book["index_revision"]) == (dataset, 1, 1)
    assert book["bullets"] >= 1
    gateway = found["servers.json"]["gateway"]
    assert gateway["health"]["the process"] == "SERVING"
    assert {f"hansei.{name}.v1" for name in systems.SERVICES} <= {n.rpartition(".")[0] for n in gateway["health"]}
    assert gateway["contract"]["digest"] == gateway["contract"]["digest_here"]
    assert gateway["contract"]["only_here"] == gateway["contract"]["only_there"] == []
    assert 'rpc_method="Learn"' in found["metrics.txt"]
    assert found["schemas.json"]["curator"]["versions"] == {"curator_schema_version": ["0003"]}
    assert found["settings.json"]["settings"]["curator"]["PLAYBOOK_DATA_DIR"] == {
        "value": str(data / "playbooks"),
        "from": "PLAYBOOK_DATA_DIR",
    }
    assert {finding["check"] for finding in found["findings.json"]} >= {"server: curator", "gateway: settings"}
    assert "grpcio" in found["versions.json"]["packages"]
    assert '"event": "server started"' in found["logs/1-allinone.log"]


def test_the_manifest_lists_every_file_and_every_omission(hansei: Hansei, tmp_path: Path) -> None:
    outcome = hansei("doctor", "--bundle", "b.tar.gz")
    assert outcome.code == 1  # the server does not answer
    file = tmp_path / "b.tar.gz"
    assert file.stat().st_mode & 0o077 == 0
    manifest = documents(file)["manifest.json"]
    with tarfile.open(file) as packed:
        there = {entry.name.removeprefix(FOLDER): _content(packed, entry) for entry in packed}
    digests = {entry["file"]: (entry["bytes"], entry["sha256"]) for entry in manifest["files"]}
    assert digests == {
        name: (len(content), hashlib.sha256(content).hexdigest())
        for name, content in there.items()
        if name != "manifest.json"
    }
    left_out = {entry["what"]: entry["reason"] for entry in manifest["left_out"]}
    for name in systems.SERVICES:
        assert "did not answer: UNAVAILABLE" in left_out[f"health and contract of the {name}"]
    assert {"metrics", "logs", "bullets, trajectories, prompts and documents"} <= set(left_out)
    assert all(name in outcome.out for name in [*digests, *left_out])


def every_setting(secrets: PlantedSecrets) -> Iterator[tuple[str, str]]:
    """Yield a secret for each variable of each setting, in a usual form where the setting is not secret."""
    looks = cycle(LOOKS)
    for settings in load_settings_classes().values():
        for row in list_settings(settings):
            for variable in row.variables:
                secret = isinstance(settings.model_fields[row.name].get_default(), SecretStr)
                yield (
                    variable,
                    secrets.new_secret() if secret else next(looks).format(secrets.new_secret()),
                )


def usable_settings(secrets: PlantedSecrets) -> Iterator[tuple[str, str]]:
    """Yield secrets in settings that are valid, except that the databases do not exist."""
    for variable in ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GATEWAY_API_TOKEN", "HANSEI_SEARCH_QDRANT_API_KEY"):
        yield variable, secrets.new_secret()
    for listed in systems.SERVICES.values():
        if "database" in listed:
            path = f"127.0.0.1:{systems.free_port()}"
            yield (
                listed["database"],
                f"postgresql://hansei:{secrets.new_secret()}@{path}/x?sslpassword={secrets.new_secret()}",
            )
    yield "LLM_PROVIDER", "openai"
    yield "OPENAI_BASE_URL", f"http://user:{secrets.new_secret()}@127.0.0.1:{systems.free_port()}/v1"


def elsewhere(secrets: PlantedSecrets) -> Iterator[tuple[str, str]]:
    """Yield secrets in variables that are not settings."""
    for variable in ("HANSEI_TOKEN", "AWS_SECRET_ACCESS_KEY", "SOME_PASSWORD", "hansei_own_api_key"):
        yield variable, secrets.new_secret()
    yield (
        "OTEL_EXPORTER_OTLP_HEADERS",
        f"x-key={secrets.new_secret()},authorization=Basic {secrets.new_secret()}",
    )
    yield "DATABASE_URL", f"mysql://root:{secrets.new_secret()}@127.0.0.1/x"


@pytest.mark.parametrize("settings", [every_setting, usable_settings])
def test_nothing_secret_is_in_it_wherever_it_stood(
    hansei: Hansei, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secrets: PlantedSecrets, settings: Any
) -> None:
    variables = {**dict(settings(secrets)), **dict(elsewhere(secrets))}
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    tls = Authority().issue(tmp_path / secrets.new_secret(), "localhost") if settings is usable_settings else {}
    for variable, path in tls.items():
        monkeypatch.setenv(variable, path)
        # The bundle may contain the path of the folder, but not the content of the files.
        secrets.words = [word for word in secrets.words if word not in path]
    if tls:
        key = Path(tls["HANSEI_TLS_KEY"]).read_text(encoding="ascii")
        secrets.words.extend(key.splitlines()[1:-1])
    log = tmp_path / "service.log"
    lines = [
        *(json.dumps({"event": f"called with {value}", variable: value}) for variable, value in variables.items()),
        *variables.values(),
        json.dumps(
            {
                "event": "broke",
                "exception": f'Traceback\n  File "a.py", line 1, in f\nE: {secrets.new_secret()}',
            }
        ),
        *(Path(path).read_text(encoding="ascii") for path in tls.values()),
    ]
    log.write_text("\n".join(lines), encoding="utf-8")
    outcome = hansei("doctor", "--bundle", "b.tar.gz", "--log", log)
    assert outcome.code == 1
    assert (tmp_path / "b.tar.gz").exists(), outcome.err
    assert secrets.found_in(tmp_path / "b.tar.gz") == []
    assert [word for word in secrets.words if word in outcome.out + outcome.err] == []
    assert "a.py:1 f" in documents(tmp_path / "b.tar.gz")["logs/1-service.log"]


@pytest.mark.parametrize("separator", ["\u2028", "\x85"])
def test_the_text_of_an_exception_is_left_out_whatever_it_contains(
    hansei: Hansei, tmp_path: Path, separator: str
) -> None:
    trace = f'Traceback\n  File "a.py", line 1, in f\nE: a private{separator}lesson'
    log = tmp_path / "service.log"
    log.write_text(json.dumps({"event": "broke", "exception": trace}, ensure_ascii=False) + "\n", encoding="utf-8")
    hansei("doctor", "--bundle", "b.tar.gz", "--no-server", "--log", log)
    record = json.loads(documents(tmp_path / "b.tar.gz")["logs/1-service.log"])
    assert record == {"event": "broke", "exception": ["a.py:1 f", "E"]}


def test_without_the_server_nobody_is_asked(hansei: Hansei, tmp_path: Path) -> None:
    outcome = hansei("doctor", "--bundle", "b.tar.gz", "--no-server", "--json")
    assert outcome.code == 0, outcome.err
    assert "servers.json" not in documents(tmp_path / "b.tar.gz")
    assert "the command did not call the servers" in [entry["reason"] for entry in outcome.document["left_out"]]
    # The command reads schema versions without creating the database.
    assert documents(tmp_path / "b.tar.gz")["schemas.json"]["planner"]["there"] is False
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("arguments", [["--bundle", "there.tar.gz"], ["--log", "there.tar.gz"]])
def test_nothing_is_overwritten_and_a_log_alone_is_refused(
    hansei: Hansei, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "there.tar.gz").write_text("mine", encoding="utf-8")
    outcome = hansei("doctor", "--no-server", *arguments)
    assert outcome.code == 2
    assert outcome.err.startswith("Error: ")
    assert (tmp_path / "there.tar.gz").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_is_not_there_is_named(hansei: Hansei) -> None:
    outcome = hansei("doctor", "--no-server", "--bundle", "nowhere/b.tar.gz")
    assert outcome.code == 1
    assert "nowhere/b.tar.gz cannot be written: No such file" in outcome.err


async def test_services_with_tls_are_asked_with_the_certificates_of_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, file in Authority().issue(tmp_path, "localhost").items():
        monkeypatch.setenv(name, file)
    settings = CuratorSettings(
        llm_provider="offline", playbook_data_dir=str(tmp_path / "books"), listen_address="127.0.0.1:0"
    )
    certificates = chassis.Certificates.from_settings(settings)
    async with chassis.serve(
        build(settings, chassis.Peers({})), settings=settings, certificates=certificates
    ) as running:
        monkeypatch.setenv("CURATOR_ADDR", running.address.replace("127.0.0.1", "localhost"))
        found = await asyncio.to_thread(lambda: list(servers.collect_health(f"127.0.0.1:{systems.free_port()}")))
    (part,) = (part for part in found if isinstance(part, BundlePart))
    assert part.content["curator"]["health"]["hansei.curator.v1.CuratorService"] == "SERVING"
