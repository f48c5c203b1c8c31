"""The learning loop on recorded trajectories: learn, search, answer, and learn again from a trajectory with bullets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hansei.client.cli.options import Exit, fail
from hansei.client.client import Client
from hansei.client.learning import LearnOutcome, learn, retry_while_behind
from hansei.client.trajectories import TrajectoryRecord, add_siblings
from hansei.client.trajectory_files import UnreadablePart, read_trajectories
from hansei.gateway.v1.gateway_service_pb2 import AnswerResponse
from hansei.playbook.v1.playbook_pb2 import Bullet
from hansei.reflector.v1.trajectory_pb2 import Trajectory
from hansei.search.v1.search_service_pb2 import SearchResponse

_IN_WHEEL = Path(__file__).with_name("recorded")
BUNDLED_TRAJECTORIES = _IN_WHEEL if _IN_WHEEL.is_dir() else Path(__file__).parents[4] / "examples/trajectories"
"""The bundled trajectories: in a wheel beside this file, else in the checkout."""
SECOND_TRAJECTORY = "git-commit-identity-again"
"""The trajectory that uses a bullet which hansei learned from an earlier one."""

QUERIES = (
    ("orders-api", "the API answers 429 Too Many Requests"),
    ("devtools", "会員の取り込みで UNIQUE 制約エラーになる"),
)
QUESTION = ("devtools", "git push was rejected. What should I do?")
TOP_K = 3


@dataclass(frozen=True, slots=True)
class SearchChapter:
    """A query and the response of search."""

    dataset: str
    query: str
    response: SearchResponse


@dataclass(frozen=True, slots=True)
class AnswerChapter:
    """A question and its answer."""

    dataset: str
    query: str
    response: AnswerResponse


@dataclass(frozen=True, slots=True)
class ReuseChapter:
    """A trajectory that was served a bullet, the outcome of learning from it, and the bullet before and after."""

    search: SearchChapter
    outcome: LearnOutcome
    before: Bullet
    after: Bullet


Chapter = LearnOutcome | SearchChapter | AnswerChapter | ReuseChapter


def read_file(client: Client, file: Path, dataset: str) -> Iterator[TrajectoryRecord]:
    """Yield the trajectories of a file. Raises the error of the first part that cannot be read."""
    for part in read_trajectories(client, file.name, file.read_bytes(), dataset):
        if isinstance(part, UnreadablePart):
            raise part.error
        yield part


def read_folder(client: Client, folder: Path) -> list[TrajectoryRecord]:
    """Return the trajectories of a folder by time. Ends the command if there are none."""
    records = [record for file in sorted(folder.glob("*.json")) for record in read_file(client, file, "demo")]
    if not records:
        fail(f"{folder} has no trajectory; name a folder with --trajectories", Exit.USAGE)
    return sorted(add_siblings(records), key=lambda record: record.trajectory.created_at.ToNanoseconds())


def play_chapters(client: Client, records: Sequence[TrajectoryRecord]) -> Iterator[Chapter]:
    """Run the demo and yield its chapters: the learned trajectories, two queries, an answer, the second trajectory.

    Queries about a dataset of which nothing was learned are left out.
    """
    revisions: dict[str, int] = {}
    for record in records:
        if record.trajectory.id != SECOND_TRAJECTORY:
            dataset = record.trajectory.dataset
            if dataset not in revisions:
                # Search follows a playbook from its first query on: asked now, it indexes while the demo learns.
                client.search(dataset, record.trajectory.query, top_k=1, allow_missing=True)
            outcome = learn(client, record)
            revision = outcome.response.curation.revision if outcome.response else 0
            revisions[dataset] = revision or revisions.get(dataset, 0)
            yield outcome
    for dataset, query in QUERIES:
        if dataset in revisions:
            yield _search(client, dataset, query, revisions)
    dataset, query = QUESTION
    if dataset in revisions:
        yield AnswerChapter(dataset, query, client.ask(dataset, query, min_revision=revisions[dataset]))
    for record in records:
        if record.trajectory.id == SECOND_TRAJECTORY and record.trajectory.dataset in revisions:
            yield _reuse(client, record, revisions)


def _reuse(client: Client, record: TrajectoryRecord, revisions: dict[str, int]) -> ReuseChapter:
    """Add the bullet that search returns for its query to a trajectory, as if it was served; then learn from it."""
    dataset, query = record.trajectory.dataset, record.trajectory.query
    search = _search(client, dataset, query, revisions)
    if not search.response.results:
        fail(f"search returned no bullet for {query!r}")
    before = search.response.results[0].bullet
    served = Trajectory()
    served.CopyFrom(record.trajectory)
    served.used_bullet_ids[:] = [before.id]
    served.cited_bullet_ids[:] = [before.id]
    outcome = learn(client, replace(record, trajectory=served))
    bullets = client.playbooks.list_bullets(dataset=dataset, ids=[before.id]).bullets
    (after,) = (bullet for bullet in bullets if bullet.id == before.id)
    return ReuseChapter(search, outcome, before, after)


def _search(client: Client, dataset: str, query: str, revisions: dict[str, int]) -> SearchChapter:
    """Search once the index holds everything that was learned."""
    revision = revisions.get(dataset, 0)
    response = retry_while_behind(lambda: client.search(dataset, query, top_k=TOP_K, min_revision=revision))
    return SearchChapter(dataset, query, response)
