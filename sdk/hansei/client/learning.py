"""Learn from many trajectories, several at a time, with one outcome each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

from chassis.retry import RetryPolicy
from hansei.client.client import Client
from hansei.client.errors import HanseiError, Unavailable
from hansei.client.trajectories import TrajectoryRecord
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse

R = TypeVar("R")

OFFLINE = "offline"
"""The name of the model in results of rules."""
INDEX_BEHIND = "REVISION_NOT_REACHED"
_INDEX_RETRY_POLICY = RetryPolicy(attempts=6, first_pause=0)


@dataclass(frozen=True, slots=True)
class LearnOutcome:
    """The result of learning from one trajectory: the response, or the error."""

    record: TrajectoryRecord
    response: LearnResponse | None = None
    error: HanseiError | None = None

    @property
    def failure(self) -> str:
        """Return why nothing was stored; empty if something was, or if there was nothing to learn."""
        if self.error is not None:
            return self.error.message
        return explain_failure(self.response) if self.response else ""

    @property
    def model_problem(self) -> str:
        """Return why the model did not reflect, or why its curation was not saved; empty if it did its part."""
        if self.response is None:
            return ""
        reflection, curation = self.response.reflection, self.response.curation
        if curation.error and curation.model and not curation.saved:
            return "" if curation.model == OFFLINE else curation.error
        return reflection.error if reflection.model == OFFLINE else ""


def explain_failure(response: LearnResponse) -> str:
    """Return why nothing was stored; empty if something was, or if there was nothing to learn."""
    is_stored = response.curation.saved or not response.HasField("curation")
    return "" if is_stored else response.curation.error or "not saved"


def learn(client: Client, record: TrajectoryRecord) -> LearnOutcome:
    """Learn from one trajectory. Errors are outcomes, except Unavailable, which would meet the next one too."""
    try:
        response = client.learn(record.trajectory, **record.learn_options)
    except Unavailable:
        raise
    except HanseiError as error:
        return LearnOutcome(record, error=error)
    return LearnOutcome(record, response)


def retry_while_behind(search: Callable[[], R]) -> R:
    """Return the response of a search with `min_revision`; repeat it while the index is behind.

    A search waits no longer than its deadline; a busy machine takes longer to embed many bullets at once.
    """
    return _INDEX_RETRY_POLICY.run_blocking(
        search, lambda error: isinstance(error, HanseiError) and error.reason == INDEX_BEHIND
    )


def learn_all(client: Client, records: Sequence[TrajectoryRecord], jobs: int = 1) -> Iterator[LearnOutcome]:
    """Learn from trajectories, `jobs` at a time, and yield each outcome at once.

    If the caller leaves the loop, no further trajectory is sent.
    """
    remaining = iter(records)
    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="hansei-learn") as pool:
        running: set[Future[LearnOutcome]] = set()
        while True:
            for record in remaining:
                running.add(pool.submit(learn, client, record))
                if len(running) >= jobs:
                    break
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
