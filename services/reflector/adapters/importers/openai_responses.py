"""Reads conversations as items of OpenAI's Responses API, which the Agents SDK keeps too (`to_input_list`).

A list of items, or an object with `items`, or with `input` and `output` as a response has them; the outcome stands
beside.
"""

from __future__ import annotations

from services.reflector.adapters.importers.json_records import Record
from services.reflector.adapters.importers.response_items import ItemSteps, is_item
from services.reflector.adapters.importers.step_collector import build_recorded_trajectory
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import RecordedTrajectory

_SPEAKERS = ("user", "assistant")


def check_format(record: Record) -> None:
    """Raise MalformedTrajectory with the reason if the record is no conversation in this format."""
    if record.value.get("object") == "response":
        record.require_records("output")
        return
    items = record.require_records("items")
    if not any(is_item(item.value) or item.value.get("role") in _SPEAKERS for item in items):
        rule = "must have an item of the Responses API: a message, a call, its output, or reasoning"
        raise MalformedTrajectory(record.build_path("items"), items[0].value, rule)


def read(record: Record, dataset: str) -> RecordedTrajectory:
    """Return the trajectory of one conversation. Raise MalformedTrajectory naming item and field."""
    items = ItemSteps(record.location, {})
    for item in _list_items(record):
        items.add(item)
    answer = record.get_text("generated_answer") or items.collector.answer
    # The `status` of a response is that of the call of the model, not of the task.
    is_response = record.value.get("object") == "response"
    fields = Record({**record.value, "status": None}, record.location) if is_response else record
    return build_recorded_trajectory(fields, dataset, items.collector.steps, generated_answer=answer)


def _list_items(record: Record) -> list[Record]:
    if record.has("items"):
        return record.list_records("items")
    question = record.value.get("input")
    if isinstance(question, str):
        questions = [Record({"role": "user", "content": question}, record.build_path("input"))]
    else:
        questions = record.list_records("input")
    return [*questions, *record.list_records("output")]
