"""A task, an attempt at it, and how an attempt is recorded."""

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
    """The outcome of a task's check: whether it passed, what had to be true, and the evidence that was looked at."""

    passed: bool
    claim: str
    evidence: str

    @property
    def report(self) -> str:
        """The test report of the trajectory."""
        return f"{'passed' if self.passed else 'failed'}: {self.claim}\n{self.evidence}"


@dataclass(frozen=True)
class Task:
    """What is asked, the state it starts from, and the check of the state and the answer afterwards.

    `ground_truth` is contained in every right answer (R-31) and in no wrong one.
    """

    id: str
    query: str
    ground_truth: str
    prepare: Callable[[Workplace], None]
    check: Callable[[Workplace, str], Verdict]
    dataset: str = "devtools"


@dataclass(frozen=True)
class Attempt:
    """One way of going about a task; `act` drives the agent and returns its final answer."""

    id: str
    task: Task
    act: Callable[[Agent], str]


def record(attempt: Attempt, created_at: str) -> Trajectory:
    """Play `attempt` in a fresh workplace and return what happened; the task's check alone decides the status.

    `created_at` is ISO 8601 UTC. Raises ScriptBrokenError when a tool answers otherwise than the script supposes.
    """
    task = attempt.task
    with tempfile.TemporaryDirectory() as root, Workplace(Path(root)) as workplace:
        task.prepare(workplace)
        with closing(Toolbox(workplace)) as toolbox:
            agent = Agent(task.query, toolbox)
            answer = attempt.act(agent)
        agent.says(answer)
        verdict = task.check(workplace, answer)
    return Trajectory(
        id=attempt.id,
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
