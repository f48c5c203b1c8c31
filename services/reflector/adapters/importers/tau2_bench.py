"""Reads results of tau2-bench: `simulations` with `messages` and `reward_info`, or one simulation a line.

Source of the format: https://github.com/sierra-research/tau2-bench, src/tau2/data_model (message.py, simulation.py).
The simulated user has tools as well; `requestor` says whose call it is. The outcome is `reward_info.reward`, else the
`termination_reason`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from services.reflector.adapters.importers.json_records import Record, read_call
from services.reflector.adapters.importers.step_collector import (
    RecordedOutcome,
    StepCollector,
    build_recorded_trajectory,
    mark_as_error,
)
from services.reflector.adapters.importers.usage import add_usages, build_usage, read_cost, read_usage
from services.reflector.domain.outcome import REWARD_OF_SUCCESS
from services.reflector.domain.recorded_trajectory import RecordedTrajectory
from services.reflector.domain.trajectory import Role
from services.reflector.domain.usage import TrajectoryUsage

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}
_ENDS = ("user_stop", "agent_stop")
"""Reasons by which a conversation ends as it should."""


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no result of tau2-bench."""
    if isinstance(record.value.get("simulations"), list):
        return
    record.require_list("messages")
    if "reward_info" not in record.value:
        raise record.build_error("reward_info", "is missing; each simulation of tau2-bench has it")


def read_trajectories(records: Iterable[Record], dataset: str) -> Iterator[RecordedTrajectory]:
    """Yield the trajectory of each simulation. Raise MalformedTrajectory naming simulation, message and field."""
    for record in records:
        simulations = record.list_records("simulations") if record.has("simulations") else [record]
        for simulation in simulations:
            check_format(simulation)
            yield _read_simulation(simulation, dataset)


def _read_simulation(simulation: Record, dataset: str) -> RecordedTrajectory:
    collector = StepCollector(simulation.location)
    for message in simulation.require_records("messages"):
        _add_message(collector, message)
    reason = simulation.get_text("termination_reason")
    has_failed = bool(reason) and reason not in _ENDS
    return build_recorded_trajectory(
        simulation,
        dataset,
        collector.steps,
        _read_outcome(simulation),
        generated_answer=collector.answer,
        status="failure" if has_failed else "success",
        error_message=f"The conversation ended by {reason}." if has_failed else None,
        usage=_read_usage(simulation),
    )


def _read_usage(simulation: Record) -> TrajectoryUsage | None:
    """Return the tokens and the cost of the agent, without those of the simulated user."""
    messages = [message for message in simulation.list_records("messages") if message.get_text("role") == "assistant"]
    cost = build_usage(simulation.location, None, None, None, read_cost(simulation, "agent_cost"))
    return add_usages([*(read_usage(message.get_child("usage")) for message in messages), cost], simulation.location)


def _read_outcome(simulation: Record) -> RecordedOutcome | None:
    info = simulation.get_child_or_empty("reward_info")
    reward = info.get_number("reward")
    if reward is None:
        return None
    assertions = [item for item in info.list_records("nl_assertions") if item.value.get("met") is False]
    unmet = [item.get_text("nl_assertion").rstrip(".") for item in assertions]
    source = f"tau2-bench's reward is {reward:g}" + (f"; not met: {'; '.join(unmet)}" if unmet else "")
    return RecordedOutcome(reward > REWARD_OF_SUCCESS, source, "reward", min(max(reward, 0.0), 1.0))


def _add_message(collector: StepCollector, message: Record) -> None:
    if message.get_text("role") == "tool":
        for result in message.list_records("tool_messages") or [message]:
            _add_result(collector, result)
        return
    role = message.get_choice("role", _ROLES)
    calls = [read_call(call, call.get_text("id")) for call in message.list_records("tool_calls")]
    collector.add(message.location, role, message.get_text("content"), calls=calls)


def _add_result(collector: StepCollector, result: Record) -> None:
    call_id = result.get_text("id")
    text = result.get_text("content")
    text = mark_as_error(text) if result.value.get("error") is True else text
    collector.add(result.location, "tool", text, name=collector.find_tool_name(call_id), call_id=call_id)
