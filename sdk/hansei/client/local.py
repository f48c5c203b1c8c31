"""Run every service in this process, for `Client.local()`, `hansei demo` and commands with `--local`.

The settings come from the environment when the stack starts. Variables passed here replace those of the environment
until then, under the names of the settings tables: ``Client.local(LLM_PROVIDER="openai")``. Without LLM_PROVIDER,
OPENAI_API_KEY and OPENAI_BASE_URL the stack runs offline: by rules, without a model and without a key.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager

from hansei.client.data_directory import DATA_DIRECTORY_VARIABLE, find_data_directory
from hansei.client.llm_provider import PROVIDER_VARIABLE, choose_llm_provider
from hansei.client.server import load_server


@asynccontextmanager
async def run_stack_in_loop(variables: Mapping[str, str]) -> AsyncIterator[str]:
    """Run a stack in the running loop for the length of the block, and yield its address. Raises BadSetting."""
    server = load_server()
    server.refuse_unknown_variables(variables)
    chosen = {DATA_DIRECTORY_VARIABLE: str(find_data_directory()), **variables}
    chosen[PROVIDER_VARIABLE] = choose_llm_provider(variables)
    # The stack reads its settings while it starts; the environment is restored right afterwards.
    with set_environment(chosen) as restore:
        async with server.serve_stack() as running:
            restore()
            yield running.address


@contextmanager
def run_stack_in_background(variables: Mapping[str, str]) -> Iterator[str]:
    """Run a stack in a new thread until the block ends, and yield its address. Raises the errors of its start."""
    address: Future[str] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with run_stack_in_loop(variables) as running_address:
            address.set_result(running_address)
            await stop.wait()

    def run_stack() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(serve())
        except BaseException as failure:
            # The caller waits for the address and gets the failure there; a later failure can only be logged.
            if address.done():
                raise
            address.set_exception(failure)

    thread = threading.Thread(target=run_stack, name="hansei-stack", daemon=True)
    thread.start()
    try:
        yield address.result()
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)
        thread.join()


@contextmanager
def set_environment(variables: Mapping[str, str]) -> Iterator[Callable[[], None]]:
    """Set environment variables until the block ends, or until the function that the block gets is called."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)

    def restore() -> None:
        while before:  # once: the program may have set the variables since
            name, value = before.popitem()
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    try:
        yield restore
    finally:
        restore()
