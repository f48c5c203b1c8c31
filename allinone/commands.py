"""Offer the servers' code to the client's commands; `hansei.client.server` is the only importer.

Functions import their modules when they are called, so that a command loads only its own part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chassis

if TYPE_CHECKING:
    from allinone.model_probes import ModelProbe
    from chassis.server.lifecycle import Running
    from hansei.evidence.v1.archive_service_pb2 import GetTrajectoryResponse
    from hansei.evidence.v1.guard_service_pb2 import GuardTrajectory
    from hansei.reflector.v1.trajectory_pb2 import Trajectory
    from services.reflector.domain.trajectory import Step


def load_settings_classes() -> dict[str, type[chassis.ServiceSettings]]:
    """Return the settings class of each service, by the service's name."""
    from allinone import parts

    return {name: parts.load_settings_class(name) for name in parts.list_service_names()}


def run_stack(address: str | None, announce: Callable[[str, str, str], None]) -> None:
    """Run every service in this process until a signal.

    Once all have started, `announce` gets the address of gRPC, the URL of HTTP and the embedding model.
    """
    from allinone.bootstrap import StackSettings, build
    from libs.embedding.connect import describe_embedding_model
    from services.curator.settings import CuratorSettings

    def build_with_announcement(settings: StackSettings, peers: chassis.Peers) -> Sequence[chassis.Service]:
        """Return the services, and last one whose start calls `announce`."""

        services = build(settings, peers)

        async def start() -> None:
            urls = [url for service in services if (url := service.http_url())]
            model = describe_embedding_model(chassis.read_settings(CuratorSettings))
            announce(peers.own_address, "".join(urls), model)

        return [*services, chassis.Service(name="announcement", registrations=(), start=start)]

    overrides = {"listen_address": address} if address else {}
    chassis.run(build_with_announcement, StackSettings, **overrides)


def refuse_unknown_variables(names: Iterable[str]) -> None:
    """Raise BadSetting for variables that set nothing in a stack, see `allinone.variables`."""
    from allinone import variables

    variables.refuse_unknown_variables(names)


def serve_stack() -> AbstractAsyncContextManager[Running]:
    """Serve every service in the running loop, on a free port, as long as the context lasts."""
    from allinone import bootstrap

    return bootstrap.serve_stack()


def list_retrieval_variants() -> Sequence[str]:
    """Return the names of the ranking variants that `evaluate_retrieval` can measure."""
    from services.search.usecases.evaluate import NAMED_VARIANTS

    return tuple(NAMED_VARIANTS)


