"""The scripted agent: states a thought, calls a tool, gets the real result; each becomes a step."""

from examples.recorder.tools import Observation, Toolbox
from examples.recorder.trajectory import Role, Step, ToolCall

AGENT = "scripted-agent"


class ScriptBrokenError(Exception):
    """The result of a tool contradicts the next thought of the script, so the recording would make no sense."""


class Agent:
    """Plays a script and records its `steps`, its `thoughts` and the `error_message` with which it gave up."""

    def __init__(self, query: str, toolbox: Toolbox) -> None:
        self.steps: list[Step] = []
        self.thoughts: list[str] = []
        self.error_message: str | None = None
        self._toolbox = toolbox
        self._last_error: str | None = None
        self._add("user", "user", query)

    def does(self, thought: str, tool: str, /, *, fails: bool = False, **arguments: object) -> Observation:
        """Say `thought`, call `tool` with `arguments` and record both and the result.

        `fails` is the outcome that the script expects. Raises ScriptBrokenError for the other outcome.
        """
        self.thoughts.append(thought)
        call = ToolCall(f"call_{len(self.thoughts)}", tool, arguments)
        self._add("assistant", AGENT, thought, calls=(call,))
        observation = self._toolbox.use(tool, arguments)
        if (observation.error is not None) != fails:
            expected = "fail" if fails else "work"
            raise ScriptBrokenError(f"{tool} {arguments} was expected to {expected}:\n{observation.content}")
        self._add("tool", tool, observation.content, answers=call.id)
        self._last_error = observation.error or self._last_error
        return observation

    def gives_up(self, answer: str) -> str:
        """Return `answer` and record the last error of a tool as the reason of giving up."""
        self.error_message = self._last_error
        return answer

    def says(self, answer: str) -> None:
        """Record the final answer."""
        self._add("assistant", AGENT, answer)

    def _add(self, role: Role, name: str, content: str, *, calls: tuple[ToolCall, ...] = (), answers: str = "") -> None:
        self.steps.append(Step(len(self.steps), role, name, content, calls, answers))
