"""A server with scripted replies that speaks two protocols: Messages of Anthropic, and Responses of OpenAI.

A reply is a text, or a call as a pair of tool and arguments; arguments that are a text are sent as they are. The number
of tool results in a request determines which reply is sent, so that repeated requests get the same one. Replies are
streamed, or sent as a whole.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = str | tuple[str, Mapping[str, Any] | str]
Events = list[tuple[str, dict[str, Any]]]


@dataclass
class AgentModel:
    """The replies of a model, and the requests that it received."""

    replies: Sequence[Reply] = ()
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)

    def choose_reply(self, number: int) -> Reply:
        """Return the reply after a number of tool results; the last one is repeated."""
        return self.replies[min(number, len(self.replies) - 1)]


@contextmanager
def serve_agent_model() -> Iterator[AgentModel]:
    """Serve a model until the block ends; its replies may be set between the sessions of an agent."""
    model = AgentModel()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self._send("application/json", b'{"data": [], "models": []}')

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            events: Events = []
            if "messages" in body and "count_tokens" not in self.path:
                events = _write_message(model, body)
            elif "input" in body:
                events = _write_response(model, body)
            if not events:
                return self._send("application/json", b'{"input_tokens": 1}')
            model.requests.append(body)
            if not body.get("stream"):
                return self._send("application/json", json.dumps(_join_events(events)).encode())
            lines = (f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n" for kind, data in events)
            return self._send("text/event-stream", "".join(lines).encode())

        def _send(self, kind: str, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        model.url = f"http://127.0.0.1:{server.server_port}"
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _join_events(events: Events) -> dict[str, Any]:
    """Return the whole reply whose events these are."""
    first, last = events[0][1], events[-1][1]
    if "response" in last:
        return dict(last["response"])
    block, delta = events[1][1]["content_block"], events[2][1]["delta"]
    text = {"text": delta["text"]} if "text" in delta else {"input": json.loads(delta["partial_json"])}
    return {**first["message"], "content": [{**block, **text}], "stop_reason": events[4][1]["delta"]["stop_reason"]}


def _encode_arguments(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _write_message(model: AgentModel, body: dict[str, Any]) -> Events:
    """Return the events of a reply in the Messages protocol; a request without tools gets a title."""
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    number = sum(block["type"] == "tool_result" for content in contents for block in content)
    reply = model.choose_reply(number) if body.get("tools") else "A title"
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    usage = {"input_tokens": 1, "output_tokens": 1}
    start = {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}
    if isinstance(reply, str):
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": reply}
    else:
        name, arguments = reply
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": _encode_arguments(arguments)}
    reason = "end_turn" if isinstance(reply, str) else "tool_use"
    return [
        ("message_start", {"message": start}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 1}}),
        ("message_stop", {}),
    ]


def _write_response(model: AgentModel, body: dict[str, Any]) -> Events:
    """Return the events of a reply in the Responses protocol."""
    number = sum(item.get("type", "").endswith("_call_output") for item in body["input"])
    reply = model.choose_reply(number)
    if isinstance(reply, str):
        content = [{"type": "output_text", "text": reply, "annotations": []}]
        item: dict[str, Any] = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
    elif isinstance(reply[1], Mapping) and isinstance(reply[1].get("input"), str):
        item = {"type": "custom_tool_call", "id": f"ctc_{number}", "name": reply[0], "input": reply[1]["input"]}
    else:
        arguments = _encode_arguments(reply[1])
        item = {"type": "function_call", "id": f"fc_{number}", "name": reply[0], "arguments": arguments}
    item |= {"status": "completed"} | ({} if isinstance(reply, str) else {"call_id": f"call_{number}"})
    response = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": body["model"], "output": []}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details}
    return [
        ("response.created", {"response": {**response, "status": "in_progress"}}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": {**response, "status": "completed", "output": [item], "usage": usage}}),
    ]
