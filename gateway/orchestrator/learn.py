"""Learn: load the bullets that an agent was served, reflect on its trajectory, curate the lessons (G-40 to G-45)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple

from chassis.errors import AlreadyExists, InvalidArgument, RequestIdReused, Violation
from gateway.orchestrator.ports import CuratorPort, ReflectorPort, TrajectoryArchive
from gateway.orchestrator.usage import sum_usage
from hansei.curator.v1 import curator_service_pb2 as curator_pb
from hansei.evidence.v1 import archive_service_pb2 as archive_pb
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.playbook.v1.usage_pb2 import ModelUsage
from hansei.reflector.v1 import reflector_service_pb2 as reflector_pb
from hansei.reflector.v1 import trajectory_pb2
from libs.prompts.language import detect_language
from libs.prompts.outcomes import build_test_report
from libs.trajectories.content import reduce_to_content

MAX_SERVED_BULLETS = 1000
MAX_LEARNED_BULLETS = 1000
MAX_REPORT_CHARS = 1_000_000


class FinishedStage(NamedTuple):
    """A finished stage with a summary, and the response so far."""

    stage: gateway.LearnStage.ValueType
    message: str
    response: gateway.LearnResponse | None = None


@dataclass(frozen=True, slots=True)
class Learning:
    """The chain reflector → curator. A repeated `request_id` returns the committed response and changes nothing."""

    curator: CuratorPort
    reflector: ReflectorPort
    archive: TrajectoryArchive | None = None
    """The way to the archive of trajectories; None archives nothing."""

    async def learn(self, request: gateway.LearnRequest) -> gateway.LearnResponse:
        """Learn one trajectory.

        Raises InvalidArgument (G-44), RequestIdReused, and errors of the services.
        """
        response = gateway.LearnResponse()
        async for finished in self.stages(request):
            response = finished.response or response
        return response

    async def stages(self, request: gateway.LearnRequest) -> AsyncIterator[FinishedStage]:
        """Yield each finished stage; the response of the last one is complete.

        Before the last stage the trajectory is on disk, on its way to the archive.
        """
        trajectory = _ensure_id(request)
        prepared = await self._prepare(request, trajectory)
        if prepared.HasField("committed"):
            message = "this request was committed before; nothing changed"
            response = _build_committed_response(prepared)
            # The call that committed may have ended before the trajectory was stored.
            await self.store_trajectory(request, trajectory, response)
            yield FinishedStage(gateway.LEARN_STAGE_CURATED, message, response)
            return
        yield FinishedStage(
            gateway.LEARN_STAGE_LOADED,
            f"{_quantify(_count_served(trajectory, prepared), 'bullet')} served to the agent",
        )

        reflected = await self.reflector.Reflect(_build_reflect_request(request, trajectory, prepared))
        reflection = reflected.result
        response = gateway.LearnResponse(reflection=reflection, usage=reflected.usage)
        if not reflection.iteration_count and not reflection.bullet_evaluations:
            await self.store_trajectory(request, trajectory, response)
            yield FinishedStage(gateway.LEARN_STAGE_SKIPPED, "the reflection failed; nothing was learned", response)
            return
        message = (
            f"{_quantify(len(reflection.insights), 'insight')}, {_quantify(len(reflection.bullet_evaluations), 'vote')}"
        )
        if reflection.error:
            message = f"{message}; {reflection.error}"
        yield FinishedStage(gateway.LEARN_STAGE_REFLECTED, message, response)

        response = await self._curate(request, trajectory, reflected, prepared.revision)
        await self.store_trajectory(request, trajectory, response)
        yield FinishedStage(gateway.LEARN_STAGE_CURATED, _format_summary(response.curation), response)

    async def _prepare(
        self, request: gateway.LearnRequest, trajectory: trajectory_pb2.Trajectory
    ) -> curator_pb.PrepareCurationResponse:
        """Return the preparation. Raises RequestIdReused if the request was for another trajectory."""
        ids = list(dict.fromkeys([*trajectory.used_bullet_ids, *trajectory.cited_bullet_ids]))[:MAX_SERVED_BULLETS]
        prepared = await self.curator.PrepareCuration(
            curator_pb.PrepareCurationRequest(
                request_id=request.request_id, dataset=request.dataset, bullet_ids=ids, query=trajectory.query
            )
        )
        committed_id = prepared.committed.reflection_result.trajectory_id
        if prepared.HasField("committed") and committed_id != trajectory.id:
            raise RequestIdReused(request.request_id, f"trajectory {committed_id!r}")
        return prepared

    async def store_trajectory(
        self, request: gateway.LearnRequest, trajectory: trajectory_pb2.Trajectory, response: gateway.LearnResponse
    ) -> None:
        """Send a trajectory to the archive, with the bullets that were learned from it."""
        if self.archive is None or not (trajectory.steps or trajectory.reasoning_steps):
            return
        # An operation that was not applied may have confirmed the bullet that it names.
        learned = dict.fromkeys(
            operation.bullet_id for operation in response.curation.operations if operation.bullet_id
        )
        entry = archive_pb.StoreTrajectoryRequest(
            dataset=request.dataset,
            trajectory=trajectory,
            ground_truth=request.ground_truth,
            test_report=request.test_report,
            learned_bullet_ids=list(learned)[:MAX_LEARNED_BULLETS],
        )
        entry.learned_at.GetCurrentTime()
        await self.archive.add(entry)

    async def _curate(
        self,
        request: gateway.LearnRequest,
        trajectory: trajectory_pb2.Trajectory,
        reflected: reflector_pb.ReflectResponse,
        revision: int,
    ) -> gateway.LearnResponse:
        curate = curator_pb.CurateRequest(
            request_id=request.request_id,
            dataset=request.dataset,
            reflection_result=reflected.result,
            prepared_revision=revision,
        )
        try:
            curation = await self.curator.Curate(curate)
        except AlreadyExists:
            # The same request ran twice at the same time, and the other call committed first.
            prepared = await self._prepare(request, trajectory)
            if not prepared.HasField("committed"):
                raise
            response = _build_committed_response(prepared)
            response.usage.CopyFrom(reflected.usage)
            return response
        usage = sum_usage(reflected.usage, curation.usage)
        return gateway.LearnResponse(reflection=reflected.result, curation=curation, usage=usage)


def _count_served(trajectory: trajectory_pb2.Trajectory, prepared: curator_pb.PrepareCurationResponse) -> int:
    served = {*trajectory.used_bullet_ids, *trajectory.cited_bullet_ids}
    return sum(bullet.id in served for bullet in prepared.bullets)


def _ensure_id(request: gateway.LearnRequest) -> trajectory_pb2.Trajectory:
    """Return the trajectory with an id: votes are unique per trajectory. A missing id is the hash of the content."""
    if request.trajectory.dataset != request.dataset:
        rule = f"is {request.trajectory.dataset!r}, but the request is for {request.dataset!r}"
        raise InvalidArgument("dataset mismatch", violations=[Violation("trajectory.dataset", rule)])
    if request.trajectory.id:
        return request.trajectory
    trajectory = trajectory_pb2.Trajectory()
    trajectory.CopyFrom(request.trajectory)
    reduce_to_content(trajectory)
    content = trajectory.SerializeToString(deterministic=True)
    trajectory.CopyFrom(request.trajectory)
    trajectory.id = "t-" + hashlib.sha256(content).hexdigest()[:32]
    return trajectory


def _build_reflect_request(
    request: gateway.LearnRequest,
    trajectory: trajectory_pb2.Trajectory,
    prepared: curator_pb.PrepareCurationResponse,
) -> reflector_pb.ReflectRequest:
    return reflector_pb.ReflectRequest(
        trajectory=trajectory,
        ground_truth=request.ground_truth,
        test_report=request.test_report or _build_report(request),
        dataset=request.dataset,
        bullets=prepared.bullets,
        siblings=request.siblings,
        max_iterations=request.max_iterations if request.HasField("max_iterations") else None,
    )


def _build_report(request: gateway.LearnRequest) -> str:
    """Return the report of the ground truth, cut at the limit of the contract; empty without a ground truth (G-41)."""
    if not request.ground_truth.strip():
        return ""
    query, answer = request.trajectory.query, request.trajectory.generated_answer
    return build_test_report(answer, request.ground_truth, detect_language(query, answer))[:MAX_REPORT_CHARS]


def _build_committed_response(prepared: curator_pb.PrepareCurationResponse) -> gateway.LearnResponse:
    committed = prepared.committed
    return gateway.LearnResponse(
        reflection=committed.reflection_result, curation=committed.response, usage=ModelUsage(), already_learned=True
    )


def _format_summary(curation: curator_pb.CurateResponse) -> str:
    if not curation.saved:
        return f"not saved: {curation.error}"
    return f"{curation.result.summary}; revision {curation.revision}"


def _quantify(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
