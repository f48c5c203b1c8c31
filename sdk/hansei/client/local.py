"""A stack within this process, for `Client.local()`, `hansei demo` and commands with `--local`.

Its settings are those of any stack, read from the environment when it starts. What is passed here stands in for the
environment until then, under the names of the settings tables: ``Client.local(LLM_PROVIDER="offline")``.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager

from hansei.client.server import server


@asynccontextmanager
async def in_this_loop(variables: Mapping[str, str]) -> AsyncIterator[str]:
    """Run a stack in the running loop as long as the block; gives its address."""
    # Settings are read while the stack starts; the environment is put back as soon as it has.
    with environment(variables) as restore:
        async with server().serve_stack() as running:
            restore()
            yield running.address


@contextmanager
def in_background(variables: Mapping[str, str]) -> Iterator[str]:
    """Run a stack in a thread of its own as long as the block; gives its address. Raises what its start raises."""
    background = _Background(variables)
    thread = threading.Thread(target=background.run, name="hansei-stack", daemon=True)
    thread.start()
    try:
        yield background.address.result()
    finally:
        background.stop()
        thread.join()


class _Background:
    """A stack in a loop of its own, stopped from another thread."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.address: Future[str] = Future()
        self._variables = variables
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()

    def run(self) -> None:
        """The body of the thread."""
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as failure:
            # Told to whoever waits for the address; a failure after that has no one to tell but the log.
            if self.address.done():
                raise
            self.address.set_exception(failure)

    def stop(self) -> None:
        """Drain and end; harmless when it never started."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def _serve(self) -> None:
        async with in_this_loop(self._variables) as address:
            self.address.set_result(address)
            await self._stopping.wait()


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[Callable[[], None]]:
    """Put variables into the environment until the block ends, or what the block is given is called."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)

    def restore() -> None:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    try:
        yield restore
    finally:
        restore()
