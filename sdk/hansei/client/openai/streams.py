"""Record streamed replies while the caller reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

from hansei.client.recording import RecordedCall, RecordedMessage, Recording


class Wrapper:
    """Wrap a part of OpenAI's client; attributes that the wrapper lacks are those of the part."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _StreamRecorder(Wrapper):
    """Join the chunks of a reply, and record the reply once, however the stream ends."""

    _record_chunks: Callable[[], Any]

    def __init__(self, stream: Any, recording: Recording) -> None:
        super().__init__(stream)
        self._recording: Recording | None = recording
        self._text: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._chunks = self._record_chunks()

    def _add(self, chunk: Any) -> None:
        for choice in chunk.choices:
            if choice.index:
                continue  # the trajectory has the first of several replies
            self._text.append(choice.delta.content or "")
            for piece in choice.delta.tool_calls or ():
                call = self._calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
                call["id"] = piece.id or call["id"]
                if piece.function is not None:
                    call["name"] += piece.function.name or ""
                    call["arguments"] += piece.function.arguments or ""

    def _record(self) -> None:
        recording, self._recording = self._recording, None
        calls = tuple(RecordedCall(**self._calls[index]) for index in sorted(self._calls))
        text = "".join(self._text)
        if recording is not None and (text or calls):
            recording.add_message(RecordedMessage("assistant", text, calls=calls))


class RecordedStream(_StreamRecorder):
    """A stream of chunks that is recorded when it ends or is closed."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._chunks)

    def _record_chunks(self) -> Iterator[Any]:
        try:
            for chunk in self._inner:
                self._add(chunk)
                yield chunk
        finally:
            self._record()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Record the chunks so far and close the connection."""
        self._record()
        self._inner.close()


class AsyncRecordedStream(_StreamRecorder):
    """An async stream of chunks that is recorded when it ends or is closed."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        return await anext(self._chunks)

    async def _record_chunks(self) -> AsyncIterator[Any]:
        try:
            async for chunk in self._inner:
                self._add(chunk)
                yield chunk
        finally:
            self._record()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Record the chunks so far and close the connection."""
        self._record()
        await self._inner.close()
