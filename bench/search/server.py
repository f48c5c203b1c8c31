"""Search as a process of its own, on snapshots; it follows no playbook."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

from bench.search.corpus import DIMENSION, Corpus
from hansei.playbook.v1 import playbook_pb2
from libs.embedding.minilm import MiniLM
from libs.embedding.terms import tokenize_mixed
from services.search.adapters.faiss_neighbours import FaissNeighbours
from services.search.adapters.loops import load_loops
from services.search.adapters.peers import decode_bullet, parse_bullet
from services.search.adapters.snapshots import SnapshotFiles
from services.search.domain.bm25 import LUCENE
from services.search.domain.entry import create_bullet_entry
from services.search.domain.index import HybridIndex
from services.search.domain.snapshot import IndexSnapshot
from services.search.domain.view import LoopsInUse, RankingRules
from services.search.settings import SearchSettings
from tests.support import systems

PROBES = SearchSettings.model_fields["search_probes"].default


def write_snapshot(folder: Path, dataset: str, corpus: Corpus) -> None:
    """Write a snapshot of a playbook with these bullets, with neighbours, like one of a search service."""
    bullets = [
        decode_bullet(
            playbook_pb2.Bullet(id=f"gen-{number:06d}", section="general", content=text, searchable_text=text)
        )
        for number, text in enumerate(corpus.texts)
    ]
    rules = RankingRules(LUCENE, LoopsInUse(load_loops()), 0, partial(FaissNeighbours.build, probes=PROBES), 0.5)
    index: HybridIndex[Any] = HybridIndex(DIMENSION, tokenize_mixed, rules)
    index.apply([create_bullet_entry(bullet) for bullet in bullets], corpus.vectors, revision=1)
    index.build_neighbours()
    files = SnapshotFiles(folder / "snapshots", {"embedder": MiniLM.model_id, "tokenizer": "mixed"}, parse_bullet)
    files.save(dataset, IndexSnapshot(1, [bullet.id for bullet in bullets], [], index.export_state()))


@contextmanager
def run_server(module: str, folder: Path, name: str, settings: dict[str, str]) -> Iterator[tuple[str, Popen[bytes]]]:
    """Run a process of `module` on its own port, whose playbooks are the snapshots in the folder."""
    address = f"127.0.0.1:{systems.free_port()}"
    env = os.environ | {
        "HANSEI_LISTEN_ADDRESS": address,
        "HANSEI_LOG_LEVEL": "ERROR",
        "HANSEI_SEARCH_SNAPSHOT_DIR": str(folder / "snapshots"),
        "HANSEI_SEARCH_SNAPSHOT_SECONDS": "100000",
        "HANSEI_SEARCH_DATABASE_URL": str(folder / f"{name}.db"),
        "EMBEDDING_PROVIDER": "minilm",
        # No curator listens here: the snapshots are the only content.
        "CURATOR_ADDR": f"127.0.0.1:{systems.free_port()}",
        **settings,
    }
    process = Popen([sys.executable, "-m", module], cwd=systems.ROOT, env=env)
    try:
        yield address, process
    finally:
        process.terminate()
        process.wait(60)
