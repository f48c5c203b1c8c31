import asyncio
import subprocess
import sys

import pytest

from chassis.errors import (
    CLASS_OF_CODE,
    DeadlineExceeded,
    HanseiError,
    Internal,
    InvalidArgument,
    NotFound,
    build_error,
    choose_error_class,
    shorten,
)


class ShelfNotFound(NotFound):
    reason = "SHELF_NOT_FOUND"

    def __init__(self, shelf: int, cupboard: str) -> None:
        super().__init__(f"no shelf {shelf} in {cupboard}")


def test_a_reason_finds_the_class_that_owns_it_and_its_constructor_is_not_called() -> None:
    error = build_error("NOT_FOUND", "SHELF_NOT_FOUND", "no shelf 3 in attic", metadata={"shelf": "3"})

    assert type(error) is ShelfNotFound
    assert (str(error), error.reason, error.metadata) == ("no shelf 3 in attic", "SHELF_NOT_FOUND", {"shelf": "3"})


def test_an_unknown_reason_gives_the_class_of_the_code_and_keeps_the_reason() -> None:
    error = build_error("NOT_FOUND", "CUPBOARD_NOT_FOUND", "no cupboard")

    assert type(error) is NotFound
    assert error.reason == "CUPBOARD_NOT_FOUND"


def test_a_reason_under_another_code_is_another_reason() -> None:
    assert choose_error_class("ABORTED", "SHELF_NOT_FOUND") is CLASS_OF_CODE["ABORTED"]


def test_a_reason_that_two_classes_declare_maps_to_neither() -> None:
    class OneFull(InvalidArgument):
        reason = "CLAIMED_TWICE"

    class OtherFull(InvalidArgument):
        reason = "CLAIMED_TWICE"

    assert choose_error_class("INVALID_ARGUMENT", "CLAIMED_TWICE") is InvalidArgument
    assert OneFull("x").reason == OtherFull("x").reason == "CLAIMED_TWICE"


def test_an_unknown_code_is_internal() -> None:
    assert choose_error_class("WHAT", "EVER") is Internal


@pytest.mark.parametrize("cls", CLASS_OF_CODE.values())
def test_every_error_prints_only_its_message(cls: type[HanseiError]) -> None:
    error = cls("what went wrong")

    assert str(error) == "what went wrong"
    assert (error.violations, error.metadata, error.retry_after, error.domain) == ((), {}, None, "")


def test_errors_are_subclasses_of_the_matching_python_exceptions() -> None:
    assert issubclass(InvalidArgument, ValueError)
    assert issubclass(NotFound, LookupError)
    assert issubclass(DeadlineExceeded, TimeoutError)
    assert not issubclass(HanseiError, asyncio.CancelledError)


def test_a_reason_of_one_error_does_not_change_its_class() -> None:
    assert NotFound("x", reason="OTHER").reason == "OTHER"
    assert NotFound("x").reason == "NOT_FOUND"


@pytest.mark.parametrize(
    ("value", "expected"),
    [("short", "short"), ("x" * 80, "x" * 80), ("x" * 81, "x" * 79 + "…"), (12, "12"), (None, "None")],
)
def test_values_are_shortened(value: object, expected: str) -> None:
    assert shorten(value) == expected


def test_importing_the_errors_brings_in_neither_grpc_nor_pydantic() -> None:
    heavy = "{'grpc', 'pydantic', 'google.protobuf', 'opentelemetry'} & set(sys.modules)"
    script = f"import sys, chassis.errors; sys.exit(str({heavy}) if {heavy} else 0)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
