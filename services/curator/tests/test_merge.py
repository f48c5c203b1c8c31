"""Merge votes and deltas into playbooks in memory (sections 7 and 8 of the specification)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.curator.domain.curation import DeltaContextItem, Proposal, Vote, VoteTag, summarize_deltas
from services.curator.domain.draft import Ballot, Draft
from services.curator.domain.ids import build_slug, create_id, parse_number
from services.curator.domain.log import Stamp, StoredBullet
from services.curator.domain.merge import MergeTerms, count_votes, merge_deltas
from services.curator.domain.playbook import Bullet, hash_content
from services.curator.domain.snapshot import Snapshot

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def bullet(bullet_id: str, content: str = "", **fields: object) -> Bullet:
    content = content or f"lesson of {bullet_id}"
    return Bullet(id=bullet_id, section="api_usage_patterns", content=content, searchable_text=content).replace_fields(
        **fields
    )


class PlaybookView(Snapshot):
    """A playbook for a draft, without history and votes."""

    def __init__(self, revision: int, stored: Sequence[StoredBullet]) -> None:
        super().__init__("d", revision, stored)
        self.next_slot = len(stored)

    def find_bullets_with_ids(self, bullet_ids: Sequence[str]) -> Sequence[StoredBullet]:
        return [stored for stored in self.slots.values() if stored.bullet.id in bullet_ids]

    def find_bullets_with_fingerprint(self, fingerprint: str) -> Sequence[StoredBullet]:
        return [stored for stored in self.slots.values() if hash_content(stored.bullet.content) == fingerprint]

    def find_highest_number(self) -> int:
        return find_highest_number(stored.bullet.id for stored in self.slots.values())

    def find_removal_after(self, bullet_id: str, revision: int) -> int | None:
        return None

    def find_ballots(self, trajectory: str) -> Sequence[Ballot]:
        return []


def find_highest_number(ids: Iterable[str]) -> int:
    return max((number for number in map(parse_number, ids) if number is not None), default=0)


def playbook(*bullets: Bullet, revision: int = 3) -> PlaybookView:
    stamp = Stamp(revision, NOW)
    return PlaybookView(
        revision, [StoredBullet(slot, bullet, stamp, stamp, revision) for slot, bullet in enumerate(bullets)]
    )


def draft_of(snapshot: PlaybookView) -> Draft:
    return Draft(snapshot, Stamp(snapshot.revision + 1, NOW))


def delta(kind: str, *, section: str = "", bullet_id: str | None = None, content: str = "new text") -> Proposal:
    return Proposal(
        DeltaContextItem.model_validate(
            {"type": kind, "section": section, "bullet_id": bullet_id, "content": content, "reasoning": "because"}
        )
    )


def bullets_after(snapshot: Snapshot, draft: Draft) -> list[Bullet]:
    return snapshot.advance(draft.stamp.revision, draft.changes).bullet_list


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=60).filter(str.strip)
bullets = st.lists(texts, min_size=1, max_size=12, unique_by=lambda text: " ".join(text.split())).map(
    lambda contents: [bullet(f"er-{index:05d}", content) for index, content in enumerate(contents, start=1)]
)


def test_the_example_of_section_7_holds() -> None:  # C-61, C-66, C-67, C-81
    snapshot = playbook(bullet("shr-00001"), bullet("aup-00003"))
    draft = draft_of(snapshot)
    deltas = [
        delta("DELETE", bullet_id="shr-00001"),
        delta("UPDATE", bullet_id="shr-00001"),
        delta("ADD", section="error_recovery", content="retry once"),
        delta("UPDATE", bullet_id=None),
        delta("DELETE", bullet_id="nope"),
    ]
    operations = merge_deltas(draft, deltas)
    assert [operation.applied for operation in operations] == [True, False, True, False, False]
    assert [item.id for item in bullets_after(snapshot, draft)] == ["aup-00003", "er-00004"]
    assert (snapshot.bullets, draft.bullets) == (2, 2)
    assert summarize_deltas(proposal.delta for proposal in deltas) == "ADD: 1, UPDATE: 2, DELETE: 2"
    assert all(operation.skipped_reason for operation in operations if not operation.applied)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("strategies_and_hard_rules", "shr"),
        ("troubleshooting_and_pitfalls", "ts"),
        ("others", "misc"),
        ("common_pitfalls_and_distractors", "cpad"),
        ("api_usage_patterns", "aup"),
        ("causal_and_social_reasoning", "casr"),
        ("error_recovery", "er"),
        ("a_b_c_d_e_f_g", "abcde"),
        ("Edge Cases", "ec"),
        ("general", "gene"),
        ("linguistic_nuances", "ln"),
        ("時間", "misc"),
        ("", "misc"),
    ],
)
def test_the_slug_of_a_section_is_made_of_its_initials(section: str, expected: str) -> None:  # C-69, C-70
    assert build_slug(section) == expected


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], 0),
        (["shr-00001", "aup-00003", "x"], 3),
        (["550e8400-e29b-41d4-a716-446655440000", "er-00009"], 9),
        (["x-99999"], 99999),
    ],
)
def test_the_highest_number_of_the_ids_is_found(ids: list[str], expected: int) -> None:  # C-71
    assert find_highest_number(ids) == expected


def test_a_number_above_five_digits_is_written_whole() -> None:  # C-68, C-71
    assert create_id("general", 100000, lambda _: False, lambda: "uuid") == "gene-100000"


def test_a_taken_id_becomes_a_uuid() -> None:  # C-73
    assert create_id("general", 1, lambda _: True, lambda: "a-uuid") == "a-uuid"


def test_a_taken_id_whose_number_is_too_long_to_be_counted_becomes_a_uuid() -> None:  # C-73
    draft = draft_of(playbook(bullet(f"er-{10**18 - 1}"), bullet(f"er-{10**18}")))
    [operation] = merge_deltas(draft, [delta("ADD", section="error_recovery")])
    assert uuid.UUID(operation.bullet_id)


def test_ids_of_a_batch_are_not_given_out_again_after_a_delete() -> None:  # C-72
    snapshot = playbook(bullet("er-00001"), bullet("er-00002"))
    draft = draft_of(snapshot)
    merge_deltas(
        draft,
        [delta("DELETE", bullet_id="er-00002"), delta("ADD", section="error_recovery", content="fresh")],
    )
    assert [item.id for item in bullets_after(snapshot, draft)] == ["er-00001", "er-00003"]


def test_add_ignores_a_given_id_and_starts_without_votes() -> None:  # C-62, C-63
    draft = draft_of(playbook())
    [operation] = merge_deltas(draft, [delta("ADD", section="made up", bullet_id="mine", content="text")])
    [added] = bullets_after(playbook(), draft)
    expected = Bullet(id="mu-00001", section="made up", content="text", searchable_text="text")
    assert (added, operation.bullet_id) == (expected, "mu-00001")


def test_update_keeps_all_but_the_text() -> None:  # C-64
    old = bullet("er-00001", helpful=4, harmful=1, keywords=["k"], source_trajectory="t")
    snapshot = playbook(bullet("er-00000"), old, bullet("er-00002"))
    draft = draft_of(snapshot)
    merge_deltas(draft, [delta("UPDATE", section="else", bullet_id="er-00001", content="better")])
    assert bullets_after(snapshot, draft)[1] == old.replace_fields(content="better", searchable_text="better")


def test_two_updates_of_one_bullet_in_a_batch_do_not_conflict_with_each_other() -> None:  # C-61
    snapshot = playbook(bullet("er-00001"))
    draft = draft_of(snapshot)
    deltas = [
        delta("UPDATE", bullet_id="er-00001", content="one"),
        delta("UPDATE", bullet_id="er-00001", content="two"),
    ]
    operations = merge_deltas(draft, deltas, MergeTerms(base_revision=3))
    assert [operation.applied for operation in operations] == [True, True]
    assert bullets_after(snapshot, draft)[0].content == "two"


def test_an_update_of_a_bullet_changed_since_is_a_conflict() -> None:  # idea 4
    snapshot = playbook(bullet("er-00001", "as it is now"), revision=5)
    draft = draft_of(snapshot)
    [operation] = merge_deltas(draft, [delta("UPDATE", bullet_id="er-00001")], MergeTerms(base_revision=4))
    assert operation.conflict is not None
    assert operation.conflict.present == snapshot.bullet_list[0]
    assert (operation.applied, operation.conflict.changed_in, draft.is_empty) == (False, 5, True)


def test_an_exact_duplicate_only_adds_its_source() -> None:
    snapshot = playbook(bullet("er-00001", "same  text"))
    draft = draft_of(snapshot)
    [operation] = merge_deltas(draft, [delta("ADD", section="other", content="same text ")])
    assert (operation.applied, operation.bullet_id, draft.bullets) == (False, "er-00001", 1)


def test_duplicate_ids_are_changed_at_the_first_match() -> None:  # C-21
    snapshot = playbook(bullet("x", "first"), bullet("x", "second"))
    draft = draft_of(snapshot)
    merge_deltas(draft, [delta("DELETE", bullet_id="x"), delta("UPDATE", bullet_id="x", content="2nd")])
    assert [(item.id, item.content) for item in bullets_after(snapshot, draft)] == [("x", "2nd")]


@given(bullets, st.data())
def test_votes_count_one_side_only(bullets: list[Bullet], data: st.DataObject) -> None:  # C-58, C-59
    # Feature: curator-agent, Property 3: helpful +1 / harmful +1 / neutral 0, the other counter unchanged
    target = data.draw(st.sampled_from(bullets))
    tag: VoteTag = data.draw(st.sampled_from(["helpful", "harmful", "neutral"]))
    snapshot = playbook(*bullets)
    draft = draft_of(snapshot)
    [outcome] = count_votes(draft, [Vote(target.id, tag, "t")])
    expected = target.replace_fields(helpful=int(tag == "helpful"), harmful=int(tag == "harmful"))
    changed = {item.id: item for item in bullets_after(snapshot, draft)}
    assert outcome.applied
    assert list(changed.values()) == [expected if bullet.id == target.id else bullet for bullet in bullets]


def test_repeated_votes_of_one_round_count_once_and_unknown_bullets_are_skipped() -> None:  # C-59
    snapshot = playbook(bullet("er-00001"))
    draft = draft_of(snapshot)
    votes = [
        Vote("er-00001", "helpful", "t", 0),
        Vote("er-00001", "helpful", "t", 0),
        Vote("er-00001", "harmful", "t", 1),
    ]
    outcomes = count_votes(draft, [*votes, Vote("nope", "helpful", "t", 0)])
    assert [outcome.applied for outcome in outcomes] == [True, False, True, False]
    assert [(item.helpful, item.harmful) for item in bullets_after(snapshot, draft)] == [(1, 1)]


@given(bullets, texts, st.just("") | texts)
def test_add_appends(bullets: list[Bullet], content: str, section: str) -> None:  # C-62
    # Feature: curator-agent, Property 4: ADD gives count +1 and a new bullet with the delta's content and section
    snapshot = playbook(
        *(bullet for bullet in bullets if " ".join(bullet.content.split()) != " ".join(content.split()))
    )
    draft = draft_of(snapshot)
    merge_deltas(draft, [delta("ADD", section=section, content=content)])
    *others, added = bullets_after(snapshot, draft)
    assert others == snapshot.bullet_list
    assert (added.content, added.section) == (content, section)


@given(bullets, texts, st.data())
def test_update_replaces_content(bullets: list[Bullet], content: str, data: st.DataObject) -> None:  # C-64
    # Feature: curator-agent, Property 5: UPDATE of an existing id replaces the content, the count is unchanged
    target = data.draw(st.sampled_from(bullets))
    snapshot = playbook(*bullets)
    draft = draft_of(snapshot)
    merge_deltas(draft, [delta("UPDATE", bullet_id=target.id, content=content)])
    changed = target.replace_fields(content=content, searchable_text=content)
    assert bullets_after(snapshot, draft) == [changed if bullet.id == target.id else bullet for bullet in bullets]


@given(bullets, st.data())
def test_delete_removes(bullets: list[Bullet], data: st.DataObject) -> None:  # C-65
    # Feature: curator-agent, Property 6: DELETE of an existing id gives count -1, the id is gone
    target = data.draw(st.sampled_from(bullets))
    snapshot = playbook(*bullets)
    draft = draft_of(snapshot)
    merge_deltas(draft, [delta("DELETE", bullet_id=target.id)])
    assert bullets_after(snapshot, draft) == [bullet for bullet in bullets if bullet.id != target.id]
