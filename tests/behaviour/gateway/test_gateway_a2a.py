"""Plans as tasks of an A2A agent, with the official client over both bindings, at a gateway with tenants."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from a2a.client import Client as A2aClient
from a2a.client import ClientConfig, ClientFactory
from a2a.client.auth.credentials import CredentialService
from a2a.client.auth.interceptor import AuthInterceptor
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from chassis.settings import BadSetting
from hansei.a2a_server.server import serve
from hansei.client import AsyncClient
from hansei.client.callers import CallerClients
from tests.support.tenants import Gate, add, plan, step, two_tenants
from tests.support.webhook_receiver import Receiver, receive

PAGE = Path(__file__).parents[3] / "docs/tasks/a2a.md"
BINDINGS = ["JSONRPC", "GRPC"]
DATASET = "acme--a2a"
QUESTION = "How do I commit on a new machine?"
LESSON = "Set user.email before the first commit on a new machine."


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    settings = {"HANSEI_PLANNER_WEBHOOK_HOSTS": "127.0.0.1"}
    with two_tenants("one process", tmp_path_factory.mktemp("a2a"), **settings) as gate:
        with gate.client("acme") as client:
            client.search(DATASET, "commit", min_revision=add(client, DATASET, LESSON))
        yield gate


@asynccontextmanager
async def agent(gate: Gate, who: str = "", address: str = "") -> AsyncIterator[str]:
    """Serve the agent on free ports, with callers that bring tokens or with the rights of `who`; yield its URL.

    It calls the gateway, or what is at `address`.
    """
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with AsyncClient(address or gate.address, token=gate.keys[who] if who else "") as client:
        callers = None if who else CallerClients(client)
        if callers is not None and not address:
            await callers.require_credentials("--require-token")
        serving = asyncio.create_task(
            serve(
                client,
                "127.0.0.1:0",
                "127.0.0.1:0",
                lambda url, grpc_url: started.set_result(url),
                callers=callers,
            )
        )
        waiting: list[asyncio.Future[Any]] = [serving, started]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        try:
            if not started.done():
                await serving  # raises the error of the start
            yield started.result()
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


class Key(CredentialService):
    """The key of a caller, for every scheme of the card."""

    def __init__(self, key: str) -> None:
        self.key = key

    async def get_credentials(self, security_scheme_name: str, context: Any) -> str | None:
        assert security_scheme_name == "bearer"
        return self.key


@asynccontextmanager
async def connect(gate: Gate, url: str, binding: str, who: str = "acme", streaming: bool = False) -> Any:
    """Connect the official client by the card of the agent."""
    async with httpx.AsyncClient(timeout=60) as http:
        config = ClientConfig(
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=[binding],
            streaming=streaming,
        )
        client = await ClientFactory(config).create_from_url(url, [AuthInterceptor(Key(gate.keys[who]))])
        async with client:
            yield client


def message(text: str = QUESTION, **fields: Any) -> a2a.Message:
    parts = fields.pop("parts", [a2a.Part(text=text)])
    return a2a.Message(message_id=uuid.uuid4().hex, role=a2a.ROLE_USER, parts=parts, **fields)


async def send(client: A2aClient, sent: a2a.Message, **configuration: Any) -> a2a.Task:
    """Send a message without streaming, and return the task."""
    request = a2a.SendMessageRequest(message=sent, configuration=a2a.SendMessageConfiguration(**configuration))
    (response,) = [response async for response in client.send_message(request)]
    task: a2a.Task = response.task
    return task


async def ask_colour(gate: Gate) -> str:
    """Start a plan that asks a person, and return its id when it waits."""
    async with AsyncClient(gate.address, token=gate.keys["acme"]) as client:
        events = [
            event async for event in client.planner.execute_plan(plan=plan(step(1, "ASK_USER", query="Which colour?")))
        ]
    return str(events[-1].event.execution_id)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_becomes_a_task_with_artifacts_that_outlives_the_agent(gate: Gate, binding: str) -> None:
    sent = message()
    sent.metadata["collection"] = DATASET
    async with agent(gate) as url, connect(gate, url, binding) as client:
        task = await send(client, sent)
        assert (await send(client, sent)).id == task.id  # a repeated message starts nothing
    assert task.id.startswith("acme--")
    assert task.context_id == task.id
    assert task.status.state in (a2a.TASK_STATE_COMPLETED, a2a.TASK_STATE_INPUT_REQUIRED)
    artifacts = {artifact.artifact_id: artifact.parts[0].text for artifact in task.artifacts}
    assert LESSON in artifacts["step-1"]
    assert [part.text for part in task.history[0].parts] == [QUESTION]
    async with agent(gate) as url, connect(gate, url, binding) as client:
        found = await client.get_task(a2a.GetTaskRequest(id=task.id))
        short = await client.get_task(a2a.GetTaskRequest(id=task.id, history_length=0))
    assert found == task
    assert not short.history


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_has_the_task_its_artifacts_and_its_last_state(gate: Gate, binding: str) -> None:
    async with agent(gate) as url, connect(gate, url, binding, streaming=True) as client:
        sent = message()
        sent.metadata["collection"] = DATASET
        first, *updates = [item async for item in client.send_message(a2a.SendMessageRequest(message=sent))]
        stored = await client.get_task(a2a.GetTaskRequest(id=first.task.id))
    seen = [artifact.artifact_id for artifact in first.task.artifacts]
    seen += [item.artifact_update.artifact.artifact_id for item in updates if item.HasField("artifact_update")]
    assert seen == [artifact.artifact_id for artifact in stored.artifacts]
    states = [first.task.status.state, *(u.status_update.status.state for u in updates if u.HasField("status_update"))]
    assert states[-1] == stored.status.state
    assert set(states[:-1]) <= {a2a.TASK_STATE_WORKING}


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_question_of_a_plan_is_required_input(gate: Gate, binding: str) -> None:
    task_id = await ask_colour(gate)
    async with (
        agent(gate) as url,
        connect(gate, url, binding) as client,
        connect(gate, url, binding, streaming=True) as watcher,
    ):
        waiting = await client.get_task(a2a.GetTaskRequest(id=task_id))
        assert waiting.status.state == a2a.TASK_STATE_INPUT_REQUIRED
        assert waiting.status.message.parts[0].text.startswith("d\nWhich colour?")
        listed = await client.list_tasks(a2a.ListTasksRequest(status=a2a.TASK_STATE_INPUT_REQUIRED))
        assert task_id in [task.id for task in listed.tasks]
        subscription = [item async for item in watcher.subscribe(a2a.SubscribeToTaskRequest(id=task_id))]
        assert [item.task.id for item in subscription] == [task_id]  # it ends, because the task waits
        answered = await send(client, message("red", task_id=task_id, context_id=task_id))
        assert answered.status.state == a2a.TASK_STATE_COMPLETED
        assert {artifact.artifact_id: artifact.parts[0].text for artifact in answered.artifacts}["step-1"] == "red"
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await send(client, message("blue", task_id=task_id))
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            [item async for item in watcher.subscribe(a2a.SubscribeToTaskRequest(id=task_id))]


async def next_updates(receiver: Receiver, task_id: str, last: int) -> list[int]:
    """Return the states that a receiver gets until the last one; each message is what A2A says."""
    states: list[int] = []
    while not states or states[-1] != last:
        request = await receiver.next()
        update = ParseDict(json.loads(request.body), a2a.StreamResponse()).status_update
        assert (update.task_id, update.context_id) == (task_id, task_id)
        assert request.headers["x-a2a-notification-token"] == "t0k"
        assert request.headers["authorization"] == "Bearer hi"
        states.append(update.status.state)
    return states


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_client_is_called_at_each_change_of_a_task(gate: Gate, binding: str) -> None:
    secrets: dict[str, Any] = {"token": "t0k", "authentication": {"scheme": "Bearer", "credentials": "hi"}}
    async with receive(204) as receiver, agent(gate) as url, connect(gate, url, binding) as client:
        sent = message()
        sent.metadata["collection"] = DATASET
        push = a2a.TaskPushNotificationConfig(url=receiver.url, **secrets)
        task = await send(client, sent, task_push_notification_config=push)
        states = await next_updates(receiver, task.id, task.status.state)
        assert states[0] == a2a.TASK_STATE_WORKING  # no change is lost, however fast the plan runs
        task_id = await ask_colour(gate)
        push = a2a.TaskPushNotificationConfig(url=receiver.url, task_id=task_id, id="mine", **secrets)
        assert await client.create_task_push_notification_config(push) == push
        stored = a2a.TaskPushNotificationConfig(url=receiver.url, task_id=task_id, id="mine")
        request = a2a.GetTaskPushNotificationConfigRequest(task_id=task_id, id="mine")
        assert await client.get_task_push_notification_config(request) == stored
        listing = a2a.ListTaskPushNotificationConfigsRequest(task_id=task_id)
        assert list((await client.list_task_push_notification_configs(listing)).configs) == [stored]
        await send(client, message("red", task_id=task_id))
        states = await next_updates(receiver, task_id, a2a.TASK_STATE_COMPLETED)
        assert states == [a2a.TASK_STATE_WORKING, a2a.TASK_STATE_COMPLETED]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_push_configurations_are_deleted_and_belong_to_their_tenant(gate: Gate, binding: str) -> None:
    task_id = await ask_colour(gate)
    push = a2a.TaskPushNotificationConfig(url="https://1.1.1.1/hook", task_id=task_id, id="mine")
    get = a2a.GetTaskPushNotificationConfigRequest(task_id=task_id, id="mine")
    listing = a2a.ListTaskPushNotificationConfigsRequest(task_id=task_id)
    deletion = a2a.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="mine")
    async with agent(gate) as url:
        async with connect(gate, url, binding, "evil") as stranger:
            calls: list[Any] = [
                lambda: stranger.create_task_push_notification_config(push),
                lambda: stranger.get_task_push_notification_config(get),
                lambda: stranger.list_task_push_notification_configs(listing),
                lambda: stranger.delete_task_push_notification_config(deletion),
            ]
            for call in calls:
                with pytest.raises(TaskNotFoundError, match="does not exist"):
                    await call()
        async with connect(gate, url, binding) as client:
            with pytest.raises(TaskNotFoundError, match="no push notification configuration 'mine'"):
                await client.get_task_push_notification_config(get)
            wrong = a2a.TaskPushNotificationConfig(url="http://1.1.1.1/", task_id=task_id)
            with pytest.raises(InvalidParamsError, match="must begin with https"):
                await client.create_task_push_notification_config(wrong)
            await client.create_task_push_notification_config(
                a2a.TaskPushNotificationConfig(url="http://127.0.0.1:1/hook", task_id=task_id, id="mine")
            )
            for _ in range(2):
                await client.delete_task_push_notification_config(deletion)
            assert not (await client.list_task_push_notification_configs(listing)).configs


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_task_is_cancelled_once_and_an_ended_one_is_not(gate: Gate, binding: str) -> None:
    waiting, ended = await ask_colour(gate), await ask_colour(gate)
    async with agent(gate) as url, connect(gate, url, binding) as client:
        for _ in range(2):
            task = await client.cancel_task(a2a.CancelTaskRequest(id=waiting))
            assert task.status.state == a2a.TASK_STATE_CANCELED
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await send(client, message("red", task_id=waiting))
        await send(client, message("red", task_id=ended))
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(a2a.CancelTaskRequest(id=ended))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_tasks_are_listed_by_pages_and_filters(gate: Gate, binding: str) -> None:
    ids = [await ask_colour(gate) for _ in range(3)]
    async with agent(gate) as url, connect(gate, url, binding) as client:
        seen: list[str] = []
        token = ""
        while token or not seen:
            page = await client.list_tasks(a2a.ListTasksRequest(page_size=2, page_token=token))
            assert len(page.tasks) <= 2
            seen += [task.id for task in page.tasks]
            token = page.next_page_token
        assert seen[:3] == ids[::-1]
        assert len(set(seen)) == len(seen)
        (only,) = (await client.list_tasks(a2a.ListTasksRequest(context_id=ids[0]))).tasks
        assert only.id == ids[0]
        await client.cancel_task(a2a.CancelTaskRequest(id=ids[0]))
        cancelled = await client.list_tasks(a2a.ListTasksRequest(status=a2a.TASK_STATE_CANCELED))
        assert ids[0] in [task.id for task in cancelled.tasks]
        last = only.status.timestamp
        recent = await client.list_tasks(a2a.ListTasksRequest(status_timestamp_after=last, include_artifacts=True))
        assert set(ids) <= {task.id for task in recent.tasks}
        none = await client.list_tasks(a2a.ListTasksRequest(status=a2a.TASK_STATE_REJECTED))
        assert (list(none.tasks), none.total_size) == ([], 0)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_foreign_or_unknown_task_does_not_exist(gate: Gate, binding: str) -> None:
    own = await ask_colour(gate)
    async with agent(gate) as url, connect(gate, url, binding, "evil") as client:
        for task_id in (own, "evil--0123456789ab", "no such id"):
            for call in (
                lambda: client.get_task(a2a.GetTaskRequest(id=task_id)),  # noqa: B023  called at once
                lambda: client.cancel_task(a2a.CancelTaskRequest(id=task_id)),  # noqa: B023
                lambda: send(client, message("red", task_id=task_id)),  # noqa: B023
            ):
                with pytest.raises(TaskNotFoundError, match="does not exist"):
                    await call()
        assert own not in [task.id for task in (await client.list_tasks(a2a.ListTasksRequest())).tasks]
        assert not (await client.list_tasks(a2a.ListTasksRequest(context_id=own))).tasks
    async with agent(gate) as url, connect(gate, url, binding, "acme reader") as client:
        with pytest.raises((InternalError, A2AClientError), match="SCOPE_MISSING"):
            await client.cancel_task(a2a.CancelTaskRequest(id=own))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_wrong_messages_are_refused_with_their_field(gate: Gate, binding: str) -> None:
    wrong_collection = message()
    wrong_collection.metadata["collection"] = 7
    image, data = a2a.Part(url="https://example.com/a.png"), a2a.Part(data=Value(number_value=1))
    push = a2a.TaskPushNotificationConfig(url="https://10.0.0.1/hook")
    refused: list[tuple[a2a.Message, dict[str, Any], type[Exception], str]] = [
        (message(parts=[a2a.Part(text="a"), image]), {}, ContentTypeNotSupportedError, r"message.parts\[1\].*url"),
        (message(parts=[data]), {}, ContentTypeNotSupportedError, r"message.parts\[0\].*data"),
        (message(parts=[a2a.Part()]), {}, ContentTypeNotSupportedError, r"message.parts\[0\].*nothing"),
        (message(" "), {}, InvalidParamsError, "message.parts: must have 1 to 10000 characters"),
        (message("x" * 10_001), {}, InvalidParamsError, "not 10001"),
        (message(context_id="other"), {}, InvalidParamsError, "message.context_id"),
        (wrong_collection, {}, InvalidParamsError, "message.metadata.collection: must be a string"),
        (message(), {"accepted_output_modes": ["image/png"]}, ContentTypeNotSupportedError, "image/png"),
        (message(), {"task_push_notification_config": push}, InvalidParamsError, "public addresses only, not 10.0.0.1"),
    ]
    async with agent(gate) as url, connect(gate, url, binding) as client:
        for sent, configuration, error, words in refused:
            with pytest.raises(error, match=words):
                await send(client, sent, **configuration)
        with pytest.raises(InvalidParamsError):
            await send(client, a2a.Message(role=a2a.ROLE_USER, parts=[a2a.Part(text="no id")]))
        with pytest.raises(InvalidParamsError, match="tenant: must be empty"):
            await client.get_task(a2a.GetTaskRequest(id="acme--0123456789ab", tenant="evil"))
        with pytest.raises(InvalidParamsError, match="page_size: must be 1 to 100, not 0"):
            await client.list_tasks(a2a.ListTasksRequest(page_size=0))
        with pytest.raises(InvalidParamsError, match="page_token"):
            await client.list_tasks(a2a.ListTasksRequest(page_token="elsewhere"))


async def test_the_card_says_what_the_agent_does(gate: Gate) -> None:
    headers = {"authorization": f"Bearer {gate.keys['acme']}", "a2a-version": "1.0"}
    async with agent(gate) as url, httpx.AsyncClient(headers=headers) as http:
        card = (await http.get(f"{url}/.well-known/agent-card.json")).json()
        extended = await http.post(f"{url}/a2a", json={"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"})
    bindings = [(item["protocolBinding"], item["protocolVersion"]) for item in card["supportedInterfaces"]]
    assert bindings == [("JSONRPC", "1.0"), ("GRPC", "1.0")]
    assert card["capabilities"] == {"streaming": True, "pushNotifications": True, "extendedAgentCard": False}
    assert card["skills"][0]["id"] == "plan"
    assert list(card["securitySchemes"]) == ["bearer"]
    assert extended.json()["error"]["code"] == -32007


async def test_the_example_of_the_page_gets_its_answer(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    async with agent(gate, "acme") as url:
        code = compile(example.replace("http://127.0.0.1:8766", url), str(PAGE), "exec")
        await asyncio.to_thread(exec, code, {})
    assert "TASK_STATE_" in capsys.readouterr().out


async def test_callers_need_a_token(gate: Gate) -> None:
    async with agent(gate) as url:
        for headers in ({"authorization": "Bearer unknown"}, {}):
            async with httpx.AsyncClient(headers=headers) as http:
                refused = await http.post(f"{url}/a2a", json={"jsonrpc": "2.0", "id": 1, "method": "ListTasks"})
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        async with connect(gate, url, "GRPC", "nobody", streaming=True) as client:
            with pytest.raises(A2AClientError, match="UNAUTHENTICATED"):
                await client.get_task(a2a.GetTaskRequest(id="acme--0123456789ab"))
            with pytest.raises(A2AClientError, match="UNAUTHENTICATED"):
                [item async for item in client.subscribe(a2a.SubscribeToTaskRequest(id="acme--0123456789ab"))]


async def test_a_caller_gets_the_reason_why_its_token_cannot_be_verified(gate: Gate) -> None:
    async with agent(gate, address="127.0.0.1:1") as url:
        async with httpx.AsyncClient(headers={"authorization": "Bearer key"}) as http:
            refused = await http.post(f"{url}/a2a", json={"jsonrpc": "2.0", "id": 1, "method": "ListTasks"})
        assert refused.status_code == 503
        assert refused.json() == {"error": "hansei at 127.0.0.1:1 does not answer"}
        async with connect(gate, url, "GRPC", streaming=True) as client:
            with pytest.raises(A2AClientError, match=r"UNAVAILABLE.*127\.0\.0\.1:1 does not answer"):
                await client.get_task(a2a.GetTaskRequest(id="acme--0123456789ab"))
            with pytest.raises(A2AClientError, match="UNAVAILABLE"):
                [item async for item in client.subscribe(a2a.SubscribeToTaskRequest(id="acme--0123456789ab"))]


async def test_wrong_json_is_refused_and_so_are_pages_in_a_browser(gate: Gate) -> None:
    async with agent(gate) as url:
        headers = {"authorization": f"Bearer {gate.keys['acme']}", "a2a-version": "1.0"}
        async with httpx.AsyncClient(headers=headers, base_url=url) as http:

            async def post(content: bytes | str, **more: str) -> httpx.Response:
                return await http.post("/a2a", content=content, headers={"content-type": "application/json", **more})

            for content, code in (
                ("{", -32700),
                ("[]", -32600),
                ('{"jsonrpc": "2.0", "id": 1, "method": "NoSuch"}', -32601),
                ('{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"parts": 7}}}', -32602),
                ('{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {}}', -32602),
            ):
                assert (await post(content)).json()["error"]["code"] == code, content
            old = await post(
                '{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "a"}}', **{"a2a-version": "0.3"}
            )
            assert old.json()["error"]["code"] == -32009
            assert (await post("{}", origin="https://evil.example")).status_code == 403
            assert (await post("{}", host="evil.example")).status_code == 421
            assert (await http.post("/a2a", content="{}", headers={"content-type": "text/plain"})).status_code == 400
            too_large = await post(b'{"a": "' + b"x" * 1_100_000 + b'"}')
            assert too_large.status_code == 413 or "too large" in too_large.text.lower()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"http_address": "nowhere"}, "is not an address"),
        ({"http_address": "0.0.0.0:0"}, "--require-token"),
        ({"grpc_address": "0.0.0.0:0"}, "--require-token"),
    ],
)
async def test_an_unusable_address_is_refused(gate: Gate, options: dict[str, str], words: str) -> None:
    addresses: dict[str, Any] = {"http_address": "127.0.0.1:0", "grpc_address": "127.0.0.1:0", **options}
    async with AsyncClient(gate.address, token="") as client:
        with pytest.raises(BadSetting, match=words):
            await serve(client, **addresses, announce=lambda url, grpc_url: None)
