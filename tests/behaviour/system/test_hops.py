"""A deadline holds across services; a process that cannot work as it is set up says so and ends."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import grpc
import pytest

from hansei.gateway.v1 import gateway_service_pb2, gateway_service_pb2_grpc
from hansei.playbook.v1 import playbook_service_pb2, playbook_service_pb2_grpc
from hansei.reflector.v1 import trajectory_pb2
from tests.fakes.openai_answers import stall
from tests.fakes.openai_server import OpenAIServer
from tests.support import systems


def learning(dataset: str) -> gateway_service_pb2.LearnRequest:
    run = trajectory_pb2.Trajectory(
        id="run", dataset=dataset, query="q", status=trajectory_pb2.TRAJECTORY_STATUS_FAILURE, generated_answer="a"
    )
    return gateway_service_pb2.LearnRequest(request_id=str(uuid.uuid4()), dataset=dataset, trajectory=run)


def test_a_model_that_stalls_does_not_outlive_the_callers_deadline(tmp_path: Path) -> None:
    """The model call of the reflector gets the remaining time of the caller, so it ends no later than the caller."""
    request = learning("deadline")
    with OpenAIServer(otherwise=stall()) as model:
        environment = {"LLM_PROVIDER": "openai", "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": model.base_url}
        with systems.one_process(tmp_path, **environment) as system, grpc.insecure_channel(system.address) as channel:
            stub: Any = gateway_service_pb2_grpc.GatewayServiceStub(channel)
            call = stub.Learn.future(request, timeout=2)
            failure = call.exception()
            if failure is None:  # the rules reflected, because the model did not respond in time
                assert "the rules reflected instead" in call.result().reflection.error
            else:
                assert failure.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            model.wait_until_idle()
            playbooks: Any = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
            asked_for = playbook_service_pb2.GetPlaybookRequest(dataset="deadline", allow_missing=True)
            assert list(playbooks.GetPlaybook(asked_for, timeout=10).playbook.bullets) == []


@pytest.mark.parametrize(
    ("module", "variable"),
    [
        ("services.reflector", "OPENAI_API_KEY"),
        ("services.curator", "OPENAI_API_KEY"),
        ("services.planner", "OPENAI_API_KEY"),
        ("services.reflector", "GOOGLE_API_KEY"),
    ],
)
def test_a_service_without_its_key_names_it_and_exits(tmp_path: Path, module: str, variable: str) -> None:
    """G-08, G-68: and names the way out."""
    provider = "openai" if variable == "OPENAI_API_KEY" else "gemini"
    status, complaint = systems.failed_start(tmp_path, module, LLM_PROVIDER=provider)
    assert status == 1
    assert f"{variable} is not set" in complaint
    assert "LLM_PROVIDER=offline" in complaint


@pytest.mark.parametrize(
    ("module", "variable", "value"),
    [
        ("services.search", "SEARCH_ALPHA", "1.5"),  # S-38
        ("services.search", "SEARCH_ALPHA", "half"),
        ("services.search", "SEARCH_TOKENIZER", "nonsense"),  # S-27
        ("services.curator", "LLM_PROVIDER", "nobody"),  # G-03
        ("gateway", "HANSEI_MAX_CONCURRENT_CALLS", "0"),
    ],
)
def test_a_setting_that_cannot_be_is_named_and_the_process_ends(
    tmp_path: Path, module: str, variable: str, value: str
) -> None:
    """Hold every hop to the deadline of the call (G-10)."""
    status, complaint = systems.failed_start(tmp_path, module, **{variable: value})
    assert status == 1
    assert variable in complaint
