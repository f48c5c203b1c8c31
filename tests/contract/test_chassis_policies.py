"""The policies that clients read are those that stand beside the contracts."""

from __future__ import annotations

from chassis.channels import Peers
from chassis.policy import load_policies, parse
from hansei.playbook.v1 import playbook_service_pb2_grpc
from tests.support.shared_resources import ROOT


def test_installed_policies_equal_those_beside_the_contracts() -> None:
    written = {}
    for file in (ROOT / "protos").glob("hansei/*/v1/*_policy.json"):
        written.update(parse(file.read_text(encoding="utf-8")))

    assert written
    assert load_policies() == written


async def test_generated_stubs_take_a_channel_to_a_peer() -> None:
    peers = Peers({"curator": "127.0.0.1:1"})

    stub = playbook_service_pb2_grpc.PlaybookServiceStub(peers.get_channel("curator"))

    assert callable(stub.GetPlaybook)
    await peers.close()
