"""Learn from the messages of a conversation, which the reflector reads: those of OpenAI, Anthropic and LangChain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from hansei.client.trajectories import TrajectoryRecord
from hansei.reflector.v1.reflector_service_pb2 import ParseTrajectoriesResponse

Messages = Sequence[Mapping[str, Any] | Any]
"""Messages as mappings, or as objects of OpenAI's client."""


class ConversationOptions(TypedDict, total=False):
    """The options of `learn` with messages."""

    test_report: str
    """The report of a test of the result; without it, votes on the cited bullets do not count."""
    ground_truth: str
    """The correct answer."""
    task_id: str
    """The task: trajectories of one task are compared."""
    used_bullet_ids: Sequence[str]
    """The ids of the bullets that the agent was given."""
    cited_bullet_ids: Sequence[str]
    """The ids of the bullets that the agent acted on."""


def encode_conversation(messages: Messages, succeeded: bool, options: Mapping[str, Any]) -> bytes:
    """Return a conversation as a document that the reflector reads."""
    status = "success" if succeeded else "failure"
    document = {"messages": [_convert_message(message) for message in messages], "status": status, **options}
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


def read_conversation(response: ParseTrajectoriesResponse) -> TrajectoryRecord:
    """Return the one trajectory of a conversation."""
    (parsed,) = response.trajectories
    return TrajectoryRecord("messages", parsed.trajectory, parsed.ground_truth, parsed.test_report)


def _convert_message(message: Any) -> Any:
    """Return a message as a mapping: OpenAI's client has objects with `model_dump`."""
    return message.model_dump(exclude_none=True) if hasattr(message, "model_dump") else message
