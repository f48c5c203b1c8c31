"""The probe: a service that behaves as its requests say, for tests. Its contract is compiled when imported.

``python -m chassis.tests.probe`` runs it as a process, with the settings of any service.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc_tools  # type: ignore[import-untyped]
from grpc_tools import protoc

from chassis import Peers, Registration, Service, ServiceSettings, deadlines, errors, run
from chassis.calls import get_correlation_id
from chassis.policy import MethodPolicy

ROOT = Path(__file__).parents[2]
METHODS = ("Echo", "Trace", "Wait", "Count", "Follow", "Sum")
SERVICE = "probe.v1.ProbeService"


def _compile_contract() -> tuple[Any, Any]:
    out = tempfile.mkdtemp(prefix="probe-")
    atexit.register(shutil.rmtree, out, ignore_errors=True)
    roots = (Path(__file__).parent / "protos", ROOT / "third_party", Path(grpc_tools.__file__).parent / "_proto")
    includes = [f"-I{root}" for root in roots]
    code = protoc.main(
        ["protoc", *includes, f"--python_out={out}", f"--grpc_python_out={out}", "probe/v1/probe_service.proto"]
    )
    if code != 0:
        raise RuntimeError("the contract of the probe does not compile")
    sys.path.append(out)
    return import_module("probe.v1.probe_service_pb2"), import_module("probe.v1.probe_service_pb2_grpc")


pb, rpc = _compile_contract()


class ThingNotFound(errors.NotFound):
    """An error of the probe's own, with a constructor of its own."""

    reason = "THING_NOT_FOUND"

    def __init__(self, thing: str, shelf: int) -> None:
        super().__init__(f"thing {thing!r} is not on shelf {shelf}", metadata={"thing": thing, "shelf": str(shelf)})


SECRET = "postgresql://app:hunter2@db/prod"

FAILURES: dict[str, Callable[[], BaseException]] = {
    "thing": lambda: ThingNotFound("lamp", 3),
    "unexpected": lambda: RuntimeError(f"cannot reach {SECRET}"),
    "busy": lambda: errors.ResourceExhausted("model quota used up", reason="QUOTA", retry_after=2.5),
    "model": lambda: errors.Unavailable("the model does not answer", reason="MODEL_UNAVAILABLE"),
    "again": lambda: errors.Unavailable("not yet", reason="NOT_YET", retry_after=0.01),
    "rules": lambda: errors.InvalidArgument(
        "too many mistakes",
        reason="MISTAKES",
        violations=[errors.Violation(f"items[{i}]", f"item {i} is wrong " + "の" * 60, "ITEM") for i in range(400)],
    ),
}


@dataclass
class Probe:
    """The servicer. `release` lets `Wait` answer; `waiting` and `following` tell that a call has arrived.

    `answer` replaces the response of `Echo`.
    """

    next_hop: Any = None
    answer: Callable[[Any], Awaitable[Any]] | None = None
    calls: int = 0
    release: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    following: asyncio.Event = field(default_factory=asyncio.Event)
    unwound: list[str] = field(default_factory=list)

    async def Echo(self, request: Any, context: Any) -> Any:
        self.calls += 1
        if request.fail:
            raise FAILURES[request.fail]()
        return await self.answer(request) if self.answer else pb.EchoResponse(text=request.text)

    async def Trace(self, request: Any, context: Any) -> Any:
        metadata = dict(context.invocation_metadata())
        left = deadlines.get_remaining()
        response = pb.TraceResponse(
            remaining_seconds=[-1.0 if left is None else left],
            correlation_ids=[get_correlation_id()],
            traceparents=[metadata.get("traceparent", "")],
        )
        if request.hops > 0:
            response.MergeFrom(await self.next_hop.Trace(pb.TraceRequest(hops=request.hops - 1)))
        return response

    async def Wait(self, request: Any, context: Any) -> Any:
        self.waiting.release()
        try:
            await self.release.wait()
        finally:
            self.unwound.append("Wait")
        return pb.WaitResponse()

    async def Count(self, request: Any, context: Any) -> AsyncIterator[Any]:
        for number in range(request.count):
            yield pb.CountResponse(number=number)
        if request.fail:
            raise FAILURES[request.fail]()

    async def Follow(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            yield pb.FollowResponse()
            self.following.set()
            await asyncio.Event().wait()
        finally:
            self.unwound.append("Follow")

    async def Sum(self, requests: AsyncIterator[Any], context: Any) -> Any:
        return pb.SumResponse(sum=sum([request.number async for request in requests]))


def policies(
    *, timeout: float | None = 30, retry: bool = True, longest: float | None = None
) -> dict[str, MethodPolicy]:
    policy = MethodPolicy(timeout, "read", retry, longest_seconds=longest)
    routed = {f"/{SERVICE}/Echo": replace(policy, routed_by="dataset" if retry else "")}
    return {f"/{SERVICE}/{method}": policy for method in METHODS} | routed


def service(probe: Probe, **more: Any) -> Service:
    registration = Registration(rpc.add_ProbeServiceServicer_to_server, probe, endless={"Follow"})
    return Service("probe", [registration], **more)


def stub(peers: Peers, peer: str = "probe") -> Any:
    return rpc.ProbeServiceStub(peers.get_channel(peer))


class ProbeSettings(ServiceSettings):
    next_addr: str = ""
    """Address of the next probe of a chain, `host:port`."""


def build(settings: ProbeSettings, peers: Peers) -> Service:
    probe = Probe()
    own_peers = Peers(settings.list_peer_addresses(), policies=policies())
    if settings.next_addr:
        probe.next_hop = stub(own_peers, "next")
    return service(probe, close=own_peers.close)


if __name__ == "__main__":
    run(build, ProbeSettings)
