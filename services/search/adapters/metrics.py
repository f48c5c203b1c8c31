"""Metrics of the indexes and of the cache of embeddings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from opentelemetry.metrics import CallbackOptions, Observation

from chassis.telemetry import meter
from services.search.usecases.playbook_indexes import PlaybookIndexes

# Counted here and collected with the metrics: a counter of OpenTelemetry takes a tenth of the time of a search.
_hits: Counter[str] = Counter()
_misses: Counter[str] = Counter()


def count_embeddings(kind: str, cached: int, made: int) -> None:
    """Count texts of a kind (`documents`, `queries`) whose vector was cached, and those it was made for."""
    _hits[kind] += cached
    _misses[kind] += made


def _observe_embeddings(_: CallbackOptions) -> Iterable[Observation]:
    for cache, counted in (("hit", _hits), ("miss", _misses)):
        yield from (Observation(count, {"kind": kind, "cache": cache}) for kind, count in list(counted.items()))


meter.create_observable_counter(
    "hansei.search.embeddings",
    [_observe_embeddings],
    unit="{text}",
    description="Vectors of texts by `kind`, documents or queries, and by `cache`, hit or miss.",
)


def observe_indexes(indexes: PlaybookIndexes) -> None:
    """Report the size of the playbook indexes, their lag behind the feed, and how often a search found its index."""
    list_indexes = indexes.list_current

    def observe_bullets(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(sum(index.bullets for index in list_indexes()))

    def observe_playbooks(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(len(list_indexes()))

    def observe_lag(_: CallbackOptions) -> Iterable[Observation]:
        now = datetime.now(UTC)
        last_events = [index.last_event_at for index in list_indexes() if index.last_event_at is not None]
        yield Observation(max(((now - moment).total_seconds() for moment in last_events), default=0.0))

    def observe_memory(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(indexes.count_memory())

    def observe_lookups(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(indexes.hits, {"cache": "hit"})
        yield Observation(indexes.misses, {"cache": "miss"})

    def observe_evictions(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(indexes.evictions)

    def observe_releases(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(indexes.releases)

    meter.create_observable_gauge(
        "hansei.search.index.memory",
        [observe_memory],
        unit="By",
        description="Memory of the indexes of playbooks, by estimate.",
    )
    meter.create_observable_counter(
        "hansei.search.index.lookups",
        [observe_lookups],
        unit="{lookup}",
        description="Uses of playbook indexes by `cache`: hit, or miss where the index had to be loaded.",
    )
    meter.create_observable_counter(
        "hansei.search.index.evictions",
        [observe_evictions],
        unit="{playbook}",
        description="Indexes that were dropped because of the limit of memory.",
    )
    meter.create_observable_counter(
        "hansei.search.index.releases",
        [observe_releases],
        unit="{playbook}",
        description="Idle indexes that were dropped because another replica is the first owner of the dataset.",
    )
    meter.create_observable_gauge(
        "hansei.search.index.size", [observe_bullets], unit="{bullet}", description="Bullets in all indexes."
    )
    meter.create_observable_gauge(
        "hansei.search.index.playbooks",
        [observe_playbooks],
        unit="{playbook}",
        description="Playbooks whose changes search follows.",
    )
    meter.create_observable_gauge(
        "hansei.search.index.lag",
        [observe_lag],
        unit="s",
        description="Seconds since the last event of the feed, of the playbook that is furthest behind.",
    )
