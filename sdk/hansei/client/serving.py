"""The bullets served to one session of an agent, and the report of how the session ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hansei.client.calls import AsyncMode, BlockingMode
from hansei.client.errors import Unavailable
from hansei.client.outages import warn

if TYPE_CHECKING:
    from hansei.client.services.evidence import EvidenceServiceClient
    from hansei.evidence.v1.evidence_service_pb2 import RecallResponse, ReportOutcomeResponse
    from hansei.playbook.v1.playbook_pb2 import Bullet
    from hansei.search.v1.search_service_pb2 import SearchResponse

FALLBACK_NOTE = "the evidence service is unavailable: a search returned the bullets, and nothing is measured"


class SearchFallback:
    """Make recalls of searches while the evidence service is unavailable, and log when that begins."""

    def __init__(self) -> None:
        self._is_active = False

    def end(self) -> None:
        """Note that the evidence service answered."""
        self._is_active = False

    def recall_response(self, error: Unavailable, response: SearchResponse) -> RecallResponse:
        """Return the results of a search as those of a recall that measures nothing."""
        from hansei.evidence.v1.evidence_service_pb2 import RecallResponse

        if not self._is_active:
            warn("evidence service is unavailable; recalls use search", error=error.message)
        self._is_active = True
        return RecallResponse(results=response.results, revision=response.revision, note=FALLBACK_NOTE)


class _SessionServing:
    """The parts that both kinds of servings share."""

    def __init__(self, evidence: Any, dataset: str, response: RecallResponse) -> None:
        self._evidence = evidence
        self.dataset = dataset
        self.response = response
        """The response of Recall: scores, revision, and a note if nothing was randomised."""
        self._is_reported = False

    @property
    def serving_id(self) -> str:
        """Return the id under which the outcome is reported; empty if nothing is measured."""
        return self.response.serving_id

    @property
    def bullets(self) -> tuple[Bullet, ...]:
        """Return the bullets to give to the agent, best first; none if the session is one without the playbook."""
        return tuple(result.bullet for result in self.response.results)

    @property
    def text(self) -> str:
        """Return the bullets as lines of a prompt, each after its id."""
        from hansei.client.recording import format_bullets

        return format_bullets(self.bullets)

    def warn_of_missing_report(self) -> None:
        """Log that a measured session ended without a report: it then counts in neither arm."""
        if self.serving_id and not self._is_reported:
            warn("session ended without an outcome; it counts as missing", serving_id=self.serving_id)

    def _report_fields(self, succeeded: bool | None, reward: float | None, correction: bool) -> dict[str, Any]:
        """Return the request of ReportOutcome. Raises ValueError unless exactly one outcome is set."""
        if (succeeded is None) == (reward is None):
            raise ValueError(f"set either succeeded or reward: succeeded={succeeded}, reward={reward}")
        self._is_reported = True
        outcome = {"succeeded": succeeded} if reward is None else {"reward": reward}
        return {"dataset": self.dataset, "serving_id": self.serving_id, "correction": correction, **outcome}


class Serving(_SessionServing):
    """The bullets served to one session, from `Client.serve`."""

    _evidence: EvidenceServiceClient[BlockingMode]

    def report(
        self, *, succeeded: bool | None = None, reward: float | None = None, correction: bool = False
    ) -> ReportOutcomeResponse | None:
        """Report how the session ended: whether it succeeded, or its reward, 0 to 1.

        The first report counts, unless a later one is a person's `correction`. Returns None, and sends nothing, if the
        session is not measured.
        """
        fields = self._report_fields(succeeded, reward, correction)
        return self._evidence.report_outcome(**fields) if self.serving_id else None


class AsyncServing(_SessionServing):
    """The bullets served to one session, from `AsyncClient.serve`."""

    _evidence: EvidenceServiceClient[AsyncMode]

    async def report(
        self, *, succeeded: bool | None = None, reward: float | None = None, correction: bool = False
    ) -> ReportOutcomeResponse | None:
        """Report how the session ended; see `Serving.report`."""
        fields = self._report_fields(succeeded, reward, correction)
        return await self._evidence.report_outcome(**fields) if self.serving_id else None
