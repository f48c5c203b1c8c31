"""The loop, as a caller sees it: a trajectory goes in, the playbook learns, the next query finds it."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from hansei.curator.v1 import curator_service_pb2, curator_service_pb2_grpc
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.gateway.v1 import gateway_service_pb2_grpc
from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc
from hansei.playbook.v1.usage_pb2 import ModelUsage
from hansei.reflector.v1 import reflector_service_pb2, reflector_service_pb2_grpc
from hansei.reflector.v1 import trajectory_pb2 as trajectory
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from tests.support import systems

EXAMPLES = Path(__file__).parents[3] / "examples/trajectories"
SECONDS = 30


class Caller:
    """The front address with a stub for each service."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.gateway: Any = gateway_service_pb2_grpc.GatewayServiceStub(channel)
        self.playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
        self.curator: Any = curator_service_pb2_grpc.CuratorServiceStub(channel)
        self.reflector: Any = reflector_service_pb2_grpc.ReflectorServiceStub(channel)
        self.search: Any = search_service_pb2_grpc.SearchServiceStub(channel)

    def parse(self, content: bytes, dataset: str) -> reflector_service_pb2.ParsedTrajectory:
        """Return the only trajectory of a file."""
        request = reflector_service_pb2.ParseTrajectoriesRequest(content=content, dataset=dataset)
        (parsed,) = self.reflector.ParseTrajectories(request, timeout=SECONDS).trajectories
        parsed.trajectory.dataset = dataset
        return parsed  # type: ignore[no-any-return]

    def learn(self, parsed: reflector_service_pb2.ParsedTrajectory, request_id: str = "") -> gateway.LearnResponse:
        """Learn from a trajectory."""
        return self.gateway.Learn(_learn(parsed, request_id), timeout=SECONDS)  # type: ignore[no-any-return]

    def search_for(self, dataset: str, text: str, min_revision: int, **query: Any) -> list[search_pb2.SearchResult]:
        """Return ranked bullets of at least a revision."""
        request = search_service_pb2.SearchRequest(
            dataset=dataset, query=search_pb2.SearchQuery(query_text=text, **query), min_revision=min_revision
        )
        return list(self.search.Search(request, timeout=SECONDS).results)

    def bullets(self, dataset: str) -> dict[str, playbook.Bullet]:
        """Return the playbook as it stands."""
        request = playbook_service_pb2.GetPlaybookRequest(dataset=dataset, allow_missing=True)
        return {b.id: b for b in self.playbooks.GetPlaybook(request, timeout=SECONDS).playbook.bullets}


def _learn(parsed: reflector_service_pb2.ParsedTrajectory, request_id: str = "") -> gateway.LearnRequest:
    return gateway.LearnRequest(
        request_id=request_id or str(uuid.uuid4()),
        dataset=parsed.trajectory.dataset,
        trajectory=parsed.trajectory,
        ground_truth=parsed.ground_truth,
        test_report=parsed.test_report,
    )


@pytest.fixture
def call(system: systems.System) -> Iterator[Caller]:
    with grpc.insecure_channel(system.address) as channel:
        yield Caller(channel)


@pytest.fixture
def dataset() -> str:
    return f"loop-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def commit_without_identity(call: Caller, dataset: str) -> reflector_service_pb2.ParsedTrajectory:
    """Return a trajectory in which `git commit` failed for want of an identity, and was repaired."""
    return call.parse((EXAMPLES / "git-commit-identity.json").read_bytes(), dataset)


def test_lessons_are_found_by_the_next_query(
    call: Caller, dataset: str, commit_without_identity: reflector_service_pb2.ParsedTrajectory
) -> None:
    learned = call.learn(commit_without_identity)
    assert learned.curation.saved
    assert learned.curation.revision == 1
    assert learned.reflection.insights
    applied = [op.bullet_id for op in learned.curation.operations if op.applied]
    assert applied

    found = call.search_for(dataset, "git commit fails: please tell me who you are", learned.curation.revision)
    assert found[0].bullet.id in applied
    assert [r.combined_score for r in found] == sorted((r.combined_score for r in found), reverse=True)

    request = gateway.RunWorkflowRequest(query="How do I make the first commit?", dataset=dataset)
    answer = call.gateway.RunWorkflow(request, timeout=SECONDS)
    assert answer.search_results_count == len(found)
    assert answer.model == "offline"
    assert answer.llm_response


