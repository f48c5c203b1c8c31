"""Guarded calls: the code that clients and servers share has the limits of the contract."""

from __future__ import annotations

from typing import Any

import pytest
from buf.validate import validate_pb2

from chassis.targets.session import MAX_ARGUMENTS_CHARS, MAX_MESSAGE_CHARS, MAX_RESULT_CHARS
from hansei.evidence.v1 import guard_service_pb2 as pb


@pytest.mark.parametrize(
    ("message", "field", "limit"),
    [
        (pb.GuardedCall, "arguments", MAX_ARGUMENTS_CHARS),
        (pb.ReportCallRequest, "result", MAX_RESULT_CHARS),
        (pb.RecordedToolCall, "result", MAX_RESULT_CHARS),
        (pb.SessionMessage, "text", MAX_MESSAGE_CHARS),
    ],
)
def test_texts_are_cut_at_the_limits_of_the_contract(message: Any, field: str, limit: int) -> None:
    options = message.DESCRIPTOR.fields_by_name[field].GetOptions()
    assert options.Extensions[validate_pb2.field].string.max_len == limit
