"""Reads OpenAI-style conversations: a list of messages, or an object with `messages` and the outcome."""

from __future__ import annotations

from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.messages import read_steps
from services.reflector.adapters.importers.step_collector import build_recorded_trajectory
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import RecordedTrajectory


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no conversation in this format."""
    for message in record.require_records("messages")[:1]:
        if "role" not in message.value:
            raise MalformedTrajectory(message.build_path("role"), None, "is missing; it names the speaker of a message")


def read(record: Record, dataset: str) -> RecordedTrajectory:
    """Return the trajectory of one conversation. Raise MalformedTrajectory naming message and field."""
    return build_recorded_trajectory(record, dataset, read_steps(record.list_records("messages")))
