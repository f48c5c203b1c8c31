"""The bullets that a reflecting model is told, of a playbook of which not all fit."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from services.curator.domain.log import Stamp, StoredBullet
from services.curator.domain.playbook import Bullet
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases import near_bullets
from services.curator.usecases.near_bullets import NearBullets
from services.curator.usecases.similarity import WordSource


def build_playbook(*contents: str) -> Snapshot:
    stamp = Stamp(1, datetime(2026, 1, 1, tzinfo=UTC))
    bullets = (
        Bullet(id=f"s-{slot}", section="s", content=text, searchable_text=text) for slot, text in enumerate(contents)
    )
    return Snapshot("d", 1, [StoredBullet(slot, bullet, stamp, stamp, 1) for slot, bullet in enumerate(bullets)])


async def choose(playbook: Snapshot, *served: str) -> list[str]:
    chosen = await NearBullets(WordSource()).choose(playbook, served, "refund policy")
    return [stored.bullet.id for stored in chosen]


@pytest.fixture(autouse=True)
def max_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_bullets, "MAX_TOKENS", 20)


async def test_the_nearest_bullets_are_chosen_wherever_they_are() -> None:
    far = "the policy of flights, hotels, trains, ferries and cars"
    assert await choose(build_playbook(far, far, far, "refund policy")) == ["s-0", "s-3"]
    assert await choose(build_playbook(far, far, far, "refund policy"), "s-2") == ["s-0", "s-2", "s-3"]


async def test_a_bullet_that_does_not_fit_leaves_the_others() -> None:
    assert await choose(build_playbook("refund policy " * 10, "check the refund policy", "other words")) == ["s-1"]
