"""Made-up environments: tools whose conventions nobody can guess, and trajectories of an agent that does not know them.

A trajectory is simulated from a seed: the agent makes the calls of its task, breaks a convention with a fixed
probability, repairs failures as an agent would (it tries, changes irrelevant arguments, or gives up), and meets faults
that teach nothing. No rule of hansei knows these worlds.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hansei.reflector.v1 import trajectory_pb2 as pb

Kind = Literal["error states it", "bare code", "no error"]
Arguments = dict[str, Any]
Values = Mapping[str, str]

BREAKS = {"error states it": 0.75, "bare code": 0.75, "no error": 0.5}
"""The probability that a trajectory breaks a convention at first, by its kind."""
REPAIRS = {"error states it": 0.95, "bare code": 0.6}
"""The probability that the next attempt after an error is right."""
GIVES_UP = 0.15
TIMES_OUT = 0.08
FAILS_ANYHOW = 0.06
SECOND_ERRAND = 0.4
"""The probability that a training task consists of two errands."""


@dataclass(frozen=True, slots=True)
class Convention:
    """A rule of `tool`: its `argument` must match `right`, or the tool `also` must be called.

    `make` draws the values of a task; `rule` is the sentence that a person would write, and `stated` finds that
    statement in a text.
    """

    tool: str
    kind: Kind
    rule: str
    requests: Sequence[str]
    """Requests with `{value}` fields; the first half is for training."""
    calls: Sequence[tuple[str, Mapping[str, str]]]
    """The calls of the task in order; their arguments are JSON templates of values."""
    error: str = ""
    stated: str = ""
    argument: str = ""
    right: str = ""
    wrong: Sequence[str] = ()
    """Templates of wrong values of the argument."""
    depends_on: tuple[str, Mapping[str, str]] | None = None
    """The value of the task on which the right value depends, and the right value for each."""
    also: str = ""
    """The tool that must be called too."""
    make: Callable[[random.Random], dict[str, str]] = field(default=lambda chance: {})

    def is_in(self, units: Sequence[str], values: Values) -> bool:
        """Return whether a text of `units` states the rule for the `values` of a task, or shows it by a right call."""
        return any(self._is_in(unit, values) for unit in units)

    @property
    def tool_called(self) -> str:
        """Return the name of the tool in the calls of the task: a program is called by a shell."""
        return self.tool if any(name == self.tool for name, _ in self.calls) else self.calls[-1][0]

    def _is_in(self, unit: str, values: Values) -> bool:
        if self.depends_on:
            condition = values[self.depends_on[0]]
            right = self.depends_on[1][condition]
            stated = rf"{condition}.{{0,80}}?{right}|{right}.{{0,80}}?{condition}"
            return self.tool in unit and bool(re.search(stated, unit, re.S))
        if self.stated and re.search(self.stated, unit, re.I):
            return True
        if self.also:
            return bool(re.search(rf"(?<!\w){self.also}(?!\w)", unit) and re.search(rf"(?<!\w){self.tool}(?!\w)", unit))
        if not self.right:
            return False
        call = rf"(?<!\w){self.tool}(?!\w).{{0,400}}?{self.argument}"
        value = rf"[\s\"'`:\\]({self.right})(?=[\s\"'`,;}}\\)]|$)"
        return bool(re.search(rf"{call}.{{0,200}}?{value}", unit, re.S))


@dataclass(frozen=True, slots=True)
class MadeUpWorld:
    """Conventions, and tools without a rule that trajectories call as well."""

    name: str
    conventions: Sequence[Convention]
    lookups: Sequence[tuple[str, Mapping[str, str]]]
    values: Callable[[random.Random], dict[str, str]]
    """The values that every task has."""


@dataclass(frozen=True, slots=True)
class MadeUpCall:
    """One recorded call; `error` is empty if the call worked."""

    tool: str
    arguments: Arguments
    error: str = ""


@dataclass(frozen=True, slots=True)
class SimulatedTrajectory:
    """A recorded trajectory of a task, with its calls."""

    task: str
    request: str
    calls: tuple[MadeUpCall, ...]
    is_success: bool

    def render(self, *, is_clean: bool) -> str:
        """Return the trajectory as a memory would store it; without failing calls and results if `is_clean`."""
        lines = [f"Request: {self.request}"]
        for call in self.calls:
            if is_clean and call.error:
                continue
            lines.append(f"{call.tool} {json.dumps(call.arguments)}")
            if not is_clean:
                lines.append(f"-> {render_result(call)}")
        if not is_clean:
            lines.append(f"Outcome: {'success' if self.is_success else 'failure'}")
        return "\n".join(lines)

    def build_message(self, number: int, dataset: str) -> pb.Trajectory:
        """Return the message of the trajectory, with a reward."""
        steps = [pb.Step(role=pb.STEP_ROLE_USER, content=self.request)]
        for index, call in enumerate(self.calls):
            made = pb.ToolCall(id=f"c{index}", name=call.tool, arguments=json.dumps(call.arguments))
            steps.append(pb.Step(role=pb.STEP_ROLE_ASSISTANT, tool_calls=[made]))
            steps.append(pb.Step(role=pb.STEP_ROLE_TOOL, tool_call_id=f"c{index}", content=render_result(call)))
        steps.append(pb.Step(role=pb.STEP_ROLE_ASSISTANT, content="I have taken care of it."))
        status = pb.TRAJECTORY_STATUS_SUCCESS if self.is_success else pb.TRAJECTORY_STATUS_FAILURE
        return pb.Trajectory(
            id=f"run-{number}", task_id=self.task, query=self.request, dataset=dataset, status=status, steps=steps,
            generated_answer="I have taken care of it.", reward=float(self.is_success),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a test task and the convention that it needs."""

    text: str
    convention: Convention
    values: Values


