"""The core of the framework adapters, against a running server: recall, check, report."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hansei.client import Client
from hansei.client.adapters.agent_memory import INTRO, AgentMemory, ToolVerdict
from hansei.client.errors import InvalidArgument, Unavailable
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_UPDATE, TARGET_MODE_DENY, Delta, Target
from tests.support import systems

TASK = "Install the package zod."
MESSAGES = [
    {"role": "user", "content": TASK},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "npm", "arguments": '{"add": "zod"}'}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "Error: use pnpm in this repository"},
    {"role": "assistant", "content": "I could not install it."},
]


@pytest.fixture
def client(system: systems.System) -> Iterator[Client]:
    with Client(system.address, tls=False) as client:
        yield client


@pytest.fixture
def dataset(client: Client) -> str:
    name = f"memory-{uuid.uuid4().hex[:12]}"
    revision = client.import_playbook(name, b"[a-00001] Install packages with pnpm, not with npm.\n").revision
    client.search(name, TASK, min_revision=revision)
    return name


def test_lessons_are_recalled_and_the_trajectory_names_them(client: Client, dataset: str) -> None:
    memory = AgentMemory(client, dataset)
    assert memory.recall(TASK) == f"{INTRO}\n[a-00001] Install packages with pnpm, not with npm."
    assert memory.recall("  ") == ""
    assert memory.check("npm", {"add": "zod"}) == ToolVerdict()
    learned = memory.report({"messages": MESSAGES}, succeeded=False)
    assert learned is not None
    assert learned.curation.saved
    assert [vote.bullet_id for vote in learned.reflection.bullet_evaluations] == ["a-00001"]


def test_the_outcome_of_a_measured_session_is_reported(client: Client, dataset: str) -> None:
    client.evidence.start_trials(dataset=dataset)
    memory = AgentMemory(client, dataset)
    memory.recall(TASK)
    assert memory.serving_id
    memory.report({"messages": MESSAGES}, succeeded=True)
    trials = client.evidence.get_trials(dataset=dataset)
    assert (trials.sessions, trials.sessions_without_outcome) == (1, 0)


def test_a_trajectory_is_learned_also_if_its_outcome_cannot_be_reported(
    client: Client, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**fields: object) -> None:
        raise Unavailable("the evidence service does not answer")

    client.evidence.start_trials(dataset=dataset)
    memory = AgentMemory(client, dataset)
    memory.recall(TASK)
    monkeypatch.setattr(client.evidence, "report_outcome", refuse)
    assert memory.report({"messages": MESSAGES}, succeeded=False) is not None


def test_a_check_gets_session_tool_and_arguments(client: Client, dataset: str) -> None:
    calls: list[tuple[str, str, Mapping[str, Any]]] = []

    def refuse(session: str, tool: str, arguments: Mapping[str, Any]) -> ToolVerdict:
        calls.append((session, tool, arguments))
        return ToolVerdict(is_allowed=False, text="use pnpm")

    memory = AgentMemory(client, dataset, session_id="s-1", tool_check=refuse)
    assert memory.check("npm", {"add": "zod"}) == ToolVerdict(is_allowed=False, text="use pnpm")
    assert calls == [("s-1", "npm", {"add": "zod"})]


def test_a_guard_decides_and_gets_the_outcome(client: Client, dataset: str) -> None:
    target = Target(expression="call.tool == 'npm'", mode=TARGET_MODE_DENY, pinned=True)
    lesson = Delta(type=DELTA_TYPE_UPDATE, bullet_id="a-00001", target=target)
    client.playbooks.apply_deltas(dataset=dataset, deltas=[lesson], reason="agreed")
    while not client.guards.list_all(dataset=dataset).guards:
        pass
    guard = client.guard(dataset, "s-2")
    memory = AgentMemory(client, dataset, guard=guard)
    assert memory.check("npm", {"add": "zod"}) == ToolVerdict(False, "Install packages with pnpm, not with npm.")
    assert memory.check("pnpm", {"add": "zod"}) == ToolVerdict()
    memory.report({"messages": MESSAGES}, succeeded=False)
    assert not client.guards.report_session(dataset=dataset, session_id="s-2", succeeded=True).counted


def test_a_document_without_a_trajectory_is_refused(client: Client, dataset: str) -> None:
    with pytest.raises(InvalidArgument):
        AgentMemory(client, dataset).report({"colour": "red"}, succeeded=True)


def test_without_a_server_the_agent_continues() -> None:
    with Client(f"127.0.0.1:{systems.free_port()}", tls=False) as client:
        memory = AgentMemory(client, "d")
        assert memory.recall(TASK) == ""
        assert memory.report({"messages": MESSAGES}, succeeded=True) is None
        with pytest.raises(Unavailable):
            AgentMemory(client, "d", on_error="raise").recall(TASK)
