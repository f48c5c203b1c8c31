"""Recognise equal lessons by the curator's own embedding model (hashing) or by words, without search."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import chassis
import services.curator.bootstrap
from hansei.curator.v1 import curator_service_pb2_grpc as curator_grpc
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import playbook_service_pb2_grpc as playbook_grpc
from services.curator.domain.errors import SimilarityUnavailable
from services.curator.settings import CuratorSettings
from services.curator.usecases.model_curator import PROMPT_BULLETS
from tests.fakes.openai_answers import chat_json
from tests.fakes.openai_server import OpenAIServer
from tests.support.curator_and_search import curate_request, curator_and_search
from tests.support.playbook_client import new_id
from tests.support.systems import free_port

if TYPE_CHECKING:
    from hansei.curator.v1.curator_service_pb2_grpc import CuratorServiceAsyncStub
    from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceAsyncStub

    Clients = tuple[CuratorServiceAsyncStub, PlaybookServiceAsyncStub]

LARGE = 300
PARK = "Leave the parked cars where the sign says parking is allowed"
PARK_AGAIN = "Leave parked cars where signs say that parking is allowed"


@asynccontextmanager
async def curator(folder: Path, **settings: Any) -> AsyncIterator[Clients]:
    """Clients of a curator without a search service."""
    async with curator_and_search(folder, alone=True, **settings) as channel:
        yield curator_grpc.CuratorServiceStub(channel), playbook_grpc.PlaybookServiceStub(channel)


async def add_bullets(playbooks: PlaybookServiceAsyncStub, *contents: str) -> None:
    deltas = [pb.Delta(type=pb.DELTA_TYPE_ADD, section="s", content=content) for content in contents]
    await playbooks.ApplyDeltas(service_pb.ApplyDeltasRequest(request_id=new_id(), dataset="d", deltas=deltas))


def fillers(count: int) -> list[str]:
    return [f"Call number{n} with argument{n * 7} before step{n * 13}" for n in range(count)]


async def test_vectors_decide_which_lessons_are_the_same(tmp_path: Path) -> None:
    async with curator(tmp_path) as (curators, _):
        first = await curators.Curate(curate_request(PARK))
        again = await curators.Curate(curate_request(PARK_AGAIN, "Moor every boat", trajectory="other"))
        same, new = again.operations
        assert (same.applied, same.bullet_id) == (False, first.operations[0].bullet_id)
        assert same.delta.reasoning.startswith(
            f"confirms {same.bullet_id}; the same lesson (cosine of hashing-v1-1536 "
        )
        assert new.applied
        assert "(cosine of hashing-v1-1536" in new.delta.reasoning


async def test_the_same_lesson_is_found_in_a_large_playbook(tmp_path: Path) -> None:
    async with curator(tmp_path) as (curators, playbooks):
        await add_bullets(playbooks, *fillers(LARGE), PARK)
        [same] = (await curators.Curate(curate_request(PARK_AGAIN))).operations
        [merged] = [bullet for bullet in await bullets(playbooks) if bullet.content == PARK]
        assert (same.applied, same.bullet_id) == (False, merged.id)
        assert [source.trajectory_id for source in merged.sources] == ["run"]


async def bullets(playbooks: PlaybookServiceAsyncStub) -> list[pb.Bullet]:
    answer = await playbooks.GetPlaybook(service_pb.GetPlaybookRequest(dataset="d", allow_missing=True))
    return list(answer.playbook.bullets)


async def test_equal_trajectories_give_equal_playbooks(tmp_path: Path) -> None:
    async with curator(tmp_path) as (curators, _):
        operations = []
        for dataset in ("one", "two"):
            answers = [
                await curators.Curate(curate_request(*lessons, trajectory=f"run-{number}", dataset=dataset))
                for number, lessons in enumerate(([PARK, "Moor every boat"], [PARK_AGAIN], ["Moor each boat", PARK]))
            ]
            operations.append([operation.SerializeToString() for answer in answers for operation in answer.operations])
        assert operations[0] == operations[1]


async def test_without_the_model_nothing_is_curated_and_the_call_may_be_retried(tmp_path: Path) -> None:
    away = {"openai_api_key": "k", "openai_base_url": f"http://127.0.0.1:{free_port()}", "llm_retries": 0}
    curation = curate_request(PARK)
    async with curator(tmp_path, embedding={"embedding_provider": "openai", **away}) as (curators, playbooks):
        with pytest.raises(SimilarityUnavailable, match="CURATION_SIMILARITY=words") as caught:
            await curators.Curate(curation)
        assert (caught.value.code, caught.value.retry_after) == ("UNAVAILABLE", 1.0)
        assert await bullets(playbooks) == []
    async with curator(tmp_path) as (curators, playbooks):
        assert (await curators.Curate(curation)).saved
        assert [bullet.content for bullet in await bullets(playbooks)] == [PARK]


async def test_similarity_by_words_needs_no_model(tmp_path: Path) -> None:
    nowhere = {"openai_api_key": "k", "openai_base_url": f"http://127.0.0.1:{free_port()}", "llm_retries": 0}
    embedding = {"embedding_provider": "openai", **nowhere}
    async with curator(tmp_path, embedding=embedding, curation_similarity="words") as (curators, _):
        await curators.Curate(curate_request(PARK))
        [new] = (await curators.Curate(curate_request("Moor a boat where parking is allowed"))).operations
        assert "(cosine of words 0." in new.delta.reasoning


@pytest.mark.parametrize(
    ("settings", "logged"),
    [({}, "similarity=embedding"), ({"curation_similarity": "words"}, "similarity=words")],
)
def test_a_curator_logs_which_similarity_it_uses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], logged: str
) -> None:
    offline = {"llm_provider": "offline", "embedding_provider": "hashing", "playbook_data_dir": str(tmp_path)}
    with caplog.at_level(logging.INFO):
        services.curator.bootstrap.build(CuratorSettings.model_validate({**offline, **settings}), chassis.Peers({}))
    assert "model=hashing-v1-1536" in caplog.text
    assert logged in caplog.text


async def test_the_prompt_has_the_most_similar_bullets_of_a_large_playbook(tmp_path: Path) -> None:
    with OpenAIServer() as server:
        server.answer_with(chat_json({"operations": []}))
        model = {"llm_provider": "openai", "openai_base_url": server.base_url, "openai_api_key": "test"}
        async with curator(tmp_path, **model) as (curators, playbooks):
            await add_bullets(playbooks, *fillers(PROMPT_BULLETS + 100), PARK)
            assert (await curators.Curate(curate_request(PARK_AGAIN))).saved
    [model_request] = server.requests
    _, (_, prompt) = model_request.messages
    assert f"] s | sources 0, helpful 0, harmful 0 | {PARK}" in prompt
    assert prompt.count("] s | ") == PROMPT_BULLETS
    assert "- s (101): [" in prompt
