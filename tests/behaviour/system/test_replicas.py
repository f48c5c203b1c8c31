"""Several processes of a service on one PostgreSQL: whichever is asked, the answer is that of one service.

The behaviour tests that take `system` run against this form too; these ask one process after another.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest

from hansei.evidence.v1 import evidence_service_pb2, evidence_service_pb2_grpc
from hansei.gateway.v1 import bulk_pb2, gateway_service_pb2_grpc
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.planner.v1 import planner_pb2, planner_service_pb2, planner_service_pb2_grpc
from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc
from hansei.search.v1 import search_pb2, search_service_pb2, search_service_pb2_grpc
from tests.support import systems
from tests.support.bulk_jobs import build_trajectories, build_trajectory, jobs_at
from tests.support.planner_service import ASK, answer, events, kinds

SECONDS = 60
RUNS = 12

pytestmark = pytest.mark.parametrize("system", ["replicated"], indirect=True)
Stubs = Callable[..., list[Any]]


@pytest.fixture
async def stubs(system: systems.System) -> AsyncIterator[Stubs]:
    """Stubs of a contract, one for every process of a service: `stubs("search", SearchServiceStub)`."""
    async with AsyncExitStack() as stack:

        def create_stubs(name: str, stub: Callable[[Any], Any]) -> list[Any]:
            options = [("grpc.use_local_subchannel_pool", 1)]
            channels = [grpc.aio.insecure_channel(address, options=options) for address in system.replicas(name)]
            for channel in channels:
                stack.push_async_callback(channel.close, None)
            return [stub(channel) for channel in channels]

        yield create_stubs


@pytest.fixture
def dataset() -> str:
    return f"replicas-{uuid.uuid4().hex[:12]}"


def learning(dataset: str, number: int) -> gateway.LearnRequest:
    return gateway.LearnRequest(
        request_id=str(uuid.uuid4()), dataset=dataset, trajectory=build_trajectory(dataset, number)
    )


async def learn(stubs: Stubs, dataset: str) -> int:
    """Learn through all gateways at once; the revision that holds everything."""
    gateways = stubs("gateway", gateway_service_pb2_grpc.GatewayServiceStub)
    calls = [gateways[n % len(gateways)].Learn(learning(dataset, n), timeout=SECONDS) for n in range(RUNS)]
    return max(int(answer.curation.revision) for answer in await asyncio.gather(*calls))


async def test_concurrent_writers_make_one_log(stubs: Stubs, dataset: str) -> None:
    assert await learn(stubs, dataset) == RUNS
    request = playbook_service_pb2.GetHistoryRequest(dataset=dataset, page_size=100)
    curators = stubs("curator", playbook_service_pb2_grpc.PlaybookServiceStub)
    first, second = [list((await curator.GetHistory(request, timeout=SECONDS)).revisions) for curator in curators]
    assert first == second
    assert sorted(revision.revision for revision in first) == list(range(1, RUNS + 1))
    assert {revision.source_trajectory for revision in first} == {build_trajectory(dataset, n).id for n in range(RUNS)}


async def test_every_search_replica_reaches_the_same_index(stubs: Stubs, dataset: str) -> None:
    revision = await learn(stubs, dataset)
    query = search_pb2.SearchQuery(query_text="tool3 fails: no such thing", top_k=5)
    request = search_service_pb2.SearchRequest(dataset=dataset, query=query, min_revision=revision)
    replicas = stubs("search", search_service_pb2_grpc.SearchServiceStub)
    assert len(replicas) == systems.REPLICAS["search"]
    found = [list((await replica.Search(request, timeout=SECONDS)).results) for replica in replicas]
    assert found[0]
    assert found[1:] == [found[0]] * (len(found) - 1)
    status = search_service_pb2.GetIndexStatusRequest(dataset=dataset)
    assert {(await replica.GetIndexStatus(status, timeout=SECONDS)).revision for replica in replicas} == {revision}


async def test_searches_go_to_the_replicas_that_own_the_dataset(
    system: systems.System, stubs: Stubs, dataset: str
) -> None:
    """Directly through a gateway, and for `Recall` from the evidence service; other tests add to the counts."""

    def count_owned(service: str) -> float:
        processes = [name for name in system.programs if name.partition("-")[0] == service]
        counts = [system.read_metric("hansei_routing_calls_total", name) for name in processes]
        return sum(value for count in counts for labels, value in count.items() if 'replica="any"' not in labels)

    revision = await learn(stubs, dataset)
    before = {service: count_owned(service) for service in ("gateway", "evidence")}
    gateway_address = system.replicas("gateway")[0]
    async with grpc.aio.insecure_channel(gateway_address) as channel:
        search: Any = search_service_pb2_grpc.SearchServiceStub(channel)
        evidence: Any = evidence_service_pb2_grpc.EvidenceServiceStub(channel)
        query = search_pb2.SearchQuery(query_text="tool3 fails", top_k=5)
        for number in range(RUNS):
            request = search_service_pb2.SearchRequest(dataset=dataset, query=query, min_revision=revision)
            assert (await search.Search(request, timeout=SECONDS)).revision >= revision
            recall = evidence_service_pb2.RecallRequest(
                dataset=dataset, session_id=f"{dataset}-{number}", query_text="tool3 fails"
            )
            await evidence.Recall(recall, timeout=SECONDS)

    for service, count in before.items():
        assert count_owned(service) >= count + RUNS, service


async def test_a_watcher_of_one_curator_sees_what_the_other_committed(stubs: Stubs, dataset: str) -> None:
    first_curator, second_curator = stubs("curator", playbook_service_pb2_grpc.PlaybookServiceStub)
    request = playbook_service_pb2.WatchPlaybookRequest(dataset=dataset, allow_missing=True)
    feeds = [curator.WatchPlaybook(request, timeout=SECONDS) for curator in (first_curator, second_curator)]
    await learn(stubs, dataset)
    for feed in feeds:
        seen: list[int] = []
        while len(seen) < RUNS:
            event = await feed.read()
            seen += [event.revision.revision] if event.HasField("revision") else []
        feed.cancel()
        assert seen == list(range(1, RUNS + 1))


async def test_a_request_repeated_at_the_other_gateway_learns_nothing_twice(stubs: Stubs, dataset: str) -> None:
    first_gateway, second_gateway = stubs("gateway", gateway_service_pb2_grpc.GatewayServiceStub)
    request = learning(dataset, 1)
    answers = await asyncio.gather(
        *(stub.Learn(request, timeout=SECONDS) for stub in (first_gateway, second_gateway) * 3)
    )
    assert {answer.curation.revision for answer in answers} == {1}
    for learned in answers:
        learned.already_learned = False  # Calls that find the commit of another one say so.
    assert answers[1:] == [answers[0]] * (len(answers) - 1)


async def test_a_plan_started_on_one_planner_is_watched_and_answered_on_the_other(stubs: Stubs) -> None:
    first_planner, second_planner = stubs("planner", planner_service_pb2_grpc.PlannerServiceStub)
    (*_, question) = await events(
        first_planner.ExecutePlan(planner_service_pb2.ExecutePlanRequest(plan=ASK), timeout=SECONDS)
    )
    request = planner_service_pb2.WatchExecutionRequest(execution_id=question.execution_id)
    following = [
        asyncio.ensure_future(events(stub.WatchExecution(request, timeout=SECONDS)))
        for stub in (first_planner, second_planner)
    ]
    replay = answer(question, user_input="青")
    answered = await events(second_planner.ResumePlan(replay, timeout=SECONDS))
    assert kinds(answered) == ["intervention_answered", "finished"]
    assert answered[-1].finished.overall_status == planner_pb2.EXECUTION_STATUS_SUCCESS
    assert await events(first_planner.ResumePlan(replay, timeout=SECONDS)) == answered
    for seen in await asyncio.gather(*following):
        assert [event.sequence for event in seen] == list(range(1, len(seen) + 1))
        assert seen[-2:] == answered


def test_a_job_submitted_at_one_gateway_is_followed_at_the_other(system: systems.System, dataset: str) -> None:
    first_gateway, second_gateway = system.replicas("gateway")
    with jobs_at(first_gateway) as first, jobs_at(second_gateway) as second:
        job = first.submit(dataset, build_trajectories(dataset, RUNS))
        ended = second.until_ended(job.job_id)
        assert (ended.state, ended.learned) == (bulk_pb2.JOB_STATE_COMPLETED, RUNS)
        assert sorted(second.sources(dataset)) == sorted(
            trajectory.id for trajectory in build_trajectories(dataset, RUNS)
        )
