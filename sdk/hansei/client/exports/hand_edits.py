"""The deltas of edits that a person made inside a managed block."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from hansei.client.errors import InvalidArgument
from hansei.client.exports.bullet_items import BulletItem, normalize_text, parse_items
from hansei.client.exports.managed_block import ManagedBlock, compute_digest
from hansei.client.exports.targets import PlannedFile
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, DELTA_TYPE_DELETE, DELTA_TYPE_UPDATE, Delta

_NAMESPACE = uuid.UUID("b9d2f0a4-6f0f-5c5e-9f37-0a64c2d1b7e3")
"""The namespace of the idempotency keys below; another one would offer old edits again."""


def find_deltas(block: ManagedBlock, base: PlannedFile | None) -> list[Delta]:
    """Return the deltas from the block as hansei wrote it to the block as it is now.

    `base` is the file at the revision of the block. Raises InvalidArgument for edits that are no deltas, and if the
    block was not written from `base`.
    """
    if base is None or compute_digest(base.body) != block.digest:
        raise InvalidArgument(
            f"the block was edited, and revision {block.revision} does not reproduce the text from before the edit; "
            "--discard-edits overwrites it",
            reason="EXPORT_BASE_UNKNOWN",
        )
    items = parse_items(block.body, base.sections, set(base.body), first_line=block.begin + 2)
    return list(_compare(base.items, items, moves_count=bool(base.sections)))


def _compare(base: Sequence[BulletItem], items: Sequence[BulletItem], *, moves_count: bool) -> Iterator[Delta]:
    by_id = {item.bullet_id: item for item in base}
    for item in items:
        before = by_id.get(item.bullet_id)
        if before is None:
            # An id that hansei did not write is a part of the text.
            prefix = f"[{item.bullet_id}] " if item.bullet_id else ""
            section = item.section or (base[0].section if base else "others")
            if prefix + item.text:
                yield Delta(type=DELTA_TYPE_ADD, section=section, content=prefix + item.text)
        elif moves_count and item.section != before.section:
            raise InvalidArgument(
                f"[{item.bullet_id}] stands under {item.section or 'no heading'} instead of {before.section}; bullets "
                "keep their sections: remove it there, and add its text without the id",
                reason="SECTION_CHANGED",
            )
        elif not item.text:
            yield Delta(type=DELTA_TYPE_DELETE, bullet_id=item.bullet_id)
        elif item.text != normalize_text(before.text):
            yield Delta(type=DELTA_TYPE_UPDATE, bullet_id=item.bullet_id, content=item.text)
    remaining = {item.bullet_id for item in items}
    yield from (Delta(type=DELTA_TYPE_DELETE, bullet_id=id_) for id_ in by_id if id_ not in remaining)


def make_request_id(dataset: str, revision: int, delta: Delta) -> str:
    """Return the idempotency key of an edit: the same edit is offered once, however often it is found."""
    return str(uuid.uuid5(_NAMESPACE, f"{dataset}/{revision}/{delta.SerializeToString(deterministic=True).hex()}"))
