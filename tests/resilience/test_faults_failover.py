"""A failover of the database under load: the primary is killed, its standby is promoted, and the services follow."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.resilience.load import check_ledger, load, wait_for_recovery
from tests.support import systems
from tests.support.postgres_server import find_postgres_programs_or_skip, postgres_pair


async def test_no_acknowledged_trajectory_is_lost_or_doubled_by_a_failover(tmp_path: Path) -> None:
    with postgres_pair(find_postgres_programs_or_skip()) as pair:
        pair.primary.database("playbooks")
        settings = {"HANSEI_CURATOR_DATABASE_URL": pair.get_url("playbooks")}
        with systems.one_process(tmp_path, **settings) as system:
            async with load(system.address) as callers:
                await callers.progress()
                assert "lost the connection for commit notifications" not in system.log("allinone")
                await asyncio.to_thread(pair.fail_over)
                seconds = await wait_for_recovery(callers)
            check_ledger("primary database killed, standby promoted", system.address, callers.ledger, seconds)
            assert system.processes["allinone"].poll() is None
