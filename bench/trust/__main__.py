"""The effect of wrong labels on a playbook, with and without distrust of self-reports.

Usage: `python -m bench.trust FILE` with recorded trajectories whose reward is known. The benchmark inverts the reward
of a share of the trajectories and learns all of them in order: once with the reward as the signal, once as self-
reports only. Two curators learn: the rules, and a scripted model that adds every insight. Every trajectory is served
five bullets and votes for all of them, helpful if it is labelled a success, harmful if not.

Columns: `false` counts bullets that the same curator does not learn from true labels, `reworded` those that it learns
in other words; `votes` counts votes, `wrong` those that the true label contradicts; `waiting` counts changes that
wait for a second trajectory or a person; `foreseen` is the share of repeated kinds of errors of which one of the five
bullets that search ranks highest, learned from earlier trajectories, warns (as in `hansei eval foresight`).
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from allinone.commands import find_failed_calls_of_steps
from bench.report import machine, write
from chassis.server.cpu import CpuPool
from hansei.client.cli.embedded_stack import build_temp_settings, embedded_client
from hansei.client.cli.failed_tool_call import FailedToolCall
from hansei.client.cli.foresight import build_query_before, warns_of
from hansei.client.client import Client
from hansei.playbook.v1 import playbook_pb2
from libs.embedding.embedder import TextEmbedder
from libs.embedding.hashing import Hashing
from libs.embedding.local import PooledModel
from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.domain.curation import (
    DeltaContextItem,
    Evaluation,
    Lesson,
    Proposal,
    Reflection,
    SectionDefinition,
)
from services.curator.domain.playbook import Bullet, Source
from services.curator.domain.review import PendingChange, PendingState
from services.curator.domain.snapshot import Snapshot
from services.curator.domain.word_similarity import WORDS
from services.curator.usecases.curate import Curator, CuratorAgent, ProposedEdits
from services.curator.usecases.rule_curator import RuleCurator
from services.curator.usecases.similarity import EmbeddingSource
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.trajectory import Trajectory
from services.reflector.usecases.reflect_offline import reflect_by_rules

DATASET = "trust"
SHARES = (0.0, 0.1, 0.3, 0.5)
SEED = 5
SERVED = 5
SELF_REPORT = "self_report"


class Gullible:
    """A model that adds every insight it is given."""

    model = "gullible"

    async def propose(
        self,
        reflection: Reflection,
        playbook: Snapshot,
        sections: Sequence[SectionDefinition],
        waiting: Sequence[PendingChange],
    ) -> ProposedEdits:
        source = (Source(trajectory=reflection.trajectory_id),)
        deltas = [
            DeltaContextItem(type="ADD", section=insight.section, content=insight.key_insight, reasoning="believed")
            for insight in reflection.insights
        ]
        return ProposedEdits(tuple(Proposal(delta, source) for delta in deltas))


class NoSections:
    async def read(self, dataset: str) -> Sequence[SectionDefinition]:
        return []


@dataclass
class TrustResult:
    """The result of learning all trajectories."""

    texts: list[str] = field(default_factory=list)
    votes: int = 0
    wrong: int = 0
    waiting: int = 0
    seen: int = 0
    foreseen: int = 0


def flip_rewards(trajectories: Sequence[Trajectory], share: float) -> list[Trajectory]:
    """Return the trajectories with the reward of `share` of them turned round; the same ones in every call."""
    chosen = set(random.Random(SEED).sample(range(len(trajectories)), round(share * len(trajectories))))
    return [
        _flip_reward(trajectory) if index in chosen else trajectory for index, trajectory in enumerate(trajectories)
    ]


def _flip_reward(trajectory: Trajectory) -> Trajectory:
    failed = trajectory.status == "failure"
    return trajectory.model_copy(
        update={"reward": 1.0 if failed else 0.0, "status": "success" if failed else "failure", "signal": None}
    )


def remove_proof(trajectory: Trajectory) -> Trajectory:
    """Return the trajectory as an agent without any check reports it."""
    return trajectory.model_copy(update={"reward": None, "signal": SELF_REPORT})


@asynccontextmanager
async def open_store() -> AsyncIterator[SqlPlaybookStore]:
    """Return an empty store in a file of its own."""
    with tempfile.TemporaryDirectory() as directory:
        store = SqlPlaybookStore(f"sqlite:///{directory}/playbooks.db")
        await store.open()
        yield store
        await store.close()


async def learn(
    client: Client, gullible: bool, trajectories: Sequence[Trajectory], truth: Sequence[Trajectory]
) -> TrustResult:
    """Learn `trajectories` in order; `truth` are the same ones with their true labels."""
    result, kinds, bullets, chosen = TrustResult(), set[str](), list[Bullet](), random.Random(SEED)
    pool = CpuPool("trust-embed", workers=1)
    source = EmbeddingSource(TextEmbedder(PooledModel(Hashing(), pool)))
    curator: Curator = Gullible() if gullible else RuleCurator(source)
    async with open_store() as store, AsyncExitStack() as closing:
        closing.push_async_callback(pool.close)
        agent = CuratorAgent(curator, store, NoSections(), source)
        for index, (trajectory, true) in enumerate(zip(trajectories, truth, strict=True)):
            _foresee(client, result, kinds, bullets, trajectory)
            served = [bullet.id for bullet in chosen.sample(bullets, min(SERVED, len(bullets)))]
            curation = await agent.run(_reflection(trajectories, index, served, gullible), DATASET)
            counted = sum(vote.applied for vote in curation.votes)
            result.votes += counted
            result.wrong += counted if trajectory.status != true.status else 0
            bullets = [bullet for bullet in (await store.load(DATASET)).bullet_list if not bullet.retired]
        result.texts = [bullet.content for bullet in bullets]
        result.waiting = len(await store.list_pending_changes(DATASET, [PendingState.WAITING], "", 1_000))
    return result


def _foresee(
    client: Client, result: TrustResult, kinds: set[str], bullets: Sequence[Bullet], trajectory: Trajectory
) -> None:
    failed = [FailedToolCall(**call) for call in find_failed_calls_of_steps(trajectory.transcript)]
    messages = [
        playbook_pb2.Bullet(
            id=bullet.id, section=bullet.section, content=bullet.content, searchable_text=bullet.searchable_text,
            helpful=bullet.helpful, harmful=bullet.harmful,
        )
        for bullet in bullets
    ]  # fmt: skip
    for call in failed:
        if call.error_kind in kinds:
            found = client.index.rank_bullets(query=build_query_before(call), bullets=messages).results
            result.seen += 1
            result.foreseen += any(warns_of(ranked.bullet, call) for ranked in found)
    kinds.update(call.error_kind for call in failed)


def _reflection(trajectories: Sequence[Trajectory], index: int, served: Sequence[str], gullible: bool) -> Reflection:
    """Return the reflection by rules, with the earlier trajectories of the task, and a vote on each served bullet."""
    trajectory = trajectories[index]
    siblings = tuple(earlier for earlier in trajectories[:index] if earlier.task_id == trajectory.task_id)
    result = reflect_by_rules(ReflectionRequest(trajectory=trajectory, dataset=DATASET, siblings=siblings))
    tag = "helpful" if result.is_success else "harmful"
    return Reflection(
        tuple(Lesson(**insight.model_dump()) for insight in result.insights),
        tuple(Evaluation(bullet_id, tag) for bullet_id in served),  # type: ignore[arg-type]
        trajectory.id,
        trajectory.query,
        signal=result.signal,
        model="gullible" if gullible else result.model,
    )


def row(curator: str, labels: str, share: float, result: TrustResult, truth: TrustResult) -> dict[str, Any]:
    other = [text for text in result.texts if text not in truth.texts]
    false = [text for text in other if not any(WORDS.is_same(text, true) for true in truth.texts)]
    return {
        "curator": curator,
        "labels": labels,
        "flipped": share,
        "bullets": len(result.texts),
        "false": len(false),
        "reworded": len(other) - len(false),
        "votes": result.votes,
        "wrong": result.wrong,
        "waiting": result.waiting,
        "foreseen": round(result.foreseen / max(1, result.seen), 3),
    }


async def main(content: bytes, client: Client) -> None:
    """Print and write the table for the trajectories of a file with this content."""
    logging.disable(logging.WARNING)
    trajectories = [recorded.trajectory for recorded in read_trajectories(content, DATASET).trajectories]
    rows = []
    for name, gullible in (("rules", False), ("gullible model", True)):
        truth = await learn(client, gullible, trajectories, trajectories)
        for share in SHARES:
            labelled = flip_rewards(trajectories, share)
            believed = replace(truth) if not share else await learn(client, gullible, labelled, trajectories)
            rows.append(row(name, "believed", share, believed, truth))
            doubted = await learn(client, gullible, [remove_proof(trajectory) for trajectory in labelled], trajectories)
            rows.append(row(name, "own word", share, doubted, truth))
    write("trust", {"machine": machine(), "runs": len(trajectories), "rows": rows})


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as folder,
        embedded_client({**build_temp_settings(Path(folder)), "HANSEI_EMBEDDING_PROVIDER": "hashing"}) as embedded,
    ):
        asyncio.run(main(Path(sys.argv[1]).read_bytes(), embedded))
