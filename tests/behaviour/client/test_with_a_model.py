"""Test the README block "With a model" as it stands, and the start without a model."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hansei.client import Client
from hansei.client.cli.embedded_stack import build_temp_settings
from hansei.reflector.v1.trajectory_pb2 import TRAJECTORY_STATUS_FAILURE, Trajectory
from tests.fakes.openai_answers import chat
from tests.fakes.openai_server import OpenAIServer
from tests.support import systems

BLOCK = re.compile(r"^## With a model\n\n```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODEL_VARIABLES = re.compile(r"(HANSEI_)?(LLM|EMBEDDING|OPENAI|GOOGLE|EVALUATOR|JUDGE|GRACE)_|HANSEI_")


@contextmanager
def run_stack(folder: Path, script: str, **variables: str) -> Iterator[tuple[Client, Path]]:
    """Run a script that ends with `make up`, until it serves; yield a client and the file with its output."""
    address = f"127.0.0.1:{systems.free_port()}"
    environment = {name: value for name, value in os.environ.items() if not MODEL_VARIABLES.match(name)}
    environment |= {
        "HANSEI_LISTEN_ADDRESS": address,
        "HANSEI_HTTP_ADDRESS": "",
        **{name: value for name, value in build_temp_settings(folder).items() if value.startswith(str(folder))},
        **variables,
    }
    log = folder / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-eu", "-c", script], cwd=systems.ROOT, env=environment, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    try:
        system = systems.System("make up", {"gateway": address}, folder, {}, {"up": process})
        systems.wait_until_serving(system, "up", address)
        with Client(address) as client:
            yield client, log
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(systems.STOP_SECONDS)


def test_the_block_of_the_readme_uses_the_model(tmp_path: Path) -> None:
    (block,) = BLOCK.findall((systems.ROOT / "README.md").read_text(encoding="utf-8"))
    with (
        OpenAIServer(otherwise=chat('{"score": 80, "evaluator_comment": "fine"}')) as model,
        run_stack(tmp_path, block, OPENAI_BASE_URL=model.base_url, GOOGLE_API_KEY="chooses-nothing") as (client, log),
    ):
        assert "openai" in log.read_text(encoding="utf-8")
        client.evaluator.evaluate(user_query="q", submission="s")
        request_counts = {"evaluator": len(model.requests)}
        client.planner.create_plan(query="AとBの違いを比較して詳しく教えて")
        request_counts["planner"] = len(model.requests) - sum(request_counts.values())
        client.import_playbook("d", b"## git\n\n[git-00001] Set user.email before the first commit.\n")
        run = Trajectory(dataset="d", query="q", generated_answer="41", status=TRAJECTORY_STATUS_FAILURE)
        learned, answered = client.learn(run, ground_truth="42"), client.ask("d", "Why?")
    for usage in (learned.usage, answered.usage):
        assert (usage.calls > 0, usage.cost_usd > 0) == (True, True)
    paths = [request.path for request in model.requests]
    assert min(request_counts.values()) >= 1
    assert "/embeddings" in paths
    assert {request.body["model"] for request in model.requests} == {"gpt-4o-mini", "text-embedding-3-small"}


def test_without_a_key_it_starts_offline_and_says_how_to_change_that(tmp_path: Path) -> None:
    with run_stack(tmp_path, "make up", GOOGLE_API_KEY="chooses-nothing") as (client, log):
        assert client.evaluator.evaluate(user_query="q", submission="s").result.metrics
        (line,) = [line for line in log.read_text(encoding="utf-8").splitlines() if "model " in line]
    assert "offline" in line
    assert "set OPENAI_API_KEY" in line
