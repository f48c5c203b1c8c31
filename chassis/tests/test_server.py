import pytest

from chassis import Registration, ServiceSettings
from chassis.policy import MethodPolicy
from chassis.server.server import build_server_options, find_endless_methods, shorten_name

NAME = "shop.v1.ShopService"
POLICIES = {
    f"/{NAME}/Get": MethodPolicy(5, "read", True),
    f"/{NAME}/Watch": MethodPolicy(None, "read", False),
}


def register_nothing(servicer: object, server: object) -> None: ...


def test_methods_without_a_timeout_and_listed_methods_are_endless() -> None:
    methods = ["Get", "Watch", "Follow"]

    assert find_endless_methods(NAME, methods, Registration(register_nothing, None), POLICIES) == {"Watch"}
    assert find_endless_methods(NAME, methods, Registration(register_nothing, None, {"Follow"}), POLICIES) == {
        "Watch",
        "Follow",
    }


def test_an_unknown_method_cannot_be_declared_endless() -> None:
    with pytest.raises(ValueError, match="Wach"):
        find_endless_methods(NAME, ["Watch"], Registration(register_nothing, None, {"Wach"}), POLICIES)


@pytest.mark.parametrize(
    ("full_name", "expected"),
    [
        ("hansei.search.v1.SearchService", "search"),
        ("hansei.planner.v1beta1.ToolService", "planner"),
        ("Bare", "Bare"),
    ],
)
def test_errors_name_the_package_that_is_not_a_version(full_name: str, expected: str) -> None:
    assert shorten_name(full_name) == expected


def test_a_server_never_shares_its_port_and_lets_clients_ping_every_minute() -> None:
    options = dict(build_server_options(ServiceSettings(max_message_bytes=1_100_000, max_connection_age_seconds=60)))

    assert options["grpc.so_reuseport"] == 0
    assert options["grpc.max_receive_message_length"] == options["grpc.max_send_message_length"] == 1_100_000
    assert options["grpc.max_connection_age_ms"] == 60_000
    assert options["grpc.http2.min_ping_interval_without_data_ms"] < 60_000
    assert options["grpc.keepalive_permit_without_calls"] == 1
