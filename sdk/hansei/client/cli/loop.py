"""The loop on recorded runs: learn, search, answer, and learn from a run that used what was learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hansei.client.cli.options import Exit, fail
from hansei.client.client import Client
from hansei.client.learning import Outcome, learn, retry_while_behind
from hansei.client.runs import Run, Unreadable, read, with_siblings
from hansei.gateway.v1.gateway_service_pb2 import AnswerResponse
from hansei.playbook.v1.playbook_pb2 import Bullet
from hansei.reflector.v1.trajectory_pb2 import Trajectory
from hansei.search.v1.search_service_pb2 import SearchResponse

_IN_WHEEL = Path(__file__).with_name("recorded")
RECORDED = _IN_WHEEL if _IN_WHEEL.is_dir() else Path(__file__).parents[4] / "examples/trajectories"
"""The runs that come along: installed beside this file, or in the checkout."""
SECOND_RUN = "git-commit-identity-again"
"""The recorded run that acts on what an earlier one learned."""

QUERIES = (
    ("orders-api", "the API answers 429 Too Many Requests"),
    ("devtools", "会員の取り込みで UNIQUE 制約エラーになる"),
)
QUESTION = ("devtools", "git push was rejected. What should I do?")
TOP_K = 3


@dataclass(frozen=True, slots=True)
class Found:
    """A query with what search gave."""

    dataset: str
    query: str
    response: SearchResponse


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with its answer."""

    dataset: str
    query: str
    response: AnswerResponse


@dataclass(frozen=True, slots=True)
class UsedAgain:
    """A run that was served a bullet, what was learned from it, and the bullet before and after."""

    found: Found
    outcome: Outcome
    before: Bullet
    after: Bullet


Chapter = Outcome | Found | Answered | UsedAgain


def recorded_runs(client: Client, folder: Path) -> list[Run]:
    """The runs of a folder, in the order in which they were made. Ends the command when there are none."""
    runs: list[Run] = []
    for file in sorted(folder.glob("*.json")):
        for found in read(client, file.name, file.read_bytes(), "demo"):
            if isinstance(found, Unreadable):
                raise found.error
            runs.append(found)
    if not runs:
        fail(f"{folder} holds no recorded run; name a folder with --trajectories", Exit.USAGE)
    return sorted(with_siblings(runs), key=lambda run: run.trajectory.created_at.ToNanoseconds())


def chapters(client: Client, runs: Sequence[Run]) -> Iterator[Chapter]:
    """The demo, step by step: each run learned, two queries, an answer, and the second run."""
    revisions: dict[str, int] = {}
    for run in runs:
        if run.trajectory.id != SECOND_RUN:
            dataset = run.trajectory.dataset
            if dataset not in revisions:
                # Search follows a playbook from the first question on: asked now, it reads along during the learning.
                client.search(dataset, run.trajectory.query, top_k=1)
            outcome = learn(client, run)
            revisions[dataset] = _revision(outcome) or revisions.get(dataset, 0)
            yield outcome
    for dataset, query in QUERIES:
        yield Found(dataset, query, _search(client, dataset, query, revisions))
    dataset, query = QUESTION
    yield Answered(dataset, query, client.ask(dataset, query, min_revision=revisions.get(dataset, 0)))
    for run in runs:
        if run.trajectory.id == SECOND_RUN:
            yield _used_again(client, run, revisions)


def _used_again(client: Client, run: Run, revisions: dict[str, int]) -> UsedAgain:
    """Serve a bullet to the run as an agent would have been: by its query. Then learn from the run."""
    asked = run.trajectory
    found = Found(asked.dataset, asked.query, _search(client, asked.dataset, asked.query, revisions))
    if not found.response.results:
        fail(f"search found nothing for {asked.query!r}, so there is no bullet to use again")
    before = found.response.results[0].bullet
    served = Trajectory()
    served.CopyFrom(asked)
    served.used_bullet_ids[:] = [before.id]
    served.cited_bullet_ids[:] = [before.id]
    outcome = learn(client, Run(run.source, served, run.ground_truth, run.test_report, run.siblings))
    bullets = client.playbooks.list_bullets(dataset=asked.dataset, ids=[before.id]).bullets
    (after,) = (bullet for bullet in bullets if bullet.id == before.id)
    return UsedAgain(found, outcome, before, after)


def _search(client: Client, dataset: str, query: str, revisions: dict[str, int]) -> SearchResponse:
    """What search finds once its index holds all that was learned."""
    revision = revisions.get(dataset, 0)
    return retry_while_behind(lambda: client.search(dataset, query, top_k=TOP_K, min_revision=revision))


def _revision(outcome: Outcome) -> int:
    return outcome.response.curation.revision if outcome.response else 0
