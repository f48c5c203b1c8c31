"""Test the calls of both clients: ids, retries, deadlines, errors, streams."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

import chassis
from chassis import telemetry
from chassis.errors import BadSetting
from hansei.client import AsyncClient, Client, errors, time_limit
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.playbook.v1.playbook_pb2 import Operation, Playbook, Revision
from hansei.reflector.v1.trajectory_pb2 import TRAJECTORY_STATUS_SUCCESS, Trajectory
from hansei.search.v1 import collection_service_pb2 as collection
from hansei.search.v1 import search_service_pb2 as search
from tests.support.systems import free_port

CHUNK = 1024 * 1024


class DatasetLockedError(errors.FailedPrecondition):
    reason = "DATASET_LOCKED"


class Playbooks:
    """Send the prepared responses, and store the requests."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.failures: list[errors.HanseiError] = []
        self.watch_ended = asyncio.Event()
        self.peers: list[str] = []
        self.credentials: list[str] = []

    def _take(self, request: Any) -> None:
        self.received.append(request)
        if self.failures:
            raise self.failures.pop(0)

    async def GetPlaybook(self, request: Any, context: Any) -> Any:
        self._take(request)
        self.peers.append(context.peer())
        self.credentials.append(dict(context.invocation_metadata()).get("authorization", ""))
        return playbook.GetPlaybookResponse(playbook=Playbook(dataset=request.dataset, revision=7))

    async def ApplyDeltas(self, request: Any, context: Any) -> Any:
        self._take(request)
        skipped = [Operation(delta=delta, skipped_reason="no such bullet") for delta in request.deltas]
        return playbook.ApplyDeltasResponse(revision=8, operations=skipped)

    async def GetDataset(self, request: Any, context: Any) -> Any:
        raise errors.PermissionDenied("the scope read is missing")

    async def GetSections(self, request: Any, context: Any) -> Any:
        await asyncio.Event().wait()

    async def WatchPlaybook(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            for revision in range(1, 4):
                yield playbook.WatchPlaybookResponse(revision=Revision(revision=revision))
            await asyncio.Event().wait()
        finally:
            self.watch_ended.set()

    async def ImportPlaybook(self, requests: AsyncIterator[Any], context: Any) -> Any:
        self.received = [request async for request in requests]
        return playbook.ImportPlaybookResponse(revision=9)

    async def ExportPlaybook(self, request: Any, context: Any) -> AsyncIterator[Any]:
        for part in self.received[1:]:
            yield playbook.ExportPlaybookResponse(chunk=part.chunk)


class Gateway:
    def __init__(self) -> None:
        self.received: list[Any] = []

    async def LearnWithProgress(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.received.append(request)
        yield gateway.LearnWithProgressResponse(message="done")


class Search:
    def __init__(self) -> None:
        self.received: list[Any] = []

    async def Search(self, request: Any, context: Any) -> Any:
        self.received.append(request)
        return search.SearchResponse(revision=request.min_revision)


class Collections:
    async def LoadDocuments(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            yield collection.LoadDocumentsResponse(processed=int(request.HasField("document")))


def registration(contract: ServiceDescriptor, servicer: Any, endless: Collection[str] = ()) -> chassis.Registration:
    """Register the methods that a servicer has, under the name of a contract."""
    made = {}
    for method in contract.methods:
        if hasattr(servicer, method.name):
            kind = f"{_arity(method.client_streaming)}_{_arity(method.server_streaming)}_rpc_method_handler"
            made[method.name] = getattr(grpc, kind)(
                getattr(servicer, method.name),
                request_deserializer=GetMessageClass(method.input_type).FromString,
                response_serializer=GetMessageClass(method.output_type).SerializeToString,
            )
    return chassis.Registration(
        lambda _, server: server.add_registered_method_handlers(contract.full_name, made), servicer, endless
    )


def _arity(streaming: bool) -> str:
    return "stream" if streaming else "unary"


class Server:
    """The servicers and their address."""

    def __init__(self) -> None:
        self.playbooks, self.gateway, self.search = Playbooks(), Gateway(), Search()
        self.address = ""

    def service(self) -> chassis.Service:
        contracts = playbook.DESCRIPTOR, gateway.DESCRIPTOR, search.DESCRIPTOR
        (books,), (chains,), (index,) = (tuple(contract.services_by_name.values()) for contract in contracts)
        (collections,) = collection.DESCRIPTOR.services_by_name.values()
        return chassis.Service(
            "pretended",
            [
                registration(books, self.playbooks, endless=["WatchPlaybook"]),
                registration(chains, self.gateway),
                registration(index, self.search),
                registration(collections, Collections()),
            ],
        )


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    async with chassis.serve(made.service()) as running:
        made.address = running.address
        yield made


Ask = Callable[[Callable[[Any], Any]], Any]


@pytest.fixture(params=["blocking", "async"])
async def ask(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[Ask]:
    """Return a function that runs a scenario: on the blocking client in a thread, on the async one in this loop."""
    if request.param == "blocking":
        with Client(server.address) as blocking:

            async def in_thread(scenario: Callable[[Any], Any]) -> Any:
                return await asyncio.to_thread(lambda: as_list(scenario(blocking)))

            yield in_thread
    else:
        async with AsyncClient(server.address) as client:

            async def here(scenario: Callable[[Any], Any]) -> Any:
                result = scenario(client)
                return await result if inspect.isawaitable(result) else [item async for item in result]

            yield here


def as_list(result: Any) -> Any:
    return list(result) if inspect.isgenerator(result) else result


async def test_clients_with_other_tokens_share_the_connection_of_the_first(server: Server) -> None:
    async with AsyncClient(server.address, token="first") as first:
        clients = [first, first.with_token("second"), first.with_token("")]
        for client in clients:
            await client.playbooks.get(dataset="books")
        assert server.playbooks.credentials == ["Bearer first", "Bearer second", ""]
        assert len(set(server.playbooks.peers)) == 1


async def test_a_method_takes_fields_and_returns_the_response(ask: Ask, server: Server) -> None:
    found = await ask(lambda client: client.playbooks.get(dataset="books", revision=7))
    assert (found.playbook.dataset, found.playbook.revision) == ("books", 7)
    assert server.playbooks.received == [playbook.GetPlaybookRequest(dataset="books", revision=7)]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Record the spans of this process, those of the server and of the client."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "tracer", provider.get_tracer("test"))
    return exporter


def of_kind(spans: InMemorySpanExporter, kind: SpanKind) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.kind is kind]


async def test_every_call_is_a_span_that_the_server_continues(
    spans: InMemorySpanExporter, ask: Ask, server: Server
) -> None:
    server.playbooks.failures = [errors.NotFound("no such playbook")]
    with pytest.raises(errors.NotFound):
        await ask(lambda client: client.playbooks.get(dataset="books"))
    await ask(lambda client: client.playbooks.get(dataset="books"))
    failed, succeeded = of_kind(spans, SpanKind.CLIENT)
    assert succeeded.name == "hansei.playbook.v1.PlaybookService/GetPlaybook"
    assert (failed.attributes or {})["rpc.grpc.status_code"] == "NOT_FOUND"
    assert (succeeded.attributes or {})["rpc.grpc.status_code"] == "OK"
    served = of_kind(spans, SpanKind.SERVER)[-1]
    assert served.parent is not None
    assert served.parent.span_id == succeeded.context.span_id


async def test_a_stream_is_one_span_and_one_that_is_left_was_cancelled(
    spans: InMemorySpanExporter, server: Server
) -> None:
    def close_stream() -> None:
        with Client(server.address) as client:
            assert list(client.playbooks.export_chunks(dataset="books")) == []
            events = client.playbooks.watch(dataset="books")
            next(events)
            events.close()  # type: ignore[attr-defined]

    await asyncio.to_thread(close_stream)
    codes = [(span.attributes or {})["rpc.grpc.status_code"] for span in of_kind(spans, SpanKind.CLIENT)]
    assert codes == ["OK", "CANCELLED"]


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.playbooks.get(dataset="books"),
        lambda client: client.search("books", "q"),
        lambda client: client.playbooks.watch(dataset="books"),
        lambda client: client.import_playbook("books", b"[b-1] Pull first."),
        lambda client: client.collections.load_documents([]),
    ],
    ids=["method called before", "one response", "stream of responses", "stream of requests", "two streams"],
)
async def test_a_call_of_a_closed_client_is_refused(server: Server, call: Callable[[Any], Any]) -> None:
    rule = f"the client of hansei at {server.address} is closed: make calls before it is closed, or create a new client"

    def call_blocking() -> None:
        client = Client(server.address)
        client.playbooks.get(dataset="books")
        client.close()
        with pytest.raises(errors.FailedPrecondition) as refused:
            as_list(call(client))
        assert (refused.value.message, refused.value.reason) == (rule, "CLIENT_CLOSED")

    async def await_result(client: AsyncClient) -> None:
        result = call(client)
        _ = await result if inspect.isawaitable(result) else [item async for item in result]

    await asyncio.to_thread(call_blocking)
    closed = AsyncClient(server.address)
    await closed.playbooks.get(dataset="books")
    await closed.close()
    for client in (closed, closed.with_token("other")):
        with pytest.raises(errors.FailedPrecondition) as refused:
            await await_result(client)
        assert (refused.value.message, refused.value.reason) == (rule, "CLIENT_CLOSED")


async def test_a_field_that_is_not_in_the_contract_is_refused_before_anything_is_sent(ask: Ask, server: Server) -> None:
    with pytest.raises(ValueError, match="datset"):
        await ask(lambda client: client.playbooks.get(datset="books"))
    assert server.playbooks.received == []


@pytest.mark.parametrize(
    ("call", "field", "rule"),
    [
        (
            lambda client: client.search("books", "q", top_k="a"),
            "top_k",
            "must be a whole number from -2147483648 to 2147483647 (got 'a')",
        ),
        (lambda client: client.search(7, "q"), "dataset", "must be a text (got 7)"),
        (lambda client: client.search("books", "q", alpha="x"), "alpha", "must be a number (got 'x')"),
        (lambda client: client.search("books", "q", sections=5), "section_filter", "must be a list (got 5)"),
        (lambda client: client.search("books", "q", sections=["a", 5]), "section_filter[1]", "must be a text (got 5)"),
        (lambda client: client.forget("books", 5), "bullet_id", "must be a text (got 5)"),
        (
            lambda client: client.import_playbook("books", b"x", replace="no"),
            "replace",
            "must be true or false (got 'no')",
        ),
        (lambda client: client.import_playbook("books", "text"), "chunk", "must be bytes (got 'text')"),
        (
            lambda client: client.index.search(query=3.5),
            "query",
            "must be a SearchQuery, or a dict of its fields (got 3.5)",
        ),
        (
            lambda client: client.playbooks.apply_deltas(deltas=[{}, {"content": object}]),
            "deltas[1].content",
            "must be a text (got a value of the type type)",
        ),
    ],
)
async def test_a_value_of_a_wrong_type_is_refused_by_field_value_and_rule(
    ask: Ask, server: Server, call: Callable[[Any], Any], field: str, rule: str
) -> None:
    with pytest.raises(errors.InvalidArgument) as refused:
        await ask(call)
    assert refused.value.message == f"{field} {rule}"
    assert refused.value.violations == (errors.Violation(field, rule),)
    assert not server.search.received


async def test_the_text_of_a_lesson_must_be_a_text(ask: Ask, server: Server) -> None:
    for edit in (lambda client: client.remember("books", 5), lambda client: client.edit("books", "b-1", 5)):
        with pytest.raises(errors.InvalidArgument) as refused:
            await ask(edit)
        assert refused.value.message == "the text of a lesson must be a str (got 5)"
    assert server.playbooks.received == []


async def test_a_caller_who_may_not_read_learns_that_the_bullet_is_missing(ask: Ask) -> None:
    with pytest.raises(errors.NotFound) as refused:
        await ask(lambda client: client.forget("books", "b-1"))
    assert refused.value.reason == "BULLET_NOT_FOUND"


async def test_a_mutation_without_request_id_gets_one_that_all_its_tries_share(ask: Ask, server: Server) -> None:
    server.playbooks.failures = [errors.Unavailable("not yet", retry_after=0.01) for _ in range(2)]
    done = await ask(lambda client: client.playbooks.apply_deltas(dataset="books"))
    assert done.revision == 8
    ids = [request.request_id for request in server.playbooks.received]
    assert len(ids) == 3
    assert len(set(ids)) == 1
    assert uuid.UUID(ids[0]).version == 4


async def test_a_request_id_of_the_caller_is_not_replaced(ask: Ask, server: Server) -> None:
    mine = str(uuid.uuid4())
    await ask(lambda client: client.playbooks.apply_deltas(dataset="books", request_id=mine))
    assert server.playbooks.received[0].request_id == mine


async def test_a_wrapped_mutation_gets_a_request_id_too(ask: Ask, server: Server) -> None:
    learn = gateway.LearnRequest(
        dataset="books", trajectory=Trajectory(dataset="books", query="q", status=TRAJECTORY_STATUS_SUCCESS)
    )
    events = await ask(lambda client: client.gateway.learn_with_progress(learn=learn))
    assert [event.message for event in events] == ["done"]
    assert uuid.UUID(server.gateway.received[0].learn.request_id)
    assert not learn.request_id, "what the caller holds is not written to"


async def test_the_client_raises_the_class_and_details_of_the_servers_error(ask: Ask, server: Server) -> None:
    server.playbooks.failures = [
        DatasetLockedError(
            "dataset 'books' is locked",
            violations=[errors.Violation("dataset", "is locked", "LOCK")],
            metadata={"by": "someone"},
            retry_after=1.5,
        )
    ]
    with pytest.raises(DatasetLockedError) as raised:
        await ask(lambda client: client.playbooks.get(dataset="books"))
    assert raised.value.message == "dataset 'books' is locked"
    assert raised.value.violations == (errors.Violation("dataset", "is locked", "LOCK"),)
    assert raised.value.metadata == {"by": "someone"}
    assert raised.value.retry_after == 1.5


async def test_a_broken_contract_rule_is_an_invalid_argument_with_its_field(ask: Ask) -> None:
    with pytest.raises(errors.InvalidArgument) as raised:
        await ask(lambda client: client.playbooks.get(dataset="no such name!"))
    assert [violation.field for violation in raised.value.violations] == ["dataset"]


async def test_a_time_limit_bounds_all_calls_of_its_block(ask: Ask) -> None:
    with time_limit(0.2), pytest.raises(errors.DeadlineExceeded):
        await ask(lambda client: client.playbooks.get_sections(dataset="books"))


async def test_nothing_is_sent_when_no_time_is_left(ask: Ask, server: Server) -> None:
    with time_limit(0), pytest.raises(errors.DeadlineExceeded):
        await ask(lambda client: client.playbooks.get(dataset="books"))
    assert server.playbooks.received == []


async def test_leaving_a_stream_early_ends_it_at_the_server(server: Server) -> None:
    def first_blocking() -> int:
        with Client(server.address) as client:
            stream = client.playbooks.watch(dataset="books")
            return next(iter(stream)).revision.revision

    assert await asyncio.to_thread(first_blocking) == 1
    await server.playbooks.watch_ended.wait()

    server.playbooks.watch_ended.clear()
    async with AsyncClient(server.address) as client:
        stream = client.playbooks.watch(dataset="books")
        async for event in stream:
            assert event.revision.revision == 1
            break
        await stream.aclose()  # type: ignore[attr-defined]
        await server.playbooks.watch_ended.wait()


async def test_an_error_of_the_requests_is_raised_as_it_is(ask: Ask) -> None:
    """gRPC ends such a call with UNKNOWN, or cancels the task of the caller."""

    def read_chunks() -> Iterator[playbook.ImportPlaybookRequest]:
        yield playbook.ImportPlaybookRequest(head=playbook.ImportHead(dataset="books"))
        raise OSError("the disk does not answer")

    def read_documents() -> Iterator[collection.LoadDocumentsRequest]:
        yield collection.LoadDocumentsRequest(head=collection.LoadHead(collection="books"))
        raise OSError("the disk does not answer")

    with pytest.raises(OSError, match="the disk does not answer"):
        await ask(lambda client: client.playbooks.import_chunks(read_chunks()))
    with pytest.raises(OSError, match="the disk does not answer"):
        await ask(lambda client: client.collections.load_documents(read_documents()))


async def test_an_error_of_async_requests_is_raised_as_it_is(server: Server) -> None:
    async def read_chunks() -> AsyncIterator[playbook.ImportPlaybookRequest]:
        yield playbook.ImportPlaybookRequest(head=playbook.ImportHead(dataset="books"))
        raise OSError("the disk does not answer")

    async with AsyncClient(server.address) as client:
        with pytest.raises(OSError, match="the disk does not answer"):
            await client.playbooks.import_chunks(read_chunks())
        sending = asyncio.create_task(asyncio.wait_for(client.playbooks.import_chunks(_wait_forever()), 30))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending


async def _wait_forever() -> AsyncIterator[playbook.ImportPlaybookRequest]:
    yield playbook.ImportPlaybookRequest(head=playbook.ImportHead(dataset="books"))
    await asyncio.Event().wait()


@pytest.mark.parametrize("size", [0, 1, CHUNK, 2 * CHUNK + 1])
async def test_a_playbook_file_is_imported_and_exported_in_chunks(ask: Ask, server: Server, size: int) -> None:
    content = bytes(index % 251 for index in range(size))
    done = await ask(lambda client: client.import_playbook("books", content, replace=True))
    assert done.revision == 9
    head, *chunks = server.playbooks.received
    assert uuid.UUID(head.head.request_id)
    assert head.head.replace
    assert all(len(chunk.chunk) <= CHUNK for chunk in chunks)
    assert await ask(lambda client: client.export_playbook("books")) == content


async def test_a_search_sends_only_set_fields(ask: Ask, server: Server) -> None:
    # G-12: an unset field differs from a zero.
    await ask(lambda client: client.search("books", "snow"))
    await ask(lambda client: client.search("books", "snow", top_k=3, min_confidence=0, alpha=0, sections=["winter"]))
    plain, full = (request.query for request in server.search.received)
    assert not any(plain.HasField(name) for name in ("top_k", "min_confidence", "alpha"))
    assert all(full.HasField(name) for name in ("top_k", "min_confidence", "alpha"))
    assert (full.top_k, full.min_confidence, full.alpha, list(full.section_filter)) == (3, 0, 0, ["winter"])


async def test_a_search_names_an_option_with_a_value_that_no_message_takes(ask: Ask) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"^top_k: ") as caught:
        await ask(lambda client: client.search("books", "snow", top_k=2**40))
    assert [violation.field for violation in caught.value.violations] == ["top_k"]


