"""The two gRPC services of the curator."""

from __future__ import annotations

from typing import Any

from chassis.errors import NotFound
from hansei.curator.v1 import curator_service_pb2 as curator_pb
from hansei.curator.v1 import curator_service_pb2_grpc as curator_grpc
from hansei.playbook.v1 import playbook_service_pb2_grpc as playbook_grpc
from hansei.reflector.v1 import trajectory_pb2
from services.curator.domain.curation import Evaluation, Insight, Reflection
from services.curator.rpc import convert
from services.curator.rpc.edits import PlaybookEdits
from services.curator.rpc.files import PlaybookFiles
from services.curator.rpc.mutation import ticket_for, written
from services.curator.rpc.reads import PlaybookReads
from services.curator.usecases.curate import Curation, CuratorAgent, Sections
from services.curator.usecases.embed_ahead import EmbedAhead
from services.curator.usecases.ports import PlaybookStore
from services.curator.usecases.watch import Watch


class PlaybookServicer(PlaybookReads, PlaybookEdits, PlaybookFiles, playbook_grpc.PlaybookServiceServicer):
    """hansei.playbook.v1.PlaybookService."""

    def __init__(self, store: PlaybookStore, sections: Sections, watch: Watch, embed_ahead: EmbedAhead) -> None:
        PlaybookReads.__init__(self, store, sections, watch)
        PlaybookEdits.__init__(self, store, embed_ahead)
        PlaybookFiles.__init__(self, store, embed_ahead)


class CuratorServicer(curator_grpc.CuratorServiceServicer):
    """hansei.curator.v1.CuratorService."""

    def __init__(self, agent: CuratorAgent, store: PlaybookStore) -> None:
        self._agent = agent
        self._store = store

    async def Curate(self, request: curator_pb.CurateRequest, context: Any) -> curator_pb.CurateResponse:
        """What the playbook learns from one reflection."""
        answer = await self._agent.run_once(
            reflection_from(request.reflection_result),
            request.dataset,
            ticket_for(request.request_id, request, "Curate"),
            lambda curation: written(curation_message(curation)),
            author=request.author,
            payload=written(request),
        )
        return curator_pb.CurateResponse.FromString(answer)

    async def GetCuration(self, request: curator_pb.GetCurationRequest, context: Any) -> curator_pb.GetCurationResponse:
        """A committed curation with the reflection it came from."""
        done = await self._store.done(request.request_id, "Curate")
        asked = curator_pb.CurateRequest.FromString(done[0]) if done else None
        if done is None or asked is None or asked.dataset != request.dataset:
            raise NotFound(
                f'dataset "{request.dataset}" has no curation with request_id "{request.request_id}"',
                reason="CURATION_NOT_FOUND",
            )
        return curator_pb.GetCurationResponse(
            reflection_result=asked.reflection_result, response=curator_pb.CurateResponse.FromString(done[1])
        )


def reflection_from(message: trajectory_pb2.ReflectionResult) -> Reflection:
    """What the reflector found, as a request says it."""
    return Reflection(
        insights=tuple(
            Insight(
                one.reasoning,
                one.error_identification,
                one.root_cause_analysis,
                one.correct_approach,
                one.key_insight,
                tuple(one.steps),
                one.section,
            )
            for one in message.insights
        ),
        evaluations=tuple(
            Evaluation(one.bullet_id, convert.tag_from(one.tag), one.reason) for one in message.bullet_evaluations
        ),
        trajectory_id=message.trajectory_id,
        query=message.trajectory_query,
        signal=_signal_from(message.signal),
        model=message.model,
        served=frozenset(message.used_bullet_ids),
    )


def _signal_from(signal: trajectory_pb2.SignalStrength.ValueType) -> str:
    """The name of a signal, empty when none is said."""
    return trajectory_pb2.SignalStrength.Name(signal).removeprefix("SIGNAL_STRENGTH_").lower() if signal else ""


def curation_message(curation: Curation) -> curator_pb.CurateResponse:
    """What Curate answers."""
    result = curation.result
    return curator_pb.CurateResponse(
        result=curator_pb.CurationResult(
            deltas=[convert.delta_message(one.proposal) for one in curation.operations],
            bullets_before=result.bullets_before,
            bullets_after=result.bullets_after,
            summary=result.summary,
        ),
        saved=curation.saved,
        error=curation.error,
        revision=curation.revision,
        operations=[convert.operation_message(one) for one in curation.operations],
        votes=[convert.vote_message(one) for one in curation.votes],
        conflicts=convert.conflict_messages(curation.operations),
        pending=[convert.pending_message(one) for one in curation.pending],
        model=curation.model,
    )
