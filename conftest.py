"""Settings and fixtures of every test, and the start and the end of the shared resources of a test run."""

from __future__ import annotations

import gc
import logging
import os
from collections import defaultdict
from collections.abc import Generator, Iterator, MutableMapping
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.shared_resources import run_manager

settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("untimed")
os.environ.setdefault("HANSEI_DATA_DIR", "data")  # never the data of the person who runs the tests
# Tests compute in many processes at once: threads of libraries would spin while they wait for each other.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_run = ExitStack()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the manager of the shared resources of this run; workers of pytest-xdist use that of their parent."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        factory: pytest.TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        _run.enter_context(run_manager(factory.getbasetemp()))


def pytest_unconfigure() -> None:
    """Close the shared resources of this run."""
    _run.close()


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Capture the records of `chassis.logging` too: the message of a record is its event, then its facts."""
    import structlog

    def render(logger: object, name: str, event: MutableMapping[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
        event.pop("component", None)
        exc_info = event.pop("exc_info", None)
        facts = " ".join(f"{fact}={value}" for fact, value in event.items() if fact != "event")
        return (f"{event['event']} {facts}".rstrip(),), {"exc_info": exc_info}

    before = structlog.get_config()
    structlog.configure(
        processors=[render],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    yield caplog
    structlog.configure(**before)


OURS = {"hansei", "chassis", "libs", "services", "gateway"}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler for `--dist loadfile`, None for another distribution."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.support.scheduling import FileScheduling  # environments without pytest-xdist read this file, too

    return FileScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the test files of several workers: long ones first, then those of all folders by turns.

    So at all times some tests compute while others wait, browsers do not slow each other down, and no worker
    begins a long file at the end.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    folders: dict[tuple[str, ...], dict[Path, list[pytest.Item]]] = {}
    for item in items:
        folder = item.path.relative_to(item.config.rootpath).parts[:2]
        folders.setdefault(folder, {}).setdefault(item.path, []).append(item)
    turns = zip_longest(*(reversed(files.values()) for files in folders.values()), fillvalue=[])
    in_turn = [item for turn in turns for file in turn for item in file]
    items[:] = sorted(in_turn, key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude imported modules from garbage collection: nothing of them is ever freed."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def loggers_that_speak() -> None:
    """Enable the loggers that earlier tests of this process may have silenced."""
    # To set a level, even the one that is set, goes through all loggers there are.
    if logging.root.manager.disable != logging.NOTSET:
        logging.disable(logging.NOTSET)
    if logging.root.level != logging.WARNING:
        logging.root.setLevel(logging.WARNING)
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in OURS:
            logger.disabled, logger.propagate = False, True
            if logger.level != logging.NOTSET:
                logger.setLevel(logging.NOTSET)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the slowest files where pytest prints the slowest tests: one worker runs all tests of a file."""
    config = terminalreporter.config
    if not config.option.durations:
        return
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    terminalreporter.section(f"slowest {config.option.durations} files")
    slowest = sorted(seconds, key=seconds.__getitem__, reverse=True)
    for file in slowest[: config.option.durations]:
        terminalreporter.line(f"{seconds[file]:.0f}s {file}")
