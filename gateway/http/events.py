"""Streams as server-sent events.

Each message is an event `message` whose data is its JSON; `end` follows the last one, `error` holds the problem
document of a stream that failed. A comment now and then keeps proxies from closing a connection on which nothing
happens. What fails before the first message is an ordinary answer with its status.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing
from dataclasses import dataclass

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from chassis import deadlines
from chassis.errors import HanseiError
from chassis.logging import get_logger
from chassis.server.progress import CallsInProgress, draining_error
from chassis.status import unknown_failure
from gateway.http.problems import problem_document

MEDIA_TYPE = "text/event-stream"
HEAD_SECONDS = 0.5
"""How long the status of the answer waits for the first message; after that it is 200, whatever comes."""
ALIVE_SECONDS = 15.0
_AHEAD = 16
_ALIVE = b": alive\n\n"

log = get_logger("hansei.gateway.http")


@dataclass(frozen=True, slots=True)
class Event:
    """One event; its data is JSON, which has no line breaks of its own."""

    name: str
    data: str
    position: int | None = None

    def encode(self) -> bytes:
        """Return the event as it goes over the wire."""
        lines = [f"id: {self.position}"] if self.position is not None else []
        return "\n".join([*lines, f"event: {self.name}", f"data: {self.data}", "", ""]).encode()


_END = Event("end", "{}")


class EventStream:
    """The events of one call, read by a task of its own so that the call has its deadline and can be ended.

    `slot` is closed when the call is over. A call without `seconds` never ends by itself: it ends when the server goes.
    """

    def __init__(
        self, events: AsyncIterator[Event], *, seconds: float | None, progress: CallsInProgress, slot: ExitStack
    ) -> None:
        self._events = events
        self._seconds = seconds
        self._progress = progress
        self._slot = slot
        self._queue: asyncio.Queue[Event | HanseiError] = asyncio.Queue(_AHEAD)
        self._reader = asyncio.create_task(self._run())
        self._head: list[Event | HanseiError] = []

    async def response(self) -> StreamingResponse:
        """Return the response. Raises what the call raises at once."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                first = await self._queue.get()
        except TimeoutError:
            pass  # Nothing has come yet: the answer begins, and the rest comes in events.
        except BaseException:
            await self.close()
            raise
        else:
            if isinstance(first, HanseiError):
                await self.close()
                raise first
            self._head.append(first)
        return _EventResponse(self, self._frames())

    async def close(self) -> None:
        """End the call and leave its slot."""
        self._reader.cancel()
        # What the call failed with was put among its events.
        await asyncio.gather(self._reader, return_exceptions=True)
        self._slot.close()

    async def _run(self) -> None:
        task = None
        try:
            task = self._progress.begin(endless=self._seconds is None)
            with deadlines.time_limit(self._seconds):
                async with aclosing(self._events) as events:  # type: ignore[type-var]
                    async for event in events:
                        await self._queue.put(event)
            await self._queue.put(_END)
        except asyncio.CancelledError:
            if task is None or not self._progress.was_ended(task):
                raise
            task.uncancel()
            await self._queue.put(draining_error())
        except HanseiError as error:
            await self._queue.put(error)
        except Exception as failure:
            unknown = unknown_failure()
            log.error("stream failed unexpectedly", error_id=unknown.metadata["error_id"], exc_info=failure)
            await self._queue.put(unknown)
        finally:
            if task is not None:
                self._progress.end(task)

    async def _frames(self) -> AsyncIterator[bytes]:
        yield b": open\n\n"
        while True:
            try:
                async with asyncio.timeout(ALIVE_SECONDS):
                    event = self._head.pop() if self._head else await self._queue.get()
            except TimeoutError:
                yield _ALIVE
                continue
            if isinstance(event, HanseiError):
                event = Event("error", json.dumps(problem_document(event), ensure_ascii=False))
            yield event.encode()
            if event.name != "message":
                return


class _EventResponse(StreamingResponse):
    """A response that ends its call, however it ends itself."""

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
