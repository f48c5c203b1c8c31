import json

import pytest

from chassis.channel_options import build_service_config, build_target
from chassis.channels import OWN
from chassis.policy import MethodPolicy, parse
from chassis.tests.probe import policies


def policy(**changes: object) -> str:
    entry = {"timeout_seconds": 5, "idempotency": "read", "retry": True} | changes
    return json.dumps({"a.v1.S": {"Get": entry}})


def test_policies_are_found_by_the_path_of_the_method() -> None:
    assert parse(policy()) == {"/a.v1.S/Get": MethodPolicy(5, "read", True)}


def test_a_method_may_be_unbounded() -> None:
    assert parse(policy(timeout_seconds=None))["/a.v1.S/Get"].timeout_seconds is None


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds must be above 0"),
        ({"timeout_seconds": "5s"}, "timeout_seconds must be above 0"),
        ({"idempotency": "maybe"}, "idempotency must be one of"),
        ({"idempotency": "none"}, "only idempotent methods may be retried"),
        ({"retry": "yes"}, "only idempotent methods may be retried"),
        ({"retry": False, "routed_by": "dataset"}, "only methods that are retried may have routed_by"),
        ({"more": 1}, "must have timeout_seconds, idempotency and retry"),
    ],
)
def test_a_policy_that_breaks_a_rule_is_refused_by_name(changes: dict[str, object], rule: str) -> None:
    with pytest.raises(ValueError, match=rule) as refused:
        parse(policy(**changes))

    assert "a.v1.S/Get" in str(refused.value)


def test_only_methods_that_allow_it_are_retried_and_only_if_no_handler_answered() -> None:
    config = build_service_config(
        {"/a.v1.S/Get": MethodPolicy(5, "read", True), "/a.v1.S/Put": MethodPolicy(5, "none", False)},
        follow_health=True,
    )

    (entry,) = config["methodConfig"]
    assert entry["name"] == [{"service": "a.v1.S", "method": "Get"}]
    assert entry["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE", "CANCELLED"]
    assert "timeout" not in json.dumps(config)
    assert config["loadBalancingConfig"] == [{"round_robin": {}}]
    assert config["healthCheckConfig"] == {"serviceName": ""}


def test_a_channel_within_the_process_does_not_watch_health() -> None:
    assert "healthCheckConfig" not in build_service_config(policies(), follow_health=False)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("curator:50051", "dns:///curator:50051"),
        ("ipv4:127.0.0.1:1,127.0.0.1:2", "ipv4:127.0.0.1:1,127.0.0.1:2"),
        ("dns:///x:1", "dns:///x:1"),
        ("unix:/run/x.sock", "unix:/run/x.sock"),
    ],
)
def test_names_are_resolved_by_dns(address: str, expected: str) -> None:
    assert build_target(address) == expected
    assert address != OWN
