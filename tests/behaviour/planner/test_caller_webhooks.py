"""Callers get each change of the state of an execution at a URL of their own."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from services.planner.adapters import caller_webhooks
from services.planner.adapters.caller_webhooks import CallerWebhooks
from services.planner.domain.errors import InvalidWebhookUrl
from services.planner.domain.webhooks import ExecutionWebhook
from services.planner.usecases import notify
from tests.fakes.authority import Authority
from tests.fakes.http_wire import WireRequest
from tests.support.planner_service import ASK, answer, events, expect_error, running
from tests.support.webhook_receiver import Receiver, receive

SECRET = "a secret of the receivers and the planner"
SETTINGS: dict[str, Any] = {"planner_webhook_hosts": "127.0.0.1"}


async def ask(stub: Any) -> pb.ExecutionEvent:
    """Start an execution, and return its question."""
    (*_, question) = await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=ASK)))
    return question


async def create(stub: Any, execution_id: str, url: str, **fields: Any) -> service_pb.Webhook:
    request = service_pb.CreateWebhookRequest(execution_id=execution_id, url=url, **fields)
    webhook: service_pb.Webhook = (await stub.CreateWebhook(request)).webhook
    return webhook


async def list_ids(stub: Any, execution_id: str) -> list[str]:
    response = await stub.ListWebhooks(service_pb.ListWebhooksRequest(execution_id=execution_id))
    return [webhook.webhook_id for webhook in response.webhooks]


def read_status(request: WireRequest) -> dict[str, Any]:
    (name, update), *others = json.loads(request.body).items()
    assert (name, others) == ("statusUpdate", [])
    status: dict[str, Any] = update["status"]
    return status


async def next_states(receiver: Receiver, count: int) -> list[str]:
    return [read_status(await receiver.next())["state"] for _ in range(count)]


def compute_signature(request: WireRequest) -> str:
    head = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}."
    digest = hmac.new(SECRET.encode(), head.encode() + request.body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


async def test_each_change_is_posted_in_order_with_the_secrets_of_the_caller(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SETTINGS, "planner_webhook_secret": SECRET}
    async with receive(204) as receiver, running(tmp_path, **settings) as stub:
        question = await ask(stub)
        execution_id = question.execution_id
        webhook = await create(stub, execution_id, receiver.url, token="t0k", authorization="Bearer let me in")
        assert (webhook.webhook_id, webhook.url) == (execution_id, receiver.url)
        assert await next_states(receiver, 1) == ["TASK_STATE_WORKING"]
        waiting = await receiver.next()
        await events(stub.ResumePlan(answer(question, user_input="青")))
        ends = [await receiver.next(), await receiver.next()]
        while await list_ids(stub, execution_id):
            pass  # it is deleted once the end was sent
    status = read_status(waiting)
    assert (status["state"], status["message"]["parts"]) == ("TASK_STATE_INPUT_REQUIRED", [{"text": "何色？"}])
    assert waiting.headers["webhook-id"] == f"{execution_id}:{question.sequence}"
    assert waiting.headers["x-a2a-notification-token"] == "t0k"
    assert waiting.headers["authorization"] == "Bearer let me in"
    assert waiting.headers["webhook-signature"] == compute_signature(waiting)
    assert question.intervention_requested.answer_token.encode() not in waiting.body
    assert [read_status(request)["state"] for request in ends] == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


async def test_a_failed_message_is_sent_again_before_later_ones_also_by_another_planner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "STATE_CLAIM_SECONDS", 0.1)
    async with receive(204, 503, 503, 204) as receiver:
        async with running(tmp_path, **SETTINGS) as stub:
            question = await ask(stub)
            await create(stub, question.execution_id, receiver.url)
            first, refused = await receiver.next(), await receiver.next()
            await stub.CancelExecution(service_pb.CancelExecutionRequest(execution_id=question.execution_id))
        async with running(tmp_path, **SETTINGS) as stub:
            repeated = [await receiver.next(), await receiver.next()]
            last = await receiver.next()
    ids = [request.headers["webhook-id"] for request in (first, refused, *repeated, last)]
    assert ids[1:4] == [f"{question.execution_id}:{question.sequence}"] * 3
    assert len(set(ids)) == 3
    assert read_status(last)["state"] == "TASK_STATE_CANCELED"


async def test_a_receiver_that_fails_for_a_day_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "STATE_DAYS", 0)
    async with receive(410) as receiver, running(tmp_path, **SETTINGS) as stub:
        execution_id = (await ask(stub)).execution_id
        await stub.CancelExecution(service_pb.CancelExecutionRequest(execution_id=execution_id))
        await create(stub, execution_id, receiver.url)
        while await list_ids(stub, execution_id):
            pass
        assert receiver.requests.qsize() == 1


async def test_changes_after_a_sequence_number_are_posted(tmp_path: Path) -> None:
    async with receive(204) as receiver, running(tmp_path, **SETTINGS) as stub:
        question = await ask(stub)
        await create(stub, question.execution_id, receiver.url, after_sequence=question.sequence)
        await events(stub.ResumePlan(answer(question, user_input="青")))
        assert await next_states(receiver, 2) == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


async def test_webhooks_are_replaced_listed_deleted_and_limited(tmp_path: Path) -> None:
    async with receive(204) as old, receive(204) as receiver, running(tmp_path, **SETTINGS) as stub:
        question = await ask(stub)
        execution_id, after = question.execution_id, {"after_sequence": question.sequence}
        for url in (old.url, receiver.url):
            await create(stub, execution_id, url, webhook_id="mine", token="secret", **after)
        await create(stub, execution_id, old.url, webhook_id="other", **after)
        assert await list_ids(stub, execution_id) == ["mine", "other"]
        deletion = service_pb.DeleteWebhookRequest(execution_id=execution_id, webhook_id="other")
        assert [(await stub.DeleteWebhook(deletion)).deleted for _ in range(2)] == [True, False]
        await stub.CancelExecution(service_pb.CancelExecutionRequest(execution_id=execution_id))
        assert await next_states(receiver, 1) == ["TASK_STATE_CANCELED"]
        assert old.requests.empty()
        execution_id = (await ask(stub)).execution_id
        for number in range(10):
            await create(stub, execution_id, receiver.url, webhook_id=f"w{number}")
        code, details = await expect_error(create(stub, execution_id, receiver.url, webhook_id="w10"))
        assert (code, "has 10 webhooks" in details) == (grpc.StatusCode.FAILED_PRECONDITION, True)
        await create(stub, execution_id, receiver.url, webhook_id="w9")
        unknown = "0123456789ab"
        for call in (
            create(stub, unknown, receiver.url),
            stub.ListWebhooks(service_pb.ListWebhooksRequest(execution_id=unknown)),
            stub.DeleteWebhook(service_pb.DeleteWebhookRequest(execution_id=unknown, webhook_id="w")),
        ):
            assert (await expect_error(call))[0] == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://1.1.1.1/hook?key=hidden", "must begin with https://"),
        ("https://127.0.0.1/hook", "with public addresses only, not 127.0.0.1"),
        ("https://localhost/hook", "with public addresses only"),
        ("https://2130706433/hook", "with public addresses only, not 127.0.0.1"),
        ("https://10.1.2.3/hook", "not 10.1.2.3"),
        ("https://169.254.169.254/latest/meta-data", "not 169.254.169.254"),
        ("https://100.64.0.1/", "not 100.64.0.1"),
        ("https://[::1]/", "not ::1"),
        ("https://[::ffff:192.168.0.1]/", "not ::ffff:192.168.0.1"),
        ("https://[2002:a00:1::]/", "not 2002:a00:1::"),
        ("https://[64:ff9b::a00:1]/", "not 64:ff9b::a00:1"),
        ("https://[64:ff9b:1::a00:1]/", "not 64:ff9b:1::a00:1"),
        ("https://[::10.0.0.1]/", "not ::10.0.0.1"),
        ("https://[fec0::1]/", "not fec0::1"),
        ("https://224.0.0.1/", "not 224.0.0.1"),
        ("https://no-such-host.invalid/", "whose name can be resolved"),
        ("https://user:hidden@1.1.1.1/", "must not contain a user or a password"),
        ("ftp://1.1.1.1/", "must be a URL of https with a host"),
        ("https:///hook", "must be a URL of https with a host"),
        ("https://1.1.1.1:99999/", "is not a URL"),
        ("https://1.1.1.1/a b", "must be a URL of https with a host"),
        ("https://1.1.1.1/\r\nX: y", "must be a URL of https with a host"),
    ],
)
async def test_a_url_that_might_reach_other_services_is_refused(url: str, rule: str) -> None:
    with pytest.raises(InvalidWebhookUrl) as caught:
        await CallerWebhooks([], "").check(url)
    assert rule in caught.value.message
    assert "hidden" not in caught.value.message
    (violation,) = caught.value.violations
    assert violation.field == "url"


@pytest.mark.parametrize("host", ["1.1.1.1", "[2606:4700:4700::1111]", "[64:ff9b::101:101]", "[::ffff:1.1.1.1]"])
async def test_a_url_with_a_public_address_is_accepted(host: str) -> None:
    await CallerWebhooks([], "").check(f"https://{host}/hook")


async def test_urls_and_secrets_that_break_a_rule_name_their_field(tmp_path: Path) -> None:
    async with running(tmp_path) as stub:
        execution_id = (await ask(stub)).execution_id
        for fields, words in (
            ({"url": "https://127.0.0.1/"}, "public addresses"),
            ({"url": ""}, "url"),
            ({"url": "https://1.1.1.1/", "token": "a\r\nb"}, "token"),
            ({"url": "https://1.1.1.1/", "authorization": "Bearer a\nb"}, "authorization"),
            ({"url": "https://1.1.1.1/", "webhook_id": "a/b"}, "webhook_id"),
        ):
            code, details = await expect_error(create(stub, execution_id, **fields))
            assert (code, words in details) == (grpc.StatusCode.INVALID_ARGUMENT, True), details
        assert (await create(stub, "0123456789ab", "https://1.1.1.1/", validate_only=True)).url == "https://1.1.1.1/"
        assert await list_ids(stub, execution_id) == []


async def test_the_checked_address_is_connected_to_and_shows_the_certificate_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, resolved = Authority(), []

    def resolve(host: str, port: int, *options: Any, **more: Any) -> list[Any]:
        resolved.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def send(host: str) -> None:
        webhook = ExecutionWebhook("0123456789ab", "w", f"https://{host}:{receiver.port}/hook?a=b")
        await webhooks.send(webhook, "0123456789ab:1", {"a": 1})

    (tmp_path / "authority.pem").write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    files = authority.issue(tmp_path, "receiver.test")
    tls.load_cert_chain(files["HANSEI_TLS_CERTIFICATE"], files["HANSEI_TLS_KEY"])
    webhooks = CallerWebhooks([], "")
    async with receive(204, tls=tls) as receiver:
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        with pytest.raises(InvalidWebhookUrl, match=r"not 127\.0\.0\.1"):
            await send("receiver.test")
        monkeypatch.setattr(caller_webhooks, "_is_public", lambda address: address == "127.0.0.1")
        resolved.clear()
        await send("receiver.test")
        request = await receiver.next()
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            await send("other.test")
    await webhooks.close()
    assert (request.path, request.headers["host"]) == ("/hook?a=b", f"receiver.test:{receiver.port}")
    assert "webhook-signature" not in request.headers
    assert resolved == ["receiver.test", "other.test"]
