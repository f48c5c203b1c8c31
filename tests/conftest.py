"""What all tests with sockets share: a running hansei in each of its forms, started once each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests import systems


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], systems.System]]:
    """Gives a form of hansei, started when it is first asked for and kept until all tests of this process are done.

    A fixture of the session with the forms as its parameters would end and start them again with every file.
    """
    started: dict[str, systems.System] = {}
    with ExitStack() as all_forms:

        def form(name: str) -> systems.System:
            if name not in started:
                data = tmp_path_factory.mktemp(name.replace(" ", "-"))
                started[name] = all_forms.enter_context(systems.FORMS[name](data))
            return started[name]

        yield form


@pytest.fixture(scope="module", params=sorted(systems.FORMS))
def system(request: pytest.FixtureRequest, running: Callable[[str], systems.System]) -> systems.System:
    """A running hansei, offline. Tests that take it run against every form; each uses datasets of its own."""
    return running(request.param)
