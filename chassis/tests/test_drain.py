"""A server leaves without breaking a call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from chassis import Peers, Registration, Service, ServiceSettings, errors, serve
from chassis.channels import OWN
from chassis.own_server import OwnServer
from chassis.server.health import OVERALL
from chassis.tests.conftest import Connect, wait_until
from chassis.tests.probe import Probe, pb, policies, rpc, service, stub
from chassis.tests.process import probe_process

WORKERS = 8
CALLS_BEFORE = 200
CALLS_AFTER = 200

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def test_a_rolling_restart_under_load_fails_no_call(connect_probe: Connect) -> None:
    """Two processes behind one name; one gets SIGTERM while calls that may not be retried keep coming."""
    lame_duck = {"HANSEI_LAME_DUCK_SECONDS": "1.5"}  # for a loaded machine
    async with probe_process(**lame_duck) as leaving, probe_process() as staying:
        addresses = [(await process.read_until("server started"))["address"] for process in (leaving, staying)]
        probe = connect_probe("ipv4:" + ",".join(addresses), retry=False)
        done, enough, last = 0, asyncio.Event(), asyncio.Event()

        async def caller() -> None:
            nonlocal done
            while not last.is_set():
                assert (await probe.Echo(pb.EchoRequest(text="x"))).text == "x"
                done += 1
                if done >= CALLS_BEFORE:
                    enough.set()

        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(caller())
            await enough.wait()
            leaving.terminate()
            code = await leaving.read_rest()
            target = done + CALLS_AFTER
            await wait_until(lambda: done >= target)
            last.set()

        assert code == 0
        assert [record["event"] for record in leaving.records] == ["server started", "draining", "drained"]


async def test_a_call_that_is_open_at_sigterm_is_finished(connect_probe: Connect) -> None:
    """And the watch of health beside it does not hold the server up: with it, the drain would take the whole grace."""
    settings = {"HANSEI_LAME_DUCK_SECONDS": "0", "HANSEI_DRAIN_GRACE_SECONDS": "3600"}
    async with probe_process(**settings) as process, AsyncExitStack() as stack:
        address = (await process.read_until("server started"))["address"]
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(address))
        health = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert (await health.read()).status == SERVING
        half_sent, probe = asyncio.Event(), connect_probe(address)

        async def numbers() -> AsyncIterator[Any]:
            yield pb.SumRequest(number=1)
            half_sent.set()
            assert (await health.read()).status == NOT_SERVING
            yield pb.SumRequest(number=2)

        answer = asyncio.create_task(probe.Sum(numbers()))
        await half_sent.wait()
        await probe.Echo(pb.EchoRequest())  # on one connection, so the server has received Sum, too
        process.terminate()

        assert (await answer).sum == 3
        async with asyncio.timeout(60):
            assert await process.read_rest() == 0


async def test_calls_in_progress_finish_and_their_services_close_after_them() -> None:
    order: list[str] = []
    probe = Probe()

    async def close() -> None:
        order.append("closed" if probe.unwound == ["Wait"] else "closed too early")

    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(serve(service(probe, close=close)))
        peers = Peers({"probe": running.address}, policies=policies())
        call = asyncio.create_task(stub(peers).Wait(pb.WaitRequest()))
        await probe.waiting.acquire()
        asyncio.get_running_loop().call_soon(probe.release.set)
        await stack.aclose()

    assert await call == pb.WaitResponse()
    assert order == ["closed"]
    await peers.close()


async def test_calls_that_outlast_the_grace_period_are_cancelled_before_services_close() -> None:
    probe = Probe()
    closed_after: list[list[str]] = []

    async def close() -> None:
        closed_after.append(list(probe.unwound))

    settings = ServiceSettings(lame_duck_seconds=0, drain_grace_seconds=0)
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(serve(service(probe, close=close), settings=settings))
        peers = Peers({"probe": running.address}, policies=policies(retry=False))
        call = asyncio.create_task(stub(peers).Wait(pb.WaitRequest()))
        await probe.waiting.acquire()
        await stack.aclose()

    with pytest.raises(errors.Unavailable):
        await call
    assert closed_after == [["Wait"]]
    await peers.close()


async def test_an_endless_stream_ends_so_that_the_client_resumes_at_another_replica() -> None:
    probe = Probe()
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(serve(service(probe)))
        peers = Peers({"probe": running.address}, policies=policies(retry=False))
        following = stub(peers).Follow(pb.FollowRequest())
        await anext(following)
        await probe.following.wait()
        await stack.aclose()

    with pytest.raises(errors.Unavailable) as ended:
        await anext(following)
    assert ended.value.reason == "SERVER_DRAINING"
    assert probe.unwound == ["Follow"]
    await peers.close()


class ForwardingServicer(rpc.ProbeServiceServicer):  # type: ignore[misc]
    """Answers `Trace` by forwarding the probe in the same process, once it is let."""

    def __init__(self, probe: Any) -> None:
        self.probe = probe
        self.received, self.go = asyncio.Event(), asyncio.Event()

    async def Trace(self, request: Any, context: Any) -> Any:
        self.received.set()
        await self.go.wait()
        return await self.probe.Trace(request)


def add_forwarding(servicer: Any, server: Any) -> None:
    handler = grpc.unary_unary_rpc_method_handler(
        servicer.Trace, pb.TraceRequest.FromString, pb.TraceResponse.SerializeToString
    )
    server.add_registered_method_handlers("forwarding.v1.ForwardingService", {"Trace": handler})


async def test_services_of_one_process_still_reach_each_other_while_it_drains() -> None:
    forwarding, inner = [], []

    def compose(own: OwnServer) -> list[Service]:
        inner.append(Peers({"probe": OWN}, own=own, policies=policies(retry=False)))
        forwarding.append(ForwardingServicer(stub(inner[0])))
        return [service(Probe()), Service("forwarding", [Registration(add_forwarding, forwarding[0])])]

    serving = serve(compose)
    running = await serving.__aenter__()
    async with grpc.aio.insecure_channel(running.address) as channel:
        trace = channel.unary_unary(
            "/forwarding.v1.ForwardingService/Trace", pb.TraceRequest.SerializeToString, pb.TraceResponse.FromString
        )
        outer = asyncio.ensure_future(trace(pb.TraceRequest()))
        await forwarding[0].received.wait()

        leaving = asyncio.create_task(serving.__aexit__(None, None, None))
        await wait_until(lambda: running.health.get_status(OVERALL) == NOT_SERVING)
        forwarding[0].go.set()

        assert len((await outer).remaining_seconds) == 1
        await leaving
    await inner[0].close()


class Worker:
    """Calls its own server without being asked, as one who works off a queue does, until it is told to stop."""

    def __init__(self, probe: Any) -> None:
        self._probe = probe
        self._is_draining = asyncio.Event()
        self.calls = 0
        self.ended = False

    async def work(self) -> None:
        while not self._is_draining.is_set():
            assert (await self._probe.Echo(pb.EchoRequest(text="x"))).text == "x"
            self.calls += 1
        self.ended = True

    async def drain(self) -> None:
        self._is_draining.set()
        await wait_until(lambda: self.ended)


async def test_background_work_of_a_service_ends_before_its_outgoing_calls_fail() -> None:
    """Its calls to the own server would otherwise never end, and the drain take the whole grace."""
    workers: list[Worker] = []

    def compose(own: OwnServer) -> list[Service]:
        peers = Peers({"probe": OWN}, own=own, policies=policies(timeout=30, retry=False))
        worker = Worker(stub(peers))
        workers.append(worker)
        busy = Service("busy", [], drain=worker.drain, close=peers.close, tasks={"work": worker.work})
        return [service(Probe()), busy]

    settings = ServiceSettings(lame_duck_seconds=0, drain_grace_seconds=30)
    async with serve(compose, settings=settings):
        await wait_until(lambda: workers[0].calls > 10)

    assert workers[0].ended


async def test_background_work_that_does_not_end_is_cancelled_after_the_grace_period(
    capsys: pytest.CaptureFixture[str],
) -> None:
    closed = asyncio.Event()

    async def never() -> None:
        await asyncio.Event().wait()

    async def close() -> None:
        closed.set()

    async def fail() -> None:
        raise RuntimeError("on purpose")

    async def fail_late() -> None:
        try:
            await never()
        finally:
            await fail()

    settings = ServiceSettings(lame_duck_seconds=0, drain_grace_seconds=0.1)
    services = [
        Service("stuck", [], drain=never, close=close),
        Service("broken", [], drain=fail),
        Service("fail late", [], drain=fail_late),
    ]
    async with serve(services, settings=settings):
        pass

    assert closed.is_set()
    assert capsys.readouterr().err.count("drain of a service failed") == 2
