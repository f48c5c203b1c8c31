"""Wrong labels: how much of what is learned offline rests on them, with and without trust in them.

Usage: `python -m bench.foresight FILE` with recorded runs whose reward is known. The reward of a share of the runs is
turned round. Then all runs are learned in order: with the reward believed, as if only the agent's own word said how
each run ended, and, for comparison, with the reward believed and every insight appended. `false` are bullets that true
labels would not have taught, `reworded` those they would have taught in other words; `kinds` the kinds of failing calls
that the playbook warns of.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.report import machine, write
from services.curator.adapters.sql.store import SqlPlaybookStore
from services.curator.domain.curation import Insight, Reflection, SectionDefinition
from services.curator.domain.lessons import same_lesson
from services.curator.usecases.curate import CuratorAgent
from services.curator.usecases.rule_curator import RuleCurator
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.actions import actions_of
from services.reflector.domain.trajectory import Trajectory
from services.reflector.usecases.reflect import ReflectionRequest
from services.reflector.usecases.reflect_offline import reflection_of

DATASET = "labels"
SHARES = (0.0, 0.1, 0.3, 0.5)
SEED = 5


class NoSections:
    def load(self, dataset: str) -> Sequence[SectionDefinition]:
        return []


def flipped(runs: Sequence[Trajectory], share: float) -> list[Trajectory]:
    """The runs with the reward of `share` of them turned round; the same ones in every call."""
    chosen = set(random.Random(SEED).sample(range(len(runs)), round(share * len(runs))))
    return [_turned(run) if place in chosen else run for place, run in enumerate(runs)]


def _turned(run: Trajectory) -> Trajectory:
    failed = run.status == "failure"
    return run.model_copy(
        update={"reward": 1.0 if failed else 0.0, "status": "success" if failed else "failure", "signal": None}
    )


def unproven(run: Trajectory) -> Trajectory:
    """The run as an agent without any check reports it."""
    return run.model_copy(update={"reward": None, "signal": "self_report"})


def reflections(runs: Sequence[Trajectory]) -> list[Reflection]:
    """What the rules find in each run beside the earlier ones of its task."""
    found: list[Reflection] = []
    for place, run in enumerate(runs):
        siblings = tuple(each for each in runs[:place] if each.task_id == run.task_id)
        result = reflection_of(ReflectionRequest(trajectory=run, dataset=DATASET, siblings=siblings))
        insights = tuple(Insight(**each.model_dump()) for each in result.insights)
        found.append(Reflection(insights, (), run.id, run.query, reliable=result.signal != "self_report"))
    return found


async def curated(runs: Sequence[Trajectory]) -> list[str]:
    """The texts of the playbook after all runs."""
    with tempfile.TemporaryDirectory() as directory:
        store = SqlPlaybookStore(f"sqlite:///{directory}/playbooks.db")
        await store.open()
        agent = CuratorAgent(RuleCurator(store), store, NoSections())
        for reflection in reflections(runs):
            await agent.run(reflection, DATASET)
        texts = [bullet.content for bullet in (await store.load(DATASET)).bullet_list]
        await store.close()
        return texts


def appended(runs: Sequence[Trajectory]) -> list[str]:
    """Every insight of all runs, equal texts once."""
    return list(dict.fromkeys(each.key_insight for found in reflections(runs) for each in found.insights))


def row(labels: str, share: float, texts: Sequence[str], truth: Sequence[str], kinds: set[str]) -> dict[str, Any]:
    other = [text for text in texts if text not in truth]
    false = [text for text in other if not any(same_lesson(text, true) for true in truth)]
    warned = [kind for kind in kinds if any(all(part in text for part in kind.split(": ", 1)) for text in texts)]
    counts = {"bullets": len(texts), "false": len(false), "reworded": len(other) - len(false), "kinds": len(warned)}
    return {"labels": labels, "flipped": share, **counts}


async def main(content: bytes) -> None:
    """Prints and writes the table for the runs in a file with this content."""
    logging.disable(logging.WARNING)
    runs = [each.trajectory for each in read_trajectories(content, DATASET).runs]
    kinds = {action.error_kind for run in runs for action in actions_of(run.transcript) if action.error}
    truth, plain = await curated(runs), appended(runs)
    rows = []
    for share in SHARES:
        wrong = flipped(runs, share)
        rows.append(row("believed", share, await curated(wrong), truth, kinds))
        rows.append(row("own word", share, await curated([unproven(run) for run in wrong]), truth, kinds))
        rows.append(row("believed, no curation", share, appended(wrong), plain, kinds))
    write("foresight", {"machine": machine(), "runs": len(runs), "kinds": len(kinds), "rows": rows})


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_bytes()))