def test_an_answer_cites_bullets_and_the_next_learning_moves_their_counters(
    call: Caller, dataset: str, commit_without_identity: reflector_service_pb2.ParsedTrajectory
) -> None:
    call.learn(commit_without_identity)
    request = gateway.AnswerRequest(query="git commit fails without an identity", dataset=dataset)
    attempt = call.gateway.Answer(request, timeout=SECONDS).trajectory
    assert attempt.status == trajectory.TRAJECTORY_STATUS_SUCCESS
    assert set(attempt.cited_bullet_ids) <= set(attempt.used_bullet_ids)
    cited = attempt.cited_bullet_ids[0]

    second = call.parse((EXAMPLES / "git-commit-identity-again.json").read_bytes(), dataset)
    second.trajectory.used_bullet_ids.append(cited)
    second.trajectory.cited_bullet_ids.append(cited)
    before = call.bullets(dataset)[cited]
    call.learn(second)
    after = call.bullets(dataset)[cited]
    assert (after.helpful, after.harmful) == (before.helpful + 1, before.harmful)


def test_progress_reports_each_stage(
    call: Caller, commit_without_identity: reflector_service_pb2.ParsedTrajectory
) -> None:
    request = gateway.LearnWithProgressRequest(learn=_learn(commit_without_identity))
    events = list(call.gateway.LearnWithProgress(request, timeout=SECONDS))
    assert [event.stage for event in events] == [
        gateway.LEARN_STAGE_LOADED,
        gateway.LEARN_STAGE_REFLECTED,
        gateway.LEARN_STAGE_CURATED,
    ]
    assert events[-1].response.curation.saved


def test_a_repeated_request_learns_nothing_twice(
    call: Caller, dataset: str, commit_without_identity: reflector_service_pb2.ParsedTrajectory
) -> None:
    request_id = str(uuid.uuid4())
    first = call.learn(commit_without_identity, request_id)
    again = call.learn(commit_without_identity, request_id)
    assert (first.already_learned, again.already_learned) == (False, True)
    assert (again.reflection, again.curation) == (first.reflection, first.curation)
    assert (first.usage, again.usage) == (ModelUsage(), ModelUsage())  # offline, no model was called
    history = call.playbooks.GetHistory(playbook_service_pb2.GetHistoryRequest(dataset=dataset), timeout=SECONDS)
    assert [revision.revision for revision in history.revisions] == [first.curation.revision]
    assert history.revisions[0].request_id == request_id


def test_a_request_id_used_for_another_trajectory_is_refused(
    call: Caller, dataset: str, commit_without_identity: reflector_service_pb2.ParsedTrajectory
) -> None:
    request_id = str(uuid.uuid4())
    call.learn(commit_without_identity, request_id)
    other = call.parse((EXAMPLES / "sqlite-column-guessed.json").read_bytes(), dataset)
    refused = _refusal(lambda: call.learn(other, request_id))
    assert refused.code == grpc.StatusCode.ALREADY_EXISTS
    assert refused.info.reason == "REQUEST_ID_REUSED"


def test_the_feed_sends_the_learned_bullets(
    call: Caller, dataset: str, commit_without_identity: reflector_service_pb2.ParsedTrajectory
) -> None:
    learned = call.learn(commit_without_identity)
    request = playbook_service_pb2.WatchPlaybookRequest(dataset=dataset, from_revision=0)
    feed = call.playbooks.WatchPlaybook(request, timeout=SECONDS)
    event = next(e for e in feed if e.HasField("revision"))
    feed.cancel()
    assert event.revision.revision == learned.curation.revision
    assert event.revision.source_trajectory == commit_without_identity.trajectory.id


def test_a_search_for_an_unreached_revision_ends_with_the_deadline(call: Caller, dataset: str) -> None:
    request = search_service_pb2.SearchRequest(
        dataset=dataset, query=search_pb2.SearchQuery(query_text="x"), min_revision=10
    )
    refused = _refusal(lambda: call.search.Search(request, timeout=1))
    assert refused.code == grpc.StatusCode.DEADLINE_EXCEEDED


