"""From the environment to the last flushed span."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import urllib.request
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from chassis import BadSetting, Peers, Registration, Service, ServiceSettings, errors, run, serve
from chassis.own_server import OwnServer
from chassis.server.cpu import CpuPool
from chassis.server.health import LIVENESS, OVERALL
from chassis.tests.conftest import Connect, Serve, wait_until
from chassis.tests.probe import SERVICE, Probe, pb, policies, rpc, service, stub
from chassis.tests.process import probe_process

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def health_of(address: str, name: str) -> int:
    async with grpc.aio.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest(service=name)
        return int((await health_pb2_grpc.HealthStub(channel).Check(request, timeout=20)).status)


async def test_health_is_reported_for_each_service_for_the_process_and_as_liveness(start_probe: Serve) -> None:  # G-14
    address = (await start_probe()).address

    assert [await health_of(address, name) for name in (SERVICE, OVERALL, LIVENESS)] == [SERVING] * 3
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await health_of(address, "nobody")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_starting_service_reports_it_and_refuses_calls() -> None:  # G-14
    own: list[str] = []
    go = asyncio.Event()

    def compose(server: OwnServer) -> Service:
        own.append(server.address)
        return service(Probe(), start=go.wait)

    async def stay(started: asyncio.Event) -> None:
        async with serve(compose):
            started.set()
            await go.wait()

    started = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(stay(started))
        await wait_until(lambda: bool(own))
        statuses = [await health_of(own[0], name) for name in (SERVICE, OVERALL, LIVENESS)]
        async with grpc.aio.insecure_channel(own[0]) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await rpc.ProbeServiceStub(channel).Echo(pb.EchoRequest(), timeout=20)
        assert not started.is_set()
        go.set()

    assert statuses == [NOT_SERVING, NOT_SERVING, SERVING]
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert refused.value.details() == "probe is starting"
    assert started.is_set()


def test_a_process_with_a_bad_setting_prints_its_name_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # G-10
    monkeypatch.setenv("HANSEI_MAX_MESSAGE_BYTES", "1")

    with pytest.raises(SystemExit) as exit_:
        run(lambda settings, peers: service(Probe()), ServiceSettings)

    assert exit_.value.code == 1
    assert capsys.readouterr().err.startswith("HANSEI_MAX_MESSAGE_BYTES: must be at least 1048576")


async def test_a_background_task_that_dies_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    async def die() -> None:
        raise RuntimeError("the feed broke")

    async with serve(service(Probe(), tasks={"feed": die})) as running:
        await wait_until(lambda: running.health.get_status(OVERALL) == NOT_SERVING)
        statuses = [running.health.get_status(name) for name in (SERVICE, LIVENESS)]

    assert statuses == [NOT_SERVING, NOT_SERVING]
    logged = capsys.readouterr().err
    assert "background task died" in logged
    assert "probe/feed" in logged
    assert "the feed broke" in logged


async def test_started_services_are_closed_in_reverse_when_a_later_start_fails() -> None:
    order: list[str] = []

    def part(name: str, failure: Exception | None = None) -> Service:
        async def start() -> None:
            order.append(f"start {name}")
            if failure:
                raise failure

        async def close() -> None:
            order.append(f"close {name}")

        return Service(name, [], start=start, close=close)

    with pytest.raises(OSError, match="disk full"):
        async with serve([part("a"), part("b", OSError("disk full")), part("c")]):
            pass

    assert order == ["start a", "start b", "close b", "close a"]


async def test_a_cancelled_start_ends_without_an_error() -> None:
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, failure: failures.append(failure))

    async def stay() -> None:
        async with serve(service(Probe())):
            await asyncio.Event().wait()

    for turns in range(5):
        starting = asyncio.create_task(stay())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    gc.collect()  # A failed task that nobody waits for is reported when it is collected.
    await asyncio.sleep(0)

    assert not failures


async def test_a_port_in_use_is_reported_as_a_bad_setting_and_not_shared(start_probe: Serve) -> None:
    address = (await start_probe()).address

    with pytest.raises(BadSetting, match="HANSEI_LISTEN_ADDRESS"):
        async with serve(service(Probe()), address):
            pass


async def test_handlers_must_be_asynchronous() -> None:
    class Blocking(Probe):
        def Echo(self, request: Any, context: Any) -> Any:
            return pb.EchoResponse()

    with pytest.raises(TypeError, match=r"/probe.v1.ProbeService/Echo must be an coroutine function"):
        async with serve(service(Blocking())):
            pass


async def test_reflection_lists_every_service_of_the_process() -> None:
    def add(servicer: Any, server: Any) -> None:
        server.add_registered_method_handlers("other.v1.OtherService", {})

    both = [service(Probe()), Service("other", [Registration(add, object())])]
    async with serve(both) as running, grpc.aio.insecure_channel(running.address) as channel:
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]), timeout=20)
        (answer,) = [response async for response in call]

    names = {entry.name for entry in answer.list_services_response.service}
    assert {SERVICE, "other.v1.OtherService", "grpc.health.v1.Health"} <= names


async def test_reflection_can_be_off(start_probe: Serve) -> None:
    async with grpc.aio.insecure_channel((await start_probe(reflection=False)).address) as channel:
        # Without a request, which the server may refuse before it is sent.
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter(()), timeout=20)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()

    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_health_responds_while_every_processor_is_busy(stack: AsyncExitStack) -> None:
    pool, busy, done = CpuPool("busy", workers=2), threading.Barrier(3), threading.Event()

    def keep_busy() -> None:
        busy.wait()
        done.wait()

    class Computing(Probe):
        async def Wait(self, request: Any, context: Any) -> Any:
            await pool.run(keep_busy)
            return pb.WaitResponse()

    running = await stack.enter_async_context(serve(service(Computing())))
    peers = Peers({"probe": running.address}, policies=policies())
    calls = [asyncio.create_task(stub(peers).Wait(pb.WaitRequest())) for _ in range(2)]
    await asyncio.to_thread(busy.wait)

    assert await health_of(running.address, OVERALL) == SERVING

    done.set()
    assert await asyncio.gather(*calls) == [pb.WaitResponse()] * 2
    await peers.close()
    await pool.close()


async def test_a_process_with_a_bad_setting_exits_with_1_and_names_it() -> None:  # G-10
    async with probe_process(HANSEI_MAX_CONCURRENT_CALLS="many") as process:
        complaint = (await process.output_reader.read()).decode()

        assert await process.read_rest() == 1
        assert complaint.startswith("HANSEI_MAX_CONCURRENT_CALLS: ")
        assert "Traceback" not in complaint


async def test_a_process_whose_port_is_taken_exits_with_1(start_probe: Serve) -> None:
    async with probe_process(HANSEI_LISTEN_ADDRESS=(await start_probe()).address) as process:
        complaint = (await process.output_reader.read()).decode()

        assert await process.read_rest() == 1
        line = complaint.splitlines()[-1]
        assert line.startswith("HANSEI_LISTEN_ADDRESS: cannot listen on ")
        assert line.endswith(": Address already in use")
        assert "Traceback" not in complaint


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_both_signals_drain(number: signal.Signals) -> None:
    async with probe_process(HANSEI_LAME_DUCK_SECONDS="0") as process:
        await process.read_until("server started")
        process.process.send_signal(number)

        assert await process.read_rest() == 0
        assert process.records[-1]["event"] == "drained"


async def test_a_second_signal_does_not_wait_for_calls_in_progress(connect_probe: Connect) -> None:
    async with probe_process(HANSEI_LAME_DUCK_SECONDS="0", HANSEI_DRAIN_GRACE_SECONDS="3600") as process:
        address = (await process.read_until("server started"))["address"]
        probe = connect_probe(address, retry=False)
        stuck = asyncio.create_task(probe.Wait(pb.WaitRequest()))
        await asyncio.sleep(0)  # Wait goes out first
        await probe.Echo(pb.EchoRequest())  # on one connection, so the server has received Wait, too
        process.terminate()
        await process.read_until("draining")
        process.terminate()

        assert await process.read_rest() == 1
        with pytest.raises(errors.Unavailable):
            await stuck


async def test_metrics_of_every_call_are_served_for_prometheus(connect_probe: Connect) -> None:
    async with probe_process(HANSEI_METRICS_ADDRESS="127.0.0.1:0") as process:
        serving = await process.read_until("server started")
        probe = connect_probe(serving["address"])
        await probe.Echo(pb.EchoRequest())
        with pytest.raises(errors.InvalidArgument):
            await probe.Echo(pb.EchoRequest(dataset="a b"))

        page = await asyncio.to_thread(_read, f"http://{serving['metrics_address']}/metrics")

    counts = [line for line in page.splitlines() if line.startswith("rpc_server_duration_seconds_count")]
    assert len(counts) == 2
    for code in ("OK", "INVALID_ARGUMENT"):
        (line,) = [line for line in counts if f'rpc_grpc_status_code="{code}"' in line]
        assert 'rpc_method="Echo"' in line
        assert line.endswith(" 1.0")
    (failed,) = [line for line in page.splitlines() if line.startswith("hansei_calls_failed_total")]
    assert 'reason="INVALID_REQUEST"' in failed
    assert 'rpc_grpc_status_code="INVALID_ARGUMENT",rpc_method="Echo"' in failed
    assert failed.endswith(" 1.0")


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as response:
        return str(response.read().decode())


async def test_a_metrics_address_that_is_unusable_is_named() -> None:
    async with probe_process(HANSEI_METRICS_ADDRESS="nowhere") as process:
        complaint = (await process.output_reader.read()).decode()

        assert await process.read_rest() == 1
        assert "HANSEI_METRICS_ADDRESS" in complaint
        assert "Traceback" not in complaint


async def test_the_log_of_a_process_names_it(connect_probe: Connect) -> None:
    async with probe_process(HANSEI_LOG_LEVEL="DEBUG") as process:
        serving = await process.read_until("server started")
        await connect_probe(serving["address"]).Echo(pb.EchoRequest())
        call = await process.read_until("call")

        assert serving["pid"] == process.process.pid != os.getpid()
        assert (call["method"], call["code"], len(call["correlation_id"])) == ("/probe.v1.ProbeService/Echo", "OK", 32)
        assert "trace_id" not in call


async def test_the_log_has_the_trace_of_the_caller(connect_probe: Connect) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    async with probe_process(HANSEI_LOG_LEVEL="DEBUG") as process:
        serving = await process.read_until("server started")
        metadata = [("traceparent", f"00-{trace_id}-00f067aa0ba902b7-01")]
        await connect_probe(serving["address"]).Echo(pb.EchoRequest(), metadata=metadata)
        call = await process.read_until("call")

        assert call["trace_id"] == trace_id
