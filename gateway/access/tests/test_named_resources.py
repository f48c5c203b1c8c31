"""A tenant can name only its own resources; those of others do not exist for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, event

from chassis.errors import HanseiError, NotFound
from gateway.access.domain.principal import Principal
from gateway.access.rpc.named_resources import ResourceKind, find_named_resources
from gateway.access.tests.access_system import ACME, BOOKS, EVERYTHING, PLANS, SEARCH, call_guarded, open_access
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.gateway.v1 import bulk_service_pb2 as bulk
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.planner.v1 import planner_service_pb2 as planner
from hansei.planner.v1.planner_pb2 import Plan, PlanStep
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.search.v1 import collection_service_pb2 as collections
from hansei.search.v1 import search_service_pb2 as search
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard

COLLECTIONS = "/hansei.search.v1.CollectionService/"
LEARN = "/hansei.gateway.v1.GatewayService/Learn"
NAMED = [
    (BOOKS + "GetPlaybook", playbook.GetPlaybookRequest, lambda name: {"dataset": name}),
    (BOOKS + "WatchPlaybook", playbook.WatchPlaybookRequest, lambda name: {"dataset": name, "from_revision": 3}),
    (BOOKS + "MergePlaybooks", playbook.MergePlaybooksRequest, lambda n: {"dataset": "acme--d", "from_datasets": [n]}),
    (BOOKS + "ImportPlaybook", playbook.ImportPlaybookRequest, lambda name: {"head": {"dataset": name}}),
    (BOOKS + "ListDatasets", playbook.ListDatasetsRequest, lambda name: {"prefix": name}),
    (SEARCH, search.SearchRequest, lambda name: {"dataset": name}),
    (LEARN, gateway.LearnRequest, lambda n: {"dataset": "acme--d", "trajectory": {"dataset": n}}),
    (
        LEARN,
        gateway.LearnRequest,
        lambda n: {"dataset": "acme--d", "trajectory": {"dataset": "acme--d"}, "siblings": [{"dataset": n}]},
    ),
    (LEARN + "WithProgress", gateway.LearnWithProgressRequest, lambda name: {"learn": {"dataset": name}}),
    (
        "/hansei.gateway.v1.RoundsService/RunRounds",
        rounds.RunRoundsRequest,
        lambda n: {"execution_id": "acme--e", "teams": [{"dataset": "acme--d"}, {"dataset": n}]},
    ),
    (
        "/hansei.validator.v1.LeaderboardService/UpsertLeaderboardEntry",
        leaderboard.UpsertLeaderboardEntryRequest,
        lambda name: {"entry": {"key": {"execution_id": name}}},
    ),
    (
        "/hansei.curator.v1.CuratorService/Curate",
        curator.CurateRequest,
        lambda n: {"dataset": "acme--d", "reflection_result": {"trajectory_dataset": n}},
    ),
    (COLLECTIONS + "ListCollections", collections.ListCollectionsRequest, lambda name: {"prefix": name}),
    (COLLECTIONS + "LoadDocuments", collections.LoadDocumentsRequest, lambda name: {"head": {"collection": name}}),
    (PLANS + "ListExecutions", planner.ListExecutionsRequest, lambda name: {"prefix": name}),
    (PLANS + "CreatePlan", planner.CreatePlanRequest, lambda name: {"query": "q", "prefix": name}),
    (PLANS + "CreatePlan", planner.CreatePlanRequest, lambda n: {"query": "q", "prefix": "acme--", "collection": n}),
    (PLANS + "RefinePlan", planner.RefinePlanRequest, lambda name: {"prefix": name}),
    (PLANS + "RefinePlan", planner.RefinePlanRequest, lambda name: {"plan": {"plan_id": name}}),
    (PLANS + "RunPlan", planner.RunPlanRequest, lambda name: {"prefix": name}),
    (PLANS + "RunPlan", planner.RunPlanRequest, lambda name: {"plan": {"plan_id": name}}),
    (PLANS + "RunPlan", planner.RunPlanRequest, lambda n: {"plan": {"steps": [{}, {"collection": n}]}}),
    (PLANS + "ExecutePlan", planner.ExecutePlanRequest, lambda name: {"prefix": name}),
    (PLANS + "ExecutePlan", planner.ExecutePlanRequest, lambda name: {"plan": {"plan_id": name}}),
    (PLANS + "ExecutePlan", planner.ExecutePlanRequest, lambda n: {"plan": {"steps": [{"collection": n}]}}),
    (PLANS + "DrawPlan", planner.DrawPlanRequest, lambda name: {"execution_id": name}),
    (PLANS + "DrawPlan", planner.DrawPlanRequest, lambda name: {"plan": {"plan_id": name}}),
    (PLANS + "GetExecution", planner.GetExecutionRequest, lambda name: {"execution_id": name}),
    (PLANS + "WatchExecution", planner.WatchExecutionRequest, lambda n: {"execution_id": n, "after_sequence": 2}),
    (PLANS + "CancelExecution", planner.CancelExecutionRequest, lambda name: {"execution_id": name}),
    (PLANS + "AddInformation", planner.AddInformationRequest, lambda name: {"execution_id": name}),
    (PLANS + "VerifyExecution", planner.VerifyExecutionRequest, lambda name: {"execution_id": name}),
    (PLANS + "ResumePlan", planner.ResumePlanRequest, lambda n: {"execution_id": n, "answer_token": "t"}),
    (
        PLANS + "ResumePlan",
        planner.ResumePlanRequest,
        lambda n: {"execution_id": "acme--e", "response": {"modified_plan": {"steps": [{"collection": n}]}}},
    ),
]
FOREIGN = ["evil--d", "d", "acme", "acme-d", "acme-", "Acme--d", "acmes--d", " acme--d", "e--acme--d"]


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize(("method", "kind", "fields"), NAMED)
async def test_a_tenant_may_name_only_its_own_resources_at_any_depth(
    tmp_path: Path, method: str, kind: Any, fields: Any, as_bytes: bool
) -> None:
    def request_for(name: str) -> Any:
        message = kind(**fields(name))
        return message.SerializeToString() if as_bytes else message

    async with open_access(tmp_path) as system:
        for name in FOREIGN:
            with pytest.raises(NotFound) as caught:
                await call_guarded(system, method, ACME, request_for(name))
            assert caught.value.reason == "NOT_FOUND"
        await call_guarded(system, method, ACME, request_for("acme--d"))
        for name in FOREIGN:
            await call_guarded(system, method, EVERYTHING, request_for(name))


async def test_a_tenant_must_name_a_dataset(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        for request in (gateway.RunWorkflowRequest(query="q"), gateway.RunWorkflowRequest(query="q", dataset="")):
            with pytest.raises(NotFound, match="must be named"):
                await call_guarded(system, "/hansei.gateway.v1.GatewayService/RunWorkflow", ACME, request)
        team = rounds.RunRoundsRequest(execution_id="acme--e", teams=[rounds.Team(team_id="a")])
        with pytest.raises(NotFound):
            await call_guarded(system, "/hansei.gateway.v1.RoundsService/RunRounds", ACME, team)


async def test_a_list_of_all_contains_only_the_callers_own(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        request = playbook.ListDatasetsRequest(page_size=5)
        own = await call_guarded(system, BOOKS + "ListDatasets", ACME, request.SerializeToString())
        everything = await call_guarded(system, BOOKS + "ListDatasets", EVERYTHING, playbook.ListDatasetsRequest())
    assert playbook.ListDatasetsRequest.FromString(own) == playbook.ListDatasetsRequest(page_size=5, prefix="acme--")
    assert everything.prefix == ""


async def test_unknown_fields_are_removed_from_requests_of_a_tenant(tmp_path: Path) -> None:
    """A newer service may have more fields that name datasets than this gateway can check."""
    request = playbook.GetPlaybookRequest(dataset="acme--d").SerializeToString()
    unknown = request + b"\xfa\x3e\x07evil--d"  # field 1007, text
    async with open_access(tmp_path) as system:
        assert await call_guarded(system, BOOKS + "GetPlaybook", ACME, unknown) == request
        assert await call_guarded(system, BOOKS + "GetPlaybook", EVERYTHING, unknown) == unknown


async def test_of_a_field_sent_twice_the_last_value_is_checked(tmp_path: Path) -> None:
    twice = b"\n\x07acme--d" + b"\n\x07evil--d"  # proto3: the last one counts
    async with open_access(tmp_path) as system:
        with pytest.raises(NotFound):
            await call_guarded(system, BOOKS + "GetPlaybook", ACME, twice)


async def test_bytes_that_are_no_message_are_refused(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        with pytest.raises(HanseiError, match="not a valid GetPlaybookRequest"):
            await call_guarded(system, BOOKS + "GetPlaybook", ACME, b"\xff\xff")


async def test_omitted_names_of_a_plan_are_chosen_within_the_prefix_of_the_caller(tmp_path: Path) -> None:
    async with open_access(tmp_path) as system:
        for name, kind in (("ExecutePlan", planner.ExecutePlanRequest), ("RunPlan", planner.RunPlanRequest)):
            request = kind(plan=Plan(original_query="q", steps=[PlanStep(step_id=1)]))
            taken = kind.FromString(await call_guarded(system, PLANS + name, ACME, request.SerializeToString()))
            assert (taken.prefix, taken.plan) == ("acme--", request.plan)
            narrower = kind(plan=request.plan, prefix="acme--team-")
            assert (await call_guarded(system, PLANS + name, ACME, narrower)).prefix == "acme--team-"
            assert (await call_guarded(system, PLANS + name, EVERYTHING, request)).prefix == ""
        listed = await call_guarded(system, PLANS + "ListExecutions", ACME, planner.ListExecutionsRequest())
        assert listed.prefix == "acme--"
        with pytest.raises(NotFound, match="must be named"):
            await call_guarded(system, PLANS + "DrawPlan", ACME, planner.DrawPlanRequest())


ABSENT_OR_ANOTHERS: dict[str, tuple[str, Any]] = {
    "dataset": (BOOKS + "GetPlaybook", lambda name: playbook.GetPlaybookRequest(dataset=name)),
    "collection": (COLLECTIONS + "GetCollection", lambda name: collections.GetCollectionRequest(name=name)),
    "execution": (PLANS + "GetExecution", lambda name: planner.GetExecutionRequest(execution_id=name)),
    "leaderboard": (
        "/hansei.validator.v1.LeaderboardService/GetRanking",
        lambda name: leaderboard.GetRankingRequest(execution_id=name),
    ),
    "job": ("/hansei.gateway.v1.BulkService/GetJob", lambda name: bulk.GetJobRequest(job_id=name)),
}


@pytest.mark.parametrize("family", ABSENT_OR_ANOTHERS)
async def test_a_resource_of_another_tenant_takes_the_same_look_ups_as_a_missing_one(
    tmp_path: Path, family: str
) -> None:
    """So that its duration tells nothing either; bench/access.py measures it."""
    method, asking_for = ABSENT_OR_ANOTHERS[family]
    evil = Principal("eve", "evil", frozenset({"admin"}))
    looked_up: list[tuple[str, int]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        looked_up.append((statement, len(parameters)))

    async with open_access(tmp_path) as system:
        await system.access.repository.add_owner(family, "acme--one", "acme")
        taken: list[tuple[list[tuple[str, int]], str]] = []
        event.listen(Engine, "before_cursor_execute", note)
        try:
            for name in ("acme--one", "acme--two"):
                looked_up.clear()
                with pytest.raises(NotFound) as caught:
                    await call_guarded(system, method, evil, asking_for(name))
                taken.append((list(looked_up), str(caught.value).replace(name, "")))
        finally:
            event.remove(Engine, "before_cursor_execute", note)
    assert taken[0] == taken[1]
    assert sum("SELECT" in statement for statement, _ in taken[0][0]) == (1 if family == "job" else 0)


async def test_other_tenants_cannot_distinguish_a_job_from_an_absent_one(tmp_path: Path) -> None:
    submit, get = (f"/hansei.gateway.v1.BulkService/{name}" for name in ("SubmitTrajectories", "GetJob"))
    made = bulk.SubmitTrajectoriesResponse()
    made.job.job_id = "j-1"
    evil = Principal("eve", "evil", frozenset({"admin"}))
    async with open_access(tmp_path) as system:
        async with system.guard.authorize(submit, ACME) as call:
            await call.check_response(made)
        await call_guarded(system, get, ACME, bulk.GetJobRequest(job_id="j-1"))
        errors = []
        for name in ("j-1", "j-2"):
            with pytest.raises(NotFound) as caught:
                await call_guarded(system, get, evil, bulk.GetJobRequest(job_id=name))
            errors.append((caught.value.reason, str(caught.value).replace(name, "")))
        async with system.guard.authorize(submit, evil) as call:
            await call.check_response(made)  # a job keeps its owner
        await call_guarded(system, get, ACME, bulk.GetJobRequest(job_id="j-1"))
    assert errors[0] == errors[1]


NAMES = st.from_regex(r"\A[A-Za-z0-9_-]{1,20}\Z")


@settings(max_examples=200)
@given(tenant=st.from_regex(r"\A[a-z0-9]{1,5}(-[a-z0-9]{1,3}){0,2}\Z"), name=NAMES)
def test_for_all_names_a_tenant_owns_exactly_those_with_its_prefix(tenant: str, name: str) -> None:
    who = Principal("x", tenant, frozenset())
    assert who.owns(name) == (name.split("--", 1)[0] == tenant and "--" in name)


@given(depth=st.integers(0, 3), name=NAMES)
def test_for_all_depths_a_name_is_found(depth: int, name: str) -> None:
    request = gateway.LearnRequest(dataset="a")
    for _ in range(depth):
        request.siblings.add(dataset=name)
    found = [resource.value for resource in find_named_resources(request) if resource.kind is ResourceKind.DATASET]
    assert found == ["a", *[name] * depth]
