"""Foresight: a measure, without any model, of how much learning helps.

Trajectories come in order. Before one is learned, each tool error in it is a test of the top five bullets for what
happened before the error, learned from earlier trajectories. Do they tell how to avoid it (`avoidance.py`)? And do they
warn of it, that is, does one name the operation and the error? Then the trajectory is learned, with the earlier ones of
its task as siblings. For warnings, two baselines are measured as well: all insights without curation, searched in the
same way; and five random bullets of the playbook.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import comb
from typing import TYPE_CHECKING

from hansei.client.cli.avoidance import Avoidance, PassedShare
from hansei.client.cli.failed_tool_call import FailedToolCall
from hansei.client.errors import FailedPrecondition
from hansei.client.learning import learn, retry_while_behind
from hansei.client.pages import join_pages
from hansei.client.server import load_server
from hansei.client.trajectories import MAX_SIBLINGS
from hansei.playbook.v1.playbook_pb2 import Bullet
from hansei.playbook.v1.review_pb2 import DatasetPolicy
from hansei.reflector.v1.trajectory_pb2 import Trajectory
from hansei.search.v1.search_pb2 import SearchQuery

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.client.trajectories import TrajectoryRecord

TOP_K = 5
QUERY_CHARS = 600
"""The length at which a query cuts the call and the message before it."""
MAX_RANKED = 10_000
MAX_BULLETS = 80
"""The most bullets of the playbook: nobody reads more."""


@dataclass(frozen=True, slots=True)
class ForesightHits:
    """The number of foreseen errors, of all and of those of a seen kind; for random bullets, its expectation."""

    of_all: float = 0
    of_seen: float = 0

    def plus(self, hit: float, is_seen: bool) -> ForesightHits:
        """Return the hits with one more error."""
        return ForesightHits(self.of_all + hit, self.of_seen + (hit if is_seen else 0))


@dataclass(frozen=True, slots=True)
class ForesightCounts:
    """The counts so far. ``seen`` counts the errors whose kind an earlier trajectory had.

    ``duplicates`` counts the bullets that repeat the text or the warning of another one.
    """

    trajectories: int = 0
    errors: int = 0
    seen: int = 0
    bullets: int = 0
    duplicates: int = 0
    playbook: ForesightHits = field(default_factory=ForesightHits)
    uncurated: ForesightHits = field(default_factory=ForesightHits)
    random: ForesightHits = field(default_factory=ForesightHits)
    repaired: int = 0
    avoided: Mapping[str, PassedShare] = field(default_factory=dict)
    """The share of the repaired errors that each memory shows how to avoid."""
    repaired_in_new_tasks: int = 0
    avoided_in_new_tasks: Mapping[str, PassedShare] = field(default_factory=dict)
    """The same, of the errors in the first trajectory of each task."""

    def document(self) -> dict[str, object]:
        """Return counts and shares as JSON."""
        return {
            "trajectories": self.trajectories,
            "errors": self.errors,
            "errors_seen_before": self.seen,
            "errors_repaired": self.repaired,
            **_describe_shares("tells_how_to_avoid", self.avoided),
            "errors_repaired_in_new_tasks": self.repaired_in_new_tasks,
            **_describe_shares("tells_how_to_avoid_in_new_tasks", self.avoided_in_new_tasks),
            "bullets": self.bullets,
            "duplicates": self.duplicates,
            "foreseen": self.playbook.of_all,
            "foreseen_seen_before": self.playbook.of_seen,
            **self.shares(self.playbook),
            "baselines": {"uncurated": self.shares(self.uncurated), "random": self.shares(self.random)},
        }

    def shares(self, hits: ForesightHits) -> dict[str, float]:
        """Return the shares of foreseen errors, 0 to 1; 0 if there were no errors."""
        of_all = hits.of_all / self.errors if self.errors else 0.0
        of_seen = hits.of_seen / self.seen if self.seen else 0.0
        return {"foreseen_of_all": round(of_all, 4), "foreseen_of_seen": round(of_seen, 4)}


def _describe_shares(key: str, shares: Mapping[str, PassedShare]) -> dict[str, object]:
    return {
        key: {memory: passed.share for memory, passed in shares.items()},
        f"{key}_95": {memory: [passed.low, passed.high] for memory, passed in shares.items()},
    }


@dataclass(slots=True)
class ForesightMeter:
    """Learn trajectories with `client`, and measure foresight before each."""

    client: Client
    revision: int = 0
    kinds: dict[str, FailedToolCall] = field(default_factory=dict)
    bullets: list[Bullet] = field(default_factory=list)
    insights: list[Bullet] = field(default_factory=list)
    earlier: list[Trajectory] = field(default_factory=list)
    avoidance: Avoidance = field(default_factory=Avoidance)

    def measure(self, records: Sequence[TrajectoryRecord]) -> Iterator[ForesightCounts]:
        """Yield the counts after each trajectory. All must be of one dataset. Raises the error of a failed learning."""
        counts = ForesightCounts()
        for dataset in {record.trajectory.dataset for record in records}:
            self.client.playbooks.set_policy(dataset=dataset, policy=DatasetPolicy(max_bullets=MAX_BULLETS))
        for record in records:
            calls = [FailedToolCall(**call) for call in load_server().find_failed_calls(record.trajectory)]
            counts = self._count_warnings(counts, record.trajectory, calls)
            self.avoidance.learn(calls, load_server().find_working_calls(record.trajectory))
            self._learn(record)
            self.kinds.update((call.error_kind, call) for call in calls)
            counts = replace(
                counts,
                trajectories=counts.trajectories + 1,
                repaired=self.avoidance.repaired,
                avoided=self.avoidance.shares(),
                repaired_in_new_tasks=self.avoidance.repaired_in_new_tasks,
                avoided_in_new_tasks=self.avoidance.shares_of_new_tasks(),
                bullets=len(self.bullets),
                duplicates=count_duplicates(self.bullets, self.kinds.values()),
            )
            yield counts

    def _count_warnings(
        self, counts: ForesightCounts, trajectory: Trajectory, calls: Sequence[FailedToolCall]
    ) -> ForesightCounts:
        queries = [build_query_before(call) for call in calls]
        results = self._search(trajectory.dataset, queries)
        task = trajectory.task_id
        is_new_task = not task or all(earlier.task_id != task for earlier in self.earlier)
        counts = replace(counts, errors=counts.errors + len(calls))
        first_calls: set[str] = set()
        for call, query, bullets in zip(calls, queries, results, strict=True):
            if call.remedies and call.operation not in first_calls:
                self.avoidance.count(call, [bullet.content for bullet in bullets], is_new_task=is_new_task)
            first_calls.add(call.operation)
            is_seen = call.error_kind in self.kinds
            counts = replace(
                counts,
                seen=counts.seen + is_seen,
                playbook=counts.playbook.plus(any(warns_of(bullet, call) for bullet in bullets), is_seen),
                uncurated=counts.uncurated.plus(self._has_uncurated_warning(query, call), is_seen),
                random=counts.random.plus(compute_chance([warns_of(bullet, call) for bullet in self.bullets]), is_seen),
            )
        return counts

    def _search(self, dataset: str, queries: Sequence[SearchQuery]) -> list[list[Bullet]]:
        """Return the bullets for each query, once the index holds everything that was learned."""
        if not queries:
            return []
        search = partial(
            self.client.index.batch_search,
            dataset=dataset,
            queries=queries,
            min_revision=self.revision,
            allow_missing=True,
        )
        responses = retry_while_behind(search).responses
        return [[result.bullet for result in response.results] for response in responses]

    def _has_uncurated_warning(self, query: SearchQuery, call: FailedToolCall) -> bool:
        # The service limits the bullets of one ranking; the newest are the most useful.
        results = self.client.index.rank_bullets(query=query, bullets=self.insights[-MAX_RANKED:]).results
        return any(warns_of(result.bullet, call) for result in results)

    def _learn(self, record: TrajectoryRecord) -> None:
        """Learn a trajectory with the earlier ones of its task as siblings: the later ones have not happened yet."""
        task = record.trajectory.task_id
        siblings = [trajectory for trajectory in self.earlier if task and trajectory.task_id == task][-MAX_SIBLINGS:]
        outcome = learn(self.client, replace(record, siblings=siblings))
        self.earlier.append(record.trajectory)
        if outcome.response is None:
            raise outcome.error or FailedPrecondition(outcome.failure)
        if outcome.response.HasField("curation"):
            self.revision = outcome.response.curation.revision
        response = join_pages(self.client.playbooks.get, dataset=record.trajectory.dataset, allow_missing=True)
        self.bullets = list(response.playbook.bullets)
        for insight in outcome.response.reflection.insights:
            self.insights.append(Bullet(id=f"insight-{len(self.insights)}", content=insight.key_insight))


def build_query_before(call: FailedToolCall) -> SearchQuery:
    """Return a query that an agent could send before a call: the last message, the operation, and its arguments.

    Of JSON arguments, the query has only the names: the values belong to one trajectory, and lessons omit them.
    """
    text = f"{call.operation} {join_argument_names(call.arguments)}"[:QUERY_CHARS]
    # No minimum of confidence: before an error, a bullet that was voted down is useful too.
    return SearchQuery(query_text=f"{call.user_message[:QUERY_CHARS]}\n{text}", top_k=TOP_K, min_confidence=0)


def join_argument_names(arguments: str) -> str:
    """Return the names of arguments that are a JSON object; other arguments unchanged."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return " ".join(value) if isinstance(value, dict) else arguments


def count_duplicates(bullets: Sequence[Bullet], calls: Iterable[FailedToolCall]) -> int:
    """Return the number of bullets that repeat another one: its text, or its warning of one kind of error."""
    texts = Counter(" ".join(bullet.content.casefold().split()) for bullet in bullets)
    warnings = [sum(warns_of(bullet, call) for bullet in bullets) for call in calls]
    return sum(count - 1 for count in (*texts.values(), *warnings) if count > 1)


def warns_of(bullet: Bullet, call: FailedToolCall) -> bool:
    """Return whether a bullet names the operation and quotes the error without its variable parts."""
    text = bullet.content.casefold()
    return bool(call.error) and call.operation.casefold() in text and call.error.casefold() in text


def compute_chance(warnings: Sequence[bool]) -> float:
    """Return the probability that one of five bullets, drawn without replacement, warns (hypergeometric)."""
    total, silent, drawn = len(warnings), warnings.count(False), min(TOP_K, len(warnings))
    return 1 - comb(silent, drawn) / comb(total, drawn) if drawn else 0.0
