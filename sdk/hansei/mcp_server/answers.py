"""The structured results of the MCP tools."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field

from chassis.quotations import QUOTATION_NOTICE, mark_quotations
from chassis.targets.guard import CallDecision
from hansei.client.learning import explain_failure
from hansei.client.matches import describe_no_match
from hansei.evidence.v1.evidence_service_pb2 import RecallResponse
from hansei.evidence.v1.guard_service_pb2 import CheckCallResponse
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, Bullet
from hansei.playbook.v1.playbook_service_pb2 import ApplyDeltasResponse
from hansei.search.v1.search_service_pb2 import SearchResponse


class BulletAnswer(BaseModel):
    """One lesson of a playbook."""

    id: str = Field(description="Cite the id in brackets where you follow the lesson: [id].")
    section: str
    content: str = Field(description=f"The lesson. {QUOTATION_NOTICE}")
    helpful: int = Field(description="The number of trajectories that the lesson helped.")
    harmful: int = Field(description="The number of trajectories that the lesson harmed.")


class RankedBulletAnswer(BulletAnswer):
    """A lesson that matches a query."""

    score: float = Field(description="0 to 1, the best first. It compares the lessons of this answer with each other.")
    similarity: float = Field(description="The cosine of the lesson and the query, -1 to 1.")
    keyword_match: bool = Field(description="True if the lesson contains at least one word of the query.")


class SearchAnswer(BaseModel):
    """The lessons that match a query."""

    dataset: str
    bullets: list[RankedBulletAnswer]
    nothing_matched: bool = Field(description="True if no lesson matches: these are only the nearest ones.")
    note: str = Field(description="The reason why no lesson matches; empty if one matches.")


class PlaybookAnswer(BaseModel):
    """Lessons of a playbook, in its order."""

    dataset: str
    revision: int
    bullets: list[BulletAnswer]
    more: int = Field(description="The number of lessons that are not in this answer.")


class VoteAnswer(BaseModel):
    """The result of a vote."""

    counted: bool
    reason: str = Field(description="Why the vote was not counted; empty if it was.")
    revision: int


class RecallAnswer(BaseModel):
    """The lessons for a task in a trial."""

    dataset: str
    bullets: list[BulletAnswer]
    serving_id: str = Field(description="The id for `report_outcome`; empty if nothing is measured.")
    note: str = Field(description="Why nothing is measured although trials run; empty otherwise.")


class OutcomeAnswer(BaseModel):
    """The result of a report."""

    counted: bool = Field(description="False if the task has another report already.")


class CheckAnswer(BaseModel):
    """The decision about a tool call."""

    decision: str = Field(description="allow, advise, ask (a person must decide) or deny (do not make the call).")
    lessons: list[str] = Field(description="The lessons that advise against the call.")


class ReportedCallAnswer(BaseModel):
    """The result of the report of a call."""

    events: int = Field(description="The number of reported messages and calls of the session.")


def build_check_answer(response: CheckCallResponse) -> CheckAnswer:
    """Return the answer of check_call."""
    decision = CallDecision(response.decision).name.lower()
    return CheckAnswer(decision=decision, lessons=[match.text for match in response.matches if match.text])


class EditAnswer(BaseModel):
    """The result of an edit of one lesson."""

    dataset: str
    id: str = Field(description="The id of the lesson; empty while a new lesson waits for review.")
    applied: bool
    reason: str = Field(description="Why the edit was not applied; empty if it was.")
    revision: int


class LearnAnswer(BaseModel):
    """The result of learning from a trajectory."""

    trajectory_id: str = Field(description="The id of the trajectory, for `vote`.")
    lessons: list[str] = Field(description="The lessons, one or two sentences each.")
    added: list[str] = Field(description="The ids of the new bullets.")
    pending: int = Field(description="The number of changes that wait for a second trajectory or for a person.")
    revision: int = Field(description="The revision of the playbook; 0 if nothing was learned.")
    problem: str = Field(description="Why nothing was stored; empty if it was, or if there was nothing to store.")


def build_bullet_answer(bullet: Bullet) -> BulletAnswer:
    """Return a bullet."""
    return BulletAnswer.model_validate(bullet, from_attributes=True)


def build_served_answer(bullet: Bullet) -> BulletAnswer:
    """Return a bullet for a model that acts on it: quotations in its text are marked."""
    return build_bullet_answer(bullet).model_copy(update={"content": mark_quotations(bullet.content)})


def build_search_answer(dataset: str, response: SearchResponse) -> SearchAnswer:
    """Return the results of a search."""
    bullets = [
        RankedBulletAnswer(
            **build_served_answer(result.bullet).model_dump(),
            score=round(result.combined_score, 4),
            similarity=round(result.raw_cosine, 4),
            keyword_match=result.keyword_match,
        )
        for result in response.results
    ]
    note = describe_no_match(response) if bullets else "The playbook has no lesson that passes the filters."
    return SearchAnswer(dataset=dataset, bullets=bullets, nothing_matched=response.nothing_matched, note=note)


def build_recall_answer(dataset: str, response: RecallResponse) -> RecallAnswer:
    """Return the answer of the tool `recall`."""
    bullets = [build_served_answer(result.bullet) for result in response.results]
    return RecallAnswer(dataset=dataset, bullets=bullets, serving_id=response.serving_id, note=response.note)


def build_playbook_answer(dataset: str, revision: int, bullets: Sequence[Bullet], limit: int) -> PlaybookAnswer:
    """Return the first bullets of a playbook; `more` is the number of the other ones."""
    first = [build_bullet_answer(bullet) for bullet in bullets[:limit]]
    return PlaybookAnswer(dataset=dataset, revision=revision, bullets=first, more=len(bullets) - len(first))


def build_edit_answer(dataset: str, response: ApplyDeltasResponse) -> EditAnswer:
    """Return the response to an edit of one lesson."""
    (operation,) = response.operations
    return EditAnswer(
        dataset=dataset,
        id=operation.bullet_id,
        applied=operation.applied,
        reason=operation.skipped_reason,
        revision=response.revision,
    )


def build_learn_answer(response: LearnResponse) -> LearnAnswer:
    """Return the answer of the tool `learn_from_trajectory`."""
    curation = response.curation
    return LearnAnswer(
        trajectory_id=response.reflection.trajectory_id,
        lessons=[insight.key_insight for insight in response.reflection.insights],
        added=[
            operation.bullet_id
            for operation in curation.operations
            if operation.applied and operation.delta.type == DELTA_TYPE_ADD
        ],
        pending=len(curation.pending),
        revision=curation.revision,
        problem=explain_failure(response),
    )
