"""Answers of an OpenAI-compatible server: the ones of the protocol, and the ones it should never give.

An answer is a function of the request, so a script is a list of answers, or one function that looks at what was asked.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.http_wire import WireResponse

DIMENSION = 8


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to the model: its path below the base URL, headers (names in lower case) and JSON body."""

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def messages(self) -> list[tuple[str, str]]:
        """Role and text of each chat message."""
        return [(message["role"], _text(message.get("content"))) for message in self.body.get("messages", [])]

    @property
    def prompt(self) -> str:
        """Text of the last message."""
        return self.messages[-1][1]

    @property
    def texts(self) -> list[str]:
        """Return the texts to embed."""
        texts = self.body["input"]
        return [texts] if isinstance(texts, str) else list(texts)


Answer = Callable[[ModelRequest], WireResponse]


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""


def json_response(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> WireResponse:
    return WireResponse(status, json.dumps(body).encode(), headers=headers or {})


def chat(
    text: str = "",
    *,
    tool_calls: Sequence[tuple[str, Mapping[str, Any]]] = (),
    finish_reason: str = "",
    usage: object = None,
) -> Answer:
    """Return a chat completion, streamed when the request asks for that. Usage is counted in words unless given."""
    calls = [
        {
            "index": index,
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
        }
        for index, (name, arguments) in enumerate(tool_calls)
    ]
    reason = finish_reason or ("tool_calls" if calls else "stop")

    def answer(request: ModelRequest) -> WireResponse:
        counted = _usage(request, text) if usage is None else usage
        if request.body.get("stream"):
            return _stream_response(request, text, calls, reason, counted)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return json_response(_completion(request, "chat.completion", [choice], counted))

    return answer


def chat_json(value: object, **options: Any) -> Answer:
    """Return a chat completion whose text is `value` as JSON."""
    return chat(json.dumps(value, ensure_ascii=False), **options)


def _completion(request: ModelRequest, kind: str, choices: list[Any], usage: object) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": kind,
        "created": 0,
        "model": request.body.get("model", ""),
        "choices": choices,
        "usage": usage,
    }


def _usage(request: ModelRequest, text: str) -> dict[str, int]:
    sent, received = sum(len(content.split()) for _, content in request.messages), len(text.split())
    return {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received}


def _stream_response(request: ModelRequest, text: str, calls: list[Any], reason: str, usage: object) -> WireResponse:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _pieces(text)]
    deltas += [{"tool_calls": [call]} for call in calls]
    choices: list[list[Any]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": reason}])
    events = [_completion(request, "chat.completion.chunk", choice, None) for choice in choices]
    if (request.body.get("stream_options") or {}).get("include_usage"):
        events.append(_completion(request, "chat.completion.chunk", [], usage))
    lines = [json.dumps(event) for event in events] + ["[DONE]"]
    return WireResponse(
        chunks=tuple(f"data: {line}\n\n".encode() for line in lines), headers={"Content-Type": "text/event-stream"}
    )


def _pieces(text: str) -> list[str]:
    return [text[start : start + 8] for start in range(0, len(text), 8)]


def embeddings(*, vectors: Sequence[Sequence[float]] | None = None, usage: object = None) -> Answer:
    """Return the given vectors, or one of dimension 8 for each text that depends on nothing but the text."""

    def answer(request: ModelRequest) -> WireResponse:
        rows = [vector_of(text) for text in request.texts] if vectors is None else vectors
        packed = request.body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": _base64(row) if packed else list(row)}
            for index, row in enumerate(rows)
        ]
        tokens = sum(len(text.split()) for text in request.texts)
        counted = {"prompt_tokens": tokens, "total_tokens": tokens} if usage is None else usage
        return json_response({"object": "list", "data": data, "model": request.body.get("model", ""), "usage": counted})

    return answer


def vector_of(text: str) -> list[float]:
    """Return a vector of dimension 8 with components in [-1, 1]."""
    digest = hashlib.sha256(text.encode()).digest()
    return [byte / 127.5 - 1 for byte in digest[:DIMENSION]]


def _base64(row: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()


def error(
    status: int, message: str = "scripted", *, code: str | None = None, retry_after: float | str | None = None
) -> Answer:
    """Return an error of the protocol, with Retry-After if given."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    body = {"error": {"message": message, "type": "scripted", "param": None, "code": code}}
    return lambda request: json_response(body, status, headers)


def stall() -> Answer:
    """Never answers; keeps the connection open."""
    return lambda request: WireResponse(stall=True)


def reset() -> Answer:
    """Resets the connection instead of answering."""
    return lambda request: WireResponse(reset=True)


def truncate(whole: Answer) -> Answer:
    """Send half of the answer (of its bytes, or of its stream's events), then close the connection."""

    def answer(request: ModelRequest) -> WireResponse:
        response = whole(request)
        half = (len(response.chunks) or len(response.body)) // 2
        return WireResponse(response.status, response.body, response.chunks, response.headers, cut_after=half)

    return answer


def body(content: bytes, *, content_type: str = "application/json") -> Answer:
    """Status 200 with any content: text that is not JSON, JSON that is not the protocol's."""
    return lambda request: WireResponse(body=content, headers={"Content-Type": content_type})


def empty_choices() -> Answer:
    """Return a chat completion without any choice."""
    return lambda request: json_response(_completion(request, "chat.completion", [], _usage(request, "")))


def without_json_schema(otherwise: Answer) -> Answer:
    """A backend that refuses `response_format`; requests without it get `otherwise`."""
    refuse = error(400, "This server knows no response_format of type json_schema.")
    return lambda request: (refuse if "response_format" in request.body else otherwise)(request)


def without_temperature(otherwise: Answer) -> Answer:
    """A model that refuses a temperature, as reasoning models do; requests without one get `otherwise`."""
    refuse = error(
        400, "Unsupported value: 'temperature' does not support 0 with this model.", code="unsupported_value"
    )
    return lambda request: (refuse if "temperature" in request.body else otherwise)(request)
