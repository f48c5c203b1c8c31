"""The endpoints under `/v1`: which method of the contracts stands under which path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor

from gateway.http import examples
from hansei.gateway.v1 import access_service_pb2, bulk_service_pb2, gateway_service_pb2, rounds_service_pb2
from hansei.planner.v1 import planner_service_pb2
from hansei.playbook.v1 import playbook_service_pb2
from hansei.reflector.v1 import reflector_service_pb2
from hansei.search.v1 import search_service_pb2
from hansei.validator.v1 import leaderboard_service_pb2

BOOK = "/v1/playbooks/{dataset}"
EXECUTION = "/v1/executions/{execution_id}"
JOB = "/v1/jobs/{job_id}"


@dataclass(frozen=True, slots=True)
class Resumption:
    """How a stream goes on after an event: `position` gives the id of a message, a number.

    `after` is the request's field for the id in `Last-Event-ID`; empty where another endpoint goes on. `fresh` are
    fields that only a first call may set.
    """

    position: Callable[[Any], int | None]
    after: str = ""
    fresh: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a contract under a path.

    GET takes the request's fields from path and query; the others from path and body. `body` names the field that the
    body holds; empty: the body is the request, less what the path says. A field of bytes is the body as it is, and the
    other fields are in path and query. Methods that take a stream take the list of its messages; methods that stream
    answer server-sent events.
    """

    verb: str
    path: str
    method: MethodDescriptor
    summary: str
    example: Any = field(default_factory=dict)
    body: str = ""
    resumption: Resumption | None = None

    @property
    def asked(self) -> Descriptor:
        """The message that the body holds; that of the request where it holds bytes."""
        whole = self.method.input_type
        return (whole.fields_by_name[self.body].message_type if self.body else whole) or whole

    @property
    def takes_file(self) -> bool:
        """Whether the body is the bytes of a field."""
        return bool(self.body) and self.asked is self.method.input_type

    @property
    def in_path(self) -> list[str]:
        """The fields that stand in the path."""
        return [each.name for each in self.method.input_type.fields if f"{{{each.name}}}" in self.path]


def endpoints() -> list[Endpoint]:
    """What is served; routes are tried in this order, so what is asked most comes first."""
    return [
        *_searching(),
        *_learning(),
        *_jobs(),
        *_playbooks(),
        *_review(),
        *_plans(),
        *_executions(),
        *_rounds(),
        *_access(),
    ]


def _learning() -> Iterator[Endpoint]:
    chains = _methods(gateway_service_pb2.DESCRIPTOR.services_by_name["GatewayService"])
    yield Endpoint("POST", "/v1/learn", chains["Learn"], "Learn from a run", examples.LEARN)
    yield Endpoint(
        "POST", "/v1/learn/events", chains["LearnWithProgress"], "Learn, stage by stage", examples.LEARN, body="learn"
    )
    yield Endpoint("POST", "/v1/answer", chains["Answer"], "Answer and cite bullets", examples.ANSWER)


def _jobs() -> Iterator[Endpoint]:
    bulk = _methods(bulk_service_pb2.DESCRIPTOR.services_by_name["BulkService"])
    reflector = _methods(reflector_service_pb2.DESCRIPTOR.services_by_name["ReflectorService"])
    yield Endpoint(
        "POST",
        "/v1/trajectories/parse",
        reflector["ParseTrajectories"],
        "Read the trajectories in a file",
        examples.FILE,
        body="content",
    )
    yield Endpoint("GET", "/v1/jobs", bulk["ListJobs"], "List jobs, newest first")
    yield Endpoint(
        "POST", "/v1/jobs", bulk["SubmitTrajectories"], "Learn from many runs in the background", examples.JOB
    )
    yield Endpoint("GET", JOB, bulk["GetJob"], "How far a job is")
    yield Endpoint("GET", f"{JOB}/events", bulk["WatchJob"], "Follow a job, from how it is now until it has ended")
    yield Endpoint("POST", f"{JOB}/cancel", bulk["CancelJob"], "Drop what waits", examples.CANCEL_JOB)
    yield Endpoint("GET", f"{JOB}/dead-letters", bulk["ListDeadLetters"], "What could not be learned, and why")
    yield Endpoint("POST", f"{JOB}/dead-letters/retry", bulk["RetryDeadLetters"], "Try it again", examples.RETRY_JOB)


def _searching() -> Iterator[Endpoint]:
    index = _methods(search_service_pb2.DESCRIPTOR.services_by_name["SearchService"])
    yield Endpoint("POST", "/v1/search", index["Search"], "Search a playbook", examples.SEARCH)
    yield Endpoint("POST", "/v1/search/batch", index["BatchSearch"], "Search with many queries", examples.BATCH_SEARCH)
    yield Endpoint("GET", f"{BOOK}/index", index["GetIndexStatus"], "How far the index of a playbook is")


def _playbooks() -> Iterator[Endpoint]:
    books = _methods(playbook_service_pb2.DESCRIPTOR.services_by_name["PlaybookService"])
    yield Endpoint("GET", "/v1/playbooks", books["ListDatasets"], "List datasets")
    yield Endpoint("GET", BOOK, books["GetPlaybook"], "Read a playbook, now or as of a revision or a time")
    yield Endpoint("GET", f"{BOOK}/bullets", books["ListBullets"], "Read bullets page by page")
    yield Endpoint(
        "GET", f"{BOOK}/bullets/{{bullet_id}}/history", books["GetBulletHistory"], "What happened to a bullet"
    )
    yield Endpoint("GET", f"{BOOK}/sections", books["GetSections"], "The sections a dataset defines")
    yield Endpoint("GET", f"{BOOK}/history", books["GetHistory"], "List revisions")
    yield Endpoint("GET", f"{BOOK}/diff", books["DiffRevisions"], "Compare two revisions")
    yield Endpoint(
        "GET",
        f"{BOOK}/events",
        books["WatchPlaybook"],
        "Follow a playbook",
        resumption=Resumption(_revision, "from_revision", fresh=["snapshot"]),
    )
    yield Endpoint("POST", f"{BOOK}/deltas", books["ApplyDeltas"], "Edit a playbook", examples.DELTAS)
    yield Endpoint("POST", f"{BOOK}/restore", books["RestoreRevision"], "Bring a revision back", examples.RESTORE)
    yield Endpoint("POST", f"{BOOK}/revoke", books["RevokeTrajectory"], "Take a trajectory back", examples.REVOKE)


