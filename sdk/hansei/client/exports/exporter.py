"""Write the files of a target, and offer the hand edits that are in them for review."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from chassis.files import replace_file
from hansei.client.errors import InvalidArgument
from hansei.client.exports.files import locate_file, read_file
from hansei.client.exports.front_matter import find_end, is_blank, replace_metadata
from hansei.client.exports.hand_edits import find_deltas, make_request_id
from hansei.client.exports.kinds import ExportKind
from hansei.client.exports.managed_block import ManagedBlock, find_block, format_block, replace_block
from hansei.client.exports.targets import REVISION_FIELD, ExportTarget, PlannedFile, make_slug, plan_files
from hansei.client.pages import iterate_items, join_pages
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, Delta, Playbook

if TYPE_CHECKING:
    from hansei.client.client import Client


class FileState(StrEnum):
    """The outcome of an export for one file."""

    WRITTEN = "written"
    CURRENT = "current"
    REMOVED = "removed"
    WAITING = "waiting"
    """It has edits that wait for review, and stays as it is until they are decided."""
    REFUSED = "refused"
    """It has edits that cannot be deltas, and stays as it is."""


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The outcome of an export for one file, with the reason if it stays as it is."""

    path: PurePosixPath
    dataset: str
    revision: int
    state: FileState
    bullets: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _EditReview:
    """The edits of one block: ids of changes that wait, reasons of refused edits, and the number of all edits."""

    waiting: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    decided: int = 0


