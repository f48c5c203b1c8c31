"""The errors that may cross a service boundary.

    HanseiError
    ├── InvalidArgument (ValueError)      the request breaks a rule; sending it again cannot help
    ├── OutOfRange (ValueError)           valid once, past the end now (a compacted revision, a spent cursor)
    ├── NotFound (LookupError)            the named thing does not exist
    ├── AlreadyExists                     the named thing exists and may not be replaced
    │   └── RequestIdReused               the id of a mutation was sent again with another payload
    ├── FailedPrecondition                the state forbids it; change the state first
    │   └── ClientClosed                  the caller's own process has closed the connection
    ├── Aborted                           lost a race; read again, then retry
    ├── ResourceExhausted                 too busy, or a quota is used up; retry_after says when to come back
    ├── Unavailable                       a peer, a model or a store does not answer; may pass
    ├── DeadlineExceeded (TimeoutError)   no time left
    ├── DataLoss                          stored data is corrupt
    ├── PermissionDenied                  known caller, not allowed
    ├── Unauthenticated                   unknown caller
    ├── Unimplemented                     this build cannot do it
    └── Internal                          our fault

A service derives its own errors from these and gives each a ``reason``. The reason travels with the status, so a
client that knows the class raises the very same class; any other raises the class of the code, with the same reason.
`BadSetting` crosses no boundary: it ends a process, or a client, that cannot start.

This module imports no library, so that `domain` may import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

MAX_VALUE_CHARS = 80


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule of a request: the dotted path of the field, a description, and the rule's id."""

    field: str
    description: str
    rule: str = ""

    def format_line(self) -> str:
        """Return the field and the description, for people; a description that begins with the field is enough."""
        begins_with_field = self.description.startswith((f"{self.field}:", f"{self.field} "))
        return self.description if begins_with_field else f"{self.field}: {self.description}"


class HanseiError(Exception):
    """An error with a gRPC status `code`, a stable `reason` (UPPER_SNAKE) and a `message` for people.

    ``metadata`` holds short machine-readable facts, ``violations`` the broken rules of a request, ``retry_after`` the
    seconds after which trying again makes sense (None: retrying is not advised).
    """

    code: ClassVar[str] = "INTERNAL"
    reason: str = "INTERNAL"
    domain: str = ""
    """The service that raised the error, `<service>.hansei`; set on errors from a peer."""

    _by_reason: ClassVar[dict[str, list[type[HanseiError]]]] = {}

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        violations: Iterable[Violation] = (),
        metadata: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if reason is not None:
            self.reason = reason
        self.violations = tuple(violations)
        self.metadata = dict(metadata or {})
        self.retry_after = retry_after

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "reason" in cls.__dict__:
            HanseiError._by_reason.setdefault(cls.reason, []).append(cls)

    def __str__(self) -> str:
        return self.message


class InvalidArgument(HanseiError, ValueError):
    """The request breaks a rule that does not depend on the state of the service."""

    code = "INVALID_ARGUMENT"
    reason = "INVALID_REQUEST"


class OutOfRange(HanseiError, ValueError):
    """The request points past the end of what exists now."""

    code = "OUT_OF_RANGE"
    reason = "OUT_OF_RANGE"


class NotFound(HanseiError, LookupError):
    """The named thing does not exist."""

    code = "NOT_FOUND"
    reason = "NOT_FOUND"


class AlreadyExists(HanseiError):
    """The named thing exists already."""

    code = "ALREADY_EXISTS"
    reason = "ALREADY_EXISTS"


class RequestIdReused(AlreadyExists):
    """The `request_id` of a mutation was sent again with another payload; nothing changed."""

    reason = "REQUEST_ID_REUSED"

    def __init__(self, request_id: str, used_for: str = "another payload") -> None:
        super().__init__(
            f'request_id "{shorten(request_id)}" was used before with {used_for}: send a new request_id',
            violations=[Violation("request_id", f"was used before with {used_for}")],
            metadata={"request_id": shorten(request_id)},
        )


class FailedPrecondition(HanseiError):
    """The state of the service forbids the request."""

    code = "FAILED_PRECONDITION"
    reason = "FAILED_PRECONDITION"


class Aborted(HanseiError):
    """Another writer was first; read the new state, then try again."""

    code = "ABORTED"
    reason = "ABORTED"


class ClientClosed(FailedPrecondition):
    """A call was made by a client, or on a connection, that this process has closed."""

    reason = "CLIENT_CLOSED"

    def __init__(self, peer: str) -> None:
        super().__init__(f"the client of {peer} is closed: make calls before it is closed, or create a new client")


class ResourceExhausted(HanseiError):
    """Too many calls at once, or a quota is used up."""

    code = "RESOURCE_EXHAUSTED"
    reason = "RESOURCE_EXHAUSTED"


class Unavailable(HanseiError):
    """A peer, a model provider or a store does not answer."""

    code = "UNAVAILABLE"
    reason = "UNAVAILABLE"


class DeadlineExceeded(HanseiError, TimeoutError):
    """The caller's time is used up."""

    code = "DEADLINE_EXCEEDED"
    reason = "DEADLINE_EXCEEDED"


class DataLoss(HanseiError):
    """Stored data is corrupt."""

    code = "DATA_LOSS"
    reason = "DATA_LOSS"


class PermissionDenied(HanseiError):
    """The caller is known and not allowed to do this."""

    code = "PERMISSION_DENIED"
    reason = "PERMISSION_DENIED"


class Unauthenticated(HanseiError):
    """The caller is not authenticated."""

    code = "UNAUTHENTICATED"
    reason = "UNAUTHENTICATED"


class Unimplemented(HanseiError):
    """This build of the service cannot do it."""

    code = "UNIMPLEMENTED"
    reason = "UNIMPLEMENTED"


class Internal(HanseiError):
    """A fault of the service; the log of the service has the details under the id in the message."""

    code = "INTERNAL"
    reason = "INTERNAL"


CLASS_OF_CODE: Mapping[str, type[HanseiError]] = {
    cls.code: cls
    for cls in (
        InvalidArgument,
        OutOfRange,
        NotFound,
        AlreadyExists,
        FailedPrecondition,
        Aborted,
        ResourceExhausted,
        Unavailable,
        DeadlineExceeded,
        DataLoss,
        PermissionDenied,
        Unauthenticated,
        Unimplemented,
        Internal,
    )
}


def choose_error_class(code: str, reason: str) -> type[HanseiError]:
    """Return the class for a status: the one with this `reason` if there is exactly one, else the class of the code.

    Two services in one process may use the same reason for different classes; then a third service gets the class of
    the code.
    """
    owners = [cls for cls in HanseiError._by_reason.get(reason, ()) if cls.code == code]
    return owners[0] if len(owners) == 1 else CLASS_OF_CODE.get(code, Internal)


def build_error(
    code: str,
    reason: str,
    message: str,
    *,
    violations: Iterable[Violation] = (),
    metadata: Mapping[str, str] | None = None,
    retry_after: float | None = None,
    domain: str = "",
) -> HanseiError:
    """Return the error that a peer raised, without calling the constructor of its class."""
    cls = choose_error_class(code, reason)
    error = cls.__new__(cls, message)
    HanseiError.__init__(
        error, message, reason=reason, violations=violations, metadata=metadata, retry_after=retry_after
    )
    error.domain = domain
    return error


class BadSetting(ValueError):
    """A setting is missing or unusable. The message names the environment variable, and is printed to stderr."""


def shorten(value: object, limit: int = MAX_VALUE_CHARS) -> str:
    """Return `value` as a text of at most `limit` characters, the last one an ellipsis if it was longer."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
