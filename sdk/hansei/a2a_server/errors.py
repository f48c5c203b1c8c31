"""Errors of hansei as errors of A2A."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from hansei.client.errors import FailedPrecondition, HanseiError, InvalidArgument, NotFound

_ERRORS: dict[type[HanseiError], type[A2AError]] = {
    InvalidArgument: InvalidParamsError,
    NotFound: TaskNotFoundError,
    FailedPrecondition: UnsupportedOperationError,
}


@contextmanager
def report_errors() -> Iterator[None]:
    """Raise errors of hansei as errors of A2A, with the message, the reason and the wrong fields."""
    try:
        yield
    except HanseiError as error:
        kind = next((a2a for own, a2a in _ERRORS.items() if isinstance(error, own)), InternalError)
        fields = [{"field": item.field, "message": item.description} for item in error.violations]
        raise kind(f"{error.message} [{error.reason}]", {"errors": fields} if fields else None) from error


def build_field_error(field: str, rule: str) -> InvalidParamsError:
    """Return the error for a wrong field of a request."""
    return InvalidParamsError(f"{field}: {rule}", {"errors": [{"field": field, "message": rule}]})