def test_an_unknown_dataset_answers_without_bullets(call: Caller, dataset: str) -> None:
    """See G-36."""
    answer = call.gateway.RunWorkflow(gateway.RunWorkflowRequest(query="x", dataset=dataset), timeout=SECONDS)
    assert answer.search_results_count == 0


# Bad input: each is refused with the field it is about, and nothing is written.

GOOD = trajectory.Trajectory(
    id="t", dataset="DATASET", query="q", status=trajectory.TRAJECTORY_STATUS_FAILURE, generated_answer="a"
)


def _spoilt(change: Callable[[gateway.LearnRequest], object]) -> Callable[[str], gateway.LearnRequest]:
    def request(dataset: str) -> gateway.LearnRequest:
        learn = gateway.LearnRequest(request_id=str(uuid.uuid4()), dataset=dataset, trajectory=GOOD)
        learn.trajectory.dataset = dataset
        change(learn)
        return learn

    return request


BAD = {
    "no request id": ("request_id", _spoilt(lambda r: r.ClearField("request_id"))),
    "request id that is no UUID": ("request_id", _spoilt(lambda r: setattr(r, "request_id", "7"))),
    "no trajectory": ("trajectory", _spoilt(lambda r: r.ClearField("trajectory"))),
    "empty query": ("trajectory.query", _spoilt(lambda r: r.trajectory.ClearField("query"))),
    "no status": ("trajectory.status", _spoilt(lambda r: r.trajectory.ClearField("status"))),
    "unknown status": ("trajectory.status", _spoilt(lambda r: setattr(r.trajectory, "status", 9))),
    "reward that is no number": ("trajectory.reward", _spoilt(lambda r: setattr(r.trajectory, "reward", math.nan))),
    "oversized query": ("trajectory.query", _spoilt(lambda r: setattr(r.trajectory, "query", "x" * 100_001))),
    "step without a role": ("trajectory.steps[0].role", _spoilt(lambda r: r.trajectory.steps.add(content="x"))),
    "tool call without a name": (
        "trajectory.steps[0].tool_calls[0].name",
        _spoilt(lambda r: r.trajectory.steps.add(role=trajectory.STEP_ROLE_ASSISTANT).tool_calls.add()),
    ),
    "max_iterations 0": ("max_iterations", _spoilt(lambda r: setattr(r, "max_iterations", 0))),
    "another dataset in the trajectory": (
        "trajectory.dataset",
        _spoilt(lambda r: setattr(r.trajectory, "dataset", "another")),
    ),
}


@pytest.mark.parametrize("fault", sorted(BAD))
def test_bad_learning_is_refused_and_writes_nothing(call: Caller, dataset: str, fault: str) -> None:
    field, request = BAD[fault]
    refused = _refusal(lambda: call.gateway.Learn(request(dataset), timeout=SECONDS))
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
    assert field in refused.fields
    assert call.bullets(dataset) == {}


@pytest.mark.parametrize("name", ["a b", "../x", "x" * 129, "", "日本", "a\n"])
def test_a_bad_dataset_name_is_refused_everywhere_with_one_text(call: Caller, name: str) -> None:
    """C-13, G-13: the text arrives unchanged."""
    refusals = [
        _refusal(lambda: call.playbooks.GetPlaybook(playbook_service_pb2.GetPlaybookRequest(dataset=name))),
        _refusal(
            lambda: call.search.Search(search_service_pb2.SearchRequest(dataset=name, query=search_pb2.SearchQuery()))
        ),
        _refusal(lambda: call.gateway.RunWorkflow(gateway.RunWorkflowRequest(dataset=name, query="x"))),
    ]
    assert {(refused.code, refused.message) for refused in refusals} == {
        (grpc.StatusCode.INVALID_ARGUMENT, f"Invalid dataset name: '{name}'")
    }


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"top_k": 0}, "top_k must be >= 1"),  # S-02
        ({"top_k": -3}, "top_k must be >= 1"),
        ({"min_confidence": math.nan}, "min_confidence must be a number"),
        ({"alpha": 1.5}, "alpha must be between 0 and 1"),  # S-07
        ({"alpha": math.nan}, "alpha must be between 0 and 1"),
    ],
)
def test_bad_search_parameters_are_refused_with_the_text_of_the_clause(
    call: Caller, dataset: str, query: dict[str, Any], text: str
) -> None:
    refused = _refusal(lambda: call.search_for(dataset, "x", 0, **query))
    assert (refused.code, refused.message) == (grpc.StatusCode.INVALID_ARGUMENT, text)


