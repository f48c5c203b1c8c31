"""Holds for every test: generated examples are never timed, and in CI they are the same each time."""

from __future__ import annotations

import logging
import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("untimed")

OURS = {"hansei", "chassis", "libs", "services", "gateway"}


@pytest.fixture(autouse=True)
def loggers_that_speak() -> None:
    """What ran before in this process may have silenced loggers that a test listens to."""
    logging.disable(logging.NOTSET)
    logging.root.setLevel(logging.WARNING)
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in OURS:
            logger.disabled, logger.propagate = False, True
            logger.setLevel(logging.NOTSET)
