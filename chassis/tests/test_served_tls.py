"""TLS and mutual TLS over real connections: who gets in, who does not, and certificates that change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from chassis import BadSetting, Certificates, Peers, Running, ServiceSettings, replicas, serve, tls
from chassis.channels import OWN
from chassis.errors import PermissionDenied, Unavailable
from chassis.own_server import OwnServer
from chassis.replicas import ReplicaAddress
from chassis.tests.conftest import wait_until
from chassis.tests.probe import Probe, pb, policies, rpc, service, stub
from tests.fakes.authority import Authority
from tests.support.systems import free_port

CALLEE, CALLER = ("probe", "localhost"), ("gateway", "gateway.hansei.svc")


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def start_probe(stack: AsyncExitStack, files: dict[str, str], probe: Probe | None = None, **more: Any) -> Running:
    """A probe behind TLS on loopback; its address is values by the name that its certificate has."""
    settings = _settings(files, lame_duck_seconds=0, drain_grace_seconds=5, **more)
    probe_service = service(probe or Probe())
    running = await stack.enter_async_context(
        serve(probe_service, settings=settings, certificates=Certificates.from_settings(settings))
    )
    return Running(running.address.replace("127.0.0.1", "localhost"), running.health)


def _settings(files: dict[str, str], **more: Any) -> ServiceSettings:
    values: dict[str, Any] = {name.removeprefix("HANSEI_").lower(): path for name, path in files.items()}
    return ServiceSettings(**values, **more)


async def caller(stack: AsyncExitStack, files: dict[str, str] | None, address: str) -> Any:
    certificates = Certificates.from_settings(_settings(files)) if files else None
    peers = Peers({"probe": address}, policies=policies(), certificates=certificates)
    stack.push_async_callback(peers.close)
    return stub(peers)


async def test_a_caller_with_a_valid_certificate_is_accepted(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority
) -> None:
    running = await start_probe(stack, authority.issue(tmp_path / "callee", *CALLEE), tls_callers="gateway,search")
    probe = await caller(stack, authority.issue(tmp_path / "caller", *CALLER), running.address)
    assert (await probe.Echo(pb.EchoRequest(text="hello"))).text == "hello"


async def test_replicas_have_the_certificate_of_the_name_behind_which_they_are(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [Probe(), Probe()]
    targets = []
    for number, probe in enumerate(both):
        files = authority.issue(tmp_path / f"callee{number}", "probe")
        running = await start_probe(stack, files, probe, tls_callers="gateway")
        targets.append(running.address.replace("localhost", "ipv4:127.0.0.1"))

    async def look_up(host: str, port: int) -> list[ReplicaAddress]:
        return [ReplicaAddress(target, target) for target in targets]

    monkeypatch.setattr(replicas, "NameLookup", lambda: look_up)
    certificates = Certificates.from_settings(_settings(authority.issue(tmp_path / "caller", *CALLER)))
    # Nothing has this address: only replicas can answer.
    peers = Peers({"probe": f"probe:{free_port()}"}, policies=policies(), certificates=certificates, routed=True)
    stack.push_async_callback(peers.close)
    caller_stub, found = stub(peers), peers.get_channel("probe").replicas
    await wait_until(lambda: found is not None and len(found.names) == 2)
    for number in range(20):
        assert (await caller_stub.Echo(pb.EchoRequest(text="hello", dataset=f"d{number}"))).text == "hello"
    assert all(probe.calls for probe in both)


async def test_a_caller_of_another_name_is_refused_and_reaches_no_handler(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority
) -> None:
    probe = Probe()
    running = await start_probe(stack, authority.issue(tmp_path / "callee", *CALLEE), probe, tls_callers="gateway")
    stranger = await caller(stack, authority.issue(tmp_path / "caller", "planner"), running.address)
    with pytest.raises(PermissionDenied, match="planner may not call this service") as caught:
        await stranger.Echo(pb.EchoRequest(text="hello"))
    assert caught.value.reason == "CALLER_NOT_ALLOWED"
    with pytest.raises(PermissionDenied):
        await anext(stranger.Count(pb.CountRequest(count=1)))
    assert probe.calls == 0


@pytest.mark.parametrize("who", ["no TLS", "another authority"])
async def test_a_caller_without_a_certificate_of_the_authority_is_disconnected(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority, who: str
) -> None:
    running = await start_probe(stack, authority.issue(tmp_path / "callee", *CALLEE), tls_callers=tls.ANYONE)
    forged = Authority().issue(tmp_path / "caller", *CALLER, trusting=authority)
    stranger = await caller(stack, None if who == "no TLS" else forged, running.address)
    with pytest.raises(Unavailable):
        await stranger.Echo(pb.EchoRequest(text="hello"))


async def test_a_caller_without_a_certificate_is_disconnected(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority
) -> None:
    running = await start_probe(stack, authority.issue(tmp_path / "callee", *CALLEE), tls_callers=tls.ANYONE)
    async with grpc.aio.secure_channel(running.address, grpc.ssl_channel_credentials(authority.pem)) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rpc.ProbeServiceStub(channel).Echo(pb.EchoRequest(), timeout=5)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_without_named_callers_a_certificate_is_not_asked_for(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority
) -> None:
    running = await start_probe(stack, authority.issue(tmp_path / "callee", *CALLEE))
    async with grpc.aio.secure_channel(running.address, grpc.ssl_channel_credentials(authority.pem)) as channel:
        assert (await rpc.ProbeServiceStub(channel).Echo(pb.EchoRequest(text="hello"), timeout=5)).text == "hello"


async def test_a_server_certificate_with_another_name_is_rejected(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority
) -> None:
    running = await start_probe(stack, authority.issue(tmp_path / "callee", "somebody.else"))
    probe = await caller(stack, authority.issue(tmp_path / "caller", *CALLER), running.address)
    with pytest.raises(Unavailable):
        await probe.Echo(pb.EchoRequest(text="hello"))


async def test_both_sides_change_certificate_and_authority_without_a_restart(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_CHECK_SECONDS", 0.0)
    running = await start_probe(stack, authority.issue(tmp_path / "callee", *CALLEE), tls_callers="gateway")
    probe = await caller(stack, authority.issue(tmp_path / "caller", *CALLER), running.address)
    assert (await probe.Echo(pb.EchoRequest(text="before"))).text == "before"

    next_authority = Authority("the next authority")
    next_authority.issue(tmp_path / "callee", *CALLEE)
    next_authority.issue(tmp_path / "caller", *CALLER)

    assert (await probe.Echo(pb.EchoRequest(text="after"))).text == "after"
    old = await caller(stack, authority.issue(tmp_path / "old", *CALLER), running.address)
    with pytest.raises(Unavailable):
        await old.Echo(pb.EchoRequest(text="hello"))


async def test_a_stream_continues_during_a_renewal(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_CHECK_SECONDS", 0.0)
    running = await start_probe(stack, authority.issue(tmp_path / "callee", *CALLEE), tls_callers="gateway")
    probe = await caller(stack, authority.issue(tmp_path / "caller", *CALLER), running.address)
    numbers = probe.Count(pb.CountRequest(count=3))
    seen = [(await anext(numbers)).number]
    authority.issue(tmp_path / "caller", *CALLER)
    assert (await probe.Echo(pb.EchoRequest(text="on the new connection"))).text
    seen += [answer.number async for answer in numbers]
    assert seen == [0, 1, 2]


async def test_the_own_name_of_a_process_is_an_allowed_caller(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority
) -> None:
    files = authority.issue(tmp_path, "hansei.example.com")
    settings = _settings(files, tls_callers="nobody-else", lame_duck_seconds=0)
    certificates = Certificates.from_settings(settings)
    running = await stack.enter_async_context(serve(service(Probe()), settings=settings, certificates=certificates))
    peers = Peers({"probe": OWN}, own=OwnServer(running.address), policies=policies(), certificates=certificates)
    stack.push_async_callback(peers.close)
    assert (await stub(peers).Echo(pb.EchoRequest(text="me"))).text == "me"


async def test_probes_ask_for_health_and_nothing_else_without_tls(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority
) -> None:
    address = f"127.0.0.1:{free_port()}"
    running = await start_probe(
        stack, authority.issue(tmp_path, *CALLEE), tls_callers="gateway", health_address=address
    )
    async with grpc.aio.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "liveness"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rpc.ProbeServiceStub(channel).Echo(pb.EchoRequest(), timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        running.health.set_draining()
        answer = await health.Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_plaintext_beyond_this_machine_needs_the_setting(stack: AsyncExitStack) -> None:
    with pytest.raises(BadSetting, match="HANSEI_PLAINTEXT=grpc"):
        async with serve(service(Probe()), "0.0.0.0:0", settings=ServiceSettings()):
            raise AssertionError("served")
    with pytest.raises(BadSetting, match=r"HANSEI_HEALTH_ADDRESS: .* HANSEI_PLAINTEXT=health"):
        async with serve(service(Probe()), settings=ServiceSettings(health_address="0.0.0.0:0")):
            raise AssertionError("served")
    with pytest.raises(BadSetting, match=r"PROBE_ADDR: 'probe\.hansei\.svc:1' is beyond this machine"):
        Peers({"probe": "probe.hansei.svc:1"}, policies=policies(), plaintext=()).get_channel("probe")
    meant = ServiceSettings(plaintext="grpc", lame_duck_seconds=0)
    await stack.enter_async_context(serve(service(Probe()), "0.0.0.0:0", settings=meant))


async def test_callers_cannot_be_identified_without_tls() -> None:
    with pytest.raises(BadSetting, match=r"HANSEI_TLS_CALLERS: .*HANSEI_TLS_AUTHORITIES must be set"):
        async with serve(service(Probe()), settings=ServiceSettings(tls_callers="gateway")):
            raise AssertionError("served")


async def test_a_connection_without_a_handshake_delays_no_other(
    stack: AsyncExitStack, tmp_path: Path, authority: Authority
) -> None:
    running = await start_probe(stack, authority.issue(tmp_path / "callee", *CALLEE), tls_callers="gateway")
    silent = [await asyncio.open_connection(*running.address.split(":")) for _ in range(20)]
    probe = await caller(stack, authority.issue(tmp_path / "caller", *CALLER), running.address)
    assert (await probe.Echo(pb.EchoRequest(text="hello"))).text == "hello"
    for _, writer in silent:
        writer.close()
