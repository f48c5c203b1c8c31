"""Pack the bodies of a dataset's trajectories together, so that their common parts are stored once (ADR 199).

A pack is compressed as a whole. When one of its trajectories is deleted, it is written again without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from services.evidence.usecases.archive_ports import ArchiveStore, NewPack, PackMember, StoredPack

PACK_BYTES = 256 * 1024
"""Bytes of a pack before compression: a longer one saves little more, and takes longer to read and to write again."""
MIN_UNPACKED = 8
"""Bodies of their own that a dataset may have."""
BATCH = 256
"""Bodies that are packed at once."""


class PackBodies:
    """Packs the bodies of one dataset at a time. `compress` compresses a pack, `decompress` packs and bodies."""

    def __init__(
        self, store: ArchiveStore, *, compress: Callable[[bytes], bytes], decompress: Callable[[bytes], bytes]
    ) -> None:
        self._store = store
        self._compress = compress
        self._decompress = decompress

    async def pack(self, dataset: str) -> None:
        """Pack unpacked bodies, together with the last pack if that is small; rewrite stale packs first."""
        await self.rewrite_stale(dataset)
        while True:
            unpacked = await self._store.list_unpacked(dataset, BATCH)
            if len(unpacked) < MIN_UNPACKED:
                return
            small = await self._store.find_small_pack(dataset, PACK_BYTES // 2)
            packs = await asyncio.to_thread(self._build, [small] if small else [], unpacked)
            if not await self._store.write_packs(dataset, packs, [small.number] if small else []):
                return  # Something was deleted meanwhile; the next call packs the rest.

    async def rewrite_stale(self, dataset: str) -> None:
        """Write the packs of deleted trajectories again, without these."""
        for stale in await self._store.list_stale_packs(dataset):
            packs = await asyncio.to_thread(self._build, [stale], [])
            await self._store.write_packs(dataset, packs, [stale.number])

    def _build(self, packs: Sequence[StoredPack], unpacked: Sequence[tuple[int, bytes]]) -> list[NewPack]:
        """Return new packs of the members of packs and of other bodies, in this order."""
        bodies = [body for pack in packs for body in self._split(pack)]
        bodies += [(number, self._decompress(body)) for number, body in unpacked]
        return [self._join(group) for group in _group(bodies)]

    def _split(self, pack: StoredPack) -> Iterator[tuple[int, bytes]]:
        whole = self._decompress(pack.body)
        for member in pack.members:
            yield member.number, whole[member.start : member.start + member.length]

    def _join(self, bodies: Sequence[tuple[int, bytes]]) -> NewPack:
        members, start = [], 0
        for number, body in bodies:
            members.append(PackMember(number, start, len(body)))
            start += len(body)
        return NewPack(self._compress(b"".join(body for _, body in bodies)), tuple(members))


def _group(bodies: Sequence[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the bodies in groups of at most `PACK_BYTES`; a larger body is a group of its own."""
    group: list[tuple[int, bytes]] = []
    size = 0
    for number, body in bodies:
        if group and size + len(body) > PACK_BYTES:
            yield group
            group, size = [], 0
        group.append((number, body))
        size += len(body)
    if group:
        yield group