class TargetExport:
    """One run of an export: the newest playbook, and the files of the target."""

    def __init__(self, client: Client, project: Path, target: ExportTarget, *, discard_edits: bool = False) -> None:
        """Read the playbook. Edits inside the blocks are overwritten if `discard_edits`."""
        self._client = client
        self._project = project
        self._target = target
        self._discard_edits = discard_edits
        self._playbook = self._load_playbook()
        self._plan = plan_files(target, self._playbook)
        self._base_files: dict[int, dict[PurePosixPath, PlannedFile]] = {}

    @property
    def omitted_bullets(self) -> int:
        """Return the number of active bullets that no file has."""
        return self._plan.omitted

    def write(self) -> Iterator[FileOutcome]:
        """Write the files one after the other, and yield the outcome of each."""
        for file in self._plan.files:
            yield self._write_file(file)
        planned = {file.path for file in self._plan.files}
        for path in self._find_former_rules():
            if path not in planned and (outcome := self._remove_rule(path)):
                yield outcome

    def format_new(self) -> str:
        """Return the text of the files as if none existed."""
        return "\n".join("\n".join(self._build_lines(file, [], None)) for file in self._plan.files)

    def _load_playbook(self, revision: int | None = None) -> Playbook:
        options = {} if revision is None else {"revision": revision}
        playbook: Playbook = join_pages(self._client.playbooks.get, dataset=self._target.dataset, **options).playbook
        return playbook

    def _write_file(self, file: PlannedFile) -> FileOutcome:
        path = locate_file(self._project, file.path)
        text = read_file(path)
        line_end = "\r\n" if text and "\r\n" in text else "\n"
        lines = text.replace("\r\n", "\n").split("\n") if text else []
        try:
            block = find_block(lines, self._target.dataset)
            review = self._review_edits(file.path, block)
        except InvalidArgument as error:
            return self._build_file_outcome(file.path, FileState.REFUSED, notes=(error.message,))
        if review.refused:
            return self._build_file_outcome(file.path, FileState.REFUSED, notes=review.refused)
        if review.waiting:
            return self._build_file_outcome(file.path, FileState.WAITING, notes=review.waiting)
        new_text = line_end.join(self._build_lines(file, lines, block))
        if new_text == text:
            return self._build_file_outcome(file.path, FileState.CURRENT, len(file.items))
        replace_file(path, new_text.encode("utf-8"))
        notes = (f"edits that were decided or had no effect: {review.decided}",) if review.decided else ()
        return self._build_file_outcome(file.path, FileState.WRITTEN, len(file.items), notes)

    def _build_lines(self, file: PlannedFile, lines: Sequence[str], block: ManagedBlock | None) -> list[str]:
        """Return the lines of a file with the new block; a new file also has the front matter."""
        new_block = format_block(self._target.dataset, self._playbook.revision, file.body)
        if not is_blank(lines):
            lines = replace_metadata(lines, REVISION_FIELD, f'"{self._playbook.revision}"')
            return replace_block(lines, block, new_block)
        return replace_block(file.front_matter, None, new_block)

    def _review_edits(self, path: PurePosixPath, block: ManagedBlock | None) -> _EditReview:
        """Offer the edits of a block for review, and return the state of their review.

        Raises InvalidArgument for edits that are no deltas.
        """
        if block is None or not block.is_edited or self._discard_edits:
            return _EditReview()
        deltas = find_deltas(block, self._load_base_files(block.revision).get(path))
        reviews = [self._offer(path, block.revision, delta) for delta in deltas]
        pending = {id_ for review in reviews for id_ in review.waiting}
        return _EditReview(
            waiting=tuple(sorted(pending & self._load_waiting_ids())) if pending else (),
            refused=tuple(reason for review in reviews for reason in review.refused),
            decided=len(deltas),
        )

    def _offer(self, path: PurePosixPath, revision: int, delta: Delta) -> _EditReview:
        """Send one edit as a delta that waits for review. The same edit is sent once, by its idempotency key."""
        response = self._client.playbooks.apply_deltas(
            dataset=self._target.dataset,
            base_revision=revision,
            deltas=[delta],
            hold_for_review=True,
            reason=f"edited by hand in {path}",
            request_id=make_request_id(self._target.dataset, revision, delta),
        )
        (operation,) = response.operations
        if response.pending or (delta.type == DELTA_TYPE_ADD and operation.bullet_id):
            # Without a pending change, the playbook has the added lesson already.
            return _EditReview(tuple(change.id for change in response.pending))
        name = f"[{delta.bullet_id}]" if delta.bullet_id else "an added lesson"
        return _EditReview(refused=(f"{name}: {operation.skipped_reason}",))

    def _load_waiting_ids(self) -> set[str]:
        changes = iterate_items(self._client.playbooks.list_pending_changes, "changes", dataset=self._target.dataset)
        return {change.id for change in changes}

    def _load_base_files(self, revision: int) -> dict[PurePosixPath, PlannedFile]:
        """Return the files of the target as an earlier revision gives them."""
        if revision not in self._base_files:
            plan = plan_files(self._target, self._load_playbook(revision))
            self._base_files[revision] = {file.path: file for file in plan.files}
        return self._base_files[revision]

    def _find_former_rules(self) -> Iterator[PurePosixPath]:
        """Yield the rules of hookify that this target wrote, also for bullets that do not exist any more."""
        if self._target.kind is not ExportKind.HOOKIFY:
            return
        folder = PurePosixPath(self._target.file or ".claude")
        pattern = f"hookify.hansei-{make_slug(self._target.dataset)}-*.local.md"
        for path in sorted(locate_file(self._project, folder).glob(pattern)):
            yield folder / path.name

    def _remove_rule(self, relative: PurePosixPath) -> FileOutcome | None:
        """Remove the rule of a bullet that has none any more, unless somebody edited it or it is another playbook's."""
        path = locate_file(self._project, relative)
        lines = (read_file(path) or "").replace("\r\n", "\n").split("\n")
        try:
            block = find_block(lines, self._target.dataset)
        except InvalidArgument as error:
            return self._build_file_outcome(relative, FileState.REFUSED, notes=(error.message,))
        if block is None:
            return None
        others = [*lines[find_end(lines) : block.begin], *lines[block.end + 1 :]]
        if not self._discard_edits and (block.is_edited or not is_blank(others)):
            note = "the bullet of this rule was removed, but a person edited the rule; remove the file by hand"
            return self._build_file_outcome(relative, FileState.REFUSED, notes=(note,))
        path.unlink()
        return self._build_file_outcome(relative, FileState.REMOVED)

    def _build_file_outcome(
        self, path: PurePosixPath, state: FileState, bullets: int = 0, notes: tuple[str, ...] = ()
    ) -> FileOutcome:
        return FileOutcome(path, self._target.dataset, self._playbook.revision, state, bullets, notes)
