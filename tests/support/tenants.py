"""A hansei with tenants, and their calls, for behaviour tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from chassis.errors import HanseiError
from hansei.client import Client
from hansei.gateway.v1.access_service_pb2 import AccessScope
from hansei.planner.v1 import planner_pb2 as pb
from hansei.playbook.v1 import playbook_pb2
from tests.support import systems
from tests.support.postgres_server import find_postgres_programs_or_skip, postgres_server

SECONDS = 60
ALL = ("READ", "LEARN", "REVIEW", "ADMIN")


@dataclass(frozen=True)
class Gate:
    """A hansei with two tenants, acme and evil."""

    address: str
    url: str
    keys: dict[str, str]

    def client(self, who: str) -> Client:
        return Client(self.address, token=self.keys[who])

    def http(self, who: str) -> httpx.Client:
        bearing = {"Authorization": f"Bearer {self.keys[who]}"}
        return httpx.Client(base_url=self.url, timeout=SECONDS, headers=bearing)


def key_of(client: Client, label: str, tenant: str, *scopes: str) -> str:
    numbers = [AccessScope.Value(f"ACCESS_SCOPE_{scope}") for scope in scopes]
    return client.access.create_key(label=label, tenant=tenant, scopes=numbers).text


@contextmanager
def two_tenants(form: str, data: Path, **settings: str) -> Iterator[Gate]:
    """Yield a running hansei with two tenants and their API keys, and its databases in the folder `data`.

    `form` is a key of `systems.FORMS`, with or without " on PostgreSQL"; `settings` are variables of its processes."""
    http = f"127.0.0.1:{systems.free_port()}"
    environment = {
        "GATEWAY_API_TOKEN": "root",
        "HANSEI_HTTP_ADDRESS": http,
        "HANSEI_GATEWAY_DATABASE_URL": str(data / "gateway.db"),
        **settings,
    }
    form, _, on_server = form.partition(" on ")
    with ExitStack() as stack:
        if on_server:
            environment |= systems.server_databases(
                stack.enter_context(postgres_server(find_postgres_programs_or_skip()))
            )
        system = stack.enter_context(systems.FORMS[form](data, **environment))
        with Client(system.address, token="root") as operator:
            keys = {tenant: key_of(operator, "ci", tenant, *ALL) for tenant in ("acme", "evil")}
            keys["acme reader"] = key_of(operator, "reader", "acme", "READ")
            keys["acme revoked"] = key_of(operator, "watcher", "acme", "READ")
        yield Gate(system.address, f"http://{http}", keys | {"root": "root", "nobody": ""})


def add(client: Client, dataset: str, content: str) -> int:
    delta = playbook_pb2.Delta(type=playbook_pb2.DELTA_TYPE_ADD, section="git", content=content, reasoning="seen")
    return client.playbooks.apply_deltas(dataset=dataset, deltas=[delta]).revision


def outcome(call: Any) -> tuple[str, str]:
    """Return the code and the text with which a call ended."""
    try:
        call()
    except HanseiError as error:
        return error.code, str(error)
    return "OK", ""


def step(number: int, action: str, **fields: Any) -> pb.PlanStep:
    return pb.PlanStep(step_id=number, action=pb.Action.Value(f"ACTION_{action}"), description="d", **fields)


def plan(*steps: pb.PlanStep, plan_id: str | None = None) -> pb.Plan:
    return pb.Plan(original_query="How do I commit?", complexity=0.5, steps=steps, plan_id=plan_id)


@dataclass(frozen=True)
class Question:
    """An execution of acme's that waits for a person."""

    execution_id: str
    token: str

    def answer(self, client: Client, execution_id: str = "", **changes: Any) -> Any:
        """Return the first event after the answer."""
        fields: dict[str, Any] = {
            "answer_token": self.token,
            "plan_version": 1,
            "step_id": 1,
            "response": {"user_input": "red"},
        }
        answering = client.planner.resume_plan(execution_id=execution_id or self.execution_id, **(fields | changes))
        return next(iter(answering))
