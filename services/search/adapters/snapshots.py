"""Snapshots of indexes as files, one a playbook."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from services.search.adapters.array_file import DamagedFileError, packed, read_arrays, unpacked, write_arrays
from services.search.domain.bullet import Bullet
from services.search.domain.frozen import FrozenIndex, FrozenTerms
from services.search.domain.snapshot import IndexSnapshot

log = logging.getLogger(__name__)

FORMAT = 1


class SnapshotFiles:
    """Snapshots in a folder, as `<dataset>.index`.

    ``made_with`` names what the arrays depend on, embedder and tokeniser: a snapshot made with anything else is not
    used. A damaged file is reported, put aside as `<dataset>.index.damaged`, and the index is built anew.
    """

    def __init__(self, folder: Path, made_with: Mapping[str, str], unpack: Callable[[bytes], Bullet]) -> None:
        self._folder = folder
        self._made_with = {"format": str(FORMAT), **made_with}
        self._unpack = unpack

    def load(self, dataset: str) -> IndexSnapshot | None:
        """The snapshot; None if there is none, or none that can be used."""
        path = self._path(dataset)
        try:
            about, arrays = read_arrays(path)
            if about["made_with"] != self._made_with:
                log.warning("%s was made with %s, not with %s", path, about["made_with"], self._made_with)
                return None
            return self._snapshot(about, arrays)
        except FileNotFoundError:
            return None
        except (DamagedFileError, OSError, LookupError, ValueError, TypeError) as error:
            log.error("%s is damaged and is built anew: %s", path, error)
            self._put_aside(path)
            return None

    def save(self, dataset: str, snapshot: IndexSnapshot) -> None:
        """Keep this one from now on. A disk that is full is logged, and costs a slower restart."""
        index = snapshot.index
        about = {"made_with": self._made_with, "revision": snapshot.revision, "indexed": index is not None}
        arrays = {
            **packed([entry_id.encode() for entry_id in snapshot.order], "order"),
            **packed([bullet.origin for bullet in snapshot.hidden], "hidden"),
        }
        if index is not None:
            arrays |= packed([bullet.origin for bullet in index.items], "items")
            arrays |= {"confidence": index.confidence, "lengths": index.lengths, "vectors": index.vectors}
            arrays |= _terms_arrays(index.terms, "terms") | _terms_arrays(index.facets, "facets")
        try:
            write_arrays(self._path(dataset), about, arrays)
        except OSError as error:
            log.error("the snapshot of %s could not be written: %s", dataset, error)

    def _snapshot(self, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> IndexSnapshot:
        index = None
        if about["indexed"]:
            items = [self._unpack(origin) for origin in unpacked(arrays, "items")]
            index = FrozenIndex(
                revision=about["revision"],
                ids=[bullet.id for bullet in items],
                items=items,
                confidence=arrays["confidence"],
                lengths=arrays["lengths"],
                vectors=arrays["vectors"],
                terms=_terms_from(arrays, "terms"),
                facets=_terms_from(arrays, "facets"),
            )
        return IndexSnapshot(
            about["revision"],
            [entry_id.decode() for entry_id in unpacked(arrays, "order")],
            [self._unpack(origin) for origin in unpacked(arrays, "hidden")],
            index,
        )

    def _path(self, dataset: str) -> Path:
        return self._folder / f"{dataset}.index"

    def _put_aside(self, path: Path) -> None:
        try:
            path.replace(path.with_name(f"{path.name}.damaged"))
        except OSError as error:
            log.error("%s could not be put aside: %s", path, error)


def _terms_arrays(terms: FrozenTerms, name: str) -> dict[str, NDArray[Any]]:
    return {
        **packed([term.encode("utf-8", "surrogatepass") for term in terms.names], f"{name}.names"),
        f"{name}.pointers": terms.pointers,
        f"{name}.numbers": terms.numbers,
        f"{name}.counts": terms.counts,
    }


def _terms_from(arrays: Mapping[str, NDArray[Any]], name: str) -> FrozenTerms:
    names = [term.decode("utf-8", "surrogatepass") for term in unpacked(arrays, f"{name}.names")]
    return FrozenTerms(names, arrays[f"{name}.pointers"], arrays[f"{name}.numbers"], arrays[f"{name}.counts"])
