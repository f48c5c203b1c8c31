"""The data of `hansei status`: every dataset, the services, and what waits for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from chassis.errors import HanseiError
from hansei.client.cli.service_checks import check_services
from hansei.client.pages import iterate_items

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.playbook.v1.playbook_service_pb2 import Dataset

T = TypeVar("T")
PAGE_SIZE = 1000


def read_status(client: Client) -> dict[str, Any]:
    """Return the overview as JSON values and messages. Raises the error of the curator."""
    datasets = list(iterate_items(client.playbooks.list_datasets, "datasets", page_size=PAGE_SIZE))
    return {
        "address": client.address,
        "problems": [check.name + ": " + check.finding for check in check_services(client) if check.remedy],
        "datasets": [_read_dataset(client, dataset) for dataset in datasets],
        "waiting": list(_list_waiting(client, datasets)),
    }


def _read_dataset(client: Client, dataset: Dataset) -> dict[str, Any]:
    trials = _try(lambda: client.evidence.get_trials(dataset=dataset.name))
    lift = _try(lambda: client.evidence.get_lift(dataset=dataset.name))
    retention = _try(lambda: client.archive.get_retention(dataset=dataset.name))
    overview = _try(lambda: client.overview.get(dataset=dataset.name))
    success = overview.total.success_rate if overview else None
    return {
        "dataset": dataset,
        "trajectories": retention.trajectories if retention else None,
        "success": success if success and success.trajectories else None,
        "usage": overview.total.usage if overview else None,
        "trials_running": bool(trials and trials.running),
        "lift": lift.lift if lift and lift.HasField("lift") else None,
    }


def _list_waiting(client: Client, datasets: list[Dataset]) -> Iterator[dict[str, Any]]:
    """Yield the kinds of work that wait for a person, each with its number and the command that shows it."""
    from hansei.planner.v1.planner_pb2 import EXECUTION_STATUS_PAUSED

    for dataset in datasets:
        if dataset.pending_changes:
            show = f"hansei playbook review --dataset {dataset.name}"
            yield {"kind": "pending change", "number": dataset.pending_changes, "show": show}
    paused = _try(
        lambda: list(iterate_items(client.planner.list_executions, "executions", status=EXECUTION_STATUS_PAUSED))
    )
    if paused:
        yield {"kind": "question", "number": len(paused), "show": "hansei plan list"}
    jobs = _try(lambda: list(iterate_items(client.jobs.list, "jobs"))) or []
    for job in jobs:
        if job.dead:
            yield {"kind": "dead letter", "number": job.dead, "show": f"hansei jobs dead-letters {job.job_id}"}


def _try(call: Callable[[], T]) -> T | None:
    """Return the result of a call, or None if it fails: the other parts of the overview are still of use."""
    try:
        return call()
    except HanseiError:
        return None
