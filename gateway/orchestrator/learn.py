"""Learning: load the bullets that a run was served, reflect on the run, curate what was learned (G-40 to G-45)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from chassis.errors import AlreadyExists, InvalidArgument, NotFound, RequestIdReused, Violation
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.playbook.v1 import playbook_service_pb2 as playbook_service
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from hansei.reflector.v1 import trajectory_pb2 as trajectory


class Curator(Protocol):
    """What learning asks of the curator and its playbooks."""

    async def curate(self, request: curator.CurateRequest) -> curator.CurateResponse:
        """Commit what was learned."""
        ...

    async def curation(self, request: curator.GetCurationRequest) -> curator.GetCurationResponse:
        """A committed curation. Raises NotFound."""
        ...

    async def bullets(self, request: playbook_service.ListBulletsRequest) -> playbook_service.ListBulletsResponse:
        """A page of bullets."""
        ...


class Reflector(Protocol):
    """What learning asks of the reflector."""

    async def reflect(self, request: reflector.ReflectRequest) -> reflector.ReflectResponse:
        """The lessons of a run."""
        ...


@dataclass(frozen=True, slots=True)
class Learning:
    """The chain reflector → curator. Exactly once: what a `request_id` has committed is returned, not done again."""

    curator: Curator
    reflector: Reflector

    async def learn(self, request: gateway.LearnRequest) -> gateway.LearnResponse:
        """The outcome. Raises InvalidArgument (G-44), RequestIdReused, and whatever a service raises."""
        response = gateway.LearnResponse()
        async for event in self.stages(request):
            response = event.response
        return response

    async def stages(self, request: gateway.LearnRequest) -> AsyncIterator[gateway.LearnWithProgressResponse]:
        """One event a finished stage; the response in the last one is complete."""
        run = _named(request)
        repeated, served = await asyncio.gather(self._committed(request, run), self._served_bullets(run))
        if repeated is not None:
            yield _event(gateway.LEARN_STAGE_CURATED, "this request was learned before; nothing changed", repeated)
            return
        yield _event(gateway.LEARN_STAGE_LOADED, f"{_count(len(served), 'bullet')} served to the run", None)

        reflection = (await self.reflector.reflect(_reflect_request(request, run, served))).result
        learned = gateway.LearnResponse(reflection=reflection)
        if not reflection.iteration_count and not reflection.bullet_evaluations:
            yield _event(gateway.LEARN_STAGE_SKIPPED, "the reflection failed; nothing was learned", learned)
            return
        told = f"{_count(len(reflection.insights), 'insight')}, {_count(len(reflection.bullet_evaluations), 'vote')}"
        yield _event(gateway.LEARN_STAGE_REFLECTED, told, learned)

        learned = await self._curated(request, run, reflection)
        yield _event(gateway.LEARN_STAGE_CURATED, _told(learned.curation), learned)

    async def _committed(
        self, request: gateway.LearnRequest, run: trajectory.Trajectory
    ) -> gateway.LearnResponse | None:
        asked = curator.GetCurationRequest(request_id=request.request_id, dataset=request.dataset)
        try:
            found = await self.curator.curation(asked)
        except NotFound:
            return None
        if found.reflection_result.trajectory_id != run.id:
            raise RequestIdReused(request.request_id, f"trajectory {found.reflection_result.trajectory_id!r}")
        return gateway.LearnResponse(reflection=found.reflection_result, curation=found.response)

    async def _served_bullets(self, run: trajectory.Trajectory) -> list[playbook.Bullet]:
        ids = list(dict.fromkeys([*run.used_bullet_ids, *run.cited_bullet_ids]))[:1000]
        if not ids:
            return []
        asked = playbook_service.ListBulletsRequest(dataset=run.dataset, ids=ids, page_size=1000)
        return list((await self.curator.bullets(asked)).bullets)

    async def _curated(
        self,
        request: gateway.LearnRequest,
        run: trajectory.Trajectory,
        reflection: trajectory.ReflectionResult,
    ) -> gateway.LearnResponse:
        asked = curator.CurateRequest(
            request_id=request.request_id, dataset=request.dataset, reflection_result=reflection
        )
        try:
            return gateway.LearnResponse(reflection=reflection, curation=await self.curator.curate(asked))
        except AlreadyExists:
            # The same request ran twice at once and the other one committed first: its outcome is the outcome.
            committed = await self._committed(request, run)
            if committed is None:
                raise
            return committed


def _named(request: gateway.LearnRequest) -> trajectory.Trajectory:
    """The run, with an id: votes are unique per trajectory, so one without a name is named by its content."""
    if request.trajectory.dataset != request.dataset:
        raise InvalidArgument(
            "dataset mismatch",
            violations=[
                Violation(
                    "trajectory.dataset",
                    f"is {request.trajectory.dataset!r}, but the request is for {request.dataset!r}",
                )
            ],
        )
    run = trajectory.Trajectory()
    run.CopyFrom(request.trajectory)
    if not run.id:
        anonymous = trajectory.Trajectory()
        anonymous.CopyFrom(run)
        anonymous.ClearField("created_at")
        run.id = "t-" + hashlib.sha256(anonymous.SerializeToString(deterministic=True)).hexdigest()[:32]
    return run


def _reflect_request(
    request: gateway.LearnRequest, run: trajectory.Trajectory, served: list[playbook.Bullet]
) -> reflector.ReflectRequest:
    asked = reflector.ReflectRequest(
        trajectory=run,
        ground_truth=request.ground_truth,
        test_report=request.test_report,
        dataset=request.dataset,
        bullets=served,
        siblings=request.siblings,
    )
    if request.HasField("max_iterations"):
        asked.max_iterations = request.max_iterations
    return asked


def _event(
    stage: gateway.LearnStage.ValueType, message: str, response: gateway.LearnResponse | None
) -> gateway.LearnWithProgressResponse:
    return gateway.LearnWithProgressResponse(stage=stage, message=message, response=response)


def _told(curation: curator.CurateResponse) -> str:
    if not curation.saved:
        return f"not saved: {curation.error}"
    return f"{curation.result.summary}; revision {curation.revision}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
