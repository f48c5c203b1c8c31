"""An OpenAI-compatible server with a script: chat completions and embeddings over real HTTP on a loopback port.

In a test: ``with OpenAIServer() as server: server.script(error(429), chat("hello"))``; it runs in a thread of its own
and records what it was asked. As a process: ``python -m tests.fakes.openai_server --port 8099 --script FILE``, where
FILE is a JSON list of texts (chat replies) and {"status": 429, "retry_after": 1}; without one it repeats the prompt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.fakes.http_wire import WireRequest, WireResponse, read_request, send
from tests.fakes.openai_answers import Answer, ModelRequest, chat, embeddings, error, json_response

CHAT, EMBEDDINGS, MODELS = "/chat/completions", "/embeddings", "/models"
WAIT_SECONDS = 20.0
"""Seconds that a test waits for something that must happen; only a failing test waits that long."""


class OpenAIServer:
    """Answers each request with the next scripted answer, or, when none is left, with `otherwise`."""

    def __init__(self, port: int = 0, otherwise: Answer | None = None) -> None:
        self._port = port
        self._scripts: dict[str, deque[Answer]] = {CHAT: deque(), EMBEDDINGS: deque()}
        self._otherwise = {CHAT: otherwise or error(500, "the script has no answer left"), EMBEDDINGS: embeddings()}
        self._changed = threading.Condition()
        self._is_holding = False
        self._connections: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), name="openai-server", daemon=True)
        self.requests: list[ModelRequest] = []
        self.in_flight = 0
        self.peak_in_flight = 0

    @property
    def base_url(self) -> str:
        """Return the value for OPENAI_BASE_URL."""
        return f"http://127.0.0.1:{self._port}/v1"

    def script(self, *answers: Answer) -> None:
        """Add answers for the next chat completions."""
        self._scripts[CHAT].extend(answers)

    def script_embeddings(self, *answers: Answer) -> None:
        """Add answers for the next requests for embeddings."""
        self._scripts[EMBEDDINGS].extend(answers)

    def answer_with(self, otherwise: Answer) -> None:
        """Answers chat completions with this function when the script is at its end."""
        self._otherwise[CHAT] = otherwise

    def hold(self) -> None:
        """Keeps answers of the model back until `release`, or until who asked has gone."""
        self._is_holding = True
        self._loop.call_soon_threadsafe(self._released.clear)

    def release(self) -> None:
        """Send the delayed replies."""
        self._is_holding = False
        self._loop.call_soon_threadsafe(self._released.set)

    def wait_for_requests(self, count: int) -> None:
        """Return when `count` requests have come in. Errors: TimeoutError."""
        self._wait(lambda: len(self.requests) >= count, f"expected {count} requests, there were {len(self.requests)}")

    def wait_until_idle(self) -> None:
        """Return when no request is open: each was answered, or its client went away. Errors: TimeoutError."""
        self._wait(lambda: self.in_flight == 0, f"expected no open request, there are {self.in_flight}")

    def wait_for_connections(self, most: int) -> None:
        """Return when at most `most` connections are open. Errors: TimeoutError."""
        self._wait(lambda: len(self._connections) <= most, f"expected at most {most} connections")

    def _wait(self, happened: Callable[[], bool], what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(happened, WAIT_SECONDS):
                raise TimeoutError(f"waited {WAIT_SECONDS:g} s for {what}")

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(WAIT_SECONDS):
            raise TimeoutError("the scripted server did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def serve(self) -> None:
        """Serve until stopped."""
        self._loop, self._stop, self._released = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        server = await asyncio.start_server(self._serve_connection, "127.0.0.1", self._port, limit=2**20)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while (request := await read_request(reader)) and await self._exchange(request, reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client disconnected, or the server stops: no response is needed
        finally:
            writer.close()
            with self._changed:
                self._connections.discard(task)
                self._changed.notify_all()

    async def _exchange(self, request: WireRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self._count(+1)
        try:
            response = self._response(request)
            is_model_call = request.path.partition("?")[0].removeprefix("/v1") in self._scripts
            if self._is_holding and is_model_call and not await self._released_before_end(reader):
                return False
            return await send(reader, writer, response)
        finally:
            self._count(-1)

    async def _released_before_end(self, reader: asyncio.StreamReader) -> bool:
        """Return whether answers are released before the client closes the connection."""
        released, gone = asyncio.create_task(self._released.wait()), asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait([released, gone], return_when=asyncio.FIRST_COMPLETED)
            return not gone.done()
        finally:
            released.cancel()
            gone.cancel()
            await asyncio.gather(released, gone, return_exceptions=True)

    def _count(self, change: int) -> None:
        with self._changed:
            self.in_flight += change
            self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
            self._changed.notify_all()

    def _response(self, request: WireRequest) -> WireResponse:
        path = request.path.partition("?")[0].removeprefix("/v1")
        if path == MODELS:
            return json_response({"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        if path not in self._scripts:
            return json_response({"error": {"message": f"no such path: {path}", "type": "scripted"}}, 404)
        model_request = ModelRequest(path, request.headers, json.loads(request.body))
        with self._changed:
            self.requests.append(model_request)
            self._changed.notify_all()
        script = self._scripts[path]
        return (script.popleft() if script else self._otherwise[path])(model_request)


def load_script(lines: Iterable[Any]) -> list[Answer]:
    """Return the answers that a script file lists."""
    return [
        chat(line) if isinstance(line, str) else error(int(line["status"]), retry_after=line.get("retry_after"))
        for line in lines
    ]


def main() -> None:
    """Serve until interrupted, and print the base URL."""
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible server on loopback.")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes a free one")
    parser.add_argument("--script", type=Path, help="JSON list of chat replies and errors; without it, prompts echo")
    arguments = parser.parse_args()
    with OpenAIServer(arguments.port, otherwise=lambda request: chat(request.prompt)(request)) as server:
        if arguments.script:
            server.script(*load_script(json.loads(arguments.script.read_text(encoding="utf-8"))))
        print(f"OPENAI_BASE_URL={server.base_url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
