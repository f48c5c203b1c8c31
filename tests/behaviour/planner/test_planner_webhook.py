"""A webhook notifies people of an execution that waits for an answer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from chassis.channels import Peers
from chassis.settings import BadSetting
from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from services.planner.bootstrap import build
from services.planner.settings import PlannerSettings
from tests.fakes.http_wire import WireRequest
from tests.support.planner_service import ASK, events, running
from tests.support.webhook_receiver import Receiver, receive

SECRET = "a secret of the receiver and the planner"
DAY = 24 * 3600


@asynccontextmanager
async def receiving(*statuses: int) -> AsyncIterator[tuple[Receiver, dict[str, Any]]]:
    """Yield a receiver, and the settings under which a planner sends to it."""
    async with receive(*statuses) as receiver:
        yield receiver, {"planner_webhook_url": receiver.url, "planner_webhook_secret": SECRET}


async def ask(stub: Any, **budget: Any) -> pb.ExecutionEvent:
    request = service_pb.ExecutePlanRequest(plan=ASK, budget=pb.Budget(**budget))
    (*_, question) = await events(stub.ExecutePlan(request))
    return question


def compute_signature(request: WireRequest) -> str:
    head = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}."
    digest = hmac.new(SECRET.encode(), head.encode() + request.body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


async def test_a_question_is_posted_with_a_signature_that_the_receiver_can_check(tmp_path: Path) -> None:
    async with receiving(204) as (receiver, settings), running(tmp_path, **settings) as stub:
        question = await ask(stub)
        request = await receiver.next()
    assert request.headers["webhook-signature"] == compute_signature(request)
    assert request.headers["webhook-id"] == f"{question.execution_id}:{question.sequence}"
    message = json.loads(request.body)
    assert message["type"] == "execution.question"
    assert message["data"]["question"] == "何色？"
    assert message["data"]["query"] == "空は何色？"
    assert question.intervention_requested.answer_token.encode() not in request.body


async def test_a_receiver_that_fails_gets_the_question_again(tmp_path: Path) -> None:
    async with receiving(503, 204) as (receiver, settings), running(tmp_path, **settings) as stub:
        await ask(stub)
        first, second = await receiver.next(), await receiver.next()
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)


async def test_a_question_that_was_open_before_the_webhook_was_set_is_posted(tmp_path: Path) -> None:
    async with running(tmp_path) as stub:
        question = await ask(stub)
    async with receiving(204) as (receiver, settings), running(tmp_path, **settings):
        request = await receiver.next()
    assert json.loads(request.body)["data"]["execution_id"] == question.execution_id


@pytest.mark.parametrize(
    ("budget", "environment", "seconds"),
    [
        ({}, {}, 7 * DAY),
        ({"max_answer_time": Duration(seconds=30 * DAY)}, {}, 30 * DAY),
        ({"max_answer_time": Duration(seconds=60)}, {"GRACE_INTERVENTION_DEFAULT_TIMEOUT": "200"}, 60),
        ({}, {"GRACE_INTERVENTION_DEFAULT_TIMEOUT": "200"}, 200),
    ],
)
async def test_a_question_waits_for_days_or_as_long_as_somebody_chose(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    budget: dict[str, Any],
    environment: dict[str, str],
    seconds: int,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with running(tmp_path) as stub:
        question = (await ask(stub, **budget)).intervention_requested
        execution = (await stub.ListExecutions(service_pb.ListExecutionsRequest())).executions[0]
        found = await stub.GetExecution(service_pb.GetExecutionRequest(execution_id=execution.execution_id))
    assert question.timeout_seconds == seconds
    assert (question.expires_at.ToDatetime() - question.created_at.ToDatetime()).total_seconds() == pytest.approx(
        seconds, abs=1
    )
    assert found.execution.budget.max_answer_time.seconds == seconds


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"planner_webhook_secret": ""}, "HANSEI_PLANNER_WEBHOOK_SECRET must have at least 24 characters"),
        (
            {"planner_webhook_url": "", "planner_webhook_secret": "short"},
            "HANSEI_PLANNER_WEBHOOK_SECRET must have at least 24 characters",
        ),
        ({"planner_webhook_secret": "short"}, "HANSEI_PLANNER_WEBHOOK_SECRET must have at least 24 characters"),
        ({"planner_webhook_secret": "whsec_!!!!!!!!!!!!!!!!!!!!!!!!"}, "must be base64"),
        ({"planner_webhook_url": "http://example.org/hook"}, "must be an https URL"),
        ({"planner_webhook_url": "example.org"}, "must be an https URL"),
        ({"planner_webhook_url": "https://example.org:port/"}, "is not a URL"),
    ],
)
def test_a_webhook_that_would_not_be_safe_is_refused(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    fields: dict[str, Any] = {
        "llm_provider": "offline",
        "planner_database_url": str(tmp_path / "planner.db"),
        "grace_config": tmp_path / "none.yml",
        "planner_webhook_url": "https://example.org/hook",
        "planner_webhook_secret": SECRET,
    }
    settings = PlannerSettings(**fields | changes)
    with pytest.raises(BadSetting, match=message):
        build(settings, Peers(settings.list_peer_addresses()))
