"""Streams as server-sent events.

Each message is an event `message` whose data is its JSON; `end` follows the last one, `error` has the problem document
of a failed stream. Comments keep proxies from closing an idle connection. A failure before the first message is a
normal response with its status.
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
from chassis.server.progress import CallsInProgress, build_draining_error
from chassis.status import build_unknown_failure
from gateway.http.problems import build_problem_document

MEDIA_TYPE = "text/event-stream"
HEAD_SECONDS = 0.5
"""The response waits so long for the first message, then its status is 200."""
KEEPALIVE_SECONDS = 15.0
_QUEUE_SIZE = 16
_KEEPALIVE = b": alive\n\n"

log = get_logger("hansei.gateway.http")


@dataclass(frozen=True, slots=True)
class Event:
    """One event; its data is JSON without line breaks."""

    name: str
    data: str
    position: int | None = None

    def encode(self) -> bytes:
        """Return the event in the format of `text/event-stream`."""
        lines = [f"id: {self.position}"] if self.position is not None else []
        return "\n".join([*lines, f"event: {self.name}", f"data: {self.data}", "", ""]).encode()


_END = Event("end", "{}")


class EventStream:
    """The events of one call; a task reads them, so that the call has a deadline and can be cancelled.

    `slot` is closed when the call ends. A call without `seconds` is endless: it ends when the server drains.
    """

    def __init__(
        self, events: AsyncIterator[Event], *, seconds: float | None, progress: CallsInProgress, slot: ExitStack
    ) -> None:
        self._events = events
        self._seconds = seconds
        self._progress = progress
        self._slot = slot
        self._queue: asyncio.Queue[Event | HanseiError] = asyncio.Queue(_QUEUE_SIZE)
        self._reader = asyncio.create_task(self._run())
        self._head: list[Event | HanseiError] = []

    async def build_response(self) -> StreamingResponse:
        """Return the response. Raises the error of a call that fails before its first message."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                first = await self._queue.get()
        except TimeoutError:
            pass  # The response starts without a message; an error becomes an event.
        except BaseException:
            await self.close()
            raise
        else:
            if isinstance(first, HanseiError):
                await self.close()
                raise first
            self._head.append(first)
        return _EventResponse(self, self._encode_frames())

    async def close(self) -> None:
        """Cancel the call and release its slot."""
        self._reader.cancel()
        # The error of the call is in its events.
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
            await self._queue.put(build_draining_error())
        except HanseiError as error:
            await self._queue.put(error)
        except Exception as failure:
            internal_error = build_unknown_failure()
            error_id = internal_error.metadata["error_id"]
            log.error("stream failed unexpectedly", error_id=error_id, exc_info=failure)
            await self._queue.put(internal_error)
        finally:
            if task is not None:
                self._progress.end(task)

    async def _encode_frames(self) -> AsyncIterator[bytes]:
        yield b": open\n\n"
        while True:
            try:
                async with asyncio.timeout(KEEPALIVE_SECONDS):
                    event = self._head.pop() if self._head else await self._queue.get()
            except TimeoutError:
                yield _KEEPALIVE
                continue
            if isinstance(event, HanseiError):
                event = Event("error", json.dumps(build_problem_document(event), ensure_ascii=False))
            yield event.encode()
            if event.name != "message":
                return


class _EventResponse(StreamingResponse):
    """A response that always cancels its call at the end."""

    def __init__(self, stream: EventStream, content: AsyncIterator[bytes]) -> None:
        # Without this header nginx buffers events.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, media_type=MEDIA_TYPE, headers=headers)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._stream.close()