@pytest.mark.parametrize("values", [b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x3f"], ids=["NaN", "one dimension"])
def test_a_query_vector_that_does_not_fit_the_index_is_refused(
    call: Caller, dataset: str, values: bytes, commit_without_identity: reflector_service_pb2.ParsedTrajectory
) -> None:
    learned = call.learn(commit_without_identity)
    status = call.search.GetIndexStatus(search_service_pb2.GetIndexStatusRequest(dataset=dataset), timeout=SECONDS)
    vector = search_pb2.Embedding(values=values, dimension=1, model=status.embedding_model)
    refused = _refusal(lambda: call.search_for(dataset, "x", learned.curation.revision, embedding=vector))
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
    assert any(field.startswith("query.embedding") for field in refused.fields)


@pytest.mark.parametrize(
    "content",
    [b"\x00\x01\x02", b"[]", b"{}", b'{"query": ', json.dumps({"messages": [{"role": "emperor"}]}).encode()],
    ids=["binary", "empty list", "empty object", "torn JSON", "unknown role"],
)
def test_a_file_that_is_no_trajectory_is_refused(call: Caller, dataset: str, content: bytes) -> None:
    request = reflector_service_pb2.ParseTrajectoriesRequest(content=content, dataset=dataset)
    refused = _refusal(lambda: call.reflector.ParseTrajectories(request, timeout=SECONDS))
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.message


@pytest.mark.parametrize("answers", ["", "call-that-is-not-there"], ids=["no ids", "ids of no call"])
def test_ids_of_calls_do_not_change_the_lessons(
    call: Caller, dataset: str, commit_without_identity: reflector_service_pb2.ParsedTrajectory, answers: str
) -> None:
    """A missing id is derived from the content, so that sending it again changes nothing."""
    with_ids = call.learn(commit_without_identity)
    assert with_ids.reflection.insights
    bare = reflector_service_pb2.ParsedTrajectory()
    bare.CopyFrom(commit_without_identity)
    bare.trajectory.dataset = f"{dataset}-bare"
    bare.trajectory.id = ""
    for step in bare.trajectory.steps:
        step.tool_call_id = answers if step.tool_call_id else ""
        for tool_call in step.tool_calls:
            tool_call.id = ""
    first = call.learn(bare)
    assert first.reflection.trajectory_id
    assert list(first.reflection.insights) == list(with_ids.reflection.insights)
    assert first.reflection.attribution == with_ids.reflection.attribution

    learned = call.bullets(bare.trajectory.dataset)
    again = call.learn(bare)
    assert again.reflection.trajectory_id == first.reflection.trajectory_id
    assert call.bullets(bare.trajectory.dataset) == learned


def test_a_curation_without_votes_or_insights_is_saved_as_it_is(call: Caller, dataset: str) -> None:
    """See C-37."""
    result = trajectory.ReflectionResult(trajectory_query="q", trajectory_dataset=dataset, iteration_count=1)
    request = curator_service_pb2.CurateRequest(request_id=str(uuid.uuid4()), dataset=dataset, reflection_result=result)
    response = call.curator.Curate(request, timeout=SECONDS)
    assert response.saved
    assert response.result.summary == "ADD: 0, UPDATE: 0, DELETE: 0"


class _Refusal:
    """The parts of a refused call that a caller can read."""

    def __init__(self, error: Any) -> None:
        self.code: grpc.StatusCode = error.code()
        self.message: str = error.details()
        self.info = error_details_pb2.ErrorInfo()
        bad_request = error_details_pb2.BadRequest()
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                for detail in status_pb2.Status.FromString(value).details:
                    for message in (self.info, bad_request):
                        if detail.Is(message.DESCRIPTOR):
                            detail.Unpack(message)
        self.fields = [violation.field for violation in bad_request.field_violations]


def _refusal(call: Callable[[], object]) -> _Refusal:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return _Refusal(caught.value)
