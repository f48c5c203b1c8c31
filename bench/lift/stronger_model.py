"""A playbook that hansei learns with a stronger model, whose recorded replies are in `stronger_model.json`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hansei.client.cli.embedded_stack import build_temp_settings, embedded_client
from hansei.client.lift.memories import Memory, build_search_memory, list_bullets
from hansei.client.lift.world import MadeUpWorld, build_training_trajectories
from tests.fakes.http_wire import WireResponse
from tests.fakes.openai_answers import Answer, ModelRequest, chat_json
from tests.fakes.openai_server import OpenAIServer

RECORDED = Path(__file__).with_name("stronger_model.json")
DATASET = "stronger"
CURATOR = "You keep a playbook"
SECTION = "strategies_and_hard_rules"


def build_stronger_memory(world: MadeUpWorld, requests: Sequence[str], training_tasks: int = 60) -> Memory:
    """Learn the recorded trajectories with their replies, and return the ranking of the search service for requests."""
    replies = json.loads(RECORDED.read_text(encoding="utf-8"))["replies"]
    trajectories = build_training_trajectories(world, training_tasks, 1)
    messages = [trajectory.build_message(number, DATASET) for number, trajectory in enumerate(trajectories)]
    with tempfile.TemporaryDirectory() as folder, OpenAIServer() as model:
        settings = {**build_temp_settings(Path(folder)), "HANSEI_LLM_PROVIDER": "openai",
                    "HANSEI_OPENAI_BASE_URL": model.base_url, "HANSEI_OPENAI_API_KEY": "none"}  # fmt: skip
        with embedded_client(settings) as client:
            revision = 0
            for reply in replies:
                message = messages[reply["trajectory"]]
                siblings = [other for other in messages if other.task_id == message.task_id and other.id != message.id]
                model.answer_with(_build_answer(reply))
                revision = client.learn(message, siblings=siblings).curation.revision
            rank = build_search_memory(client, DATASET, revision)
            ranked = {request: rank(request) for request in requests}
            check_bullets(list_bullets(client, DATASET), [reply["lesson"] for reply in replies])
    return ranked.__getitem__


def check_bullets(bullets: Sequence[str], lessons: Sequence[str]) -> None:
    """End the program if the playbook has not the lessons of the replies."""
    if missing := sorted(set(lessons) - set(bullets)):
        raise SystemExit(f"{len(missing)} lessons are missing in the playbook: {missing[0]}")


def _build_answer(reply: dict[str, Any]) -> Answer:
    """Return the replies of the model to the reflector, in each iteration, and to the curator."""

    def answer(request: ModelRequest) -> WireResponse:
        is_curator = any(CURATOR in text for _, text in request.messages)
        return chat_json(_curate(reply) if is_curator else _reflect(reply))(request)

    return answer


def _reflect(reply: dict[str, Any]) -> dict[str, Any]:
    lesson = reply["lesson"]
    parts = {"what_happened": lesson, "cause": lesson, "better": lesson, "lesson": lesson}
    entry = {
        "evidence_steps": reply["steps"],
        **parts,
        "kind": "tool_fact",
        "confirms": None,
        "contradicts": None,
    }
    return {"analysis": lesson, "decisive_steps": [], "lessons": [entry], "tags": []}


def _curate(reply: dict[str, Any]) -> dict[str, Any]:
    operation = {"reasoning": "No entry says it.", "lesson": 1, "op": "ADD", "section": SECTION}
    return {"operations": [{**operation, "content": reply["lesson"]}]}
