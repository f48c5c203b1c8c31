"""Targets that a model writes from the policy of an agent, each tested on trajectories; for `hansei guards`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from chassis.errors import BadSetting, shorten
from chassis.settings import read_settings
from chassis.targets.errors import InvalidTarget
from chassis.targets.target import Target
from libs.guards.backtest import backtest
from libs.guards.guard_trajectory import GuardTrajectory
from libs.guards.policy import RULES, RecordedPolicy, collect_policies
from libs.llm.client import LLMClient
from libs.llm.connect import connect_chat
from libs.llm.errors import ReplyNotStructured
from libs.llm.settings import LLMSettings
from libs.llm.structured_output import parse_structured
from libs.llm.usage import collect_usage

MAX_TARGETS = 12


class PolicyTarget(BaseModel):
    """A target with the lesson that an agent reads."""

    lesson: str = Field(min_length=1, max_length=1_000)
    target: str = Field(min_length=1, max_length=2_000)


class PolicyTargets(BaseModel):
    """The reply of a model about the policy of one domain."""

    targets: list[PolicyTarget] = Field(max_length=MAX_TARGETS)


@dataclass(slots=True)
class TargetReader:
    """Parses replies. The first one with an invalid target is refused, so that the model is asked once more.

    Of the second the valid targets are used, and `refused` has the others with the rules that they break.
    """

    refused: list[tuple[str, str]] = field(default_factory=list)
    _has_asked_again: bool = False

    def parse(self, text: str, shape: type[PolicyTargets]) -> PolicyTargets:
        """Return the targets of a reply that compile. Raises ReplyNotStructured."""
        reply = parse_structured(text, shape)
        faults = [(item.target, fault) for item in reply.targets if (fault := find_fault(item.target))]
        if faults and not self._has_asked_again:
            self._has_asked_again = True
            listed = "; ".join(f"target {shorten(source)!r} {fault}" for source, fault in faults)
            raise ReplyNotStructured(f"{len(faults)} of {len(reply.targets)} targets are invalid: {listed}")
        self.refused = faults
        invalid = {source for source, _ in faults}
        return shape(targets=[item for item in reply.targets if item.target not in invalid])


def find_fault(source: str) -> str:
    """Return the rule that a target breaks, with the position; empty if it compiles and names its tools."""
    try:
        target = Target(source)
    except InvalidTarget as error:
        return error.rule
    return "" if target.tools else "must name its tool: begin with call.tool == '...'"


def generate_policy_targets(
    trajectories: Sequence[GuardTrajectory], connect: Callable[[LLMSettings], LLMClient] = connect_chat
) -> dict[str, Any]:
    """Return the targets that the configured model writes from the policies in trajectories, with their backtests.

    Raises BadSetting without a model, and ModelUnavailable.
    """
    settings = read_settings(LLMSettings)
    if settings.is_offline:
        raise BadSetting("no model is configured: set LLM_PROVIDER and LLM_MODEL")
    return asyncio.run(_generate_policy_targets(trajectories, settings, connect))


async def _generate_policy_targets(
    trajectories: Sequence[GuardTrajectory], settings: LLMSettings, connect: Callable[[LLMSettings], LLMClient]
) -> dict[str, Any]:
    targets: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    client = connect(settings)
    try:
        with collect_usage() as usage:
            for policy in collect_policies(trajectories):
                reader = TargetReader()
                for item in await _ask(client, policy, reader):
                    targets.append(
                        {"domain": policy.domain, **item.model_dump(), **describe_backtest(item.target, trajectories)}
                    )
                refused += [
                    {"domain": policy.domain, "target": source, "rule": rule} for source, rule in reader.refused
                ]
    finally:
        await client.aclose()
    return {
        "model": f"{settings.llm_provider}:{settings.llm_model}",
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "targets": targets,
        "refused": refused,
    }


async def _ask(client: LLMClient, policy: RecordedPolicy, reader: TargetReader) -> Sequence[PolicyTarget]:
    messages = [("system", RULES), ("human", policy.prompt)]
    reply = await client.ainvoke_structured(messages, PolicyTargets, describe_schema=False, parse=reader.parse)
    return list({item.target: item for item in reply.targets}.values())


def describe_backtest(source: str, trajectories: Sequence[GuardTrajectory]) -> dict[str, Any]:
    """Return the counts of the backtest of a target."""
    result = backtest(Target(source), trajectories)
    counts = ("failed", "failed_firing", "passed", "passed_firing", "false_alarms", "false_alarm_bound")
    return {name: getattr(result, name) for name in counts}


def read_policy_targets(file: Path) -> list[dict[str, Any]]:
    """Return the targets in a file that `hansei guards from-policy --out` wrote. Raises BadSetting."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))["targets"]
        valid = [item | PolicyTarget.model_validate(item).model_dump() for item in found]
    except (ValueError, KeyError, TypeError) as error:
        problem = f"{file} is not an output file of `hansei guards from-policy`: {shorten(str(error))}"
        raise BadSetting(problem) from error
    for item in valid:
        if fault := find_fault(item["target"]):
            raise BadSetting(f"{file}: target {shorten(item['target'])!r} {fault}")
    return valid
