"""The target of a bullet is versioned, reviewed, revoked, merged, exported and imported with the bullet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chassis.targets.errors import InvalidTarget
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import review_pb2
from services.curator.domain.errors import DatasetNotFound, PinReasonMissing
from services.curator.domain.formats import PlaybookFormat, parse_playbook
from tests.support.playbook_client import add, apply, curator, new_id, playbook, set_policy, update

if TYPE_CHECKING:
    from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceAsyncStub as Stub

EXPRESSION = "call.tool == 'refund' && !called('get_order')"


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[Stub]:
    async with curator(tmp_path) as stub:
        yield stub


def aim(
    delta: pb.Delta, expression: str = EXPRESSION, mode: pb.TargetMode.ValueType = pb.TARGET_MODE_SHADOW
) -> pb.Delta:
    """Return the delta with a target."""
    delta.target.CopyFrom(pb.Target(expression=expression, mode=mode))
    return delta


async def find_target(stub: Stub, revision: int | None = None, dataset: str = "d") -> Any:
    """Return the target of the first bullet, None without one."""
    bullet = (await playbook(stub, revision, dataset)).bullets[0]
    return bullet.target if bullet.HasField("target") else None


async def test_a_target_is_added_changed_and_removed_with_its_bullet(stub: Stub) -> None:
    await apply(stub, aim(add("Look the order up first.")))
    assert await find_target(stub) == pb.Target(expression=EXPRESSION, mode=pb.TARGET_MODE_SHADOW)
    await apply(stub, update("gene-00001", "Look the order up."))
    assert (await find_target(stub)).expression == EXPRESSION
    # Only the target changes: the text stays.
    await apply(stub, aim(update("gene-00001", ""), mode=pb.TARGET_MODE_ADVISE))
    [bullet] = (await playbook(stub)).bullets
    assert (bullet.content, bullet.target.mode) == ("Look the order up.", pb.TARGET_MODE_ADVISE)
    await apply(stub, aim(update("gene-00001", ""), expression=""))
    assert await find_target(stub) is None
    assert (await find_target(stub, revision=3)).mode == pb.TARGET_MODE_ADVISE
    await stub.RestoreRevision(service_pb.RestoreRevisionRequest(request_id=new_id(), dataset="d", revision=1))
    assert (await find_target(stub)).expression == EXPRESSION


@pytest.mark.parametrize(
    ("expression", "rule"),
    [
        ("call.tool == ", "at character"),
        ("call.args.x.matches('a')", "regular expressions"),
        ("x > 1", "at character 0"),
    ],
)
async def test_an_invalid_target_is_refused_with_its_position(stub: Stub, expression: str, rule: str) -> None:
    with pytest.raises(InvalidTarget) as caught:
        await apply(stub, add("first"), aim(add("second"), expression))
    assert caught.value.reason == "TARGET_INVALID"
    assert rule in str(caught.value)
    assert "deltas[1].target.expression" in str(caught.value)
    with pytest.raises(DatasetNotFound):  # Nothing of the request was stored.
        await playbook(stub)


async def test_a_pinned_mode_needs_a_reason(stub: Stub) -> None:
    await apply(stub, aim(add("Look the order up first.")))
    pinned = aim(update("gene-00001", ""), mode=pb.TARGET_MODE_DENY)
    pinned.target.pinned = True
    with pytest.raises(PinReasonMissing) as caught:
        await apply(stub, update("gene-00001", "Look it up."), pinned)
    assert "deltas[1].target.pinned needs a reason" in str(caught.value)
    assert (await find_target(stub)).mode == pb.TARGET_MODE_SHADOW
    pinned.reasoning = "agreed with the shop"
    await apply(stub, pinned)
    assert (await find_target(stub)).pinned
    unpinned = aim(update("gene-00001", ""), mode=pb.TARGET_MODE_ADVISE)
    await apply(stub, unpinned)
    assert not (await find_target(stub)).pinned


async def test_a_target_waits_for_review_with_its_delta(stub: Stub) -> None:
    await set_policy(stub, review_mode=review_pb2.REVIEW_MODE_REVIEW)
    [change] = (await apply(stub, aim(add("Look the order up first.")))).pending
    assert change.delta.target.expression == EXPRESSION
    request = service_pb.DecidePendingChangesRequest(
        request_id=new_id(), dataset="d", ids=[change.id], decision=service_pb.DECISION_APPROVE, author="ann"
    )
    await stub.DecidePendingChanges(request)
    assert (await find_target(stub)).expression == EXPRESSION


async def test_a_repeated_lesson_gives_its_bullet_a_target_once(stub: Stub) -> None:
    await apply(stub, add("Look the order up first."), trajectory="one")
    await apply(stub, aim(add("Look the order up first.")), trajectory="two")
    assert (await find_target(stub)).expression == EXPRESSION
    await apply(stub, aim(add("Look the order up first."), "repeats() > 0"), trajectory="three")
    assert (await find_target(stub)).expression == EXPRESSION


async def test_revoking_a_trajectory_takes_its_target_back(stub: Stub) -> None:
    await apply(stub, add("Look the order up first."), trajectory="good")
    await apply(stub, aim(update("gene-00001", "")), trajectory="bad")
    request = service_pb.RevokeTrajectoryRequest(request_id=new_id(), dataset="d", trajectory_id="bad")
    assert list((await stub.RevokeTrajectory(request)).reverted) == ["gene-00001"]
    assert await find_target(stub) is None


async def test_merged_playbooks_bring_their_targets(stub: Stub) -> None:
    await apply(stub, aim(add("Look the order up first.")), dataset="other")
    request = service_pb.MergePlaybooksRequest(request_id=new_id(), dataset="d", from_datasets=["other"])
    await stub.MergePlaybooks(request)
    assert (await find_target(stub)).expression == EXPRESSION


def test_a_json_file_has_the_target_and_an_invalid_one_is_refused() -> None:
    bullet = '{"id": "a", "section": "s", "content": "c", "searchable_text": "c", "target": {"expression": %s}}'
    text = '{"bullets": [' + bullet % '"repeats() > 0"' + "]}"
    [parsed] = parse_playbook(text, PlaybookFormat.JSON).bullets
    assert parsed.model_dump()["target"] == {"expression": "repeats() > 0", "mode": "shadow", "pinned": False}
    with pytest.raises(InvalidTarget, match=r"bullets\[0\]\.target\.expression"):
        parse_playbook('{"bullets": [' + bullet % '"repeats("' + "]}", PlaybookFormat.JSON)
