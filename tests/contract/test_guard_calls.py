"""Guarded calls: the code that clients and servers share has the limits and the decisions of the contract."""

from __future__ import annotations

from typing import Any

import pytest
from buf.validate import validate_pb2

from chassis.targets.guard import CallDecision, GuardMode
from chassis.targets.session import MAX_ARGUMENTS_CHARS, MAX_MESSAGE_CHARS, MAX_RESULT_CHARS
from hansei.client.guards import MAX_REPORTED_MESSAGES
from hansei.evidence.v1 import guard_service_pb2 as pb
from hansei.playbook.v1.playbook_pb2 import TARGET_MODE_UNSPECIFIED


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


def test_a_report_has_at_most_the_messages_of_the_contract() -> None:
    options = pb.ReportCallRequest.DESCRIPTOR.fields_by_name["messages"].GetOptions()
    assert options.Extensions[validate_pb2.field].repeated.max_items == MAX_REPORTED_MESSAGES


def test_decisions_have_the_numbers_of_the_contract_and_of_the_modes() -> None:
    decisions = {decision.name: decision.value for decision in CallDecision}
    contract = {name.removeprefix("GUARD_DECISION_"): number for name, number in pb.GuardDecision.items() if number}
    modes = {mode.name: mode.value for mode in GuardMode if mode is not GuardMode.SHADOW}
    assert decisions == contract == {"ALLOW": 1, **modes}


@pytest.mark.parametrize("number", [TARGET_MODE_UNSPECIFIED, 99])
def test_a_guard_with_a_mode_that_this_version_does_not_have_only_counts(number: int) -> None:
    assert GuardMode(number) is GuardMode.SHADOW


@pytest.mark.parametrize("number", [pb.GUARD_DECISION_UNSPECIFIED, 99])
def test_a_decision_that_this_version_does_not_have_allows_the_call(number: int) -> None:
    assert CallDecision(number) is CallDecision.ALLOW
