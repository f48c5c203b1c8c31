"""A model that is silent for a long time: the connection between client and reflector lasts, nothing is asked twice.

`HANSEI_SLOW_MODEL_SECONDS=1800 pytest tests/behaviour/reflector/test_slow_model.py` takes the half hour.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import grpc
import pytest

from chassis import serve
from chassis.channel_options import build_channel_options
from chassis.channels import Peers
from chassis.policy import load_policies
from chassis.server import server
from hansei.reflector.v1 import reflector_service_pb2 as pb
from hansei.reflector.v1 import reflector_service_pb2_grpc as rpc
from hansei.reflector.v1 import trajectory_pb2 as tpb
from services.reflector.bootstrap import build
from services.reflector.settings import ReflectorSettings
from tests.fakes.openai_answers import chat_json
from tests.fakes.openai_server import OpenAIServer

SCALE = 1 / 60
"""The share of their real length that intervals of pings have in the fast test."""
FAST_SECONDS = 6.0
REAL_SECONDS = float(os.environ.get("HANSEI_SLOW_MODEL_SECONDS", "0"))
OPTIONS = [
    *build_channel_options(load_policies(), 2**24, follow_health=False),
    ("grpc.http2.max_pings_without_data", 0),  # other clients ping as long as a call lasts
]


def _scale(options: list[tuple[str, Any]], scale: float) -> list[tuple[str, Any]]:
    """Return the arguments of a channel with shorter intervals of pings."""
    pings = ("keepalive_time_ms", "keepalive_timeout_ms", "min_ping_interval_without_data_ms")
    return [(name, int(value * scale)) if name.endswith(pings) else (name, value) for name, value in options]


async def _reflect_slowly(
    seconds: float, scale: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[pb.ReflectResponse, int]:
    """Return the response of a model that answers after `seconds`, and how often the model was asked."""
    arguments = server.build_server_options
    monkeypatch.setattr(server, "build_server_options", lambda settings: _scale(arguments(settings), scale))
    with OpenAIServer() as model:
        model.script(chat_json({"analysis": "", "decisive_steps": [], "lessons": [], "tags": []}))
        model.hold()
        fields = {
            "llm_provider": "openai",
            "openai_api_key": "k",
            "openai_base_url": model.base_url,
            "llm_attempt_seconds": 2 * seconds,
            "llm_call_seconds": 2 * seconds,
        }
        settings = ReflectorSettings.model_validate(fields)
        trajectory = tpb.Trajectory(
            query="q", dataset="d", generated_answer="a", reasoning_steps=["look"], status=tpb.TRAJECTORY_STATUS_FAILURE
        )
        async with (
            serve(build(settings, Peers({}))) as running,
            grpc.aio.insecure_channel(running.address, options=_scale(OPTIONS, scale)) as channel,
        ):
            call = rpc.ReflectorServiceStub(channel).Reflect(
                pb.ReflectRequest(trajectory=trajectory, dataset="d"), timeout=2 * seconds
            )
            response = asyncio.ensure_future(_wait(call))
            done, _ = await asyncio.wait({response}, timeout=seconds)
            assert not done, f"the call ended before the model answered: {done}"
            model.release()
            return await response, len(model.requests)


async def _wait(call: Any) -> pb.ReflectResponse:
    response: pb.ReflectResponse = await call
    return response


async def test_a_silent_model_does_not_end_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    response, requests = await _reflect_slowly(FAST_SECONDS, SCALE, monkeypatch)
    assert (response.result.error, requests) == ("", 1)
    assert response.result.model == "gpt-4o-mini"


@pytest.mark.timeout(2 * REAL_SECONDS + 60)
@pytest.mark.skipif(not REAL_SECONDS, reason="takes its real time: set HANSEI_SLOW_MODEL_SECONDS=1800")
async def test_a_call_of_half_an_hour_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    response, requests = await _reflect_slowly(REAL_SECONDS, 1.0, monkeypatch)
    assert (response.result.error, requests) == ("", 1)
