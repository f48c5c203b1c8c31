"""The calls behind the steps of a round may take the time that the round gives its steps."""

from __future__ import annotations

from buf.validate import validate_pb2
from google.protobuf.descriptor import FieldDescriptor

from chassis.policy import load_policies
from hansei.gateway.v1.rounds_service_pb2 import RunRoundsRequest
from libs.llm.settings import LLMSettings


def longest(field: FieldDescriptor) -> int:
    """Seconds that a duration may be at most, by its rule."""
    return int(field.GetOptions().Extensions[validate_pb2.field].duration.lte.seconds)


def test_generate_may_take_as_long_as_a_submission() -> None:
    timeout = load_policies()["/hansei.planner.v1.GeneratorService/Generate"].timeout_seconds
    assert timeout is not None
    assert timeout >= longest(RunRoundsRequest.DESCRIPTOR.fields_by_name["submission_timeout"])
    assert timeout >= LLMSettings.model_fields["llm_call_seconds"].default


def test_judge_may_take_as_long_as_a_judgement() -> None:
    timeout = load_policies()["/hansei.validator.v1.EvaluatorService/Judge"].timeout_seconds
    assert timeout is not None
    assert timeout >= longest(RunRoundsRequest.DESCRIPTOR.fields_by_name["judgment_timeout"])
