"""SQL statements on packs: bodies of several trajectories that are compressed together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from services.evidence.adapters.sql.archive_schema import archive_pack, archive_trajectory
from services.evidence.usecases.archive_ports import NewPack, PackMember, StoredPack

# Built once, and executed for all members of a pack together.
_ADD_PACK = insert(archive_pack).returning(archive_pack.c.number)
_MOVE_INTO_PACK = (
    update(archive_trajectory)
    .where(
        archive_trajectory.c.dataset_id == bindparam("of_dataset"),
        archive_trajectory.c.number == bindparam("of_number"),
    )
    .values(
        body=None,
        bytes=bindparam("share"),
        pack_number=bindparam("in_pack"),
        pack_start=bindparam("start"),
        pack_length=bindparam("length"),
    )
)


def select_body(connection: Connection, row: Row[Any]) -> tuple[bytes | None, PackMember | None]:
    """Return the compressed body of a trajectory, or that of its pack and the span in it; None for an object."""
    if row.pack_number is None:
        return (None if row.body is None else bytes(row.body)), None
    pack = archive_pack.c
    query = select(pack.body).where(pack.dataset_id == row.dataset_id, pack.number == row.pack_number)
    body = connection.execute(query).scalar_one()
    return bytes(body), PackMember(row.number, row.pack_start, row.pack_length)


def select_unpacked(connection: Connection, dataset_id: int, limit: int) -> list[tuple[int, bytes]]:
    """Return the number and the body of trajectories that are in no pack, the oldest first."""
    columns = archive_trajectory.c
    query = select(columns.number, columns.body).where(columns.dataset_id == dataset_id, columns.body.is_not(None))
    return [(row.number, bytes(row.body)) for row in connection.execute(query.order_by(columns.number).limit(limit))]


def select_small(connection: Connection, dataset_id: int, max_bytes: int) -> StoredPack | None:
    """Return the last pack if it has at most `max_bytes` before compression."""
    columns = archive_pack.c
    query = select(archive_pack).where(columns.dataset_id == dataset_id, columns.is_stale.is_(False))
    row = connection.execute(query.order_by(columns.number.desc()).limit(1)).one_or_none()
    return None if row is None or row.plain_bytes > max_bytes else _load_pack(connection, row)


def select_stale(connection: Connection, dataset_id: int) -> list[StoredPack]:
    """Return the packs that hold bodies of deleted trajectories."""
    columns = archive_pack.c
    query = select(archive_pack).where(columns.dataset_id == dataset_id, columns.is_stale)
    return [_load_pack(connection, row) for row in connection.execute(query.order_by(columns.number)).all()]


def can_be_moved(connection: Connection, dataset_id: int, packs: Sequence[NewPack], replaced: Sequence[int]) -> bool:
    """Return whether the members are exactly the readable bodies of the packs `replaced` and unpacked bodies."""
    moved = {member.number for pack in packs for member in pack.members}
    columns = archive_trajectory.c
    numbers = select(columns.number).where(columns.dataset_id == dataset_id)
    in_packs = numbers.where(columns.pack_number.in_(replaced))
    left = moved - set(connection.scalars(in_packs))
    if len(moved) - len(left) != len(connection.execute(in_packs).all()):
        return False
    own = numbers.where(columns.number.in_(left), columns.body.is_not(None))
    return len(connection.execute(own).all()) == len(left)


def insert_packs(connection: Connection, dataset_id: int, packs: Sequence[NewPack]) -> int:
    """Insert packs and move the members into them; return how many bytes more the bodies take than before."""
    columns = archive_trajectory.c
    numbers = [member.number for pack in packs for member in pack.members]
    present = select(func.sum(columns.bytes)).where(columns.dataset_id == dataset_id, columns.number.in_(numbers))
    before = int(connection.execute(present).scalar_one() or 0)
    for pack in packs:
        plain = sum(member.length for member in pack.members)
        values = {"dataset_id": dataset_id, "plain_bytes": plain, "is_stale": False, "body": pack.body}
        number = connection.execute(_ADD_PACK, values).scalar_one()
        shares = zip(pack.members, _share(len(pack.body), pack.members), strict=True)
        moved = [
            {
                "of_dataset": dataset_id,
                "of_number": member.number,
                "in_pack": number,
                "start": member.start,
                "length": member.length,
                "share": share,
            }
            for member, share in shares
        ]
        connection.execute(_MOVE_INTO_PACK, moved)
    return sum(len(pack.body) for pack in packs) - before


def delete_packs(connection: Connection, dataset_id: int, numbers: Sequence[int]) -> None:
    """Delete packs whose members have moved."""
    pack = archive_pack.c
    connection.execute(delete(archive_pack).where(pack.dataset_id == dataset_id, pack.number.in_(numbers)))


def _load_pack(connection: Connection, row: Row[Any]) -> StoredPack:
    columns = archive_trajectory.c
    query = select(columns.number, columns.pack_start, columns.pack_length).where(
        columns.dataset_id == row.dataset_id, columns.pack_number == row.number
    )
    members = [PackMember(*member) for member in connection.execute(query.order_by(columns.pack_start))]
    return StoredPack(row.number, bytes(row.body), tuple(members))


def _share(size: int, members: Sequence[PackMember]) -> list[int]:
    """Return how many of `size` bytes each member takes, by its length; their sum is `size`."""
    total, end, ends = sum(member.length for member in members), 0, [0]
    for member in members:
        end += member.length
        ends.append(size * end // max(total, 1))
    ends[-1] = size
    return [after - before for before, after in pairwise(ends)]
