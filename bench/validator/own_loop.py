"""Client CPU of our correction loop for one report with one reask, in a process of its own like the baseline's."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time

from bench.validator.material import DASHBOARD
from libs.llm.settings import LLMSettings
from services.validator.adapters.report_model import ConfiguredReportModel
from services.validator.domain.dashboard import Brief
from services.validator.domain.kinds import ORGANIZER
from services.validator.usecases.run_reports import run_dashboard_report


async def main() -> None:
    """Prints seconds of CPU per run."""
    base_url, rounds, warm_up = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    logging.disable(logging.CRITICAL)  # the baseline writes no log either
    settings = LLMSettings(openai_base_url=base_url, openai_api_key="k", llm_provider="openai")
    model = ConfiguredReportModel(lambda: settings)
    began = 0.0
    for number in range(warm_up + rounds):
        if number == warm_up:
            began = time.process_time()
        run = await run_dashboard_report(ORGANIZER, Brief(DASHBOARD), model)
        assert run.ok
        assert run.retry_count == 1
    print(json.dumps({"cpu_seconds": (time.process_time() - began) / rounds}))
    await model.close()


if __name__ == "__main__":
    asyncio.run(main())
