"""Issue: a replanned execution ends within its budget whatever the model answers, in 10,000 generated cases."""

from services.planner.tests.model_answers import check, executed


async def test_ten_thousand_executions_end_within_their_budget() -> None:
    for seed in range(10_000):
        check(*await executed(seed))
