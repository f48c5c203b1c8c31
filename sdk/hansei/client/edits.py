"""The edits of one bullet that a caller names: remember, forget, edit. Each is one delta of `ApplyDeltas`."""

from __future__ import annotations

from typing import TypedDict

from chassis.errors import shorten
from hansei.client.calls import build_message
from hansei.client.errors import Aborted, InvalidArgument, NotFound, Violation
from hansei.playbook.v1.playbook_pb2 import DELTA_TYPE_ADD, DELTA_TYPE_DELETE, DELTA_TYPE_UPDATE, Delta
from hansei.playbook.v1.playbook_service_pb2 import ApplyDeltasResponse

DEFAULT_SECTION = "strategies_and_hard_rules"


class EditOptions(TypedDict, total=False):
    """The options of `remember`, `forget` and `edit`."""

    author: str
    """The author of the revision; empty: the caller, or `api` if the gateway asks for no credential."""
    reason: str
    """The reason, for the history."""
    base_revision: int | None
    """The revision that the caller read: an edit of a bullet that changed after it is refused."""
    request_id: str
    """The idempotency key: a repeated one returns the stored response and changes nothing."""


def build_addition(text: str, section: str) -> Delta:
    """Return the delta of `remember`. Raises InvalidArgument."""
    return build_message(Delta, type=DELTA_TYPE_ADD, section=section, content=_check_content(text))


def build_removal(bullet_id: str) -> Delta:
    """Return the delta of `forget`. Raises InvalidArgument."""
    return build_message(Delta, type=DELTA_TYPE_DELETE, bullet_id=bullet_id)


def build_replacement(bullet_id: str, text: str) -> Delta:
    """Return the delta of `edit`. Raises InvalidArgument."""
    return build_message(Delta, type=DELTA_TYPE_UPDATE, bullet_id=bullet_id, content=_check_content(text))


def _check_content(text: object) -> str:
    content = text.strip() if isinstance(text, str) else ""
    problem = "contains a NUL character" if "\0" in content else "" if content else "is blank"
    if not isinstance(text, str):
        problem = f"must be a str (got {shorten(text)})"
    if problem:
        raise InvalidArgument(f"the text of a lesson {problem}", violations=[Violation("text", problem)])
    return content


def is_bullet_missing(response: ApplyDeltasResponse) -> bool:
    """Return whether the one edit is of a bullet that the dataset does not have; the dataset may not exist either."""
    (operation,) = response.operations
    is_done = operation.applied or response.pending or response.conflicts
    return not is_done and operation.delta.type != DELTA_TYPE_ADD


def accept(response: ApplyDeltasResponse, dataset: str) -> ApplyDeltasResponse:
    """Return the response to one edit: it is applied, waits for review, or the same lesson is already there.

    Raises:
        NotFound: the dataset has no bullet with this id.
        Aborted: the bullet changed after the base revision.
        InvalidArgument: the curator refused the lesson.
    """
    (operation,) = response.operations
    if operation.applied or response.pending:
        return response
    if response.conflicts:
        raise Aborted(f"{operation.bullet_id}: {operation.skipped_reason}", reason="BULLET_CHANGED")
    if is_bullet_missing(response):
        raise NotFound(
            f'dataset "{dataset}" has no bullet "{operation.delta.bullet_id}"; find ids with a search',
            reason="BULLET_NOT_FOUND",
        )
    if not operation.bullet_id:
        raise InvalidArgument(operation.skipped_reason, violations=[Violation("text", operation.skipped_reason)])
    return response
