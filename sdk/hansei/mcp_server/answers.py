"""The structured results of the MCP tools."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field

from hansei.gateway.v1.gateway_service_pb2 import LearnResponse
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, Bullet
from hansei.search.v1.search_service_pb2 import SearchResponse


class BulletAnswer(BaseModel):
    """One lesson of a playbook."""

    id: str = Field(description="Cite it in brackets where you act on it: [id].")
    section: str
    content: str
    helpful: int = Field(description="The number of trajectories that it helped.")
    harmful: int = Field(description="The number of trajectories that it harmed.")


class RankedBulletAnswer(BulletAnswer):
    """A lesson that matches a query."""

    score: float = Field(description="0 to 1, the best first. It compares the lessons of this answer with each other.")
    similarity: float = Field(description="The cosine of the lesson and the query, -1 to 1.")
    keyword_match: bool = Field(description="True if the lesson has a word of the query.")


class SearchAnswer(BaseModel):
    """The lessons that match a query."""

    dataset: str
    bullets: list[RankedBulletAnswer]
    note: str = Field(description="Why the lessons may not apply; empty if one has a word of the query.")


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


class LearnAnswer(BaseModel):
    """The result of learning from a trajectory."""

    trajectory_id: str = Field(description="The id of the trajectory, for `vote`.")
    lessons: list[str] = Field(description="The lessons, one or two sentences each.")
    added: list[str] = Field(description="The ids of the new bullets.")
    pending: int = Field(description="The number of changes that wait for a second trajectory or for a person.")
    revision: int = Field(description="The revision of the playbook; 0 if nothing was learned.")
    problem: str = Field(description="Why nothing was stored; empty if it was, or if there was nothing to store.")


def bullet_answer(bullet: Bullet) -> BulletAnswer:
    """Return a bullet."""
    return BulletAnswer(
        id=bullet.id,
        section=bullet.section,
        content=bullet.content,
        helpful=bullet.helpful,
        harmful=bullet.harmful,
    )


def search_answer(dataset: str, response: SearchResponse) -> SearchAnswer:
    """Return the results of a search."""
    bullets = [
        RankedBulletAnswer(
            **bullet_answer(result.bullet).model_dump(),
            score=round(result.combined_score, 4),
            similarity=round(result.raw_cosine, 4),
            keyword_match=result.keyword_match,
        )
        for result in response.results
    ]
    return SearchAnswer(dataset=dataset, bullets=bullets, note=_search_note(bullets))


def _search_note(bullets: Sequence[RankedBulletAnswer]) -> str:
    """Return why the lessons may not apply."""
    if not bullets:
        return "No lesson matches."
    if any(bullet.keyword_match for bullet in bullets):
        return ""
    highest = max(bullet.similarity for bullet in bullets)
    return f"No lesson has a word of the query; the highest similarity is {highest:.2f}."


def playbook_answer(dataset: str, revision: int, bullets: Sequence[Bullet], limit: int) -> PlaybookAnswer:
    """Return the first bullets of a playbook."""
    first = [bullet_answer(bullet) for bullet in bullets[:limit]]
    return PlaybookAnswer(dataset=dataset, revision=revision, bullets=first, more=len(bullets) - len(first))


def learn_answer(response: LearnResponse) -> LearnAnswer:
    """Return the response of Learn."""
    curation = response.curation
    is_stored = curation.saved or not response.HasField("curation")
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
        problem="" if is_stored else curation.error or "not saved",
    )