async def test_an_unreachable_server_is_named(ask: Ask) -> None:
    address = f"127.0.0.1:{free_port()}"

    def blocking() -> None:
        with Client(address) as client:
            client.playbooks.get(dataset="books")

    with pytest.raises(errors.Unavailable, match=address):
        await asyncio.to_thread(blocking)
    async with AsyncClient(address) as client:
        with pytest.raises(errors.Unavailable, match=address):
            await client.playbooks.get(dataset="books")


async def test_one_blocking_client_serves_many_threads(server: Server) -> None:
    with Client(server.address) as client:

        def get(number: int) -> tuple[str, int]:
            return client.playbooks.get(dataset=f"books-{number}").playbook.dataset, threading.get_ident()

        with ThreadPoolExecutor(8) as pool:
            answers = await asyncio.gather(
                *(asyncio.get_running_loop().run_in_executor(pool, get, number) for number in range(64))
            )
    assert [dataset for dataset, _ in answers] == [f"books-{number}" for number in range(64)]


async def test_the_address_is_the_argument_the_environment_or_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HANSEI_ADDR", raising=False)
    with Client() as client:
        assert client.address == "127.0.0.1:50050"
    monkeypatch.setenv("HANSEI_ADDR", "127.0.0.1:1234")
    with Client() as client:
        assert client.address == "127.0.0.1:1234"
    with Client("127.0.0.1:4321") as client:
        assert client.address == "127.0.0.1:4321"


@pytest.mark.parametrize("address", ["http://127.0.0.1:8080", "127.0.0.1", "127.0.0.1:", "h:123456", "127.0.0.1:8080/"])
async def test_an_address_that_is_not_host_and_port_is_refused_before_a_call(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    rule = re.escape(f"must be host:port, such as 127.0.0.1:50050 (got '{address}')")
    for client_class in (Client, AsyncClient):
        with pytest.raises(BadSetting, match=f"^address {rule}$"):
            client_class(address)
    monkeypatch.setenv("HANSEI_ADDR", address)
    for client_class in (Client, AsyncClient):
        with pytest.raises(BadSetting, match=f"^HANSEI_ADDR {rule}$"):
            client_class()


def test_an_address_may_be_a_target_of_grpc_with_a_scheme() -> None:
    for address in ("dns:///gateway:50050", "ipv4:127.0.0.1:50050,127.0.0.2:50050", "unix:/run/hansei", "[::1]:50050"):
        with Client(address, tls=False) as client:
            assert client.address == address
