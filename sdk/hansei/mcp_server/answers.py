"""What the tools answer, as MCP clients see it: structured, with a schema."""

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
    helpful: int = Field(description="How many runs it helped.")
    harmful: int = Field(description="How many runs it harmed.")


class FoundBullet(BulletAnswer):
    """A lesson that fits a query."""

    score: float = Field(description="0 to 1, the best first.")


class Found(BaseModel):
    """What search found."""

    dataset: str
    bullets: list[FoundBullet]


class PlaybookPage(BaseModel):
    """Lessons of a playbook, in its order."""

    dataset: str
    revision: int
    bullets: list[BulletAnswer]
    more: int = Field(description="How many lessons there are beyond these.")


class Counted(BaseModel):
    """What became of a vote."""

    counted: bool
    reason: str = Field(description="Why it was not counted; empty when it was.")
    revision: int


class Learned(BaseModel):
    """What became of a run."""

    run_id: str = Field(description="Names the run, as for `vote`.")
    lessons: list[str] = Field(description="What it teaches, one sentence or two each.")
    added: list[str] = Field(description="Ids of the bullets that are new.")
    waiting: int = Field(description="How many changes wait for a second run or for a person.")
    revision: int = Field(description="Of the playbook; 0 when nothing was learned.")
    problem: str = Field(description="Why nothing was stored; empty when it was, or there was nothing to store.")


def bullet(of: Bullet) -> BulletAnswer:
    """A bullet as clients see it."""
    return BulletAnswer(id=of.id, section=of.section, content=of.content, helpful=of.helpful, harmful=of.harmful)


def found(dataset: str, response: SearchResponse) -> Found:
    """The results of a search."""
    bullets = [
        FoundBullet(**bullet(result.bullet).model_dump(), score=round(result.combined_score, 4))
        for result in response.results
    ]
    return Found(dataset=dataset, bullets=bullets)


def page(dataset: str, revision: int, bullets: Sequence[Bullet], limit: int) -> PlaybookPage:
    """The first bullets of a playbook."""
    shown = [bullet(each) for each in bullets[:limit]]
    return PlaybookPage(dataset=dataset, revision=revision, bullets=shown, more=len(bullets) - len(shown))


def learned(response: LearnResponse) -> Learned:
    """What Learn answered."""
    curation = response.curation
    made = [each.bullet_id for each in curation.operations if each.applied and each.delta.type == DELTA_TYPE_ADD]
    stored = curation.saved or not response.HasField("curation")
    return Learned(
        run_id=response.reflection.trajectory_id,
        lessons=[each.key_insight for each in response.reflection.insights],
        added=made,
        waiting=len(curation.pending),
        revision=curation.revision,
        problem="" if stored else curation.error or "not saved",
    )
