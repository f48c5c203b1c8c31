"""Curate over gRPC, with a model behind a real HTTP server, and by rules without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import chassis
from chassis.errors import AlreadyExists, HanseiError, NotFound, RequestIdReused
from hansei.curator.v1 import curator_service_pb2 as curator_pb
from hansei.curator.v1 import curator_service_pb2_grpc as curator_grpc
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import playbook_service_pb2_grpc as playbook_grpc
from hansei.reflector.v1 import trajectory_pb2
from services.curator.bootstrap import build
from services.curator.settings import CuratorSettings
from tests.fakes.openai_answers import chat, chat_json, error
from tests.fakes.openai_server import OpenAIServer
from tests.support.playbook_client import new_id

if TYPE_CHECKING:
    from hansei.curator.v1.curator_service_pb2_grpc import CuratorServiceAsyncStub
    from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceAsyncStub

    Clients = tuple[CuratorServiceAsyncStub, PlaybookServiceAsyncStub]

OPERATION = {"reasoning": "new", "lesson": 1, "op": "ADD", "section": "git", "content": "Set {user.name}."}


@asynccontextmanager
async def curator(folder: Path, **settings: Any) -> AsyncIterator[Clients]:
    """Clients of a curator that keeps its playbooks in `folder`."""
    settings = {"playbook_data_dir": str(folder), "llm_retries": 0, "embedding_provider": "hashing", **settings}
    async with chassis.serve(build(CuratorSettings(**settings), chassis.Peers({}))) as running:
        peers = chassis.Peers({"curator": running.address})
        channel = peers.get_channel("curator")
        yield curator_grpc.CuratorServiceStub(channel), playbook_grpc.PlaybookServiceStub(channel)
        await peers.close()


@asynccontextmanager
async def with_model(folder: Path) -> AsyncIterator[tuple[OpenAIServer, Clients]]:
    """Yield the same, curated by a scripted model."""
    with OpenAIServer() as server:
        settings = {"llm_provider": "openai", "openai_base_url": server.base_url, "openai_api_key": "test"}
        async with curator(folder, **settings) as clients:
            yield server, clients


def request(*, trajectory: str = "run-1", **fields: Any) -> curator_pb.CurateRequest:
    insight = trajectory_pb2.Insight(
        reasoning="r",
        error_identification="e",
        root_cause_analysis="c",
        correct_approach="a",
        key_insight="Set user.name before the first commit.",
        steps=[3],
    )
    reflection = trajectory_pb2.ReflectionResult(
        **{"insights": [insight], "trajectory_id": trajectory, "iteration_count": 1, **fields}
    )
    return curator_pb.CurateRequest(request_id=new_id(), dataset="d", reflection_result=reflection)


async def bullets(playbooks: PlaybookServiceAsyncStub) -> list[pb.Bullet]:
    answer = await playbooks.GetPlaybook(service_pb.GetPlaybookRequest(dataset="d"))
    return list(answer.playbook.bullets)


async def test_a_model_curates_a_reflection(tmp_path: Path) -> None:  # C-77
    async with with_model(tmp_path) as (server, (curators, playbooks)):
        server.script(chat_json({"operations": [OPERATION]}))
        answer = await curators.Curate(request())
        assert (answer.saved, answer.error, answer.revision) == (True, "", 1)
        assert answer.result.summary == "ADD: 1, UPDATE: 0, DELETE: 0"
        [bullet] = await bullets(playbooks)
        assert (bullet.id, bullet.content) == ("git-00001", "Set {user.name}.")
        assert bullet.sources == [pb.Source(trajectory_id="run-1", steps=[3])]
        [model_request] = server.requests
        assert [role for role, _ in model_request.messages] == ["system", "user"]
        assert model_request.body["response_format"]["json_schema"]["strict"] is True
        assert "evidence in steps: 3" in model_request.prompt
        assert model_request.body["temperature"] == 0
        assert (answer.usage.calls, answer.usage.calls_without_cost, answer.usage.cost_usd > 0) == (1, 0, True)


async def test_a_repeat_is_answered_from_the_store_without_asking_the_model(tmp_path: Path) -> None:
    async with with_model(tmp_path) as (server, (curators, playbooks)):
        server.script(chat_json({"operations": [OPERATION]}))
        curation = request()
        first = await curators.Curate(curation)
        again = await curators.Curate(curation)
        assert first.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)
        assert (len(server.requests), len(await bullets(playbooks))) == (1, 1)
        curation.reflection_result.insights[0].key_insight = "other"
        with pytest.raises(RequestIdReused):
            await curators.Curate(curation)


async def test_the_same_request_twice_at_once_is_done_once(tmp_path: Path) -> None:
    async with with_model(tmp_path) as (server, (curators, playbooks)):
        server.answer_with(chat_json({"operations": [OPERATION]}))
        curation = request()
        answers = await asyncio.gather(*(curators.Curate(curation) for _ in range(5)))
        assert len({answer.SerializeToString(deterministic=True) for answer in answers}) == 1
        history = await playbooks.GetHistory(service_pb.GetHistoryRequest(dataset="d"))
        assert len(history.revisions) == 1


async def test_a_failing_model_saves_nothing_and_the_request_can_be_sent_again(tmp_path: Path) -> None:  # C-38, C-79
    async with with_model(tmp_path) as (server, (curators, playbooks)):
        refusal = chat("", finish_reason="content_filter")
        unreadable = [chat("no json at all"), chat('{"operations": [{"op": "MOVE"}]}')]
        server.script(error(500), *unreadable, refusal, chat_json({"operations": [OPERATION]}))
        curation = request()
        for calls, problem in (
            (0, "HTTP 500"),
            (2, "the JSON object does not fit CuratorReply: operations.0"),
            (1, "the model declined to reply: finish reason content_filter"),
        ):
            failed = await curators.Curate(curation)
            assert (failed.saved, failed.revision, failed.usage.calls) == (False, 0, calls)
            assert problem in failed.error
            assert failed.result.summary == "ADD: 0, UPDATE: 0, DELETE: 0"
        done = await curators.Curate(curation)
        assert (done.saved, done.revision, len(await bullets(playbooks))) == (True, 1, 1)


async def test_the_complete_operations_of_a_truncated_reply_are_kept(tmp_path: Path) -> None:
    async with with_model(tmp_path) as (server, (curators, playbooks)):
        whole = json.dumps({"operations": [OPERATION, {**OPERATION, "content": "Another."}]})
        server.script(chat(whole[:-20], finish_reason="length"))
        curation = await curators.Curate(request())
        assert (curation.saved, len(await bullets(playbooks))) == (True, 1)
        assert curation.error == "the reply was cut off at the token limit; its complete parts were used"


async def test_a_prompt_beyond_the_context_has_fewer_bullets(tmp_path: Path) -> None:
    async with with_model(tmp_path) as (server, (curators, playbooks)):
        deltas = [
            pb.Delta(type=pb.DELTA_TYPE_ADD, section="s", content=f"lesson {number} " + "word " * 100)
            for number in range(60)
        ]
        await playbooks.ApplyDeltas(service_pb.ApplyDeltasRequest(request_id=new_id(), dataset="d", deltas=deltas))
        too_long = error(400, "This model's maximum context length is 4000 tokens.")
        server.script(too_long, chat_json({"operations": [OPERATION]}))
        assert (await curators.Curate(request())).saved
        whole, reduced = (sent.prompt for sent in server.requests)
        assert len(reduced) < 12_000 < 30_000 < len(whole)
        assert "of 60 bullets that matter here" in reduced


async def test_the_bullets_that_matter_for_a_task_are_prepared_with_the_served_ones(tmp_path: Path) -> None:
    prepare = curator_pb.PrepareCurationRequest(request_id=new_id(), dataset="d", bullet_ids=["s-00001"])
    by_task = curator_pb.PrepareCurationRequest(request_id=new_id(), dataset="d", query="Which identity?")
    deltas = [
        pb.Delta(type=pb.DELTA_TYPE_ADD, section="s", content=f"lesson {number}" + " word" * number * 200)
        for number in range(1, 11)
    ]
    added = service_pb.ApplyDeltasRequest(request_id=new_id(), dataset="d", deltas=deltas)
    async with with_model(tmp_path) as (_, (curators, playbooks)):
        await playbooks.ApplyDeltas(added)
        assert [bullet.id for bullet in (await curators.PrepareCuration(prepare)).bullets] == ["s-00001"]
        near = (await curators.PrepareCuration(by_task)).bullets
        assert 0 < len(near) < 10, "the bullets have 13,750 tokens"
    async with curator(tmp_path, llm_provider="offline") as (curators, _):
        assert list((await curators.PrepareCuration(by_task)).bullets) == []


async def test_rules_curate_without_a_model(tmp_path: Path) -> None:
    async with curator(tmp_path, llm_provider="offline") as (curators, playbooks):
        answer = await curators.Curate(request())
        assert (answer.saved, answer.model, answer.operations[0].delta.reasoning) == (
            True,
            "offline",
            "the playbook is empty",
        )
        vote = trajectory_pb2.BulletEvaluation(bullet_id=answer.operations[0].bullet_id, tag=pb.VOTE_TAG_HELPFUL)
        again = await curators.Curate(request(trajectory="run-2", bullet_evaluations=[vote]))
        [bullet] = await bullets(playbooks)
        assert (bullet.helpful, [source.trajectory_id for source in bullet.sources]) == (1, ["run-1", "run-2"])
        assert [outcome.applied for outcome in again.votes] == [True]


async def test_the_target_of_an_insight_becomes_that_of_its_bullet(tmp_path: Path) -> None:
    async with curator(tmp_path, llm_provider="offline") as (curators, playbooks):
        message = request()
        message.reflection_result.insights[0].target = "call.tool == 'git_commit' && !succeeded('git_config')"
        await curators.Curate(message)
        [bullet] = await bullets(playbooks)
        assert bullet.target == pb.Target(
            expression="call.tool == 'git_commit' && !succeeded('git_config')", mode=pb.TARGET_MODE_SHADOW
        )
        wrong = request(trajectory="run-2")
        wrong.reflection_result.insights[0].target = "called("
        with pytest.raises(HanseiError, match=r"insights\[0\]\.target .* at character 7"):
            await curators.Curate(wrong)


async def test_a_lesson_that_was_served_is_not_learned_again(tmp_path: Path) -> None:
    async with curator(tmp_path, llm_provider="offline") as (curators, playbooks):
        first = await curators.Curate(request())
        served = [first.operations[0].bullet_id]
        await curators.Curate(request(trajectory="run-2", used_bullet_ids=served))
        [bullet] = await bullets(playbooks)
        assert [source.trajectory_id for source in bullet.sources] == ["run-1"]


async def test_a_committed_curation_can_be_read_again(tmp_path: Path) -> None:
    async with curator(tmp_path, llm_provider="offline") as (curators, _):
        curation = request()
        answer = await curators.Curate(curation)
        read = curator_pb.GetCurationRequest(request_id=curation.request_id, dataset="d")
        found = await curators.GetCuration(read)
        assert (found.reflection_result, found.response) == (curation.reflection_result, answer)
        read.dataset = "other"
        with pytest.raises(NotFound):
            await curators.GetCuration(read)


async def test_tenants_share_no_curations(tmp_path: Path) -> None:
    async with curator(tmp_path, llm_provider="offline") as (curators, _):
        curation = request()
        for dataset in ("acme--d", "evil--d"):
            curation.dataset = dataset
            prepare = curator_pb.PrepareCurationRequest(request_id=curation.request_id, dataset=dataset)
            assert not (await curators.PrepareCuration(prepare)).HasField("committed")
            answer = await curators.Curate(curation)
            assert answer.revision == 1
            assert (await curators.PrepareCuration(prepare)).committed.response == answer
            read = curator_pb.GetCurationRequest(request_id=curation.request_id, dataset=dataset)
            assert (await curators.GetCuration(read)).response == answer


async def test_preparing_reads_the_served_bullets_or_the_committed_curation(tmp_path: Path) -> None:
    async with curator(tmp_path, llm_provider="offline") as (curators, playbooks):
        await curators.Curate(request())
        [bullet] = await bullets(playbooks)
        curation = request(trajectory="run-2")
        prepare = curator_pb.PrepareCurationRequest(
            request_id=curation.request_id, dataset="d", bullet_ids=["unknown", bullet.id]
        )
        prepared = await curators.PrepareCuration(prepare)
        assert (prepared.HasField("committed"), list(prepared.bullets), prepared.revision) == (False, [bullet], 1)
        curation.prepared_revision = prepared.revision
        answer = await curators.Curate(curation)
        assert await curators.Curate(curation) == answer
        prepared = await curators.PrepareCuration(prepare)
        assert prepared.committed.reflection_result == curation.reflection_result
        assert (prepared.committed.response, list(prepared.bullets), prepared.revision) == (answer, [], 2)
        prepare.dataset = "other"
        with pytest.raises(AlreadyExists, match="d"):
            await curators.PrepareCuration(prepare)


async def test_an_invalid_dataset_name_is_refused(tmp_path: Path) -> None:  # C-43
    async with curator(tmp_path, llm_provider="offline") as (curators, _):
        curation = request()
        curation.dataset = "a b"
        with pytest.raises(HanseiError, match="Invalid dataset name: 'a b'") as caught:
            await curators.Curate(curation)
        assert caught.value.code == "INVALID_ARGUMENT"