def evaluate_retrieval(file: Path, variants: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Measure search on a retrieval set with the settings of the environment, and with each variant."""
    from services.search.bootstrap import evaluate_file
    from services.search.settings import SearchSettings

    qualities = asyncio.run(evaluate_file(chassis.read_settings(SearchSettings), file, variants))
    return {name: asdict(quality) for name, quality in qualities.items()}


def evaluate_blame(file: Path) -> dict[str, Any]:
    """Measure on labelled trajectories how often the rules blame the right step and agent."""
    from services.reflector.adapters.importers.labels import read_labelled
    from services.reflector.usecases.evaluate_blame import evaluate_blame

    scores = evaluate_blame(read_labelled(file.read_bytes()))
    baselines = {name: asdict(accuracy) for name, accuracy in scores.baselines.items()}
    return {**asdict(scores), "baselines": baselines}


def evaluate_guards(train: Path, test: Path | None) -> dict[str, Any]:
    """Mine guards from recorded trajectories and measure them on other trajectories, compared with trivial rules."""
    from allinone.guard_trajectories import read_guard_trajectories
    from libs.guards.evaluation import evaluate_guards

    return evaluate_guards(read_guard_trajectories(train), None if test is None else read_guard_trajectories(test))


def evaluate_archived_guards(archived: Iterable[GetTrajectoryResponse]) -> dict[str, Any]:
    """Measure guards on archived trajectories, as `evaluate_guards` does; those without an outcome are left out."""
    from allinone.guard_trajectories import decode_archived_trajectories
    from libs.guards.evaluation import evaluate_guards

    return evaluate_guards(decode_archived_trajectories(archived))


def mine_guards(archived: Iterable[GetTrajectoryResponse]) -> dict[str, Any]:
    """Mine guards from archived trajectories; each has its backtest on them. Those without an outcome are left out."""
    from allinone.guard_trajectories import decode_archived_trajectories
    from libs.guards.candidates import mine_candidates

    return mine_candidates(decode_archived_trajectories(archived))


def evaluate_written_targets(train: Path, test: Path | None, targets: Sequence[Path]) -> dict[str, Any]:
    """Measure mined guards together with the targets that a model wrote, in files. Raises BadSetting."""
    from allinone.guard_trajectories import read_guard_trajectories
    from allinone.written_targets import read_targets
    from libs.guards.sources import WrittenTarget, evaluate_sources

    written = [WrittenTarget(item.target, item.domain, item.task) for item in read_targets(targets)]
    return evaluate_sources(
        read_guard_trajectories(train), written, None if test is None else read_guard_trajectories(test)
    )


def generate_policy_targets(trajectories: Path | Iterable[GetTrajectoryResponse]) -> dict[str, Any]:
    """Return the targets that the configured model writes from the policies in trajectories, with backtests."""
    from allinone.guard_trajectories import load_guard_trajectories
    from allinone.written_targets import generate_policy_targets

    return generate_policy_targets(load_guard_trajectories(trajectories))


def generate_failure_targets(trajectories: Path | Iterable[GetTrajectoryResponse], limit: int) -> dict[str, Any]:
    """Return the targets that the configured model writes from failed trajectories, with backtests."""
    from allinone.guard_trajectories import load_guard_trajectories
    from allinone.written_targets import generate_failure_targets

    return generate_failure_targets(load_guard_trajectories(trajectories), limit)


def backtest_target(expression: str, file: Path) -> dict[str, Any]:
    """Return the firings of a target in the trajectories of a file, failing and passing. Raises InvalidTarget."""
    from allinone.guard_trajectories import read_guard_trajectories
    from chassis.targets.target import Target
    from libs.guards.backtest import backtest

    return backtest(Target(expression), read_guard_trajectories(file)).describe()


def encode_guard_trajectories(file: Path) -> list[GuardTrajectory]:
    """Return the trajectories of a file as messages of a backtest request.

    Raises MalformedTrajectory, UnknownFormat.
    """
    from allinone.guard_trajectories import encode_guard_trajectory, read_guard_trajectories

    return [encode_guard_trajectory(trajectory) for trajectory in read_guard_trajectories(file)]


def find_failed_calls(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return the tool calls of a trajectory that failed.

    Each has the last user message before it, the operation, its arguments, the error signature, and its remedies: the
    values and calls that succeeded afterwards.
    """
    from services.reflector.rpc.convert import parse_trajectory

    return find_failed_calls_of_steps(parse_trajectory(trajectory, "trajectory").transcript)


def find_failed_calls_of_steps(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return the failed calls of these steps, as `find_failed_calls` does."""
    from libs.trajectories.actions import extract_actions
    from services.reflector.domain.repairs import find_repairs

    def find_last_user_message(call_step: int) -> str:
        earlier = reversed(steps[:call_step])
        return next((step.content for step in earlier if step.role == "user" and step.content), "")

    calls = extract_actions(steps)
    repairs = find_repairs(calls)
    return [
        {
            "user_message": find_last_user_message(call.call_step),
            "operation": call.operation,
            "arguments": call.arguments,
            "error": call.error.kind,
            "remedies": repairs[position].remedies if position in repairs else (),
        }
        for position, call in enumerate(calls)
        if call.error is not None
    ]


def find_working_calls(trajectory: Trajectory) -> list[tuple[str, str]]:
    """Return operation and arguments of the tool calls of a trajectory that did not fail."""
    from libs.trajectories.actions import extract_actions
    from services.reflector.rpc.convert import parse_trajectory

    calls = extract_actions(parse_trajectory(trajectory, "trajectory").transcript)
    return [(call.operation, call.arguments) for call in calls if call.is_success]


def find_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a share."""
    from libs.guards.exact_tests import find_interval

    return find_interval(successes, trials)


def init_config(
    component: str | None, output_path: Path | None, *, force: bool, workspace: Path | None
) -> Sequence[Path]:
    """Write configuration files with the defaults. Raises BadSetting; then nothing was written."""
    from libs.prompts.config_init import init_config

    return init_config(component, output_path, force=force, workspace=workspace)


def describe_database_schema(settings: chassis.ServiceSettings) -> dict[str, Any] | None:
    """Describe the schema of a service's database, see `allinone.databases.describe_schema`; None without one."""
    from allinone import databases

    return databases.describe_schema(settings)


def probe_models() -> list[ModelProbe]:
    """Call each configured model once, as `allinone.model_probes` does. Raises BadSetting."""
    from allinone import model_probes

    return model_probes.probe_models()


def check_database(database: str, variable: str) -> str:
    """Connect to a database once, see `allinone.databases.connect`, and return its address without the password."""
    from allinone import databases

    return databases.connect(database, variable)
