"""A task, a script that works on it, and the recording of the script."""

import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from examples.recorder.agent import Agent
from examples.recorder.tools import Toolbox
from examples.recorder.trajectory import Trajectory
from examples.recorder.workplace import Workplace


@dataclass(frozen=True)
class Verdict:
    """The outcome of a task's check: whether it passed, the checked claim, and the evidence."""

    passed: bool
    claim: str
    evidence: str

    @property
    def report(self) -> str:
        """Return the test report of the trajectory."""
        return f"{'passed' if self.passed else 'failed'}: {self.claim}\n{self.evidence}"


@dataclass(frozen=True)
class Task:
    """A task: the question, the initial state, and the check of the final state and the answer.

    Every right answer contains `ground_truth` (R-31), and no wrong one does.
    """

    id: str
    query: str
    ground_truth: str
    prepare: Callable[[Workplace], None]
    check: Callable[[Workplace, str], Verdict]
    dataset: str = "devtools"


@dataclass(frozen=True)
class Script:
    """One way to work on a task; `act` drives the agent and returns its final answer."""

    id: str
    task: Task
    act: Callable[[Agent], str]


def record(script: Script, created_at: str) -> Trajectory:
    """Play `script` in a fresh workplace and return the trajectory; only the task's check decides the status.

    `created_at` is ISO 8601 UTC. Raises ScriptBrokenError if the result of a tool contradicts the script.
    """
    task = script.task
    with tempfile.TemporaryDirectory() as root, Workplace(Path(root)) as workplace:
        task.prepare(workplace)
        with closing(Toolbox(workplace)) as toolbox:
            agent = Agent(task.query, toolbox)
            answer = script.act(agent)
        agent.says(answer)
        verdict = task.check(workplace, answer)
    return Trajectory(
        id=script.id,
        task_id=task.id,
        dataset=task.dataset,
        query=task.query,
        status="success" if verdict.passed else "failure",
        generated_answer=answer,
        error_message=agent.error_message,
        reasoning_steps=tuple(agent.thoughts),
        used_bullet_ids=(),
        cited_bullet_ids=(),
        created_at=created_at,
        ground_truth=task.ground_truth,
        test_report=verdict.report,
        steps=tuple(agent.steps),
    )
