"""An HTTP face over scripted peers, and a client of it that needs no socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from chassis.admission import Admission
from chassis.calls import request_id
from chassis.errors import NotFound
from chassis.policy import installed_policies
from chassis.progress import CallsInProgress
from gateway.access.guard import Gatekeeper
from gateway.adapters.health import ServiceHealth
from gateway.http.app import create_app
from gateway.http.face import Face
from gateway.orchestrator.learn import Learning
from gateway.orchestrator.workflow import ReflectionWorkflow
from gateway.rpc.servicer import GatewayServicer
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.planner.v1 import generator_service_pb2 as generation
from hansei.playbook.v1 import playbook_pb2
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from hansei.search.v1 import search_pb2
from hansei.search.v1 import search_service_pb2 as search
from hansei.validator.v1 import report_pb2 as report
from hansei.validator.v1 import validator_service_pb2 as validator

VALUES = {
    "dataset": "d",
    "execution_id": "0a1b2c3d4e5f",
    "bullet_id": "b-1",
    "key_id": "0123456789abcdef",
    "job_id": "5d0c9d0e-3a4e-4b57-8c0c-0d8f3f5f2c01",
}
"""What can stand in a path or must stand in a query."""


@dataclass
class Peers:
    """Every service behind the face. `raises` names a method and what it raises; `asked` keeps what it was asked."""

    raises: dict[str, Exception] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    request_ids: list[str] = field(default_factory=list)
    failure: str = ""
    run: report.ReportRun = field(default_factory=report.ReportRun)
    result: report.ValidationResult = field(default_factory=report.ValidationResult)

    def _heard(self, method: str, request: Any) -> None:
        self.asked.append(request)
        self.request_ids.append(request_id())
        if method in self.raises:
            raise self.raises[method]

    async def bullets(self, request: playbook.ListBulletsRequest) -> playbook.ListBulletsResponse:
        self._heard("bullets", request)
        return playbook.ListBulletsResponse(revision=3)

    async def search(self, request: search.SearchRequest) -> search.SearchResponse:
        self._heard("search", request)
        bullets = [playbook_pb2.Bullet(id=name, content=f"日本語 {name}") for name in ("b-1", "b-2")]
        results = [search_pb2.SearchResult(bullet=bullet, combined_score=0.5) for bullet in bullets]
        return search.SearchResponse(results=results, revision=3)

    async def generate(self, request: generation.GenerateRequest) -> generation.GenerateResponse:
        self._heard("generate", request)
        attempt = trajectory.Trajectory(generated_answer="答え {x}", status=trajectory.TRAJECTORY_STATUS_SUCCESS)
        if self.failure:
            attempt = trajectory.Trajectory(status=trajectory.TRAJECTORY_STATUS_FAILURE, error_message=self.failure)
        return generation.GenerateResponse(trajectory=attempt, model="scripted")

    async def curate(self, request: curator.CurateRequest) -> curator.CurateResponse:
        self._heard("curate", request)
        return curator.CurateResponse(saved=True, revision=4)

    async def curation(self, request: curator.GetCurationRequest) -> curator.GetCurationResponse:
        self._heard("curation", request)
        raise NotFound("no such curation")

    async def reflect(self, request: reflector.ReflectRequest) -> reflector.ReflectResponse:
        self._heard("reflect", request)
        return reflector.ReflectResponse(result=trajectory.ReflectionResult(iteration_count=1))

    def of(self, method: MethodDescriptor) -> Callable[[Any], Any]:
        """Learning as it is, everything else as scripted: what `answers` has for the method, or an empty message."""
        if method.containing_service.name == "GatewayService":
            servicer = GatewayServicer(Learning(self, self), ReflectionWorkflow(self, self, self))
            behaviour = getattr(servicer, method.name)
            return lambda request: behaviour(request, None)
        if method.name == "Search":
            return self.search

        scripted = self.answers.get(method.name, [GetMessageClass(method.output_type)()])

        async def one(request: Any) -> Any:
            self._heard(method.name, request)
            return scripted[0]

        async def all_of(requests: AsyncIterator[Any]) -> Any:
            async for request in requests:
                self._heard(method.name, request)
            return scripted[0]

        async def many(request: Any) -> AsyncIterator[Any]:
            for answer in scripted:
                yield answer
            self._heard(method.name, request)

        if method.client_streaming:
            return all_of
        return many if method.server_streaming else one

    async def states(self) -> list[ServiceHealth]:
        return [ServiceHealth("curator", "SERVING"), ServiceHealth("search", "UNREACHABLE", "search does not answer")]

    async def organizer(self, request: validator.RunOrganizerRequest) -> validator.RunOrganizerResponse:
        self._heard("organizer", request)
        return validator.RunOrganizerResponse(run=self.run)

    async def advisor(self, request: validator.RunAdvisorRequest) -> validator.RunAdvisorResponse:
        self._heard("advisor", request)
        return validator.RunAdvisorResponse(run=self.run)

    async def validate(self, request: validator.ValidateReportRequest) -> validator.ValidateReportResponse:
        self._heard("validate", request)
        return validator.ValidateReportResponse(result=self.result)


@asynccontextmanager
async def client_of(
    peers: Peers, *, guard: Gatekeeper | None = None, limit: int = 10, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application over these peers."""
    face = Face(
        methods=peers,
        workflow=ReflectionWorkflow(peers, peers, peers),
        reports=peers,
        health=peers,
    )
    app = create_app(
        face,
        installed_policies(),
        admission=Admission("HTTP requests", limit, 1.5),
        streams=Admission("HTTP streams", limit, 1.5),
        progress=options.pop("progress", None) or CallsInProgress(),
        guard=guard,
        **options,
    )
    # What a handler did not foresee is answered and raised again for the server's log; here only the answer counts.
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client
