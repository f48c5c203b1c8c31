"""Targets that a model writes, from the policy of an agent or from failed trajectories; for `hansei guards`.

Each target is tested on the trajectories.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from chassis.errors import BadSetting, HanseiError, shorten
from chassis.settings import read_settings
from chassis.targets.errors import InvalidTarget
from chassis.targets.target import Target
from libs.guards.backtest import backtest
from libs.guards.failed_trajectories import MAX_TRAJECTORY_CHARS, build_messages, describe_tools
from libs.guards.firings import find_firings
from libs.guards.guard_trajectory import GuardTrajectory
from libs.guards.policy import RULES, RecordedPolicy, collect_policies
from libs.llm.client import LLMClient
from libs.llm.connect import connect_chat
from libs.llm.errors import KeyMissing, ReplyNotStructured
from libs.llm.fitting import ask_within_context
from libs.llm.settings import LLMSettings
from libs.llm.structured_output import parse_structured
from libs.llm.usage import collect_usage

MAX_TARGETS = 12
_NEEDED_SETTINGS = "a chat model writes the targets; set LLM_PROVIDER, LLM_MODEL and the key of the provider"

Connect = Callable[[LLMSettings], LLMClient]


class ProposedTarget(BaseModel):
    """A target with the lesson that an agent reads."""

    lesson: str = Field(min_length=1, max_length=1_000)
    target: str = Field(min_length=1, max_length=2_000)


class TargetReply(BaseModel):
    """The reply of a model about one policy or one failed trajectory."""

    targets: list[ProposedTarget] = Field(max_length=MAX_TARGETS)


class FailureAnalysis(BaseModel):
    """The cause of a failure, which a model states before it writes targets: it is the first field of the reply."""

    analysis: str


class FailureReply(TargetReply, FailureAnalysis):
    """The reply of a model about one failed trajectory."""


class RecordedTarget(ProposedTarget):
    """A target in a file; `task` is the task of the failed trajectory that it was written from, or empty."""

    domain: str = ""
    task: str = ""


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """A request for targets. `origin` describes it in the output; `build_messages` takes the permitted characters."""

    origin: dict[str, str]
    shape: type[TargetReply]
    build_messages: Callable[[int], Sequence[tuple[str, str]]]
    find_fault: Callable[[str], str]


@dataclass(slots=True)
class TargetReader:
    """Parses replies. The first one with an invalid target is refused, so that the model is asked once more.

    Of the second the valid targets are used, and `refused` has the others with the rules that they break.
    """

    find_fault: Callable[[str], str]
    refused: list[tuple[str, str]] = field(default_factory=list)
    _has_asked_again: bool = False

    def parse(self, text: str, shape: type[TargetReply]) -> TargetReply:
        """Return the targets of a reply that are valid. Raises ReplyNotStructured."""
        reply = parse_structured(text, shape)
        faults = [(item.target, fault) for item in reply.targets if (fault := self.find_fault(item.target))]
        if faults and not self._has_asked_again:
            self._has_asked_again = True
            listed = "; ".join(f"target {shorten(source)!r} {fault}" for source, fault in faults)
            raise ReplyNotStructured(f"{len(faults)} of {len(reply.targets)} targets are invalid: {listed}")
        self.refused = faults
        invalid = {source for source, _ in faults}
        return reply.model_copy(update={"targets": [item for item in reply.targets if item.target not in invalid]})


def find_fault(source: str) -> str:
    """Return the rule that a target breaks, with the position; empty if it compiles and names its tools."""
    try:
        target = Target(source)
    except InvalidTarget as error:
        return error.rule
    return "" if target.tools else "must name its tool: begin with call.tool == '...'"


def find_failure_fault(trajectory: GuardTrajectory, source: str) -> str:
    """Return the rule that a target written from a failed trajectory breaks; empty if it matches one of its calls."""
    if fault := find_fault(source):
        return fault
    is_matched = find_firings(Target(source), trajectory)
    return "" if is_matched else "is true for no call of the trajectory that it was written from"


def generate_policy_targets(trajectories: Sequence[GuardTrajectory], connect: Connect = connect_chat) -> dict[str, Any]:
    """Return the targets that the configured model writes from the policies in trajectories, with their backtests.

    Raises BadSetting without a model, and ModelUnavailable.
    """
    requests = [
        TargetRequest(
            {"domain": policy.domain},
            TargetReply,
            partial(_build_policy_messages, policy),
            find_fault,
        )
        for policy in collect_policies(trajectories)
    ]
    return _generate_targets(requests, trajectories, connect)


def generate_failure_targets(
    trajectories: Sequence[GuardTrajectory], limit: int, connect: Connect = connect_chat
) -> dict[str, Any]:
    """Return the targets that the configured model writes from failed trajectories, with their backtests.

    The model gets one request for each of the first `limit` failed trajectories; `skipped` counts the others.
    Raises BadSetting without a model or without a failed trajectory, and ModelUnavailable.
    """
    failed = [trajectory for trajectory in trajectories if not trajectory.is_success]
    if not failed:
        raise BadSetting(f"none of the {len(trajectories)} trajectories failed")
    tools = {domain: describe_tools(trajectories, domain) for domain in {trajectory.domain for trajectory in failed}}
    requests = [
        TargetRequest(
            {"domain": trajectory.domain, "task": trajectory.task_id, "trajectory_id": trajectory.id},
            FailureReply,
            partial(build_messages, trajectory, tools[trajectory.domain]),
            partial(find_failure_fault, trajectory),
        )
        for trajectory in failed[:limit]
    ]
    return {**_generate_targets(requests, trajectories, connect), "skipped": len(failed) - len(requests)}


def _build_policy_messages(policy: RecordedPolicy, _: int) -> list[tuple[str, str]]:
    return [("system", RULES), ("human", policy.prompt)]


def _generate_targets(
    requests: Sequence[TargetRequest], trajectories: Sequence[GuardTrajectory], connect: Connect
) -> dict[str, Any]:
    settings = read_settings(LLMSettings)
    if settings.is_offline:
        raise BadSetting(f"no model is configured: {_NEEDED_SETTINGS}")
    try:
        return asyncio.run(_ask_all(requests, trajectories, settings, connect))
    except KeyMissing as error:  # its remedy is to run without a model
        raise BadSetting(f"{error.problem}: {_NEEDED_SETTINGS}") from error


async def _ask_all(
    requests: Sequence[TargetRequest],
    trajectories: Sequence[GuardTrajectory],
    settings: LLMSettings,
    connect: Connect,
) -> dict[str, Any]:
    client = connect(settings)
    try:
        with collect_usage() as usage:
            replies = await asyncio.gather(*(_ask(client, request) for request in requests))
    finally:
        await client.aclose()
    errors = [reply for reply in replies if isinstance(reply, HanseiError)]
    if errors and len(errors) == len(replies):
        raise errors[0]
    targets: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    unanswered: list[dict[str, str]] = []
    for request, reply in zip(requests, replies, strict=True):
        if isinstance(reply, HanseiError):
            unanswered.append({**request.origin, "error": str(reply)})
            continue
        written, reader = reply
        targets += [
            {**request.origin, **item.model_dump(), **describe_backtest(item.target, trajectories)} for item in written
        ]
        refused += [{**request.origin, "target": source, "rule": rule} for source, rule in reader.refused]
    return {
        "model": f"{settings.llm_provider}:{settings.llm_model}",
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "targets": targets,
        "refused": refused,
        "unanswered": unanswered,
    }


async def _ask(
    client: LLMClient, request: TargetRequest
) -> tuple[Sequence[ProposedTarget], TargetReader] | HanseiError:
    """Return the targets of a reply, or the error: the replies to the other requests are used."""
    reader = TargetReader(request.find_fault)

    async def ask(chars: int) -> TargetReply:
        messages = request.build_messages(chars)
        return await client.ainvoke_structured(messages, request.shape, describe_schema=False, parse=reader.parse)

    try:
        reply = await ask_within_context(ask, MAX_TRAJECTORY_CHARS, client.find_context_tokens)
    except HanseiError as error:
        return error
    return list({item.target: item for item in reply.targets}.values()), reader


def describe_backtest(source: str, trajectories: Sequence[GuardTrajectory]) -> dict[str, Any]:
    """Return the counts of the backtest of a target."""
    result = backtest(Target(source), trajectories)
    counts = ("failed", "failed_firing", "passed", "passed_firing", "false_alarms", "false_alarm_bound")
    return {name: getattr(result, name) for name in counts}


def read_targets(files: Sequence[Path]) -> list[RecordedTarget]:
    """Return the targets in files of `hansei guards from-policy --out` or `from-failures --out`. Raises BadSetting."""
    return [item for file in files for item in _read_file(file)]


def _read_file(file: Path) -> list[RecordedTarget]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))["targets"]
        targets = [RecordedTarget.model_validate(item) for item in found]
    except (ValueError, KeyError, TypeError) as error:
        problem = (
            f"{file} is not an output file of `hansei guards from-policy` or `from-failures`: {shorten(str(error))}"
        )
        raise BadSetting(problem) from error
    for item in targets:
        if fault := find_fault(item.target):
            raise BadSetting(f"{file}: target {shorten(item.target)!r} {fault}")
    return targets
