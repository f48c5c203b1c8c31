"""Old and new side by side, as docs/operations/upgrade.md says: clients and servers of different releases."""

from __future__ import annotations

import random
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support import systems
from tests.support.contract_versions import Contract, create_newer_contract, create_older_contract

NEEDED = frozenset(
    f"hansei.{name}"
    for name in (
        "gateway.v1.GatewayService/Learn",
        "gateway.v1.GatewayService/Answer",
        "search.v1.SearchService/Search",
        "playbook.v1.PlaybookService/GetPlaybook",
        "gateway.v1.LearnRequest.request_id",
        "gateway.v1.LearnResponse.curation",
        "curator.v1.CurateResponse.saved",
        "curator.v1.CurateResponse.revision",
        "reflector.v1.Trajectory.id",
        "reflector.v1.Trajectory.generated_answer",
        "reflector.v1.Trajectory.reward",
        "reflector.v1.Trajectory.steps",
        "reflector.v1.Step.content",
        "reflector.v1.Step.name",
        "reflector.v1.Step.tool_call_id",
        "reflector.v1.Step.tool_calls",
        "reflector.v1.ToolCall.id",
        "reflector.v1.ToolCall.arguments",
        "reflector.v1.TrajectoryStatus.TRAJECTORY_STATUS_FAILURE",
        "reflector.v1.StepRole.STEP_ROLE_ASSISTANT",
        "reflector.v1.StepRole.STEP_ROLE_TOOL",
        "search.v1.SearchRequest.min_revision",
        "search.v1.SearchQuery.query_text",
        "search.v1.SearchResponse.results",
        "search.v1.SearchResult.bullet",
        "gateway.v1.AnswerRequest.dataset",
        "gateway.v1.AnswerRequest.query",
        "gateway.v1.AnswerRequest.min_revision",
        "gateway.v1.AnswerResponse.trajectory",
        "playbook.v1.GetPlaybookResponse.playbook",
        "playbook.v1.Playbook.revision",
        "playbook.v1.Playbook.bullets",
        "playbook.v1.Bullet.content",
    )
)
"""Fields that a client needs for the loop; all others may have been added later."""
separate = pytest.mark.parametrize("system", ["separate processes"], indirect=True)


@pytest.fixture
def channel(system: systems.System) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(system.address) as channel:
        yield channel


def go_through_the_loop(contract: Contract, channel: grpc.Channel) -> None:
    """Learn a trajectory, search for its lesson, answer with it, and read the playbook."""
    dataset = f"upgrade-{uuid.uuid4().hex[:12]}"
    call, failed = contract.call, contract.message("reflector.v1.Trajectory")
    steps = [
        {"role": "STEP_ROLE_ASSISTANT", "tool_calls": [{"id": "1", "name": "git", "arguments": '{"args": ["push"]}'}]},
        {
            "role": "STEP_ROLE_TOOL",
            "name": "git",
            "tool_call_id": "1",
            "content": "exit code 1\nerror: failed to push some refs",
        },
    ]
    run = failed(
        id=f"{dataset}-1",
        dataset=dataset,
        query="Push",
        status="TRAJECTORY_STATUS_FAILURE",
        generated_answer="No.",
        reward=0.0,
        steps=steps,
    )
    learned = call(
        channel, "gateway.v1.GatewayService/Learn", request_id=str(uuid.uuid4()), dataset=dataset, trajectory=run
    )
    assert learned.curation.saved
    revision = learned.curation.revision
    query = {"query_text": "failed to push some refs"}
    found = call(channel, "search.v1.SearchService/Search", dataset=dataset, query=query, min_revision=revision)
    assert "push" in found.results[0].bullet.content
    answered = call(
        channel, "gateway.v1.GatewayService/Answer", dataset=dataset, query="How do I push?", min_revision=revision
    )
    assert answered.trajectory.generated_answer
    book = call(channel, "playbook.v1.PlaybookService/GetPlaybook", dataset=dataset).playbook
    assert book.revision == revision
    assert found.results[0].bullet.content in [bullet.content for bullet in book.bullets]


def is_anything(name: str) -> bool:
    return True


def choose_half(seed: int) -> Callable[[str], bool]:
    rng = random.Random(seed)
    return lambda name: rng.random() < 0.5


@separate
@pytest.mark.parametrize(
    "unknown", [is_anything, choose_half(1), choose_half(2), choose_half(3)], ids=["everything", "1", "2", "3"]
)
def test_an_older_client_goes_through_the_loop(channel: grpc.Channel, unknown: Callable[[str], bool]) -> None:
    go_through_the_loop(create_older_contract(unknown, NEEDED), channel)


@separate
def test_a_newer_client_sends_fields_that_servers_lack(channel: grpc.Channel) -> None:
    go_through_the_loop(create_newer_contract(), channel)


@separate
@pytest.mark.parametrize(
    "method",
    [f"/hansei.{name}.v1.{name.capitalize()}Service/Foresee" for name in systems.SERVICES]
    + ["/hansei.foresight.v1.ForesightService/Foresee"],
)
def test_a_method_the_server_does_not_have_is_refused_as_that(channel: Any, method: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(method)(b"", timeout=60)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("name", [name for name, listed in systems.SERVICES.items() if "database" in listed])
def test_a_replica_over_a_newer_schema_does_not_serve_and_changes_nothing(tmp_path: Path, name: str) -> None:
    with systems.one_service(tmp_path, name):
        pass
    versions = _schema_versions(tmp_path)
    module = name if name == "gateway" else f"services.{name}"
    for file, table, version in versions:
        _set_version(file, table, "9999")
        status, errors = systems.failed_start(tmp_path, module)
        assert status == 1, table
        assert "9999" in errors.strip().splitlines()[-1]
        assert "Traceback" not in errors
        assert (file, table, "9999") in _schema_versions(tmp_path)
        _set_version(file, table, version)
    with systems.one_service(tmp_path, name):
        assert _schema_versions(tmp_path) == versions


def _schema_versions(folder: Path) -> list[tuple[Path, str, str]]:
    """Return the version tables of a file with their versions."""
    found = []
    for file in sorted([*folder.rglob("*.db"), *folder.rglob("*.sqlite*")]):
        with closing(sqlite3.connect(file)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%version_num%'").fetchall()
            names = [name for (name,) in tables if not name.startswith("sqlite_")]
            found += [
                (file, name, connection.execute(f"SELECT version_num FROM {name}").fetchone()[0]) for name in names
            ]
    return found


def _set_version(file: Path, table: str, version: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE {table} SET version_num = ?", [version])