def render_result(call: MadeUpCall) -> str:
    """Return the result that the tool gave."""
    return f"Error: {call.error}" if call.error else json.dumps({"ok": True, "ref": f"{abs(hash_call(call)) % 99991}"})


def hash_call(call: MadeUpCall) -> int:
    """Return a number of a call that is the same in every process."""
    return int.from_bytes(f"{call.tool}{sorted(call.arguments.items())}".encode()[-6:], "big")


def build_training_trajectories(world: MadeUpWorld, tasks: int, seed: int) -> list[SimulatedTrajectory]:
    """Return two trajectories of each of `tasks` tasks, in the order in which they were recorded."""
    chance = random.Random(f"{world.name} train {seed}")
    trajectories: list[SimulatedTrajectory] = []
    for number in range(tasks):
        errands = [world.conventions[number % len(world.conventions)]]
        if chance.random() < SECOND_ERRAND:
            errands.append(chance.choice([other for other in world.conventions if other is not errands[0]]))
        values = [{**world.values(chance), **errand.make(chance)} for errand in errands]
        texts = [
            chance.choice(errand.requests[: len(errand.requests) // 2]).format_map(filled)
            for errand, filled in zip(errands, values, strict=True)
        ]
        request = " Then: ".join(texts)
        pairs = list(zip(errands, values, strict=True))
        trajectories += [_record(world, f"task-{number}", request, pairs, chance) for _ in range(2)]
    chance.shuffle(trajectories)
    return trajectories


def build_test_requests(world: MadeUpWorld, tasks: int, seed: int) -> list[Request]:
    """Return the requests of `tasks` tasks, worded as no training request is."""
    chance = random.Random(f"{world.name} test {seed}")
    requests: list[Request] = []
    for number in range(tasks):
        convention = world.conventions[number % len(world.conventions)]
        values = {**world.values(chance), **convention.make(chance)}
        text = chance.choice(convention.requests[len(convention.requests) // 2 :]).format_map(values)
        requests.append(Request(text, convention, values))
    return requests


def _record(
    world: MadeUpWorld, task: str, request: str, errands: Sequence[tuple[Convention, Values]], chance: random.Random
) -> SimulatedTrajectory:
    calls: list[MadeUpCall] = []
    is_success = chance.random() >= FAILS_ANYHOW
    for convention, values in errands:
        done, follows_rule = _run_errand(world, convention, values, chance)
        calls += done
        is_success = is_success and follows_rule
    return SimulatedTrajectory(task, request, tuple(calls), is_success)


def _run_errand(
    world: MadeUpWorld, convention: Convention, values: Values, chance: random.Random
) -> tuple[list[MadeUpCall], bool]:
    """Return the calls of one errand, and whether they kept the convention."""
    breaks = chance.random() < BREAKS[convention.kind]
    calls: list[MadeUpCall] = []
    for tool, template in world.lookups:
        if chance.random() < 0.35:
            calls.append(MadeUpCall(tool, fill_template(template, values, chance)))
    for tool, template in convention.calls:
        arguments = fill_template(template, values, chance)
        if breaks and tool == convention.also:
            continue
        if tool != convention.tool_called or not breaks:
            calls += _add_time_out(MadeUpCall(tool, arguments), chance)
            continue
        if convention.kind == "no error":
            calls += _add_time_out(MadeUpCall(tool, _spoil(convention, arguments, values, chance)), chance)
            continue
        calls.append(
            MadeUpCall(tool, _spoil(convention, arguments, values, chance), convention.error.format_map(values))
        )
        while chance.random() >= REPAIRS[convention.kind]:
            if chance.random() < GIVES_UP:
                return calls, False
            if chance.random() < 0.5 and world.lookups:
                lookup, fields = chance.choice(list(world.lookups))
                calls.append(MadeUpCall(lookup, fill_template(fields, values, chance)))
            again = fill_template(template, values, chance)
            calls.append(
                MadeUpCall(tool, _spoil(convention, again, values, chance), convention.error.format_map(values))
            )
        if convention.also:
            extra = next(fields for name, fields in convention.calls if name == convention.also)
            calls.append(MadeUpCall(convention.also, fill_template(extra, values, chance)))
        calls.append(MadeUpCall(tool, fill_template(template, values, chance)))
    return calls, not breaks or convention.kind != "no error"


def _add_time_out(call: MadeUpCall, chance: random.Random) -> list[MadeUpCall]:
    if chance.random() >= TIMES_OUT:
        return [call]
    return [MadeUpCall(call.tool, call.arguments, "upstream timed out after 30 s"), call]


def _spoil(convention: Convention, arguments: Arguments, values: Values, chance: random.Random) -> Arguments:
    if not convention.wrong:
        return arguments
    wrong = json.loads(_fill_text(chance.choice(list(convention.wrong)), values, chance))
    return {**arguments, convention.argument: wrong}


def fill_template(template: Mapping[str, str], values: Values, chance: random.Random) -> Arguments:
    """Return the arguments of a template with the values of a task."""
    return {name: json.loads(_fill_text(value, values, chance)) for name, value in template.items()}


def _fill_text(template: str, values: Values, chance: random.Random) -> str:
    """Return a JSON template with its values; `<a|b>` is one of the texts, drawn in each call."""
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", value)
    return re.sub(r"<([^>]*)>", lambda found: chance.choice(found[1].split("|")), template)
