"""Failures of a feed are warnings only when they last longer than a restart."""

from __future__ import annotations

import pytest

from chassis.feed_retries import QUIET_SECONDS, FeedRetries
from chassis.logging import get_logger


async def test_a_feed_that_fails_for_longer_than_a_restart_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    retries = FeedRetries(get_logger("test"), sleep=sleep, rng=lambda: 1.0)
    for _ in range(2):
        while sum(pauses) < QUIET_SECONDS:
            retries.log_failure("feed failed", dataset="d")
            await retries.pause()
        assert {record.levelname for record in caplog.records} == {"DEBUG"}
        retries.log_failure("feed failed", dataset="d")
        assert caplog.records[-1].levelname == "WARNING"
        assert pauses[:6] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
        retries.reset()
        caplog.clear()
        pauses.clear()
