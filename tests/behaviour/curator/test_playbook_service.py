"""PlaybookService over gRPC: edits, reads and history, on a real server with a real SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chassis.errors import HanseiError, NotFound, RequestIdReused
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service_pb
from hansei.playbook.v1 import review_pb2
from services.curator.domain.errors import RevisionAhead
from tests.support.playbook_client import (
    add,
    apply,
    contents,
    curator,
    delete,
    new_id,
    playbook,
    update,
    vote,
)

if TYPE_CHECKING:
    from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceAsyncStub as Stub


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[Stub]:
    async with curator(tmp_path) as stub:
        yield stub


async def test_deltas_make_revisions_that_stay_readable(stub: Stub) -> None:
    first = await apply(stub, add("one"), add("two"), trajectory="run-1")
    await apply(stub, update("gene-00001", "ONE"), delete("gene-00002"))
    assert first.revision == 1
    assert [await contents(stub, revision) for revision in (0, 1, 2)] == [[], ["one", "two"], ["ONE"]]
    [bullet] = (await playbook(stub)).bullets
    assert (bullet.id, bullet.created_revision, bullet.updated_revision) == ("gene-00001", 1, 2)
    assert bullet.sources == [pb.Source(trajectory_id="run-1")]
    with pytest.raises(RevisionAhead):
        await playbook(stub, 3)


def reads_of(stub: Stub, dataset: str) -> list[Any]:
    """Every call that reads a dataset, except its sections, which a file defines."""
    watch = stub.WatchPlaybook(service_pb.WatchPlaybookRequest(dataset=dataset))
    export = stub.ExportPlaybook(service_pb.ExportPlaybookRequest(dataset=dataset))
    revoke = service_pb.RevokeTrajectoryRequest(request_id=new_id(), dataset=dataset, trajectory_id="t", dry_run=True)
    merge = service_pb.MergePlaybooksRequest(request_id=new_id(), dataset="devtools", from_datasets=[dataset])
    return [
        stub.GetPlaybook(service_pb.GetPlaybookRequest(dataset=dataset)),
        stub.GetPlaybook(service_pb.GetPlaybookRequest(dataset=dataset, revision=3)),
        stub.ListBullets(service_pb.ListBulletsRequest(dataset=dataset)),
        stub.GetDataset(service_pb.GetDatasetRequest(dataset=dataset)),
        stub.GetHistory(service_pb.GetHistoryRequest(dataset=dataset)),
        stub.GetBulletHistory(service_pb.GetBulletHistoryRequest(dataset=dataset, bullet_id="gene-00001")),
        stub.DiffRevisions(service_pb.DiffRevisionsRequest(dataset=dataset, from_revision=1)),
        stub.GetPolicy(service_pb.GetPolicyRequest(dataset=dataset)),
        stub.ListPendingChanges(service_pb.ListPendingChangesRequest(dataset=dataset)),
        stub.RestoreRevision(service_pb.RestoreRevisionRequest(request_id=new_id(), dataset=dataset)),
        stub.RevokeTrajectory(revoke),
        stub.MergePlaybooks(merge),
        anext(aiter(watch)),
        anext(aiter(export)),
    ]


async def test_a_dataset_that_does_not_exist_is_named_with_similar_ones(stub: Stub) -> None:
    for name in ("devtools", "dev-tools", "acme--devtools", "weather"):
        await apply(stub, add("one"), dataset=name)
    await apply(stub, votes=[vote("gene-00001", "t")], dataset="devtool")  # a vote on nothing creates nothing
    for read in reads_of(stub, "devtool"):
        with pytest.raises(NotFound) as caught:
            await read
        assert caught.value.reason == "DATASET_NOT_FOUND"
        assert caught.value.message == 'dataset "devtool" does not exist; similar names: devtools, dev-tools'
        assert caught.value.metadata == {"dataset": "devtool", "similar": "devtools, dev-tools"}
    tenant = service_pb.GetPlaybookRequest(dataset="acme--devtool")
    with pytest.raises(NotFound, match=r'"acme--devtool" does not exist; similar names: acme--devtools$'):
        await stub.GetPlaybook(tenant)  # a tenant reads only its own names
    with pytest.raises(NotFound, match='"zzz--devtools" does not exist; the first trajectory or import creates it'):
        await stub.GetPlaybook(service_pb.GetPlaybookRequest(dataset="zzz--devtools"))
    listed = await stub.ListDatasets(service_pb.ListDatasetsRequest())
    assert [dataset.name for dataset in listed.datasets] == ["acme--devtools", "dev-tools", "devtools", "weather"]


async def test_a_caller_may_allow_a_dataset_to_be_missing(stub: Stub) -> None:
    empty = await stub.GetPlaybook(service_pb.GetPlaybookRequest(dataset="unborn", allow_missing=True))
    assert (empty.playbook.revision, len(empty.playbook.bullets)) == (0, 0)
    head = await stub.GetDataset(service_pb.GetDatasetRequest(dataset="unborn", allow_missing=True))
    assert head.dataset == service_pb.Dataset(name="unborn")
    feed = stub.WatchPlaybook(service_pb.WatchPlaybookRequest(dataset="unborn", allow_missing=True))
    await apply(stub, add("one"), dataset="unborn")
    assert (await anext(aiter(feed))).revision.revision == 1


async def test_rules_or_a_pending_change_make_a_dataset_exist(stub: Stub) -> None:
    policy = review_pb2.DatasetPolicy(review_mode=review_pb2.REVIEW_MODE_REVIEW)
    await stub.SetPolicy(service_pb.SetPolicyRequest(request_id=new_id(), dataset="ruled", policy=policy))
    assert not (await playbook(stub, dataset="ruled")).bullets
    await apply(stub, add("one"), dataset="ruled")
    assert len((await stub.ListPendingChanges(service_pb.ListPendingChangesRequest(dataset="ruled"))).changes) == 1


async def test_a_playbook_reads_as_of_a_time(stub: Stub) -> None:
    await apply(stub, add("one"))
    await apply(stub, add("two"))
    history = await stub.GetHistory(service_pb.GetHistoryRequest(dataset="d"))
    first = history.revisions[-1].committed_at
    request = service_pb.GetPlaybookRequest(dataset="d", time=first)
    answer = (await stub.GetPlaybook(request)).playbook
    assert [bullet.content for bullet in answer.bullets][:1] == ["one"]
    request.time.FromSeconds(0)
    assert (await stub.GetPlaybook(request)).playbook.revision == 0
    request.time.seconds = 2**60
    with pytest.raises(HanseiError, match="time must be a time in the years 1 to 9999") as caught:
        await stub.GetPlaybook(request)
    assert (caught.value.code, caught.value.violations[0].field) == ("INVALID_ARGUMENT", "time")


@pytest.mark.parametrize("name", ["a b", "", "../etc", "日本"])
async def test_an_invalid_dataset_name_is_refused_with_the_specified_text(stub: Stub, name: str) -> None:  # C-13
    with pytest.raises(HanseiError, match="Invalid dataset name: '") as caught:
        await playbook(stub, dataset=name)
    assert caught.value.code == "INVALID_ARGUMENT"
    (violation,) = caught.value.violations
    rule = "dataset must be 1 to 128 of the characters A-Z, a-z, 0-9, _ and -"
    assert (violation.field, violation.description) == ("dataset", f"{rule} (got {name!r})")


async def test_a_repeated_request_changes_nothing(stub: Stub) -> None:
    request = service_pb.ApplyDeltasRequest(request_id=new_id(), dataset="d", deltas=[add("one")])
    first = await stub.ApplyDeltas(request)
    again = await stub.ApplyDeltas(request)
    assert first.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)
    assert await contents(stub) == ["one"]
    request.deltas[0].content = "other"
    with pytest.raises(RequestIdReused, match="another payload"):
        await stub.ApplyDeltas(request)


async def test_tenants_share_no_request_ids(stub: Stub) -> None:
    request_id = new_id()
    for dataset in ("acme--d", "evil--d", "d"):
        request = service_pb.ApplyDeltasRequest(request_id=request_id, dataset=dataset, deltas=[add("one")])
        assert (await stub.ApplyDeltas(request)).revision == 1
        assert (await stub.ApplyDeltas(request)).revision == 1  # the stored response
        request.deltas[0].content = "other"
        with pytest.raises(RequestIdReused):
            await stub.ApplyDeltas(request)
    with pytest.raises(RequestIdReused):
        await stub.ApplyDeltas(
            service_pb.ApplyDeltasRequest(request_id=request_id, dataset="acme--other", deltas=[add("one")])
        )


async def test_a_conflict_is_reported_with_the_present_text(stub: Stub) -> None:
    await apply(stub, add("one"))
    await apply(stub, update("gene-00001", "theirs"), base=1)
    mine = await apply(stub, update("gene-00001", "mine"), add("two"), base=1)
    assert [operation.applied for operation in mine.operations] == [False, True]
    [conflict] = mine.conflicts
    assert (conflict.base_revision, conflict.current_bullet.content) == (1, "theirs")
    assert "revision 2" in conflict.reason


async def test_bullets_are_listed_page_by_page_at_one_revision(stub: Stub) -> None:
    await apply(stub, *(add(f"lesson {number}", f"s{number % 2}") for number in range(25)))
    request = service_pb.ListBulletsRequest(dataset="d", page_size=5, sections=["s1"])
    first = await stub.ListBullets(request)
    await apply(stub, delete(first.bullets[-1].id), add("new", "s1"))
    listed = list(first.bullets)
    token = first.next_page_token
    while token:
        request.page_token = token
        page = await stub.ListBullets(request)
        assert (page.revision, page.total_size) == (1, 12)
        listed += page.bullets
        token = page.next_page_token
    assert [bullet.content for bullet in listed] == [f"lesson {number}" for number in range(1, 25, 2)]
    with pytest.raises(HanseiError, match="next_page_token"):
        await stub.ListBullets(service_pb.ListBulletsRequest(dataset="d", page_token="bm8="))
    for dataset, section in (("e", "s1"), ("d", "s0")):
        other = service_pb.ListBulletsRequest(dataset=dataset, sections=[section], page_token=first.next_page_token)
        with pytest.raises(HanseiError) as refused:
            await stub.ListBullets(other)
        assert refused.value.reason == "PAGE_TOKEN_INVALID"


async def test_datasets_are_listed_by_name(stub: Stub) -> None:  # C-22
    for name in ("b", "a", "C", "d-1"):
        await apply(stub, add("one"), dataset=name)
    first = await stub.ListDatasets(service_pb.ListDatasetsRequest(page_size=3))
    rest = await stub.ListDatasets(service_pb.ListDatasetsRequest(page_token=first.next_page_token))
    names = [dataset.name for dataset in (*first.datasets, *rest.datasets)]
    assert (names, rest.next_page_token) == (["C", "a", "b", "d-1"], "")


async def test_the_head_of_a_dataset_counts_what_it_holds(stub: Stub) -> None:
    never_written = await stub.GetDataset(service_pb.GetDatasetRequest(dataset="d", allow_missing=True))
    assert never_written.dataset == service_pb.Dataset(name="d")
    await apply(stub, add("one"), add("two"), add("three"))
    assert never_written.policy == (await stub.GetPolicy(service_pb.GetPolicyRequest(dataset="d"))).policy
    tiered = review_pb2.DatasetPolicy(review_mode=review_pb2.REVIEW_MODE_TIERED, retire_after_harmful=1)
    await stub.SetPolicy(service_pb.SetPolicyRequest(request_id=new_id(), dataset="d", policy=tiered))
    await apply(stub, votes=[vote(item, "run-1", pb.VOTE_TAG_HARMFUL) for item in ("gene-00001", "gene-00002")])
    await apply(stub, update("gene-00003", "THREE"))
    head = await stub.GetDataset(service_pb.GetDatasetRequest(dataset="d"))
    [listed] = (await stub.ListDatasets(service_pb.ListDatasetsRequest())).datasets
    assert head.dataset == listed
    assert (head.dataset.bullets, head.retired_bullets, head.pending_changes) == (3, 2, 1)
    assert head.policy.review_mode == review_pb2.REVIEW_MODE_TIERED
    await stub.RestoreRevision(service_pb.RestoreRevisionRequest(request_id=new_id(), dataset="d", revision=1))
    assert not (await stub.GetDataset(service_pb.GetDatasetRequest(dataset="d"))).retired_bullets


async def test_the_shipped_sections_are_served(stub: Stub) -> None:  # C-31, C-76
    answer = await stub.GetSections(service_pb.GetSectionsRequest(dataset="appworld"))
    assert "strategies_and_hard_rules" in [section.name for section in answer.sections]
    assert not (await stub.GetSections(service_pb.GetSectionsRequest(dataset="unknown"))).sections


async def test_history_is_newest_first_and_paged(stub: Stub) -> None:  # C-24, C-76
    for number in range(5):
        await apply(stub, add(f"lesson {number}"), author="me", trajectory=f"run-{number}")
    first = await stub.GetHistory(service_pb.GetHistoryRequest(dataset="d", page_size=3))
    rest = await stub.GetHistory(service_pb.GetHistoryRequest(dataset="d", page_token=first.next_page_token))
    revisions = [*first.revisions, *rest.revisions]
    assert [revision.revision for revision in revisions] == [5, 4, 3, 2, 1]
    newest = revisions[0]
    assert (newest.author, newest.kind, newest.source_trajectory) == ("me", pb.REVISION_KIND_APPLY, "run-4")
    assert (newest.bullets_before, newest.bullets_after, newest.summary) == (4, 5, "1 added")
    assert newest.operations[0].applied
    assert newest.changes[0].after.content == "lesson 4"


async def test_the_history_of_one_bullet_lists_its_changes(stub: Stub) -> None:
    await apply(stub, add("one"), add("two"))
    await apply(stub, update("gene-00001", "ONE"), update("gene-00002", "TWO"), votes=[vote("gene-00001", "run")])
    await apply(stub, delete("gene-00001"))
    request = service_pb.GetBulletHistoryRequest(dataset="d", bullet_id="gene-00001")
    revisions = (await stub.GetBulletHistory(request)).revisions
    assert [revision.revision for revision in revisions] == [1, 2, 3]
    assert [change.bullet_id for revision in revisions for change in revision.changes] == ["gene-00001"] * 3
    assert [len(revision.operations) for revision in revisions] == [1, 1, 1]
    with pytest.raises(HanseiError, match="never had a bullet"):
        await stub.GetBulletHistory(service_pb.GetBulletHistoryRequest(dataset="d", bullet_id="nope"))


async def test_two_revisions_are_compared_in_both_directions(stub: Stub) -> None:
    await apply(stub, add("one"), add("two"))
    await apply(stub, update("gene-00001", "ONE"))
    await apply(stub, delete("gene-00002"), add("three"))

    async def diff(low: int, high: int) -> list[tuple[str, str, str]]:
        answer = await stub.DiffRevisions(
            service_pb.DiffRevisionsRequest(dataset="d", from_revision=low, to_revision=high)
        )
        return [(change.bullet_id, change.before.content, change.after.content) for change in answer.changes]

    forth = [("gene-00001", "one", "ONE"), ("gene-00003", "", "three"), ("gene-00002", "two", "")]
    assert await diff(1, 0) == await diff(1, 3) == forth
    assert await diff(3, 1) == [("gene-00001", "ONE", "one"), ("gene-00002", "", "two"), ("gene-00003", "three", "")]
    with pytest.raises(RevisionAhead):
        await diff(1, 9)


async def test_restore_brings_bullets_votes_and_order_back_as_a_new_revision(stub: Stub) -> None:
    await apply(stub, add("one"), add("two"), add("three"), votes=[])
    await apply(stub, votes=[vote("gene-00001", "run-1"), vote("gene-00002", "run-1")])
    before = await playbook(stub)
    await apply(stub, update("gene-00001", "ONE"), delete("gene-00002"), votes=[vote("gene-00003", "run-2")])
    request = service_pb.RestoreRevisionRequest(request_id=new_id(), dataset="d", revision=2, author="me")
    answer = await stub.RestoreRevision(request)
    restored = await playbook(stub)
    shown = [(bullet.id, bullet.content, bullet.helpful) for bullet in restored.bullets]
    assert shown == [(bullet.id, bullet.content, bullet.helpful) for bullet in before.bullets]
    assert (answer.revision, restored.revision) == (4, 4)
    assert [change.bullet_id for change in answer.changes] == ["gene-00001", "gene-00002", "gene-00003"]
    again = await apply(stub, votes=[vote("gene-00002", "run-1"), vote("gene-00003", "run-2")])
    assert [outcome.applied for outcome in again.votes] == [False, True]
    await stub.RestoreRevision(service_pb.RestoreRevisionRequest(request_id=new_id(), dataset="d", revision=0))
    assert await contents(stub) == []


async def test_revoking_a_trajectory_removes_lessons_of_it_alone(stub: Stub) -> None:
    await apply(stub, add("theirs"), add("edited"), trajectory="good")
    await apply(stub, add("bad"), update("gene-00002", "worse"), votes=[vote("gene-00001", "bad")], trajectory="bad")
    await apply(stub, add("theirs"), delete("gene-00001"), trajectory="other")
    request = service_pb.RevokeTrajectoryRequest(request_id=new_id(), dataset="d", trajectory_id="bad", dry_run=True)
    trial = await stub.RevokeTrajectory(request)
    assert (trial.revision, list(trial.removed), list(trial.reverted)) == (3, ["gene-00003"], ["gene-00002"])
    request.dry_run = False
    done = await stub.RevokeTrajectory(request)
    assert (done.revision, list(done.removed), list(done.reverted)) == (4, ["gene-00003"], ["gene-00002"])
    assert await contents(stub) == ["edited"]
    request = service_pb.RevokeTrajectoryRequest(request_id=new_id(), dataset="d", trajectory_id="other")
    back = await stub.RevokeTrajectory(request)
    assert (list(back.reverted), list(back.entangled)) == (["gene-00001"], [])
    assert [(bullet.content, bullet.helpful) for bullet in (await playbook(stub)).bullets] == [
        ("theirs", 0),
        ("edited", 0),
    ]


async def test_bullets_that_others_edited_are_reported_not_removed(stub: Stub) -> None:
    await apply(stub, add("bad idea"), trajectory="bad")
    await apply(stub, update("gene-00001", "good idea"), trajectory="good")
    request = service_pb.RevokeTrajectoryRequest(request_id=new_id(), dataset="d", trajectory_id="bad")
    done = await stub.RevokeTrajectory(request)
    assert (list(done.removed), list(done.entangled)) == ([], ["gene-00001"])
    [bullet] = (await playbook(stub)).bullets
    assert (bullet.content, [source.trajectory_id for source in bullet.sources]) == ("good idea", ["good"])


async def test_a_request_with_a_broken_shape_writes_nothing(stub: Stub) -> None:
    for request in (
        service_pb.ApplyDeltasRequest(request_id="no uuid", dataset="d", deltas=[add("one")]),
        service_pb.ApplyDeltasRequest(request_id=new_id(), dataset="d", deltas=[pb.Delta(content="no type")]),
        service_pb.ApplyDeltasRequest(request_id=new_id(), dataset="d", deltas=[add("x" * 20_001)]),
        service_pb.ApplyDeltasRequest(request_id=new_id(), dataset="d", votes=[pb.Vote(bullet_id="a", tag=99)]),  # type: ignore[arg-type]
    ):
        with pytest.raises(HanseiError) as caught:
            await stub.ApplyDeltas(request)
        assert (caught.value.code, bool(caught.value.violations)) == ("INVALID_ARGUMENT", True)
    assert (await stub.ListDatasets(service_pb.ListDatasetsRequest())).datasets == []
