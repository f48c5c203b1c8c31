"""Gates, and how feedback reaches them through the database (P-76, P-89; issue: thresholds that learn)."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.storage.idempotency import IdempotencyKey
from services.planner.adapters.sql.repository import SqlExecutionStore
from services.planner.domain.calibration import Calibration
from services.planner.domain.confidence import ConfidenceScore
from services.planner.domain.events import StepFinished
from services.planner.domain.fits import fit_calibration
from services.planner.domain.guarantee import ThresholdGuarantee
from services.planner.domain.interventions import parse_answer
from services.planner.domain.results import Hit, ToolResult
from services.planner.domain.thresholds import InterventionLevel, Thresholds
from services.planner.tests.parts import ScriptedTool, agent_plan, agent_step, answer, executor
from services.planner.tests.replicas import question, replica, until_quiet
from services.planner.usecases.executions import Executions, Ownership
from services.planner.usecases.feedback import FeedbackBook
from services.planner.usecases.gates import AdjustedGate, GuaranteedGate
from services.planner.usecases.judge import StepJudge
from services.planner.usecases.ports import AuditEntry, AuditKind, Feedback


def score(value: float) -> ConfidenceScore:
    return ConfidenceScore(score=value)


def make_guarantee() -> ThresholdGuarantee:
    return ThresholdGuarantee(0.1, 0.1)


def proven(draws: float = 0.999, tool: str = "") -> GuaranteedGate:
    """Return a gate that has seen 60 correct results in each band of scores."""
    gate = GuaranteedGate(Thresholds(), make_guarantee, lambda: draws)
    for number in range(480):
        execution_id, value = f"{number:012x}", 0.97 - 0.05 * (number % 8)
        gate.learn_audit(AuditEntry(0, AuditKind.SELECTED, execution_id, 1, tool, value, 1.0, 1.0))
        gate.learn_audit(AuditEntry(0, AuditKind.LABELLED, execution_id, 1))
        gate.learn_audit(AuditEntry(0, AuditKind.ENDED, execution_id))
    return gate


def test_without_a_proven_threshold_every_step_is_asked_about() -> None:
    gate = GuaranteedGate(Thresholds(), make_guarantee)
    for value, level in ((0.999, "confirm"), (0.5, "confirm"), (0.39, "escalate")):
        verdict = gate.decide(score(value))
        assert (verdict.level.value, verdict.audit_probability, verdict.audit_floor) == (level, 1.0, 1.0)


def test_with_a_proven_threshold_a_share_of_steps_is_audited() -> None:
    verdict = proven(draws=0.05).decide(score(0.99))
    assert (verdict.level, verdict.audited) == (InterventionLevel.CONFIRM, True)
    assert verdict.audit_probability == verdict.audit_floor == 0.6  # no step has passed, so there is no credit yet
    passing = proven(draws=0.7).decide(score(0.99))
    assert (passing.level, passing.audited, passing.audit_probability) == (InterventionLevel.SILENT, False, 0.6)


def test_labels_of_one_tool_prove_no_threshold_of_another() -> None:
    gate = proven(tool="web_search")
    assert gate.decide(score(0.99), "web_search").level is InterventionLevel.SILENT
    assert gate.decide(score(0.99), "code_execute").level is InterventionLevel.CONFIRM


def test_the_mode_adjusted_selects_steps_without_a_question() -> None:
    gate = AdjustedGate(Thresholds(), make_guarantee, rng=random.Random(1).random)
    verdicts = [gate.decide(score(0.97)) for _ in range(5_000)]
    assert {verdict.level for verdict in verdicts} == {InterventionLevel.SILENT}
    assert 0.085 <= sum(verdict.audited for verdict in verdicts) / 5_000 <= 0.115
    verdict = gate.decide(score(0.5))
    assert (verdict.level, verdict.audit_probability, verdict.audited) == (
        InterventionLevel.CONFIRM,
        1.0,
        False,
    )


def test_the_thresholds_of_a_gate_follow_from_its_proof() -> None:
    assert proven().thresholds == Thresholds(0.9, 0.6, 0.4)
    assert GuaranteedGate(Thresholds(), make_guarantee).thresholds.notify > 0.999


async def test_feedback_of_one_replica_changes_the_decisions_of_all(tmp_path: Path) -> None:  # P-76
    books = []
    stores = [SqlExecutionStore(str(tmp_path / "p.db")) for _ in range(2)]
    for store in stores:
        await store.database.open()
        executions = Executions(store, executor(), Ownership("x"))
        books.append(FeedbackBook(store, AdjustedGate(Thresholds()), executions))
    before = books[1].gate.decide(score(0.72)).level
    for i in range(10):
        request = IdempotencyKey(f"r{i}", "Method", bytes(32))
        moved = await books[0].submit(0.8, False, "", 0, request)
        assert moved is (i == 9)
        assert not await books[0].submit(0.8, False, "", 0, request)  # a replay counts nothing
    assert books[0].records == 10
    await books[1].catch_up()
    assert (before, books[1].gate.decide(score(0.72)).level) == (InterventionLevel.NOTIFY, InterventionLevel.CONFIRM)
    assert books[1].gate.calibration.kind == "none"  # ten labels of one kind
    for store in stores:
        await store.database.close()


async def test_every_decision_is_stored_with_its_inputs(tmp_path: Path) -> None:
    """Score, features, thresholds, and the probability with which it was audited; read back from the database."""
    decided = {}
    gates = {"adjusted": AdjustedGate(Thresholds(), audit_rate=0.0), "guaranteed": proven(0.05, "web_search")}
    for name, gate in gates.items():
        hits = ToolResult(success=True, output=(Hit(content="x", source="s", score=0.97),))
        made = executor(ScriptedTool({"s1": hits}, name="web_search"), judge=StepJudge(gate))
        async with replica(tmp_path / f"{name}.db", made) as executions:
            execution_id = await executions.start(agent_plan(agent_step(1, action="web_search")), None, None)
            await until_quiet(executions, execution_id)
        async with replica(tmp_path / f"{name}.db", made) as executions:
            log = await executions.read_log(execution_id)
        (decided[name],) = [r.event for r in log if isinstance(r.event, StepFinished)]
    for event in decided.values():
        factors = event.confidence.factors
        assert factors is not None
        assert (factors.search_max_score, factors.search_result_count) == (0.97, 1)
        assert event.confidence.score == 0.977  # P-65: (0.5 · 0.97 + 0.15 · 1) / 0.65
        assert event.confidence.breakdown["search_quality"] == pytest.approx(0.97)
    adjusted, guaranteed = decided["adjusted"], decided["guaranteed"]
    assert (adjusted.thresholds, adjusted.audit_probability, adjusted.audited) == ((0.9, 0.7, 0.4), 0.0, False)
    assert (guaranteed.thresholds, guaranteed.audit_probability) == ((0.9, 0.6, 0.4), 0.6)
    assert (guaranteed.audited, guaranteed.audit_floor, guaranteed.tool) == (True, 0.6, "web_search")


async def test_answers_and_feedback_are_labels_in_the_order_of_the_decisions(tmp_path: Path) -> None:
    gate = GuaranteedGate(Thresholds(), make_guarantee)
    store = SqlExecutionStore(str(tmp_path / "p.db"))
    await store.database.open()
    made = executor(ScriptedTool({"s1": answer("x", 0.97)}), judge=StepJudge(gate))
    executions = Executions(store, made, Ownership("x", poll_seconds=0.01))
    await executions.open()
    book = FeedbackBook(store, gate, executions)
    ids = []
    for _ in range(2):
        ids.append(await executions.start(agent_plan(agent_step(1)), None, None))
        await until_quiet(executions, ids[-1])
    await executions.answer(ids[1], parse_answer("proceed"), *await question(executions, ids[1]), None)
    await until_quiet(executions, ids[1])
    await book.submit(None, False, ids[0], 1, None)
    await book.submit(None, True, ids[0], 1, None)  # the first label stays
    await executions.cancel(ids[0], "", None)
    await until_quiet(executions, ids[0])
    await book.catch_up()
    (queue,) = gate.queues.values()
    assert (queue.selected, queue.labelled, queue.waiting, queue.missing) == (2, 2, 0, 0)
    entries = [(e.kind, ids.index(e.execution_id), e.wrong) for e in await store.list_audits()]
    assert entries == [
        (AuditKind.SELECTED, 0, False),
        (AuditKind.SELECTED, 1, False),
        (AuditKind.LABELLED, 1, False),
        (AuditKind.ENDED, 1, False),
        (AuditKind.LABELLED, 0, True),
        (AuditKind.LABELLED, 0, False),
        (AuditKind.ENDED, 0, False),
    ]
    assert [f.confidence for _, f in await store.list_feedback()] == [0.97, 0.97]
    await executions.close()
    await store.database.close()


def test_the_same_record_calibrates_both_gates() -> None:
    for gate in (AdjustedGate(Thresholds()), proven()):
        rng = random.Random(1)
        for _ in range(100):
            value = rng.random()
            gate.learn(Feedback(value, rng.random() < value))
        assert gate.calibration.kind != "none"
        found = gate.decide(score(0.9)).calibrated
        assert found is not None
        assert 0.6 < found < 1


def test_a_calibration_is_fitted_once_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[int] = []

    def fit_and_record(scores: Sequence[float], correct: Sequence[bool]) -> Calibration:
        fitted.append(len(scores))
        return fit_calibration(scores, correct)

    monkeypatch.setattr("services.planner.domain.fits.fit_calibration", fit_and_record)
    gate, rng = AdjustedGate(Thresholds()), random.Random(1)
    for _ in range(5_047):
        value = rng.random()
        gate.learn(Feedback(value, rng.random() < value))
    assert fitted == []
    assert gate.calibration is gate.calibration
    assert gate.decide(score(0.9)).calibrated is not None
    assert fitted == [5_000]  # of the records up to the latest tenth one
