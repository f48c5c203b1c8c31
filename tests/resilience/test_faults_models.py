"""A model server that fails a third of its calls, in every way there is: runs are learned all the same, each once."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.http_wire import WireResponse
from tests.fakes.openai_answers import Answer, ModelRequest, body, chat_json, error, reset, stall
from tests.fakes.openai_server import OpenAIServer
from tests.resilience.load import check_ledger, load
from tests.support import systems
from tests.support.campaigns import campaign_size

FAULTS: dict[str, Answer] = {
    "429": error(429, retry_after=0.1),
    "500": error(500),
    "garbage": body(b"\x00\xff <html>"),
    "hanging": stall(),
    "reset": reset(),
}
RUNS = campaign_size(12, 4)
LESSON = dict.fromkeys(("what_happened", "cause", "better", "lesson"), "Look before you leap.")
LESSONS = chat_json({"lessons": [LESSON]})
ADDITION = {"reasoning": "r", "lesson": 1, "op": "ADD", "section": "habits", "content": "Look before you leap."}
OPERATIONS = chat_json({"operations": [ADDITION]})


def failing_every_third() -> Answer:
    """Answer the agents, but fail every third call, each time in another way."""
    number, faults = itertools.count(1), itertools.cycle(FAULTS.values())

    def answer(request: ModelRequest) -> WireResponse:
        if next(number) % 3 == 0:
            return next(faults)(request)
        return (OPERATIONS if "CuratorReply" in json.dumps(request.body) else LESSONS)(request)

    return answer


@pytest.fixture
def settings() -> dict[str, str]:
    """Attempts are short, so that a hanging one is given up soon."""
    return {
        "LLM_PROVIDER": "openai",
        "OPENAI_API_KEY": "none",
        "LLM_ATTEMPT_SECONDS": "1",
        "LLM_RETRY_BASE_SECONDS": "0.05",
    }


async def test_nothing_is_lost_while_a_third_of_the_model_calls_fails(tmp_path: Path, settings: dict[str, Any]) -> None:
    with OpenAIServer(otherwise=failing_every_third()) as model:
        made = systems.one_process(tmp_path, OPENAI_BASE_URL=model.base_url, **settings)
        system = await asyncio.to_thread(made.__enter__)
        try:
            async with load(system.address, call_seconds=30) as callers:
                await callers.progress(RUNS)
            check_ledger("model server: 429, 500, garbage, hanging, reset", system.address, callers.ledger)
            assert len(model.requests) > 3 * len(FAULTS), "every fault was met"
        finally:
            await asyncio.to_thread(made.__exit__, None, None, None)
