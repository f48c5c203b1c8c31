"""An execution ends within its budget for every reply of the model (P-132; the 10,000 cases are elsewhere)."""

from services.planner.tests.model_answers import check, check_replay, execute_by_chance


async def test_an_execution_ends_within_its_budget_and_its_log_is_complete() -> None:
    seen = set()
    for seed in range(150):
        run = await execute_by_chance(seed)
        check(run)
        check_replay(run)
        seen.add((run.result.overall_status.value, run.result.replan_count))
    assert {status for status, _ in seen} == {"success", "partial", "failed", "cancelled"}
    assert {count for _, count in seen} == {0, 1, 2, 3}
