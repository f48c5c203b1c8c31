import pytest

from chassis.errors import InvalidArgument, Violation
from chassis.server import validation
from chassis.tests.probe import pb


def violations(message: object) -> tuple[Violation, ...]:
    with pytest.raises(InvalidArgument) as refused:
        validation.check(message)  # type: ignore[arg-type]
    assert refused.value.reason == "INVALID_REQUEST"
    return refused.value.violations


def text_of(message: object) -> str:
    with pytest.raises(InvalidArgument) as refused:
        validation.check(message)  # type: ignore[arg-type]
    return str(refused.value)


def test_a_message_that_keeps_its_contract_passes() -> None:
    validation.check(pb.EchoRequest(text="x", dataset="a-b", top_k=1, steps=[pb.Step(colour=pb.COLOUR_RED)]))


def test_a_contracts_own_message_is_used_unchanged() -> None:  # G-13
    request = pb.EchoRequest(dataset="a b")

    assert text_of(request) == "Invalid dataset name: 'a b'"
    assert violations(request) == (Violation("dataset", "Invalid dataset name: 'a b'", "DATASET_NAME"),)
    assert text_of(pb.EchoRequest(name="bob")) == "name must not be bob"


def test_the_message_of_a_standard_rule_names_the_field() -> None:
    request = pb.EchoRequest(top_k=0)

    assert text_of(request) == "top_k must be greater than or equal to 1"
    assert violations(request) == (Violation("top_k", "top_k must be greater than or equal to 1 (got 0)", "INT32_GTE"),)


def test_fields_are_named_by_their_path_and_values_are_shortened() -> None:
    request = pb.EchoRequest(steps=[pb.Step(), pb.Step(steps=[pb.Step(content="x" * 500)])])

    (violation,) = violations(request)

    assert violation.field == "steps[1].steps[0].content"
    assert violation.description == ("steps[1].steps[0].content must be at most 10 characters (got '" + "x" * 78 + "…)")


def test_all_violations_are_reported_and_the_first_is_the_message() -> None:
    request = pb.EchoRequest(dataset="a b", top_k=0, name="bob")

    assert [violation.field for violation in violations(request)] == ["dataset", "top_k", "name"]
    assert text_of(request) == "Invalid dataset name: 'a b'"


def test_undeclared_enum_values_are_refused_at_any_depth() -> None:
    request = pb.EchoRequest(steps=[pb.Step(colour=1), pb.Step(steps=[pb.Step(colour=7)])], colours={"a": 1, "b": -3})

    assert violations(request) == (
        Violation(
            "steps[1].steps[0].colour",
            "steps[1].steps[0].colour must be one of the defined enum values (got 7)",
            "ENUM_DEFINED_ONLY",
        ),
        Violation('colours["b"]', 'colours["b"] must be one of the defined enum values (got -3)', "ENUM_DEFINED_ONLY"),
    )


@pytest.mark.parametrize(
    ("message", "field", "value"),
    [
        (pb.EchoRequest(text="a\0b"), "text", "a\0b"),
        (pb.EchoRequest(steps=[pb.Step(), pb.Step(steps=[pb.Step(content="\0")])]), "steps[1].steps[0].content", "\0"),
        (pb.EchoRequest(colours={"a\0": 1}), r'colours["a\u0000"]', "a\0"),
    ],
)
def test_texts_with_u0000_are_refused_at_any_depth(message: pb.EchoRequest, field: str, value: str) -> None:
    rule = f"{field} must not contain the character U+0000"
    assert violations(message) == (Violation(field, f"{rule} (got {value!r})", "TEXT_NUL"),)
    assert text_of(message) == rule


def test_a_text_that_breaks_its_contract_is_not_reported_twice() -> None:
    request = pb.EchoRequest(dataset="a\0b", text="\0")

    assert [violation.field for violation in violations(request)] == ["dataset", "text"]
    assert text_of(request) == "Invalid dataset name: 'a\0b'"


def test_a_zero_byte_that_is_no_text_is_accepted() -> None:
    request = pb.EchoRequest(colours={"a": 0})

    assert b"\0" in request.SerializeToString()
    validation.check(request)
