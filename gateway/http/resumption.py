"""Ids of server-sent events, by which clients resume the streams that are listed here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chassis.errors import InvalidArgument, Violation, shorten
from hansei.playbook.v1 import playbook_service_pb2 as playbook

LAST_EVENT = "last-event-id"
POSITION = "[0-9]{1,18}"


@dataclass(frozen=True, slots=True)
class Resumption:
    """The way to resume a stream after an event. `position` returns the id of a message, a number.

    `after` is the request field for the id in `Last-Event-ID`; it is empty if another endpoint resumes the stream.
    `first_call_fields` are cleared when a stream resumes.
    """

    position: Callable[[Any], int | None]
    after: str = ""
    first_call_fields: Sequence[str] = ()

    def resume(self, request: Any, last_event: str) -> None:
        """Change a request so that it resumes after the last event of its reader. Raises InvalidArgument."""
        if not last_event or not self.after:
            return
        if not re.fullmatch(POSITION, last_event):
            rule = f"Last-Event-ID must be the id of an event of this stream, not {shorten(repr(last_event))}"
            raise InvalidArgument(rule, violations=[Violation(LAST_EVENT, rule)])
        setattr(request, self.after, int(last_event))
        for name in self.first_call_fields:
            request.ClearField(name)


def _parse_revision(response: playbook.WatchPlaybookResponse) -> int | None:
    """Return the revision up to which a feed is complete with this event."""
    match response.WhichOneof("event"):
        case "revision":
            return response.revision.revision
        case "progress":
            return response.progress.revision
        case "snapshot" if response.snapshot.last:
            return response.snapshot.playbook.revision
        case _:
            return None


def _parse_sequence(response: Any) -> int:
    """Return the sequence number of an execution's event."""
    number: int = response.event.sequence
    return number


def _parse_decision_number(response: Any) -> int:
    """Return the number of a decision."""
    number: int = response.decision.number
    return number


RESUMPTIONS: Mapping[str, Resumption] = {
    "hansei.playbook.v1.PlaybookService.WatchPlaybook": Resumption(
        _parse_revision, "from_revision", first_call_fields=("snapshot",)
    ),
    "hansei.planner.v1.PlannerService.ExecutePlan": Resumption(_parse_sequence),
    "hansei.planner.v1.PlannerService.ResumePlan": Resumption(_parse_sequence),
    "hansei.planner.v1.PlannerService.WatchExecution": Resumption(_parse_sequence, "after_sequence"),
    "hansei.evidence.v1.EvidenceService.WatchDecisions": Resumption(_parse_decision_number, "after_number"),
}
"""The resumption of each stream that has one, by the full name of its method."""
