from __future__ import annotations

import ctypes
import gc
import mmap
import os
import subprocess
import sys
import weakref
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.embedding.terms import tokenize_mixed
from services.search.adapters import snapshots
from services.search.adapters.array_file import DamagedFileError, pack_bytes, read_arrays, unpack_bytes, write_arrays
from services.search.adapters.faiss_neighbours import FaissNeighbours
from services.search.adapters.snapshots import SnapshotFiles
from services.search.domain.bullet import IndexedBullet
from services.search.domain.entry import create_bullet_entry
from services.search.domain.fusion import Fusion
from services.search.domain.index import HybridIndex
from services.search.domain.query import CandidateFilter
from services.search.domain.snapshot import IndexSnapshot
from services.search.domain.view import IndexView
from services.search.tests.engines import new_index, rules


def bullet(serialized_form: bytes) -> IndexedBullet:
    """A bullet whose wire form is `id|section|text`."""
    bullet_id, section, text = serialized_form.decode("utf-8", "surrogatepass").split("|")
    return IndexedBullet(bullet_id, section, text, text, serialized_form=serialized_form)


TEXTS = ["retry with backoff", "締め切りを守る", "", "never sleep in tests", "retry retry"]
BULLETS = [bullet(f"b{i}|s{i % 2}|{text}".encode()) for i, text in enumerate(TEXTS)]


def index_of() -> HybridIndex[IndexedBullet]:
    index = HybridIndex[IndexedBullet](3, tokenize_mixed)
    rng = np.random.default_rng(7)
    index.apply([create_bullet_entry(b) for b in BULLETS], rng.normal(size=(5, 3)))
    # A dead row, and an order that is not that of the rows.
    index.apply([create_bullet_entry(BULLETS[1])], rng.normal(size=(1, 3)), revision=8)
    return index


def answers(view: IndexView[IndexedBullet]) -> list[object]:
    query = np.array([0.6, 0.8, 0], np.float32)
    return [
        [
            (r.item, r.combined_score, r.raw_bm25)
            for r in view.search(tokenize_mixed(text), query, admitted, Fusion(0.5), 9).results
        ]
        for text in ("retry", "締め切り", "nothing")
        for admitted in (CandidateFilter(), CandidateFilter(frozenset({"s1"})))
    ]


def files(folder: Path, embedder: str = "e") -> SnapshotFiles[IndexedBullet]:
    return SnapshotFiles(folder, {"embedder": embedder}, bullet)


def save_snapshot(folder: Path) -> HybridIndex[IndexedBullet]:
    index = index_of()
    hidden = [bullet(b"h|s|hidden")]
    files(folder).save("d", IndexSnapshot(8, ["h", *(b.id for b in BULLETS)], hidden, index.export_state()))
    return index


def test_a_loaded_index_equals_the_saved_one(tmp_path: Path) -> None:
    index = save_snapshot(tmp_path / "new")
    snapshot = files(tmp_path / "new").load("d")
    assert snapshot
    assert snapshot.index
    assert (snapshot.revision, snapshot.order[0], [b.id for b in snapshot.retired]) == (8, "h", ["h"])
    restored = HybridIndex.restore(snapshot.index, tokenize_mixed)
    assert answers(restored.view) == answers(index.view)
    for changed_index in (index, restored):
        changed_index.apply(
            [create_bullet_entry(bullet(b"n|s1|retry the deadline"))], np.array([[0.0, 1.0, 0.0]]), deleted=["b0"]
        )
    assert answers(restored.view) == answers(index.view)


def test_bullets_are_parsed_on_first_access(tmp_path: Path) -> None:
    index, read = save_snapshot(tmp_path), []

    def reading(serialized_form: bytes) -> IndexedBullet:
        read.append(serialized_form)
        return bullet(serialized_form)

    def restore_index() -> HybridIndex[IndexedBullet]:
        snapshot = SnapshotFiles(tmp_path, {"embedder": "e"}, reading).load("d")
        assert snapshot
        assert snapshot.index
        return HybridIndex.restore(snapshot.index, tokenize_mixed)

    again = restore_index()
    assert read == [b"h|s|hidden"]
    assert [again.contains_item(b.id, b) for b in BULLETS] == [True] * 5
    assert not again.contains_item("b0", bullet(b"b0|s0|another text"))
    files(tmp_path).save("d", IndexSnapshot(9, [], [], again.export_state()))
    assert read == [b"h|s|hidden"]
    assert answers(again.view) == answers(index.view)
    assert answers(restore_index().view) == answers(index.view)


def test_a_restart_builds_no_neighbours_again(tmp_path: Path) -> None:
    index = new_index(3, exact_limit=2, tokenize=tokenize_mixed)
    index.apply([create_bullet_entry(b) for b in BULLETS], np.random.default_rng(7).normal(size=(5, 3)))
    assert index.build_neighbours()
    files(tmp_path).save("d", IndexSnapshot(8, [], [], index.export_state()))
    snapshot = files(tmp_path).load("d")
    assert snapshot
    assert snapshot.index
    restored = HybridIndex.restore(
        snapshot.index, tokenize_mixed, rules(exact_limit=2), lambda arrays: FaissNeighbours.restore(arrays, 200)
    )
    assert not restored.build_neighbours()
    query = ["retry"], np.array([0.6, 0.8, 0], np.float32), CandidateFilter(), Fusion(0.5), 2
    ranking = restored.view.search(*query)
    assert ranking.preselected
    assert list(ranking.results) == list(index.view.search(*query).results)


