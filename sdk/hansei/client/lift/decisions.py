"""Tasks as decisions: at each turn an agent chooses its next call among the right one and likely mistakes."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hansei.client.lift.world import (
    MadeUpCall,
    MadeUpWorld,
    Request,
    fill_template,
    render_result,
)

CANDIDATES = 4
FINISH = "finish"


@dataclass(frozen=True, slots=True)
class CandidateCall:
    """A call that the agent may choose. A call that `breaks` the convention fails with its error, if it has one."""

    call: MadeUpCall
    is_right: bool = False
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A request with its right calls in order; `deciding` is the position of the call that the convention is about."""

    request: Request
    calls: tuple[MadeUpCall, ...]
    deciding: int
    candidates: tuple[tuple[CandidateCall, ...], ...]
    """The candidates of each turn, in an order drawn by chance."""


def build_tasks(world: MadeUpWorld, requests: Sequence[Request], seed: int) -> list[Task]:
    """Return the tasks of the requests with their candidates."""
    chance = random.Random(f"{world.name} candidates {seed}")
    return [_build_task(world, request, chance) for request in requests]


def list_tools(world: MadeUpWorld) -> list[str]:
    """Return the tools of a world with the names of their arguments, sorted, as the prompt of the agent lists them."""
    calls = [call for convention in world.conventions for call in convention.calls]
    tools = {name: ", ".join(arguments) for name, arguments in [*calls, *world.lookups]}
    return [f"{name}({arguments})" for name, arguments in sorted(tools.items())] + [f"{FINISH}(id)"]


def _build_task(world: MadeUpWorld, request: Request, chance: random.Random) -> Task:
    convention = request.convention
    calls = tuple(_make_call(tool, template, request, chance) for tool, template in convention.calls)
    deciding = convention.also or convention.tool_called
    turns = tuple(_draw_candidates(world, request, calls, turn, chance) for turn in range(len(calls)))
    return Task(request, calls, [call.tool for call in calls].index(deciding), turns)


def _make_call(tool: str, template: Mapping[str, str], request: Request, chance: random.Random) -> MadeUpCall:
    return MadeUpCall(tool, fill_template(template, request.values, chance))


def _draw_candidates(
    world: MadeUpWorld, request: Request, calls: Sequence[MadeUpCall], turn: int, chance: random.Random
) -> tuple[CandidateCall, ...]:
    right = calls[turn]
    mistakes = _list_mistakes(request, calls, turn, chance)
    mistakes.append(_build_finishing_call(request))
    lookups = [_make_call(tool, template, request, chance) for tool, template in world.lookups]
    others = [
        _make_call(tool, template, replace(request, values={**other.make(chance), **request.values}), chance)
        for other in chance.sample(list(world.conventions), 3)
        if other is not request.convention
        for tool, template in other.calls[:1]
    ]
    chance.shuffle(lookups)
    found = [CandidateCall(right, is_right=True), *mistakes, *(CandidateCall(call) for call in (*lookups[:1], *others))]
    unique = {render_call(candidate.call): candidate for candidate in reversed(found)}
    offered = [candidate for candidate in found if unique[render_call(candidate.call)] is candidate][:CANDIDATES]
    chance.shuffle(offered)
    return tuple(offered)


def _list_mistakes(
    request: Request, calls: Sequence[MadeUpCall], turn: int, chance: random.Random
) -> list[CandidateCall]:
    """Return the calls of an agent that does not know the convention."""
    convention, right = request.convention, calls[turn]
    if convention.also == right.tool and turn + 1 < len(calls):
        return [CandidateCall(calls[-1], breaks=True)]
    if right.tool != convention.tool_called:
        return []
    wrong = [fill_template({"wrong": value}, request.values, chance)["wrong"] for value in convention.wrong]
    return [
        CandidateCall(replace(right, arguments={**right.arguments, convention.argument: value}), breaks=True)
        for value in wrong
    ]


def _build_finishing_call(request: Request) -> CandidateCall:
    return CandidateCall(MadeUpCall(FINISH, {"id": request.values.get("id", "")}), breaks=True)


def render_call(call: MadeUpCall) -> str:
    """Return a call as the agent writes it."""
    return f"{call.tool}\nInput: {json.dumps(call.arguments)}"


def render_prompt(tools: Sequence[str], memory: Sequence[str], request: str, made: Sequence[MadeUpCall]) -> str:
    """Return the prompt for the next call; the part that never varies comes first, so that servers can cache it."""
    notes = "\n".join(f"- {text}" for text in memory) or "- none"
    history = "".join(f"Action: {render_call(call)}\nResult: {render_result(call)}\n" for call in made)
    return (
        "You fulfil requests by calling tools. Write one action with its input, and read its result.\n\n"
        f"Tools:\n{chr(10).join(tools)}\n\nNotes from earlier work:\n{notes}\n\nRequest: {request}\n{history}Action:"
    )
