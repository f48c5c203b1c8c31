"""Questions wait for days, and people are notified of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.planner.domain.events import Budget
from services.planner.tests.parts import executor
from services.planner.tests.replicas import PROCEED, MachineClock, asking, question, replica, three, until_quiet
from services.planner.usecases.executions import Executions
from services.planner.usecases.notify import CLAIM_SECONDS, QuestionNotifier

DAYS = 3 * 24 * 3600


@dataclass
class Outbox:
    """The messages that were sent. Each of the first `failures` attempts fails."""

    failures: int = 0
    attempts: list[str] = field(default_factory=list)
    sent: list[Mapping[str, Any]] = field(default_factory=list)

    async def send(self, message_id: str, message: Mapping[str, Any]) -> None:
        self.attempts.append(message_id)
        if len(self.attempts) <= self.failures:
            raise OSError("no route to the receiver")
        self.sent.append(message)


async def start(executions: Executions, **limits: Any) -> str:
    execution_id = await executions.start(three(), Budget(**limits), None)
    assert (await until_quiet(executions, execution_id)).is_paused
    return execution_id


async def test_a_question_waits_as_long_as_the_budget_of_its_execution_says(tmp_path: Path) -> None:
    clock = MachineClock()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        execution_id = await start(executions, max_answer_seconds=DAYS)
        clock.advance(DAYS - 1)
        await executions.sweep_once()
        assert (await executions.state(execution_id)).is_paused
        await executions.answer(execution_id, PROCEED, *await question(executions, execution_id), None)
        assert not (await until_quiet(executions, execution_id)).is_cancelled


async def test_a_question_expires_when_that_time_is_over(tmp_path: Path) -> None:
    clock = MachineClock()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        execution_id = await start(executions, max_answer_seconds=DAYS)
        clock.advance(DAYS)
        await executions.sweep_once()
        assert (await until_quiet(executions, execution_id)).is_cancelled  # P-85


async def test_a_question_is_sent_once(tmp_path: Path) -> None:
    clock, outbox = MachineClock(), Outbox()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        execution_id = await start(executions)
        for notifier in [QuestionNotifier(executions.store, outbox, clock)] * 3:
            await notifier.send_due()
        clock.advance(CLAIM_SECONDS)
        await QuestionNotifier(executions.store, outbox, clock).send_due()
        (message,) = outbox.sent
        token, *_ = await question(executions, execution_id)
    assert message["type"] == "execution.question"
    assert message["data"]["execution_id"] == execution_id
    assert message["data"]["step_id"] == 2
    assert token not in str(message)


async def test_a_question_that_could_not_be_sent_is_sent_later_under_the_same_id(tmp_path: Path) -> None:
    clock, outbox = MachineClock(), Outbox(failures=1)
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        await start(executions)
        notifier = QuestionNotifier(executions.store, outbox, clock)
        await notifier.send_due()
        await notifier.send_due()
        assert (len(outbox.attempts), outbox.sent) == (1, [])
        clock.advance(CLAIM_SECONDS)
        await notifier.send_due()
    first, second = outbox.attempts
    assert (first, len(outbox.sent)) == (second, 1)


async def test_an_answered_question_is_not_sent(tmp_path: Path) -> None:
    clock, outbox = MachineClock(), Outbox()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        execution_id = await start(executions)
        await executions.answer(execution_id, PROCEED, *await question(executions, execution_id), None)
        await until_quiet(executions, execution_id)
        await QuestionNotifier(executions.store, outbox, clock).send_due()
    assert outbox.attempts == []


async def test_information_does_not_send_a_question_again(tmp_path: Path) -> None:
    clock, outbox = MachineClock(), Outbox()
    async with replica(tmp_path / "p.db", executor(asking(), clock=clock), clock=clock) as executions:
        execution_id = await start(executions)
        notifier = QuestionNotifier(executions.store, outbox, clock)
        await notifier.send_due()
        await executions.add_information(execution_id, "It is urgent.", None)
        await notifier.send_due()
    assert len(outbox.sent) == 1
