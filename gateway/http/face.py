"""What the HTTP face serves: the chains of the gateway, and the services behind it that have endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.orchestrator.learn import Learning
from gateway.orchestrator.workflow import ReflectionWorkflow, Search
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.validator.v1 import validator_service_pb2 as validator


class Playbooks(Protocol):
    """What HTTP shows of playbooks."""

    async def read(self, request: playbook.GetPlaybookRequest) -> playbook.GetPlaybookResponse:
        """A whole playbook."""
        ...

    async def history(self, request: playbook.GetHistoryRequest) -> playbook.GetHistoryResponse:
        """A page of revisions."""
        ...

    async def diff(self, request: playbook.DiffRevisionsRequest) -> playbook.DiffRevisionsResponse:
        """What differs between two revisions."""
        ...


class Reports(Protocol):
    """What HTTP asks of the validator."""

    async def organizer(self, request: validator.RunOrganizerRequest) -> validator.RunOrganizerResponse:
        """A run that makes an Organizer report."""
        ...

    async def advisor(self, request: validator.RunAdvisorRequest) -> validator.RunAdvisorResponse:
        """A run that makes an Advisor report."""
        ...

    async def validate(self, request: validator.ValidateReportRequest) -> validator.ValidateReportResponse:
        """What validation finds in a report."""
        ...


@dataclass(frozen=True, slots=True)
class Face:
    """The objects behind the endpoints."""

    learning: Learning
    workflow: ReflectionWorkflow
    search: Search
    playbooks: Playbooks
    reports: Reports
