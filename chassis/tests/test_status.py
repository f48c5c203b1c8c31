from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc.aio import Metadata
from hypothesis import given
from hypothesis import strategies as st

from chassis import status
from chassis.errors import (
    CLASS_OF_CODE,
    HanseiError,
    Internal,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
    Violation,
)


class BoxNotFound(NotFound):
    reason = "BOX_NOT_FOUND"


def rpc_error(code: grpc.StatusCode, trailing: Metadata, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, Metadata(), trailing, details, "")


def over_the_wire(wire: status.WireStatus, peer: str = "curator") -> HanseiError:
    failure = rpc_error(wire.code, Metadata(*wire.trailers), wire.message)
    return status.decode(failure, peer)


def details_of(wire: status.WireStatus) -> list[Any]:
    return list(status_pb2.Status.FromString(dict(wire.trailers)[status.DETAILS_KEY]).details)


def test_an_error_arrives_as_the_class_that_was_raised() -> None:
    error = over_the_wire(status.encode(BoxNotFound("no box 7", metadata={"box": "7"}), "curator"))

    assert type(error) is BoxNotFound
    assert (error.message, error.reason, error.metadata, error.domain) == (
        "no box 7",
        "BOX_NOT_FOUND",
        {"box": "7"},
        "curator.hansei",
    )


@pytest.mark.parametrize("code", sorted(CLASS_OF_CODE))
def test_every_code_has_its_class(code: str) -> None:
    error = over_the_wire(status.encode(CLASS_OF_CODE[code]("m"), "x"))

    assert type(error) is CLASS_OF_CODE[code]


def test_a_peers_error_that_is_passed_on_keeps_the_domain_of_the_peer() -> None:
    from_curator = over_the_wire(status.encode(BoxNotFound("no box"), "curator"))

    assert over_the_wire(status.encode(from_curator, "gateway")).domain == "curator.hansei"


def test_there_is_exactly_one_error_info() -> None:
    wire = status.encode(InvalidArgument("m", violations=[Violation("f", "d")]), "x")

    kinds = [detail.TypeName() for detail in details_of(wire)]
    assert sorted(kinds) == ["google.rpc.BadRequest", "google.rpc.ErrorInfo"]


def test_the_retry_delay_is_sent_as_retry_info() -> None:
    wire = status.encode(ResourceExhausted("busy", retry_after=1.5), "x")

    assert any(detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR) for detail in details_of(wire))
    assert over_the_wire(wire).retry_after == 1.5


def test_at_most_fifty_violations_are_sent_and_the_rest_is_counted() -> None:
    violations = [Violation(f"f[{i}]", "wrong", "RULE") for i in range(400)]

    error = over_the_wire(status.encode(InvalidArgument("m", violations=violations), "x"))

    assert error.violations == tuple(violations[:50])
    assert error.metadata[status.OMITTED] == "350"


@given(
    message=st.text(max_size=5000),
    metadata=st.dictionaries(
        st.text(st.characters(categories=["Ll"]), min_size=1, max_size=20), st.text(), max_size=30
    ),
    violations=st.lists(
        st.builds(Violation, st.text(max_size=500), st.text(max_size=900), st.just("RULE")), max_size=70
    ),
)
def test_for_all_errors_the_trailers_fit_and_the_code_arrives(
    message: str, metadata: dict[str, str], violations: list[Violation]
) -> None:
    wire = status.encode(InvalidArgument(message, metadata=metadata, violations=violations), "x")

    encoded = sum(len(value) for _, value in wire.trailers) + status._count_encoded_bytes(wire.message)
    assert encoded <= 8192
    assert over_the_wire(wire).message == wire.message
    if status._count_encoded_bytes(message) <= status.MAX_MESSAGE_BYTES:
        assert wire.message == message  # G-13


def test_japanese_arrives_unchanged() -> None:
    assert over_the_wire(status.encode(InvalidArgument("無効な値です"), "x")).message == "無効な値です"


@pytest.mark.parametrize(
    ("code", "cls", "reason"),
    [
        (grpc.StatusCode.UNAVAILABLE, Unavailable, "PEER_UNAVAILABLE"),
        (grpc.StatusCode.CANCELLED, Unavailable, "PEER_UNAVAILABLE"),
        (grpc.StatusCode.UNKNOWN, Internal, "PEER_FAILED"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, CLASS_OF_CODE["DEADLINE_EXCEEDED"], "DEADLINE_EXCEEDED"),
        (grpc.StatusCode.UNIMPLEMENTED, CLASS_OF_CODE["UNIMPLEMENTED"], "UNIMPLEMENTED"),
    ],
)
def test_an_error_of_grpc_itself_names_the_peer(code: grpc.StatusCode, cls: type, reason: str) -> None:
    error = status.decode(rpc_error(code, Metadata(), "ipv4:10.0.0.7 refused"), "curator")

    assert (type(error), error.reason) == (cls, reason)
    assert "curator" in error.message


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN])
def test_internal_addresses_are_not_passed_on(code: grpc.StatusCode) -> None:
    error = status.decode(rpc_error(code, Metadata(), "ipv4:10.0.0.7 refused"), "curator")

    assert "10.0.0.7" not in error.message


def test_broken_details_do_not_hide_the_code() -> None:
    trailers = Metadata((status.DETAILS_KEY, b"\xff\xff\xff"))

    error = status.decode(rpc_error(grpc.StatusCode.NOT_FOUND, trailers, "gone"), "curator")

    assert type(error) is NotFound


def test_grpc_does_not_retry_errors_without_a_retry_delay() -> None:
    assert dict(status.encode(Unavailable("model down"), "x").trailers)[status.PUSHBACK_KEY] == "-1"
    assert dict(status.encode(Unavailable("soon", retry_after=0.1), "x").trailers)[status.PUSHBACK_KEY] == "100"
    assert status.PUSHBACK_KEY not in dict(status.encode(NotFound("x"), "x").trailers)
