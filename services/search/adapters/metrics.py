"""What search tells of its indexes and of the cache of embeddings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from opentelemetry.metrics import CallbackOptions, Observation

from chassis.telemetry import meter
from services.search.usecases.follow_playbook import FollowedPlaybook

Followed = Callable[[], Sequence[FollowedPlaybook]]

# Counted here and read when metrics are: a counter of OpenTelemetry takes a tenth of the time of a search.
_hits: Counter[str] = Counter()
_misses: Counter[str] = Counter()


def embedded(of: str, known: int, made: int) -> None:
    """Counts texts (documents, queries) whose vector was known, and those it was made for."""
    _hits[of] += known
    _misses[of] += made


def _embeddings(_: CallbackOptions) -> Iterable[Observation]:
    for cache, counted in (("hit", _hits), ("miss", _misses)):
        yield from (Observation(count, {"of": of, "cache": cache}) for of, count in list(counted.items()))


meter.create_observable_counter(
    "hansei.search.embeddings",
    [_embeddings],
    unit="{text}",
    description="Texts whose vector was needed: `cache` says whether it was known, `of` what the text was.",
)


def watch(followed: Followed) -> None:
    """From now on metrics tell the size of the indexes that are followed, and how far behind the feed they are."""

    def sized(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(sum(each.bullets for each in followed()))

    def counted(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(len(followed()))

    def late(_: CallbackOptions) -> Iterable[Observation]:
        now = datetime.now(UTC)
        heard = [each.heard_at for each in followed() if each.heard_at is not None]
        yield Observation(max(((now - moment).total_seconds() for moment in heard), default=0.0))

    meter.create_observable_gauge(
        "hansei.search.index.size", [sized], unit="{bullet}", description="Bullets in all indexes."
    )
    meter.create_observable_gauge(
        "hansei.search.index.playbooks", [counted], unit="{playbook}", description="Playbooks that are followed."
    )
    meter.create_observable_gauge(
        "hansei.search.index.lag",
        [late],
        unit="s",
        description="Seconds since the feed of the playbook that is furthest behind was heard.",
    )
