"""A call to the own server without a connection behaves as one over a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from chassis import OwnServer, Peers, Service, ServiceSettings, deadlines, serve
from chassis.calls import Call, current_call
from chassis.channels import OWN
from chassis.errors import DeadlineExceeded, HanseiError, Internal, InvalidArgument, ResourceExhausted
from chassis.tests.probe import Probe, ThingNotFound, pb, policies, service, stub

MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class OwnProbe:
    """A probe, and its stub in the same process."""

    probe: Probe
    stub: Any


Start = Callable[..., Awaitable[OwnProbe]]


@pytest.fixture(params=["own server", "connection"])
def start(request: pytest.FixtureRequest, stack: AsyncExitStack) -> Start:
    async def start(*, seconds: float = 30, **settings: Any) -> OwnProbe:
        opened: list[Peers] = []
        probe = Probe()

        def compose(own: OwnServer) -> Service:
            reached = own if request.param == "own server" else replace(own, handlers={})
            opened.append(Peers({"probe": OWN}, own=reached, policies=policies(timeout=seconds)))
            return service(probe)

        merged = ServiceSettings(**{"lame_duck_seconds": 0, "drain_grace_seconds": 5} | settings)
        await stack.enter_async_context(serve(compose, settings=merged))
        stack.push_async_callback(opened[0].close)
        probe.next_hop = stub(opened[0])
        return OwnProbe(probe, probe.next_hop)

    return start


async def test_a_call_returns_the_response(start: Start) -> None:
    served = await start()
    assert (await served.stub.Echo(pb.EchoRequest(text="hello"))).text == "hello"


async def test_errors_keep_their_class_and_details(start: Start) -> None:
    served = await start()
    with pytest.raises(HanseiError) as missing:
        await served.stub.Echo(pb.EchoRequest(fail="thing"))
    with pytest.raises(Internal, match="internal error; the log has it under"):
        await served.stub.Echo(pb.EchoRequest(fail="unexpected"))
    with pytest.raises(InvalidArgument) as broken:
        await served.stub.Echo(pb.EchoRequest(fail="rules"))
    error = missing.value
    assert (error.reason, error.metadata["shelf"], error.domain) == (ThingNotFound.reason, "3", "probe.hansei")
    assert 0 < len(broken.value.violations) <= 50


async def test_failures_are_retried_unless_the_service_forbids_it(start: Start) -> None:
    served = await start()
    with pytest.raises(HanseiError, match="not yet"):
        await served.stub.Echo(pb.EchoRequest(fail="again"))
    retried, served.probe.calls = served.probe.calls, 0
    with pytest.raises(HanseiError, match="the model does not answer"):
        await served.stub.Echo(pb.EchoRequest(fail="model"))
    assert retried >= 4
    assert served.probe.calls == 1


async def test_a_call_gets_the_deadline_the_ids_and_nothing_else_of_its_caller(start: Start) -> None:
    served = await start()
    private = current_call.set(Call("/caller", "c-17", "key"))
    try:
        with deadlines.time_limit(10):
            traced = await served.stub.Trace(pb.TraceRequest(hops=1))
        assert current_call.get() == Call("/caller", "c-17", "key")
    finally:
        current_call.reset(private)
    assert len(traced.remaining_seconds) == 2
    assert all(9 < seconds < 10 for seconds in traced.remaining_seconds)  # gRPC rounds what it sends
    assert traced.correlation_ids == ["c-17", "c-17"]


async def test_a_deadline_ends_the_handler(start: Start) -> None:
    served = await start(seconds=0.05)
    with pytest.raises(DeadlineExceeded):
        await served.stub.Wait(pb.WaitRequest())
    await _wait_until_unwound(served.probe)


async def test_a_cancelled_caller_ends_the_handler(start: Start) -> None:
    served = await start()
    call = asyncio.ensure_future(served.stub.Wait(pb.WaitRequest()))
    await served.probe.waiting.acquire()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await _wait_until_unwound(served.probe)


async def test_limits_of_calls_and_messages_apply(start: Start) -> None:
    served = await start(max_concurrent_calls=1, max_message_bytes=MEGABYTE)
    waiting = asyncio.ensure_future(served.stub.Wait(pb.WaitRequest()))
    await served.probe.waiting.acquire()
    with pytest.raises(ResourceExhausted, match="the limit is 1"):
        await served.stub.Echo(pb.EchoRequest(text="x"))
    served.probe.release.set()
    await waiting
    with pytest.raises(ResourceExhausted, match="larger than max"):
        await served.stub.Echo(pb.EchoRequest(text="x" * 2 * MEGABYTE))


async def test_caller_and_handler_share_no_message(start: Start) -> None:
    served = await start()
    request = pb.EchoRequest(text="mine")
    response = pb.EchoResponse(text="answer")
    received: list[Any] = []

    async def answer(message: Any) -> Any:
        received.append(message)
        message.text = "changed by the handler"
        return response

    served.probe.answer = answer
    (await served.stub.Echo(request)).text = "changed by the caller"
    assert received
    assert (request.text, response.text) == ("mine", "answer")


async def test_a_call_to_the_own_server_needs_no_connection(stack: AsyncExitStack) -> None:
    opened: list[Peers] = []

    def compose(own: OwnServer) -> Service:
        opened.append(Peers({"probe": OWN}, own=replace(own, address="127.0.0.1:1"), policies=policies(retry=False)))
        return service(Probe())

    await stack.enter_async_context(serve(compose))
    stack.push_async_callback(opened[0].close)
    assert (await stub(opened[0]).Echo(pb.EchoRequest(text="here"))).text == "here"


async def _wait_until_unwound(probe: Probe) -> None:
    async with asyncio.timeout(30):
        while probe.unwound != ["Wait"]:  # noqa: ASYNC110  a handler over a connection ends a moment later
            await asyncio.sleep(0.001)
