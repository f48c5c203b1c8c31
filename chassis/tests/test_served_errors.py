"""An error that a handler raises reaches the caller over a real connection."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from chassis import errors
from chassis.tests.conftest import Connect, Serve, collect
from chassis.tests.probe import SECRET, ThingNotFound, pb, rpc


async def test_an_error_makes_the_round_trip_to_the_same_class(start_probe: Serve, connect_probe: Connect) -> None:
    probe = connect_probe((await start_probe()).address)

    with pytest.raises(ThingNotFound) as caught:
        await probe.Echo(pb.EchoRequest(fail="thing"))

    error = caught.value
    assert (error.message, error.reason, error.domain) == (
        "thing 'lamp' is not on shelf 3",
        "THING_NOT_FOUND",
        "probe.hansei",
    )
    assert error.metadata == {"thing": "lamp", "shelf": "3"}


async def test_any_grpc_client_finds_error_info_and_bad_request(start_probe: Serve) -> None:
    async with grpc.aio.insecure_channel((await start_probe()).address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rpc.ProbeServiceStub(channel).Echo(pb.EchoRequest(dataset="a b", top_k=0))

    failure = caught.value
    assert failure.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert failure.details() == "Invalid dataset name: 'a b'"  # G-13
    trailers: Any = failure.trailing_metadata()
    status = status_pb2.Status.FromString(dict(trailers)["grpc-status-details-bin"])
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert [detail.Unpack(info) for detail in status.details].count(True) == 1
    assert [detail.Unpack(bad_request) for detail in status.details].count(True) == 1
    assert (info.reason, info.domain) == ("INVALID_REQUEST", "probe.hansei")
    assert [violation.field for violation in bad_request.field_violations] == ["dataset", "top_k"]


async def test_invalid_requests_do_not_reach_the_handler(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe()
    probe = connect_probe(server.address)

    with pytest.raises(errors.InvalidArgument) as caught:
        await probe.Echo(pb.EchoRequest(steps=[pb.Step(colour=9)]))

    assert [violation.field for violation in caught.value.violations] == ["steps[0].colour"]
    assert server.probe.calls == 0


async def test_u0000_in_a_text_does_not_reach_the_handler(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe()
    probe = connect_probe(server.address)

    with pytest.raises(errors.InvalidArgument, match=r"text must not contain the character U\+0000"):
        await probe.Echo(pb.EchoRequest(text="a\0b", colours={"a": 0}))
    assert server.probe.calls == 0
    assert (await probe.Echo(pb.EchoRequest(text="ab", colours={"a": 0}))).text == "ab"


async def test_each_message_of_a_client_stream_is_checked(start_probe: Serve, connect_probe: Connect) -> None:
    probe = connect_probe((await start_probe()).address)

    assert (await probe.Sum(iter([pb.SumRequest(number=1), pb.SumRequest(number=2)]))).sum == 3
    with pytest.raises(errors.InvalidArgument, match="number must be less than or equal to 100"):
        await probe.Sum(iter([pb.SumRequest(number=1), pb.SumRequest(number=101)]))


@pytest.mark.parametrize("method", ["Echo", "Sum"])
async def test_bytes_that_are_no_message_are_an_invalid_argument(
    start_probe: Serve, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    server = await start_probe()
    path = f"/{pb.DESCRIPTOR.services_by_name['ProbeService'].full_name}/{method}"
    async with grpc.aio.insecure_channel(server.address) as channel:
        call: Any = (
            channel.stream_unary(path, None, None)(iter([b"\xff\xff\xff"]))
            if method == "Sum"
            else channel.unary_unary(path, None, None)(b"\xff\xff\xff")
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert str(caught.value.details()).startswith("the request cannot be read as protobuf: ")
    assert "Traceback" not in "".join(capsys.readouterr())


async def test_four_hundred_violations_do_not_lose_the_status(start_probe: Serve, connect_probe: Connect) -> None:
    probe = connect_probe((await start_probe()).address)

    with pytest.raises(errors.InvalidArgument) as caught:
        await probe.Echo(pb.EchoRequest(fail="rules"))

    assert 0 < len(caught.value.violations) <= 50
    assert int(caught.value.metadata["violations_omitted"]) == 400 - len(caught.value.violations)


async def test_an_unexpected_error_returns_only_its_id(
    start_probe: Serve, connect_probe: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    probe = connect_probe((await start_probe()).address)

    with pytest.raises(errors.Internal) as caught:
        await probe.Echo(pb.EchoRequest(fail="unexpected"))

    error_id = caught.value.metadata["error_id"]
    assert str(caught.value) == f"internal error; the log has it under {error_id}"
    logged = capsys.readouterr().err
    assert error_id in logged
    assert "RuntimeError" in logged
    assert "hunter2" in SECRET
    assert "hunter2" not in logged


async def test_an_error_after_some_responses_arrives_after_them(start_probe: Serve, connect_probe: Connect) -> None:
    probe = connect_probe((await start_probe()).address)
    received: list[Any] = []

    with pytest.raises(ThingNotFound):
        await collect(probe.Count(pb.CountRequest(count=3, fail="thing")), received)

    assert [response.number for response in received] == [0, 1, 2]


async def test_a_quota_error_has_a_retry_delay(start_probe: Serve, connect_probe: Connect) -> None:
    probe = connect_probe((await start_probe()).address)

    with pytest.raises(errors.ResourceExhausted) as caught:
        await probe.Echo(pb.EchoRequest(fail="busy"))

    assert (caught.value.reason, caught.value.retry_after) == ("QUOTA", 2.5)


async def test_a_message_too_large_to_send_or_to_receive_is_refused(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe(max_message_bytes=1024 * 1024)
    probe, unaware = connect_probe(server.address, max_message_bytes=1024 * 1024), connect_probe(server.address)
    oversized = pb.EchoRequest(text="x" * 1_100_000)

    for caller in (probe, unaware):
        with pytest.raises(errors.ResourceExhausted, match="larger than max"):
            await caller.Echo(oversized)

    assert server.probe.calls == 0
    assert (await probe.Echo(pb.EchoRequest(text="small"))).text == "small"


async def test_a_failing_model_is_not_asked_again_by_grpc(start_probe: Serve, connect_probe: Connect) -> None:
    server = await start_probe()
    probe = connect_probe(server.address, retry=True)

    with pytest.raises(errors.Unavailable, match="the model does not answer"):
        await probe.Echo(pb.EchoRequest(fail="model"))

    assert server.probe.calls == 1


async def test_an_error_with_a_retry_delay_is_retried_if_the_policy_allows_it(
    start_probe: Serve, connect_probe: Connect
) -> None:
    server = await start_probe()

    for retry, attempts in ((True, 4), (False, 1)):
        server.probe.calls = 0
        with pytest.raises(errors.Unavailable, match="not yet"):
            await connect_probe(server.address, retry=retry).Echo(pb.EchoRequest(fail="again"))
        assert server.probe.calls == attempts
