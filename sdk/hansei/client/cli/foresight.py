"""Foresight: whether learning helps, measured without any model.

Runs come in order. Before one is learned, each tool error in it is a question: would its agent have been warned? It
would if, for a query made only of what happened before the error, one of the top five bullets, all learned from earlier
runs, names the operation and the error. Then the run is learned, beside the earlier runs of its task. Beside the
playbook stand two baselines: every insight ever drawn, uncurated, searched the same way; and five bullets of the
playbook taken at random.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import comb
from typing import TYPE_CHECKING

from hansei.client.errors import FailedPrecondition
from hansei.client.learning import learn, retry_while_behind
from hansei.client.runs import MAX_SIBLINGS
from hansei.client.server import server
from hansei.playbook.v1.playbook_pb2 import Bullet
from hansei.playbook.v1.review_pb2 import DatasetPolicy
from hansei.reflector.v1.trajectory_pb2 import Trajectory
from hansei.search.v1.search_pb2 import SearchQuery

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.client.runs import Run

TOP_K = 5
QUERY_CHARS = 600
"""Characters of the call, and of what was said before it, that go into a query."""
MAX_RANKED = 10_000
MAX_BULLETS = 80
"""Bullets the playbook may keep: more than that, nobody reads."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call: what a user said last before it, the operation and its arguments, and the kind of its error.

    ``error`` has no variable parts, so it is the same for the same error in every run; it is empty if there was none.
    """

    said: str
    operation: str
    arguments: str
    error: str

    @property
    def error_kind(self) -> str:
        """The operation with its error: what counts as one kind."""
        return f"{self.operation}: {self.error}"


@dataclass(frozen=True, slots=True)
class Hits:
    """How many errors, of all and of the seen kinds, something foresaw. Expected values for random bullets."""

    of_all: float = 0
    of_seen: float = 0

    def plus(self, hit: float, seen: bool) -> Hits:
        """One error more."""
        return Hits(self.of_all + hit, self.of_seen + (hit if seen else 0))


@dataclass(frozen=True, slots=True)
class Foresight:
    """The counts so far. ``seen`` are the errors whose kind (operation and normalised message) an earlier run had.

    ``duplicates`` are the bullets kept that say what another one says, or warn of what another one warns of.
    """

    runs: int = 0
    errors: int = 0
    seen: int = 0
    bullets: int = 0
    duplicates: int = 0
    playbook: Hits = field(default_factory=Hits)
    uncurated: Hits = field(default_factory=Hits)
    random: Hits = field(default_factory=Hits)

    def document(self) -> dict[str, object]:
        """Counts and shares as JSON."""
        return {
            "runs": self.runs,
            "errors": self.errors,
            "errors_seen_before": self.seen,
            "bullets": self.bullets,
            "duplicates": self.duplicates,
            "foreseen": self.playbook.of_all,
            "foreseen_seen_before": self.playbook.of_seen,
            **self.shares(self.playbook),
            "baselines": {"uncurated": self.shares(self.uncurated), "random": self.shares(self.random)},
        }

    def shares(self, hits: Hits) -> dict[str, float]:
        """The shares, 0 to 1, of the errors that were foreseen; 0 where there were none."""
        of_all = hits.of_all / self.errors if self.errors else 0.0
        of_seen = hits.of_seen / self.seen if self.seen else 0.0
        return {"foreseen_of_all": round(of_all, 4), "foreseen_of_seen": round(of_seen, 4)}


@dataclass(slots=True)
class Watcher:
    """What was learned so far: by the system under `client`, and beside it every insight as it came."""

    client: Client
    revision: int = 0
    kinds: dict[str, ToolCall] = field(default_factory=dict)
    bullets: list[Bullet] = field(default_factory=list)
    insights: list[Bullet] = field(default_factory=list)
    earlier: list[Trajectory] = field(default_factory=list)

    def follow(self, runs: Sequence[Run]) -> Iterator[Foresight]:
        """The counts after each run. All runs must be of one dataset. Raises the error of a run that is not learned."""
        so_far = Foresight()
        for dataset in {run.trajectory.dataset for run in runs}:
            self.client.playbooks.set_policy(dataset=dataset, policy=DatasetPolicy(max_bullets=MAX_BULLETS))
        for run in runs:
            failed = [ToolCall(**call) for call in server().failed_calls(run.trajectory)]
            so_far = self._asked(so_far, run.trajectory.dataset, failed)
            self._learn(run)
            self.kinds.update((call.error_kind, call) for call in failed)
            repeated = duplicates(self.bullets, self.kinds.values())
            so_far = replace(so_far, runs=so_far.runs + 1, bullets=len(self.bullets), duplicates=repeated)
            yield so_far

    def _asked(self, so_far: Foresight, dataset: str, failed: Sequence[ToolCall]) -> Foresight:
        queries = [query_before(call) for call in failed]
        found = self._found(dataset, queries)
        counted = replace(so_far, errors=so_far.errors + len(failed))
        for call, query, given in zip(failed, queries, found, strict=True):
            seen = call.error_kind in self.kinds
            counted = replace(
                counted,
                seen=counted.seen + seen,
                playbook=counted.playbook.plus(any(warns_of(bullet, call) for bullet in given), seen),
                uncurated=counted.uncurated.plus(self._uncurated_warns(query, call), seen),
                random=counted.random.plus(chance([warns_of(bullet, call) for bullet in self.bullets]), seen),
            )
        return counted

    def _found(self, dataset: str, queries: Sequence[SearchQuery]) -> list[list[Bullet]]:
        """The bullets for each query, once the index holds all that was learned."""
        if not queries:
            return []
        asked = partial(self.client.index.batch_search, dataset=dataset, queries=queries, min_revision=self.revision)
        return [[result.bullet for result in response.results] for response in retry_while_behind(asked).responses]

    def _uncurated_warns(self, query: SearchQuery, call: ToolCall) -> bool:
        # The service ranks at most this many bullets at once; the newest are the likeliest to be of use.
        ranked = self.client.index.rank_bullets(query=query, bullets=self.insights[-MAX_RANKED:]).results
        return any(warns_of(result.bullet, call) for result in ranked)

    def _learn(self, run: Run) -> None:
        """Learn a run beside the earlier ones of its task: the later ones have not happened yet."""
        task = run.trajectory.task_id
        siblings = [each for each in self.earlier if task and each.task_id == task][-MAX_SIBLINGS:]
        outcome = learn(self.client, replace(run, siblings=siblings))
        self.earlier.append(run.trajectory)
        if outcome.response is None:
            raise outcome.error or FailedPrecondition(outcome.failure)
        if outcome.response.HasField("curation"):
            self.revision = outcome.response.curation.revision
        self.bullets = list(self.client.playbooks.get(dataset=run.trajectory.dataset).playbook.bullets)
        for insight in outcome.response.reflection.insights:
            self.insights.append(Bullet(id=f"insight-{len(self.insights)}", content=insight.key_insight))


def query_before(call: ToolCall) -> SearchQuery:
    """What an agent could ask before it makes a call: what was said last, the operation, and its arguments.

    Of arguments in JSON only the names are asked for: their values belong to one run, and lessons leave them out.
    """
    text = f"{call.operation} {argument_names(call.arguments)}"[:QUERY_CHARS]
    # Unlike a reader, an agent that is about to fail wants to hear also of what was voted down.
    return SearchQuery(query_text=f"{call.said[:QUERY_CHARS]}\n{text}", top_k=TOP_K, min_confidence=0)


def argument_names(arguments: str) -> str:
    """The names of arguments given as a JSON object; other arguments as they are."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return " ".join(value) if isinstance(value, dict) else arguments


def duplicates(bullets: Sequence[Bullet], failed: Iterable[ToolCall]) -> int:
    """How many bullets repeat another one: its words, or its warning of one kind of error."""
    said = Counter(" ".join(bullet.content.casefold().split()) for bullet in bullets)
    warnings = [sum(warns_of(bullet, call) for bullet in bullets) for call in failed]
    return sum(count - 1 for count in (*said.values(), *warnings) if count > 1)


def warns_of(bullet: Bullet, call: ToolCall) -> bool:
    """Whether a bullet names the operation and quotes the error, as it is once its variable parts are left out."""
    text = bullet.content.casefold()
    return bool(call.error) and call.operation.casefold() in text and call.error.casefold() in text


def chance(warning: Sequence[bool]) -> float:
    """The probability that five bullets taken at random without replacement hold one that warns (hypergeometric)."""
    total, silent, taken = len(warning), warning.count(False), min(TOP_K, len(warning))
    return 1 - comb(silent, taken) / comb(total, taken) if taken else 0.0
