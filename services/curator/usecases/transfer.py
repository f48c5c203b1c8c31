"""Import and export of whole playbooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.curator.domain.draft import Ballot, Draft
from services.curator.domain.log import Origin, Stored
from services.curator.domain.playbook import Bullet, Playbook
from services.curator.usecases.ports import DatasetTransaction

MAX_FILE_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 512 * 1024


@dataclass(slots=True)
class Imported:
    """What an import did; `revision` is the newest one after it."""

    revision: int = 0
    added: int = 0
    updated: int = 0
    removed: int = 0


def import_playbook(dataset: DatasetTransaction, playbook: Playbook, origin: Origin, *, replace: bool) -> Imported:
    """Makes the playbook the file's (`replace`), or adds and updates the file's bullets by id, as one revision.

    The counters of a new bullet are one vote event, cast by the import. An import that extends leaves the votes of
    bullets that are there; one that replaces makes the counters those of the file.
    """
    draft = dataset.draft()
    told = Imported()
    voter = f"import:{origin.request_id}"
    known: dict[str, list[Stored]] = {}
    for stored in dataset.everything():
        known.setdefault(stored.bullet.id, []).append(stored)
    if replace:
        _replace(dataset, draft, playbook.bullets, known, voter, told)
    else:
        _extend(draft, playbook.bullets, known, voter, told)
    if dataset.revision == 0 or replace:
        dataset.set_created_at(playbook.metadata.created_at)
    if not draft.empty:
        summary = f"imported: {told.added} added, {told.updated} updated, {told.removed} removed"
        dataset.append(draft, origin, summary)
    told.revision = dataset.revision
    return told


def _extend(
    draft: Draft, bullets: Iterable[Bullet], known: dict[str, list[Stored]], voter: str, told: Imported
) -> None:
    for bullet in bullets:
        same_id = known.get(bullet.id)
        if same_id:
            _update(draft, same_id.pop(0), bullet, told)
        else:
            _place(draft, bullet, voter, told)


def _replace(
    dataset: DatasetTransaction,
    draft: Draft,
    bullets: Sequence[Bullet],
    known: dict[str, list[Stored]],
    voter: str,
    told: Imported,
) -> None:
    """Bullets keep their slots as long as the file has them in the same order; from the first that does not, all
    that follow are placed anew, because slot order is playbook order."""
    last = -1
    kept: set[int] = set()
    in_order = True
    for bullet in bullets:
        same_id = known.get(bullet.id)
        in_order = in_order and bool(same_id) and same_id is not None and same_id[0].slot > last
        if in_order and same_id:
            stored = same_id.pop(0)
            last = stored.slot
            kept.add(last)
            _match_votes(dataset, draft, _update(draft, stored, bullet, told), bullet, voter)
        else:
            _place(draft, bullet, voter, told)
    for stored in dataset.everything():
        if stored.slot not in kept:
            draft.remove(stored)
            told.removed += 1


def _place(draft: Draft, bullet: Bullet, voter: str, told: Imported) -> None:
    stored = draft.place(bullet)
    told.added += 1
    if bullet.helpful or bullet.harmful:
        draft.count(stored, Ballot(stored.slot, voter, 0, bullet.helpful, bullet.harmful))


def _update(draft: Draft, stored: Stored, bullet: Bullet, told: Imported) -> Stored:
    """The bullet with what the file says of it, its votes aside; what the file leaves out stays."""
    said = bullet.model_fields_set - {"helpful", "harmful"}
    wanted = stored.bullet.having(**{name: getattr(bullet, name) for name in said})
    if wanted == stored.bullet:
        return stored
    told.updated += 1
    return draft.rewrite(stored, wanted)


def _match_votes(dataset: DatasetTransaction, draft: Draft, stored: Stored, bullet: Bullet, voter: str) -> None:
    """Where the file has other counters, its sum takes the place of the events it does not tell of."""
    if (stored.bullet.helpful, stored.bullet.harmful) == (bullet.helpful, bullet.harmful):
        return
    for ballot in dataset.ballots_on(stored.slot):
        stored = draft.uncount(stored, ballot)
    draft.count(stored, Ballot(stored.slot, voter, 0, bullet.helpful, bullet.harmful))


def chunks(text: str) -> Iterable[bytes]:
    """The text as UTF-8 in parts of at most CHUNK_BYTES."""
    content = text.encode("utf-8")
    return (content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES))