def test_a_snapshot_of_an_older_format_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(snapshots, "FORMAT", 3)
        save_snapshot(tmp_path)
    assert files(tmp_path).load("d") is None
    assert "was made with" in caplog.text


def test_an_empty_playbook_has_a_snapshot_too(tmp_path: Path) -> None:
    time = datetime(2026, 11, 27, 8, 0, 0, 123456, UTC)
    snapshot: IndexSnapshot[IndexedBullet] = IndexSnapshot(3, [], [], None, time)
    files(tmp_path).save("d", snapshot)
    assert files(tmp_path).load("d") == snapshot


def test_a_missing_snapshot_is_no_error(tmp_path: Path) -> None:
    assert files(tmp_path / "nowhere").load("d") is None


def test_a_snapshot_of_another_embedder_is_not_used(tmp_path: Path) -> None:
    save_snapshot(tmp_path)
    assert files(tmp_path, embedder="other").load("d") is None
    assert files(tmp_path).load("d")


@pytest.mark.parametrize("offset", [0, 5, 20, 44, 100, -1, "half", "empty"])
def test_a_damaged_snapshot_is_reported_put_aside_and_not_used(
    offset: int | str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_snapshot(tmp_path)
    file = tmp_path / "d.index"
    content = bytearray(file.read_bytes())
    if isinstance(offset, int):
        content[offset] ^= 1
    file.write_bytes(content[: {"half": len(content) // 2, "empty": 0}.get(str(offset), len(content))])
    assert files(tmp_path).load("d") is None
    assert "snapshot is damaged" in caplog.text
    assert not file.exists()
    assert (tmp_path / "d.index.damaged").exists()


def test_a_full_disk_leaves_the_snapshot_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save_snapshot(tmp_path)

    def raise_disk_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", raise_disk_full)
    files(tmp_path).save("d", IndexSnapshot(9, [], [], None))
    assert "snapshot could not be written" in caplog.text
    assert "index=d error=[Errno 28] No space left on device" in caplog.text
    monkeypatch.undo()
    snapshot = files(tmp_path).load("d")
    assert snapshot
    assert snapshot.revision == 8
    assert [path.name for path in tmp_path.iterdir()] == ["d.index"]


@given(st.lists(st.binary(max_size=8), max_size=6), st.integers(0, 5))
@settings(max_examples=50)
def test_loaded_arrays_equal_the_saved_ones(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], size: int
) -> None:
    file = tmp_path_factory.mktemp("arrays") / "file"
    arrays = {**pack_bytes(texts, "texts"), "m": np.arange(size * 3, dtype=np.float32).reshape(size, 3)}
    write_arrays(file, {"who": "日本"}, arrays)
    about, read = read_arrays(file)
    assert about == {"who": "日本"}
    assert unpack_bytes(read, "texts") == texts
    assert read["m"].shape == (size, 3)
    assert (read["m"] == arrays["m"]).all()


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x" * 500)
    with pytest.raises(DamagedFileError, match="not an array file"):
        read_arrays(tmp_path / "x")


@pytest.mark.skipif(sys.platform != "linux", reason="pages are dropped on Linux only")
def test_cached_pages_of_a_snapshot_are_dropped_when_nothing_maps_it(tmp_path: Path) -> None:
    def count_cached_pages() -> int:
        content = np.memmap(tmp_path / "d.index", np.uint8, "r")
        pages = np.zeros(-(-content.nbytes // mmap.PAGESIZE), np.uint8)
        assert (
            ctypes.CDLL(None).mincore(*map(ctypes.c_void_p, (content.ctypes.data, content.nbytes, pages.ctypes.data)))
            == 0
        )
        return int(np.count_nonzero(pages & 1))

    file_system = subprocess.run(["stat", "-f", "-c", "%T", str(tmp_path)], capture_output=True, text=True, check=True)
    if file_system.stdout.strip() == "tmpfs":
        pytest.skip("the files of a file system in memory have no other copy")
    save_snapshot(tmp_path)
    loaded = files(tmp_path).load("d")
    assert loaded is not None
    files(tmp_path).drop_cached_pages("d")
    assert count_cached_pages() > 0  # the loaded index maps the file
    del loaded
    files(tmp_path).drop_cached_pages("d")
    assert count_cached_pages() == 0
    files(tmp_path).drop_cached_pages("missing")


def test_an_index_that_was_searched_is_free_as_soon_as_it_is_dropped(tmp_path: Path) -> None:
    save_snapshot(tmp_path)
    snapshot = files(tmp_path).load("d")
    assert snapshot is not None
    assert snapshot.index is not None
    index: HybridIndex[IndexedBullet] = HybridIndex.restore(snapshot.index, tokenize_mixed, rules())
    gc.disable()  # a collection in a process with many objects is rare
    try:
        assert answers(index.view)
        reference = weakref.ref(index.view)
        del index, snapshot
        assert reference() is None
    finally:
        gc.enable()
