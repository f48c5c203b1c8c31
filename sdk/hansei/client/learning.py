"""Learning from many runs, several at a time, with one outcome each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

from chassis.retry import RetryPolicy
from hansei.client.client import Client
from hansei.client.errors import HanseiError, Unavailable
from hansei.client.runs import Run
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse

R = TypeVar("R")

INDEX_BEHIND = "REVISION_NOT_REACHED"
_WAITING = RetryPolicy(attempts=6, first_pause=0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one run: the response, or the error."""

    run: Run
    response: LearnResponse | None = None
    error: HanseiError | None = None

    @property
    def failure(self) -> str:
        """Why nothing was stored; empty when it was, or when there was nothing to learn (G-43)."""
        if self.error is not None:
            return self.error.message
        curation = self.response.curation if self.response and self.response.HasField("curation") else None
        return curation.error or "not saved" if curation and not curation.saved else ""


def learn(client: Client, run: Run) -> Outcome:
    """Learn from one run. Raises Unavailable, because the next one would fare no better; other errors are outcomes."""
    try:
        response = client.learn(
            run.trajectory,
            ground_truth=run.ground_truth,
            test_report=run.test_report,
            siblings=run.siblings,
            request_id=run.request_id,
        )
    except Unavailable:
        raise
    except HanseiError as error:
        return Outcome(run, error=error)
    return Outcome(run, response)


def retry_while_behind(search: Callable[[], R]) -> R:
    """Return the response of a search with `min_revision`; repeat it while the index is behind.

    A search waits no longer than its deadline; a busy machine takes longer to embed many bullets at once.
    """
    return _WAITING.run_blocking(search, lambda error: isinstance(error, HanseiError) and error.reason == INDEX_BEHIND)


def learn_all(client: Client, runs: Sequence[Run], jobs: int = 1) -> Iterator[Outcome]:
    """Learn from runs, `jobs` at a time; outcomes come as they are ready. Leaving the loop starts no further run."""
    waiting = iter(runs)
    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="hansei-learn") as pool:
        running: set[Future[Outcome]] = set()
        while True:
            for run in waiting:
                running.add(pool.submit(learn, client, run))
                if len(running) >= jobs:
                    break
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
