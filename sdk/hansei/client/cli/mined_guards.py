"""Guards that are mined from the archive of a dataset, backtests on it, and the addition of guards to a playbook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hansei.client.pages import join_pages

if TYPE_CHECKING:
    from hansei.client.client import Client
    from hansei.playbook.v1.playbook_pb2 import Delta, Source

SECTION = "guards"
MAX_SOURCES = 20
PAGE_SIZE = 200


def backtest_archive(client: Client, target: str, dataset: str) -> dict[str, Any]:
    """Return the firings of a target in the archived trajectories of a dataset, as a document."""
    from hansei.evidence.v1.guard_service_pb2 import ArchivedTrajectories

    result = join_pages(
        client.guards.backtest_target,
        expression=target,
        archive=ArchivedTrajectories(dataset=dataset),
        page_size=PAGE_SIZE,
    )
    return {
        "failed": result.failed_trajectories,
        "failed_firing": result.failed_with_firing,
        "passed": result.passed_trajectories,
        "passed_firing": result.passed_with_firing,
        "false_alarms": result.false_alarms,
        "skipped": result.skipped_trajectories,
        "false_alarm_bound": result.false_alarm_bound,
        "firings": [
            {
                "trajectory_id": firing.trajectory_id,
                "content_hash": firing.content_hash,
                "step": firing.step,
                "call_index": firing.call_index,
                "is_success": firing.succeeded,
                "is_mistake": firing.mistake_followed,
            }
            for firing in result.firings
        ],
    }


def mine_archive(client: Client, dataset: str) -> dict[str, Any]:
    """Return the guards that the archived trajectories of a dataset support, as a document."""
    from hansei.client.archive import read_archive
    from hansei.client.server import load_server

    report: dict[str, Any] = load_server().mine_guards(read_archive(client, dataset))
    return report


def add_guards(client: Client, dataset: str, report: dict[str, Any]) -> None:
    """Add mined guards to the playbook in SHADOW, and store their backtests; note the outcome in the report."""
    present = {
        guard.target.expression: guard.bullet_id
        for guard in join_pages(client.guards.list_all, dataset=dataset, page_size=1000).guards
    }
    for guard in report["guards"]:
        if guard["target"] in present:
            guard["bullet_id"], guard["added"] = present[guard["target"]], False
        else:
            guard["bullet_id"], guard["added"] = _add_guard(client, dataset, guard), True
        client.guards.store_backtest(dataset=dataset, expression=guard["target"])


def _add_guard(client: Client, dataset: str, guard: dict[str, Any]) -> str:
    from hansei.client.edits import accept
    from hansei.playbook.v1.playbook_pb2 import Source

    failed = [firing for firing in guard["backtest"]["firings"] if not firing["is_success"]]
    sources = [Source(trajectory_id=firing["trajectory_id"], steps=[firing["step"]]) for firing in failed[:MAX_SOURCES]]
    delta = build_delta(guard["lesson"], guard["target"], sources=sources)
    reason = f"mined from {dataset}, p {guard['p_value']:.1g}"
    response = client.playbooks.apply_deltas(dataset=dataset, deltas=[delta], reason=reason)
    return "".join(operation.bullet_id for operation in accept(response, dataset).operations)


def build_delta(text: str, target: str, section: str = SECTION, sources: Sequence[Source] = ()) -> Delta:
    """Return the delta that adds a lesson with a guard in SHADOW."""
    from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, TARGET_MODE_SHADOW, Delta, Target

    aimed = Target(expression=target, mode=TARGET_MODE_SHADOW)
    return Delta(type=DELTA_TYPE_ADD, section=section, content=text, target=aimed, sources=sources)
