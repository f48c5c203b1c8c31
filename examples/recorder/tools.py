"""The agent's tools: git, python, sqlite, http and files. Each really runs and returns its real result."""

import http.client
import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from examples.recorder.workplace import Workplace

SHOWN_HEADERS = ("Location", "Retry-After")
HTTP_SECONDS = 10


@dataclass(frozen=True)
class Observation:
    """The result of a tool: `content` for the agent; `error` is its one-line error, None after a success."""

    content: str
    error: str | None = None


class Toolbox:
    """Tools by name over one workplace. SQLite connections stay open between calls, as in a database shell."""

    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace
        self._connections: dict[str, sqlite3.Connection] = {}
        self._tools: dict[str, Callable[..., Observation]] = {
            "git": self._command,
            "python": self._command,
            "sqlite": self._sqlite,
            "http": self._http,
            "wait": self._wait,
            "read_file": self._read_file,
            "write_file": self._write_file,
        }

    def use(self, tool: str, arguments: Mapping[str, object]) -> Observation:
        """Run one tool with the arguments of a tool call. Raises KeyError for an unknown tool."""
        return self._tools[tool](**arguments)

    def close(self) -> None:
        """Close the open databases; uncommitted changes are rolled back."""
        for connection in self._connections.values():
            connection.close()

    def _command(self, command: str) -> Observation:
        finished = self._workplace.run(command)
        content = f"exit code {finished.exit_code}\n{finished.output}".rstrip()
        return Observation(content, content.splitlines()[-1] if finished.exit_code else None)

    def _sqlite(self, database: str, sql: str) -> Observation:
        connection = self._connections.get(database)
        if connection is None:
            # isolation_level None: BEGIN and COMMIT are the agent's own. timeout 0: a lock is reported at once.
            connection = sqlite3.connect(self._workplace.path(database), timeout=0, isolation_level=None)
            self._connections[database] = connection
        try:
            cursor = connection.execute(sql)
            rows = cursor.fetchall()
        except sqlite3.Error as error:
            text = f"sqlite3.{type(error).__name__}: {error}"
            return Observation(text, text)
        if cursor.description is None:
            return Observation(f"ok, rows changed: {cursor.rowcount}" if cursor.rowcount >= 0 else "ok")
        lines = [" | ".join(column[0] for column in cursor.description)]
        lines += [" | ".join("NULL" if value is None else str(value) for value in row) for row in rows]
        return Observation("\n".join([*lines, f"rows: {len(rows)}"]))

    def _http(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Observation:
        host, port = self._workplace.orders.address
        connection = http.client.HTTPConnection(host, port, timeout=HTTP_SECONDS)
        try:
            payload = None if body is None else json.dumps(body).encode()
            connection.request(method, path, payload, {"Content-Type": "application/json"} if payload else {})
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        headers = [f"{name}: {response.headers[name]}" for name in SHOWN_HEADERS if name in response.headers]
        content = "\n".join([f"HTTP {response.status} {response.reason}", *headers, text])
        error = f"HTTP {response.status}: {json.loads(text)['message']}" if response.status >= 400 else None
        return Observation(content, error)

    def _wait(self, seconds: int) -> Observation:
        # The API's clock is moved instead of sleeping: a recording takes seconds and never depends on timing.
        self._workplace.orders.pass_time(seconds)
        return Observation(f"waited {seconds} s")

    def _read_file(self, path: str) -> Observation:
        try:
            return Observation(self._workplace.path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            text = f"FileNotFoundError: no such file: {path}"
        except UnicodeDecodeError as error:
            text = f"UnicodeDecodeError: {error}"
        return Observation(text, text)

    def _write_file(self, path: str, content: str) -> Observation:
        self._workplace.write(path, content)
        return Observation(f"wrote {path} ({len(content.splitlines())} lines)")
