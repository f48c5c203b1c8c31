"""A scripted coding agent: 60 tasks in which it makes one of six kinds of mistake, and repairs it.

The tools decide by their own rules which call fails; a call that a guard stops is wrong only if its tool refuses it. In
the hard world, the agent reads another file before an edit, and a readme exists that no listing names, which nobody can
know from the first trajectories.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from chassis.targets.session import ToolCallRequest
from libs.guards.guard_trajectory import GuardTrajectory, TrajectoryCall, TrajectoryMessage

KINDS = ("identity", "level", "limit", "path", "version", "unread")
TASKS_OF_A_KIND = 10
LEVELS = ("unit", "integration", "all")
MAX_LINES = 2_000
README = "README.md"


@dataclass
class Workshop:
    """The tools of the agent and their state."""

    random: random.Random
    files: list[str] = field(default_factory=list)
    events: list[TrajectoryMessage | TrajectoryCall] = field(default_factory=list)
    has_identity: bool = False
    opened: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        names = self.random.sample(("parser", "lexer", "cache", "router", "store", "queue", "auth", "feed"), 5)
        self.files = [f"{self.random.choice(('src', 'lib', 'app'))}/{name}.py" for name in names]

    def call(self, tool: str, /, **arguments: Any) -> bool:
        """Make a call; return whether it succeeded."""
        error, result = self._answer(tool, arguments)
        call = TrajectoryCall(len(self.events), ToolCallRequest(tool, arguments), error or result, error)
        self.events.append(call)
        return not error

    def _answer(self, tool: str, arguments: dict[str, Any]) -> tuple[str, Any]:
        if tool == "list_files":
            return "", {"files": self.files}
        if tool in ("read_file", "edit_file") and arguments["path"] not in (*self.files, README):
            return f"Error: no such file: {arguments['path']}", None
        if tool == "read_file":
            if arguments["lines"] > MAX_LINES:
                return f"Error: lines must be at most {MAX_LINES:,}, not {arguments['lines']}", None
            self.opened.add(arguments["path"])
            return "", {"content": "…"}
        if tool == "edit_file":
            is_read = arguments["path"] in self.opened
            return ("", "edited") if is_read else ("Error: read the file before you edit it", None)
        if tool == "run_tests":
            is_known = arguments["level"] in LEVELS
            return ("", "passed") if is_known else (f"Error: level must be one of: {', '.join(LEVELS)}", None)
        if tool == "install":
            is_there = arguments["version"].startswith("2.")
            return ("", "installed") if is_there else (f"Error: no version {arguments['version']} was found", None)
        if tool == "set_identity":
            self.has_identity = True
            return "", "ok"
        return ("", "done") if self.has_identity else ("fatal: author identity unknown", None)


def build_trajectory(kind: str, number: int, *, is_hard: bool, seed: int = 0) -> GuardTrajectory:
    """Return the trajectory of a task of a kind, in which the agent makes the mistake and repairs it."""
    shop = Workshop(random.Random(f"{seed}/{kind}/{number}"))
    shop.events.append(TrajectoryMessage(0, "user", f"Please fix issue {number} and commit."))
    if kind == "path":
        shop.call("read_file", path=f"src/helpers_{number}.py", lines=200)
    is_hard = is_hard and number >= TASKS_OF_A_KIND // 2
    if is_hard and shop.random.random() < 0.1:
        shop.call("read_file", path=README, lines=100)
    shop.call("list_files")
    path = shop.random.choice(shop.files)
    if kind == "unread":
        if is_hard and shop.random.random() < 0.5:
            shop.call("read_file", path=next(file for file in shop.files if file != path), lines=200)
        shop.call("edit_file", path=path, text="x")
    if kind == "limit":
        shop.call("read_file", path=path, lines=shop.random.choice((2_500, 5_000, 10_000)))
    shop.call("read_file", path=path, lines=shop.random.choice((100, 400, MAX_LINES)))
    # The same edit again: what was read in between is the repair.
    shop.call("edit_file", path=path, text="x" if kind == "unread" else f"fix {number}")
    if kind == "version":
        for _ in range(3):
            shop.call("install", package="pytest", version=f"9.{number}")
    if kind == "version" or shop.random.random() < 0.5:
        shop.call("install", package="pytest", version=f"2.{number}")
    if kind == "level":
        shop.call("run_tests", level=shop.random.choice(("fast", "quick", "full")))
    for _ in range(shop.random.randint(1, 2)):
        shop.call("run_tests", level=shop.random.choice(LEVELS))
    if kind == "identity":
        shop.call("commit", message=f"Fix {number}")
    shop.call("set_identity", name="Ann")
    shop.call("commit", message=f"Fix {number}")
    return GuardTrajectory(f"{kind}-{number}", f"{kind}-{number}", True, tuple(shop.events))
