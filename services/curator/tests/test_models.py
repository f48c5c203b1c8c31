"""The models of section 1: read back as they were written, strict where it matters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from libs.llm.tokens import estimate_tokens
from services.curator.domain.curation import CurationResult, DeltaContextItem
from services.curator.domain.errors import InvalidBullet
from services.curator.domain.playbook import (
    MAX_CONTENT_CHARS,
    Bullet,
    Playbook,
    PlaybookMetadata,
    Source,
    compute_shrunken_score,
    validate_bullet,
)

text = st.text(st.characters(codec="utf-8"), max_size=40)
counts = st.integers(min_value=0, max_value=10**9)
moments = st.datetimes(timezones=st.just(UTC)) | st.datetimes()
sources = st.builds(Source, trajectory=text, steps=st.lists(counts, max_size=4).map(tuple))
bullets = st.builds(
    Bullet,
    id=text,
    section=text,
    content=text,
    searchable_text=text,
    keywords=st.lists(text, max_size=3),
    helpful=counts,
    harmful=counts,
    source_trajectory=text,
    sources=st.lists(sources, max_size=2).map(tuple),
    retired=text,
)
metadata = st.builds(PlaybookMetadata, created_at=moments, updated_at=moments)
playbooks = st.builds(Playbook, metadata=metadata, bullets=st.lists(bullets, max_size=4))
deltas = st.builds(
    DeltaContextItem,
    type=st.sampled_from(["ADD", "UPDATE", "DELETE"]),
    section=text,
    bullet_id=st.none() | text,
    content=text,
    reasoning=text,
)
results = st.builds(
    CurationResult,
    deltas=st.lists(deltas, max_size=4),
    bullets_before=st.integers(),
    bullets_after=st.integers(),
    summary=text,
)


@given(results)
def test_a_curation_result_is_read_back_equal(result: CurationResult) -> None:  # C-08, C-10
    # Feature: curator-agent, Property 1: JSON dump then validate gives an equal object
    assert CurationResult.model_validate_json(result.model_dump_json()) == result


@given(results, st.sampled_from(["deltas", "bullets_before"]), text)
def test_wrong_types_are_refused(result: CurationResult, field: str, wrong: str) -> None:  # C-09
    # Feature: curator-agent, Property 2: deltas or bullets_before as text is a validation error
    with pytest.raises(ValidationError):
        CurationResult.model_validate({**result.model_dump(), field: wrong})


@pytest.mark.parametrize("wrong", ["5", 5.0, True, None])
@pytest.mark.parametrize("field", ["bullets_before", "bullets_after"])
def test_counts_are_strict(field: str, wrong: object) -> None:  # C-09
    fields = {"deltas": [], "bullets_before": 1, "bullets_after": 1, "summary": "", field: wrong}
    with pytest.raises(ValidationError):
        CurationResult.model_validate(fields)


@given(st.one_of(bullets, playbooks, deltas))
def test_every_model_is_read_back_equal(model: BaseModel) -> None:  # C-10
    assert type(model).model_validate_json(model.model_dump_json()) == model


@given(text, text, text, text, st.lists(text, max_size=3), counts, counts, text)
def test_fields_of_a_bullet_read_back_equal(  # C-01, C-06
    bullet_id: str,
    section: str,
    content: str,
    searchable_text: str,
    keywords: list[str],
    helpful: int,
    harmful: int,
    source_trajectory: str,
) -> None:
    # Feature: self-reflection-system, Property 1: Bullet, Playbook, DeltaContextItem fields read back equal
    fields: dict[str, Any] = {
        "id": bullet_id,
        "section": section,
        "content": content,
        "searchable_text": searchable_text,
        "keywords": keywords,
        "helpful": helpful,
        "harmful": harmful,
        "source_trajectory": source_trajectory,
    }
    bullet = Bullet(**fields)
    assert {name: getattr(bullet, name) for name in fields} == fields
    assert Playbook(bullets=[bullet, bullet]).bullets == [bullet, bullet]


@given(st.sampled_from(["ADD", "UPDATE", "DELETE"]), text, st.none() | text, text, text)
def test_fields_of_a_delta_read_back_equal(  # C-07
    kind: str, section: str, bullet_id: str | None, content: str, reasoning: str
) -> None:
    # Feature: self-reflection-system, Property 1: Bullet, Playbook, DeltaContextItem fields read back equal
    fields = {"type": kind, "section": section, "bullet_id": bullet_id, "content": content, "reasoning": reasoning}
    delta = DeltaContextItem.model_validate(fields)
    assert {name: getattr(delta, name) for name in fields} == fields


def test_only_a_bullets_defaults_may_be_left_out() -> None:  # C-01
    bullet = Bullet(id="a", section="s", content="c", searchable_text="t")
    assert (bullet.keywords, bullet.helpful, bullet.harmful, bullet.source_trajectory) == ([], 0, 0, "")
    for name in ("id", "section", "content", "searchable_text"):
        with pytest.raises(ValidationError):
            Bullet.model_validate({**bullet.model_dump(exclude={name})})


@given(counts, counts)
def test_confidence_is_the_share_of_helpful_votes(helpful: int, harmful: int) -> None:  # C-02
    # Feature: self-reflection-system, Property 2: confidence_score formula for non-negative helpful, harmful
    bullet = Bullet(id="a", section="s", content="c", searchable_text="c", helpful=helpful, harmful=harmful)
    expected = 0.5 if helpful + harmful == 0 else helpful / (helpful + harmful)
    assert bullet.confidence_score == expected


@pytest.mark.parametrize(("helpful", "harmful", "score"), [(0, 0, 0.5), (5, 0, 1.0), (0, 1, 0.0), (1, 2, 1 / 3)])
def test_the_examples_of_confidence_hold(helpful: int, harmful: int, score: float) -> None:  # C-02
    bullet = Bullet(id="a", section="s", content="c", searchable_text="c", helpful=helpful, harmful=harmful)
    assert bullet.confidence_score == pytest.approx(score, abs=1e-6)


def test_confidence_is_written_and_ignored_on_load() -> None:  # C-03
    text = '{"id":"a","section":"","content":"","searchable_text":"","helpful":1,"harmful":2,"confidence_score":9}'
    bullet = Bullet.model_validate_json(text)
    assert bullet.confidence_score == pytest.approx(1 / 3)
    assert '"confidence_score":0.333' in bullet.model_dump_json()


@pytest.mark.parametrize("field", ["helpful", "harmful"])
def test_negative_counters_are_refused(field: str) -> None:  # C-04
    with pytest.raises(ValidationError):
        Bullet.model_validate({"id": "a", "section": "", "content": "", "searchable_text": "", field: -1})


def test_times_default_to_now_in_utc() -> None:  # C-05
    before = datetime.now(UTC)
    metadata = PlaybookMetadata()
    assert before <= metadata.created_at <= metadata.updated_at <= datetime.now(UTC)
    assert metadata.created_at.tzinfo is UTC


@pytest.mark.parametrize("kind", ["add", "REMOVE", "", None])
def test_an_unknown_delta_type_is_refused(kind: object) -> None:  # C-07
    fields = {"type": kind, "section": "", "bullet_id": None, "content": "", "reasoning": ""}
    with pytest.raises(ValidationError):
        DeltaContextItem.model_validate(fields)


def test_unknown_keys_are_ignored() -> None:  # C-11
    text = '{"metadata":{"x":1},"bullets":[{"id":"a","section":"","content":"","searchable_text":"","y":2}],"z":3}'
    [bullet] = Playbook.model_validate_json(text).bullets
    assert bullet.id == "a"


def test_a_playbook_that_never_used_provenance_has_the_plain_form() -> None:
    bullet = Bullet(id="a", section="s", content="c", searchable_text="c")
    assert set(bullet.model_dump()) == {
        *("id", "section", "content", "searchable_text", "keywords", "helpful", "harmful", "source_trajectory"),
        "confidence_score",
    }


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"id": ""}, "bullet.id: must not be empty"),
        ({"content": "x" * (MAX_CONTENT_CHARS + 1)}, "bullet.content: 20001 characters, at most 20000 are allowed"),
        ({"content": "a\x00b"}, "bullet.content: contains a NUL"),
        ({"section": "\ud800"}, "bullet.section: contains half of a surrogate pair"),
        ({"keywords": ["k"] * 65}, "bullet.keywords: 65 keywords"),
        (
            {"sources": (Source(trajectory="t"), Source(trajectory="\0"))},
            "bullet.sources[1].trajectory: contains a NUL",
        ),
        ({"helpful": 2**40}, "bullet.helpful: 1099511627776 is above"),
    ],
)
def test_a_bullet_out_of_bounds_is_named(fields: dict[str, object], named: str) -> None:
    bullet = Bullet(id="a", section="s", content="c", searchable_text="c").replace_fields(**fields)
    with pytest.raises(InvalidBullet) as caught:
        validate_bullet(bullet)
    assert caught.value.message.startswith(named)


def test_the_shrunken_score_needs_evidence() -> None:
    assert compute_shrunken_score(0, 0) == 0.5
    assert compute_shrunken_score(2, 0) < compute_shrunken_score(200, 1)


def test_tokens_are_estimated_by_script() -> None:
    assert (estimate_tokens(""), estimate_tokens("abcde"), estimate_tokens("日本語ab")) == (0, 2, 4)
