"""Snapshots of indexes as files, one an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic

from numpy.typing import NDArray

from chassis.logging import get_logger
from services.search.adapters.array_file import (
    DamagedFileError,
    packed,
    read_about,
    read_arrays,
    unpacked,
    write_arrays,
)
from services.search.domain.items import Items, Unread
from services.search.domain.snapshot import IndexSnapshot, IndexState, KeptT

log = get_logger(__name__)

FORMAT = 4


class SnapshotFiles(Generic[KeptT]):
    """Snapshots in a folder, as `<name>.index`.

    ``made_with`` names what the arrays depend on, embedder and tokeniser: a snapshot made with anything else is not
    used. A damaged file is reported, put aside as `<name>.index.damaged`, and the index is built anew.
    """

    def __init__(self, folder: Path, made_with: Mapping[str, str], unpack: Callable[[bytes], KeptT]) -> None:
        self._folder = folder
        self._made_with = {"format": str(FORMAT), **made_with}
        self._unpack = unpack

    def embedders(self) -> dict[str, str]:
        """By name, the embedders of the snapshots that only another embedder keeps from being used."""
        others: dict[str, str] = {}
        for path in self._folder.glob("*.index"):
            try:
                made_with = read_about(path)["made_with"]
            except (DamagedFileError, OSError, LookupError):
                continue  # `load` reports it.
            if made_with != self._made_with and made_with == {**self._made_with, "embedder": made_with["embedder"]}:
                others[path.stem] = made_with["embedder"]
        return others

    def load(self, name: str) -> IndexSnapshot[KeptT] | None:
        """The snapshot; None if there is none, or none that can be used."""
        path = self._path(name)
        try:
            about, arrays = read_arrays(path)
            if about["made_with"] != self._made_with:
                log.warning(
                    "snapshot was made with another model or version; not using it",
                    file=str(path),
                    made_with=about["made_with"],
                    wanted=self._made_with,
                )
                return None
            return self._snapshot(about, arrays)
        except FileNotFoundError:
            return None
        except (DamagedFileError, OSError, LookupError, ValueError, TypeError) as error:
            log.error("snapshot is damaged; rebuilding the index", file=str(path), error=str(error))
            self._put_aside(path)
            return None

    def save(self, name: str, snapshot: IndexSnapshot[KeptT]) -> None:
        """Keep this one from now on. A disk that is full is logged, and costs a slower restart."""
        index = snapshot.index
        of_index = None if index is None else list(index.arrays)
        about = {"made_with": self._made_with, "revision": snapshot.revision, "arrays": of_index}
        arrays = {
            **packed([entry_id.encode() for entry_id in snapshot.order], "order"),
            **packed([kept.origin for kept in snapshot.hidden], "hidden"),
        }
        if index is not None:
            arrays |= _pack_names(index.ids, "ids") | packed(index.items.origins(), "items")
            arrays |= _pack_names(index.terms, "terms") | _pack_names(index.facets, "facets") | dict(index.arrays)
        try:
            write_arrays(self._path(name), about, arrays)
        except OSError as error:
            log.error("snapshot could not be written", index=name, error=str(error))

    def forget(self, name: str) -> None:
        """Keep none any more. A file that cannot be removed is logged: it is never used again."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            log.error("snapshot could not be removed", index=name, error=str(error))

    def _snapshot(self, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> IndexSnapshot[KeptT]:
        index = None
        if about["arrays"] is not None:
            index = IndexState(
                about["revision"],
                _unpack_names(arrays, "ids"),
                Items([Unread(origin) for origin in unpacked(arrays, "items")], self._unpack),
                _unpack_names(arrays, "terms"),
                _unpack_names(arrays, "facets"),
                {name: arrays[name] for name in about["arrays"]},
            )
        return IndexSnapshot(
            about["revision"],
            [entry_id.decode() for entry_id in unpacked(arrays, "order")],
            [self._unpack(origin) for origin in unpacked(arrays, "hidden")],
            index,
        )

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.index"

    def _put_aside(self, path: Path) -> None:
        try:
            path.replace(path.with_name(f"{path.name}.damaged"))
        except OSError as error:
            log.error("damaged snapshot could not be moved", file=str(path), error=str(error))


class NoSnapshots(Generic[KeptT]):
    """Keeps no snapshots: after a restart the indexes are made of the feed and of the database."""

    def embedders(self) -> Mapping[str, str]:
        """Return nothing: no snapshot was made by any embedder."""
        return {}

    def load(self, name: str) -> IndexSnapshot[KeptT] | None:
        """Return None."""
        return None

    def save(self, name: str, snapshot: IndexSnapshot[KeptT]) -> None:
        """Keep nothing."""

    def forget(self, name: str) -> None:
        """Forget nothing."""


def _pack_names(names: Sequence[str], name: str) -> dict[str, NDArray[Any]]:
    return packed([each.encode("utf-8", "surrogatepass") for each in names], f"{name}.names")


def _unpack_names(arrays: Mapping[str, NDArray[Any]], name: str) -> list[str]:
    return [each.decode("utf-8", "surrogatepass") for each in unpacked(arrays, f"{name}.names")]
