"""Streams of a contract as server-sent events.

Each message is an event `message` whose data is its JSON; `end` follows the last one, `error` holds the problem
document of a stream that failed. A comment now and then keeps proxies from closing a connection on which nothing
happens. What fails before the first message is an ordinary answer with its status.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, aclosing
from typing import Any

from fastapi.responses import StreamingResponse
from google.protobuf.message import Message
from starlette.types import Receive, Scope, Send

from chassis import deadlines
from chassis.calls import new_request_id
from chassis.errors import HanseiError
from chassis.logging import get_logger
from chassis.progress import CallsInProgress, going_away
from chassis.status import unknown_failure
from gateway.http.bodies import text_of
from gateway.http.problems import told

MEDIA_TYPE = "text/event-stream"
HEAD_SECONDS = 0.5
"""How long the status of the answer waits for the first message; after that it is 200, whatever comes."""
ALIVE_SECONDS = 15.0
_AHEAD = 16
_ALIVE = b": alive\n\n"
_END = b"event: end\ndata: {}\n\n"

log = get_logger("hansei.gateway.http")

Position = Callable[[Any], str | None]


class EventStream:
    """The messages of one call, read by a task of its own so that the call has its deadline and can be ended.

    `place` is left when the call is over. A call that never ends by itself is `endless`: it ends when the server goes.
    """

    def __init__(
        self, messages: AsyncIterator[Message], *, seconds: float | None, progress: CallsInProgress, place: ExitStack
    ) -> None:
        self._messages = messages
        self._seconds = seconds
        self._progress = progress
        self._place = place
        self._read: asyncio.Queue[Message | HanseiError | None] = asyncio.Queue(_AHEAD)
        self._reading = asyncio.create_task(self._run())
        self._head: list[Message | HanseiError | None] = []

    async def response(self, position: Position) -> StreamingResponse:
        """The answer. Raises what the call raises at once. `position` gives the id of an event, to resume after it."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                first = await self._read.get()
        except TimeoutError:
            pass  # Nothing has come yet: the answer begins, and tells the rest in events.
        except BaseException:
            await self.close()
            raise
        else:
            if isinstance(first, HanseiError):
                await self.close()
                raise first
            self._head.append(first)
        return _EventResponse(self, self._written(position))

    async def close(self) -> None:
        """End the call and leave its place."""
        self._reading.cancel()
        # What the call failed with was put among its messages.
        await asyncio.gather(self._reading, return_exceptions=True)
        self._place.close()

    async def _run(self) -> None:
        task = None
        try:
            task = self._progress.begin(endless=self._seconds is None)
            with deadlines.within(self._seconds):
                async with aclosing(self._messages) as messages:  # type: ignore[type-var]
                    async for message in messages:
                        await self._read.put(message)
            await self._read.put(None)
        except asyncio.CancelledError:
            if task is None or not self._progress.was_ended(task):
                raise
            task.uncancel()
            await self._read.put(going_away())
        except HanseiError as error:
            await self._read.put(error)
        except Exception as failure:
            unknown = unknown_failure(new_request_id())
            log.error("stream failed unexpectedly", error_id=unknown.metadata["error_id"], exc_info=failure)
            await self._read.put(unknown)
        finally:
            if task is not None:
                self._progress.end(task)

    async def _written(self, position: Position) -> AsyncIterator[bytes]:
        yield b": open\n\n"
        while True:
            try:
                async with asyncio.timeout(ALIVE_SECONDS):
                    read = self._head.pop() if self._head else await self._read.get()
            except TimeoutError:
                yield _ALIVE
                continue
            if read is None:
                yield _END
                return
            if isinstance(read, HanseiError):
                yield _event("error", json.dumps(told(read), ensure_ascii=False))
                return
            yield _event("message", text_of(read), position(read))


class _EventResponse(StreamingResponse):
    """An answer that ends its call, however it ends itself."""

    def __init__(self, stream: EventStream, content: AsyncIterator[bytes]) -> None:
        # nginx would hold events back until its buffer is full
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, media_type=MEDIA_TYPE, headers=headers)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._stream.close()


def _event(name: str, data: str, identity: str | None = None) -> bytes:
    """One event; JSON has no line breaks of its own, so one line of data is enough."""
    lines = [f"id: {identity}"] if identity is not None else []
    return "\n".join([*lines, f"event: {name}", f"data: {data}", "", ""]).encode()
