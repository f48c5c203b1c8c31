"""Holds for every test: examples are never timed, in CI they are the same each time, and imports are not garbage."""

from __future__ import annotations

import gc
import logging
import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("untimed")

OURS = {"hansei", "chassis", "libs", "services", "gateway"}


def pytest_collection_finish() -> None:
    """All modules are there now: the collector would walk through them again and again and find nothing to free."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def loggers_that_speak() -> None:
    """What ran before in this process may have silenced loggers that a test listens to."""
    logging.disable(logging.NOTSET)
    logging.root.setLevel(logging.WARNING)
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in OURS:
            logger.disabled, logger.propagate = False, True
            logger.setLevel(logging.NOTSET)
