"""A small HTTP API for orders on a loopback port: real sockets, real status codes, a clock that is set by hand."""

import json
import math
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

PAGE_SIZE = 5
MAX_BODY_BYTES = 16_384
INVOICES_PER_WINDOW = 2
WINDOW_SECONDS = 10.0
# RFC 9110's name; http.server's own depends on the version of Python.
PHRASES = {422: "Unprocessable Content"}
CURRENCIES = ("EUR", "JPY", "USD")
ORDER_PATH = re.compile(r"/v1/orders/(?P<id>[^/]+)(?P<invoice>/invoice)?")


@dataclass(frozen=True)
class Order:
    """One order; `total` is in whole units of `currency`, `version` grows with every change."""

    id: str
    number: str
    customer: str
    currency: str
    total: int
    status: str = "open"
    note: str = ""
    version: int = 1

    def as_json(self) -> dict[str, object]:
        """Return the fields that are set."""
        return {key: value for key, value in vars(self).items() if value != ""}


@dataclass(frozen=True)
class Reply:
    """An HTTP reply: status, JSON body, extra headers."""

    status: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(status: int, code: str, message: str, headers: Mapping[str, str] | None = None, **details: object) -> Reply:
    """Return the API's error reply: `{"error", "message", …}`."""
    return Reply(status, {"error": code, "message": message, **details}, headers or {})


class OrdersApi:
    """The orders, the rules, and the server on 127.0.0.1."""

    def __init__(self) -> None:
        self.orders: dict[str, Order] = {}
        self._now = 0.0
        self._window_ends = 0.0
        self._invoices_in_window = 0
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Return host and port. Raises RuntimeError before `start`."""
        if self._server is None:
            raise RuntimeError("the orders API is not started")
        return "127.0.0.1", self._server.server_port

    def start(self) -> None:
        """Serve on a free loopback port, in a thread of its own."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and free the port."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def pass_time(self, seconds: float) -> None:
        """Move the API's clock forward."""
        self._now += seconds

    def add(self, *orders: Order) -> None:
        """Put orders into the shop."""
        self.orders.update({order.id: order for order in orders})

    def reply(self, method: str, target: str, body: Mapping[str, object]) -> Reply:
        """Return the reply to one request; `target` is path and query."""
        url = urlsplit(target)
        if url.path == "/v1/orders":
            return self._create(body) if method == "POST" else self._list(dict(parse_qsl(url.query)))
        match = ORDER_PATH.fullmatch(url.path)
        if match is None:
            return refusal(404, "not_found", f"no such path: {url.path}; orders are under /v1/orders")
        order = self.orders.get(match["id"])
        if order is None:
            return refusal(404, "not_found", f"no order with id {match['id']!r}; ids look like 'ord_1001'")
        if match["invoice"]:
            return self._invoice(order)
        return self._update_order(order, body) if method == "PATCH" else Reply(200, order.as_json())

    def _list(self, query: Mapping[str, str]) -> Reply:
        unknown = sorted(set(query) - {"status", "number", "cursor", "page_size"})
        if unknown:
            allowed = "status, number, cursor, page_size"
            return refusal(422, "unknown_parameter", f"unknown parameter {unknown[0]!r}; known: {allowed}")
        size = query.get("page_size", str(PAGE_SIZE))
        if not size.isdecimal() or not 1 <= int(size) <= PAGE_SIZE:
            return refusal(422, "invalid_parameter", f"page_size must be between 1 and {PAGE_SIZE}, got {size!r}")
        found = [
            order
            for order in self.orders.values()
            if query.get("status", order.status) == order.status
            and query.get("number", order.number) == order.number
            and order.id > query.get("cursor", "")
        ]
        page = found[: int(size)]
        cursor = page[-1].id if len(found) > len(page) else None
        return Reply(200, {"items": [order.as_json() for order in page], "next_cursor": cursor})

    def _create(self, body: Mapping[str, object]) -> Reply:
        problems = [f"{name} is required" for name in ("number", "customer", "total", "currency") if name not in body]
        total = body.get("total", 1)
        if not isinstance(total, int) or total < 1:
            problems.append(f"total must be a whole number of at least 1, got {total!r}")
        if body.get("currency", "EUR") not in CURRENCIES:
            problems.append(f"currency must be one of {', '.join(CURRENCIES)}, got {body['currency']!r}")
        if problems or not isinstance(total, int):
            return refusal(422, "invalid_order", "; ".join(problems))
        number = str(body["number"])
        if any(order.number == number for order in self.orders.values()):
            free = 1 + max(int(order.number.removeprefix("PO-")) for order in self.orders.values())
            return refusal(409, "number_taken", f"order number {number} is taken", next_free_number=f"PO-{free}")
        order = Order(f"ord_{1001 + len(self.orders)}", number, str(body["customer"]), str(body["currency"]), total)
        self.add(order)
        return Reply(201, order.as_json(), {"Location": f"/v1/orders/{order.id}"})

    def _update_order(self, order: Order, body: Mapping[str, object]) -> Reply:
        sent = body.get("version")
        if sent != order.version:
            message = f"{order.id} is at version {order.version}, you sent {sent}; read it again and repeat your change"
            return refusal(409, "version_conflict", message)
        changed = replace(order, note=str(body.get("note", order.note)), version=order.version + 1)
        self.add(changed)
        return Reply(200, changed.as_json())

    def _invoice(self, order: Order) -> Reply:
        if self._now >= self._window_ends:
            self._window_ends = self._now + WINDOW_SECONDS
            self._invoices_in_window = 0
        if self._invoices_in_window >= INVOICES_PER_WINDOW:
            seconds = math.ceil(self._window_ends - self._now)
            message = f"at most {INVOICES_PER_WINDOW} invoices per {WINDOW_SECONDS:.0f} s; try again in {seconds} s"
            return refusal(429, "too_many_requests", message, {"Retry-After": str(seconds)})
        self._invoices_in_window += 1
        return Reply(200, {"order": order.id, "amount_due": order.total, "currency": order.currency})


def _handler_for(api: OrdersApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _respond(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if length > MAX_BODY_BYTES:
                reply = refusal(413, "too_large", f"body must be at most {MAX_BODY_BYTES} bytes")
            else:
                body = json.loads(self.rfile.read(length) or b"{}")
                reply = api.reply(self.command, self.path, body)
            payload = json.dumps(reply.body, ensure_ascii=False).encode()
            self.send_response(reply.status, PHRASES.get(reply.status))
            for name, value in {**reply.headers, "Content-Length": str(len(payload))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_PATCH = _respond  # noqa: N815 (the names http.server looks for)

        def log_message(self, format: str, *args: object) -> None:
            """Suppress the server's log."""

    return Handler
