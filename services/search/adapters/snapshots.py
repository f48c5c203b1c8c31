"""Snapshots of indexes as files, one an index."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Generic

from numpy.typing import NDArray

from chassis.logging import get_logger
from services.search.adapters.array_file import (
    DamagedFileError,
    pack_bytes,
    read_arrays,
    read_header,
    unpack_bytes,
    write_arrays,
)
from services.search.domain.items import Items, SerializedItem
from services.search.domain.snapshot import IndexSnapshot, IndexState, StoredItemT

log = get_logger(__name__)

FORMAT = 7
UNFINISHED_SECONDS = 3600
"""Seconds without a write after which the process that began a file has died."""


class SnapshotFiles(Generic[StoredItemT]):
    """Snapshots in a folder, as `<name>.index`.

    ``made_with`` names the embedder and the tokeniser; snapshots made with others are not used. A damaged file is
    logged and renamed to `<name>.index.damaged`, and the index is built again.
    """

    def __init__(self, folder: Path, made_with: Mapping[str, str], parse_item: Callable[[bytes], StoredItemT]) -> None:
        self._folder = folder
        self._made_with = {"format": str(FORMAT), **made_with}
        self._parse_item = parse_item

    def find_former_models(self) -> dict[str, str]:
        """Return the embedding models of the snapshots that only the model makes unusable, by name of the snapshot."""
        models: dict[str, str] = {}
        for path in self._folder.glob("*.index"):
            try:
                made_with = read_header(path)["made_with"]
            except (DamagedFileError, OSError, LookupError):
                continue  # `load` reports it.
            if made_with != self._made_with and made_with == {**self._made_with, "embedder": made_with["embedder"]}:
                models[path.stem] = made_with["embedder"]
        return models

    def list_newest(self, limit: int) -> list[str]:
        """Return the names of the snapshots that were written last, the newest at the end."""
        written: list[tuple[int, str]] = []
        for path in self._folder.glob("*.index"):
            with suppress(FileNotFoundError):  # deleted meanwhile
                written.append((path.stat().st_mtime_ns, path.stem))
        return [name for _, name in sorted(written)[-limit:]]

    def load(self, name: str) -> IndexSnapshot[StoredItemT] | None:
        """Return the snapshot; None if there is none that can be used."""
        path = self._locate_path(name)
        try:
            header, arrays = read_arrays(path)
            if header["made_with"] != self._made_with:
                log.warning(
                    "snapshot was made with another model or version; not using it",
                    file=str(path),
                    made_with=header["made_with"],
                    wanted=self._made_with,
                )
                return None
            return self._decode(header, arrays)
        except FileNotFoundError:
            return None
        except (DamagedFileError, OSError, LookupError, ValueError, TypeError) as error:
            log.error("snapshot is damaged; rebuilding the index", file=str(path), error=str(error))
            self._rename_damaged(path)
            return None

    def save(self, name: str, snapshot: IndexSnapshot[StoredItemT]) -> None:
        """Replace the snapshot. A full disk is logged; it only makes the next start slower."""
        index = snapshot.index
        array_names = None if index is None else list(index.arrays)
        committed_at = snapshot.committed_at.isoformat() if snapshot.committed_at else None
        header = {
            "made_with": self._made_with,
            "revision": snapshot.revision,
            "committed_at": committed_at,
            "arrays": array_names,
        }
        arrays = {
            **pack_bytes([entry_id.encode() for entry_id in snapshot.order], "order"),
            **pack_bytes([item.serialized_form for item in snapshot.retired], "retired"),
        }
        if index is not None:
            arrays |= _pack_names(index.ids, "ids") | pack_bytes(index.items.list_serialized_items(), "items")
            arrays |= _pack_names(index.terms, "terms") | _pack_names(index.facets, "facets") | dict(index.arrays)
        try:
            write_arrays(self._locate_path(name), header, arrays)
        except OSError as error:
            log.error("snapshot could not be written; the next start rebuilds the index", index=name, error=str(error))

    def delete(self, name: str) -> None:
        """Delete the snapshot, also a damaged one. A file that cannot be removed is logged; it is never used again."""
        path = self._locate_path(name)
        for file in (path, _locate_damaged(path)):
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                log.error("snapshot could not be removed", index=name, error=str(error))

    def delete_before(self, name: str, revision: int) -> None:
        """Delete the snapshot, unless it shows this revision or a later one."""
        try:
            is_older = read_header(self._locate_path(name))["revision"] < revision
        except FileNotFoundError:
            is_older = _locate_damaged(self._locate_path(name)).exists()
        except (DamagedFileError, OSError, LookupError, TypeError):
            is_older = True
        if is_older:
            self.delete(name)

    def drop_cached_pages(self, name: str) -> None:
        """Drop the content of the snapshot from the page cache, which counts as memory of the container."""
        if sys.platform == "linux":
            with suppress(OSError), self._locate_path(name).open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _decode(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> IndexSnapshot[StoredItemT]:
        index = None
        if header["arrays"] is not None:
            index = IndexState(
                header["revision"],
                _unpack_names(arrays, "ids"),
                Items(
                    [SerializedItem(serialized_form) for serialized_form in unpack_bytes(arrays, "items")],
                    self._parse_item,
                ),
                _unpack_names(arrays, "terms"),
                _unpack_names(arrays, "facets"),
                {name: arrays[name] for name in header["arrays"]},
            )
        return IndexSnapshot(
            header["revision"],
            [entry_id.decode() for entry_id in unpack_bytes(arrays, "order")],
            [self._parse_item(serialized_form) for serialized_form in unpack_bytes(arrays, "retired")],
            index,
            datetime.fromisoformat(committed_at) if (committed_at := header.get("committed_at")) else None,
        )

    def _locate_path(self, name: str) -> Path:
        return self._folder / f"{name}.index"

    def _rename_damaged(self, path: Path) -> None:
        try:
            path.replace(_locate_damaged(path))
        except OSError as error:
            log.error("damaged snapshot could not be moved", file=str(path), error=str(error))


def _locate_damaged(path: Path) -> Path:
    return path.with_name(f"{path.name}.damaged")


class NoSnapshots(Generic[StoredItemT]):
    """Stores nothing: each start builds the indexes from the feed and the database."""

    def find_former_models(self) -> Mapping[str, str]:
        """Return nothing."""
        return {}

    def list_newest(self, limit: int) -> Sequence[str]:
        """Return nothing."""
        return ()

    def load(self, name: str) -> IndexSnapshot[StoredItemT] | None:
        """Return None."""
        return None

    def save(self, name: str, snapshot: IndexSnapshot[StoredItemT]) -> None:
        """Store nothing."""

    def delete(self, name: str) -> None:
        """Delete nothing."""

    def delete_before(self, name: str, revision: int) -> None:
        """Delete nothing."""

    def drop_cached_pages(self, name: str) -> None:
        """Drop nothing."""


def _pack_names(names: Sequence[str], name: str) -> dict[str, NDArray[Any]]:
    return pack_bytes([text.encode("utf-8", "surrogatepass") for text in names], f"{name}.names")


def _unpack_names(arrays: Mapping[str, NDArray[Any]], name: str) -> list[str]:
    return [text.decode("utf-8", "surrogatepass") for text in unpack_bytes(arrays, f"{name}.names")]


def delete_unfinished_snapshots(folder: Path) -> None:
    """Delete what processes that died left of snapshots in a folder and those directly in it; no other files."""
    until = time.time() - UNFINISHED_SECONDS
    for pattern in ("*.index.*.tmp", "*/*.index.*.tmp"):
        for path in folder.glob(pattern):
            with suppress(OSError):  # renamed meanwhile, or not deletable
                if path.stat().st_mtime < until:
                    path.unlink()