def _review() -> Iterator[Endpoint]:
    books = _methods(playbook_service_pb2.DESCRIPTOR.services_by_name["PlaybookService"])
    yield Endpoint("GET", f"{BOOK}/pending", books["ListPendingChanges"], "Changes that wait for a person")
    yield Endpoint("POST", f"{BOOK}/pending", books["DecidePendingChanges"], "Approve or reject", examples.DECIDE)
    yield Endpoint("GET", f"{BOOK}/policy", books["GetPolicy"], "The rules of a dataset")
    yield Endpoint("PUT", f"{BOOK}/policy", books["SetPolicy"], "Replace the rules of a dataset", examples.POLICY)


def _plans() -> Iterator[Endpoint]:
    planner = _methods(planner_service_pb2.DESCRIPTOR.services_by_name["PlannerService"])
    yield Endpoint("POST", "/v1/plans", planner["CreatePlan"], "Make a plan", examples.CREATE_PLAN)
    yield Endpoint("POST", "/v1/plans/refine", planner["RefinePlan"], "Make a plan anew", examples.REFINE_PLAN)
    yield Endpoint("POST", "/v1/plans/mermaid", planner["DrawPlan"], "Draw a plan", examples.DRAW_PLAN)


def _executions() -> Iterator[Endpoint]:
    planner = _methods(planner_service_pb2.DESCRIPTOR.services_by_name["PlannerService"])
    yield Endpoint("GET", "/v1/executions", planner["ListExecutions"], "List executions, newest first")
    yield Endpoint(
        "POST",
        "/v1/executions",
        planner["ExecutePlan"],
        "Execute a plan, until it pauses or ends",
        examples.EXECUTE_PLAN,
        resumption=Resumption(_sequence),
    )
    yield Endpoint("GET", EXECUTION, planner["GetExecution"], "Where an execution is")
    yield Endpoint(
        "GET",
        f"{EXECUTION}/events",
        planner["WatchExecution"],
        "Follow an execution",
        resumption=Resumption(_sequence, "after_sequence"),
    )
    yield Endpoint(
        "POST",
        f"{EXECUTION}/answer",
        planner["ResumePlan"],
        "Answer the open question, then follow",
        examples.RESUME_PLAN,
        resumption=Resumption(_sequence),
    )
    yield Endpoint("POST", f"{EXECUTION}/cancel", planner["CancelExecution"], "Cancel an execution", examples.CANCEL)
    yield Endpoint(
        "POST", f"{EXECUTION}/information", planner["AddInformation"], "Tell an execution more", examples.INFORMATION
    )
    yield Endpoint("GET", f"{EXECUTION}/mermaid", planner["DrawPlan"], "Draw an execution")
    yield Endpoint("GET", f"{EXECUTION}/audit", planner["AuditExecution"], "Check an execution's log")


def _rounds() -> Iterator[Endpoint]:
    rounds = _methods(rounds_service_pb2.DESCRIPTOR.services_by_name["RoundsService"])
    board = _methods(leaderboard_service_pb2.DESCRIPTOR.services_by_name["LeaderboardService"])
    yield Endpoint("POST", "/v1/rounds", rounds["RunRounds"], "Let teams work in rounds", examples.ROUNDS)
    yield Endpoint("GET", "/v1/rounds/{execution_id}/ranking", board["GetRanking"], "The leaderboard of an execution")
    yield Endpoint("GET", "/v1/rounds/{execution_id}/entries", board["ListLeaderboardEntries"], "Every finished round")
    yield Endpoint("GET", "/v1/rounds/{execution_id}/best", board["GetBestSubmission"], "The best submission")


def _access() -> Iterator[Endpoint]:
    access = _methods(access_service_pb2.DESCRIPTOR.services_by_name["AccessService"])
    yield Endpoint("GET", "/v1/access/me", access["WhoAmI"], "Who the caller is")
    yield Endpoint("GET", "/v1/access/keys", access["ListKeys"], "List API keys")
    yield Endpoint("POST", "/v1/access/keys", access["CreateKey"], "Make an API key", examples.CREATE_KEY)
    yield Endpoint("POST", "/v1/access/keys/{key_id}/revoke", access["RevokeKey"], "Revoke an API key", {})
    yield Endpoint("GET", "/v1/access/deeds", access["ListDeeds"], "Who changed what, newest first")


def _methods(service: ServiceDescriptor) -> dict[str, MethodDescriptor]:
    return {method.name: method for method in service.methods}


def _revision(event: playbook_service_pb2.WatchPlaybookResponse) -> int | None:
    """The revision up to which a feed has told everything with this event."""
    match event.WhichOneof("event"):
        case "revision":
            return event.revision.revision
        case "progress":
            return event.progress.revision
        case "snapshot" if event.snapshot.last:
            return event.snapshot.playbook.revision
        case _:
            return None


def _sequence(told: Any) -> int:
    """The number of an execution's event."""
    number: int = told.event.sequence
    return number
