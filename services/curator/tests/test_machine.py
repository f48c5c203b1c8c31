"""The state machine of a playbook on SQLite."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from services.curator.adapters.sql.repository import SqlPlaybookStore
from services.curator.tests.playbook_machine import PlaybookMachine
from tests.support.campaigns import campaign_size

SEQUENCES = campaign_size(25, 10)


def test_any_sequence_of_edits_gives_what_a_sequential_model_gives() -> None:  # C-19, C-23, C-61, ideas 1 to 4
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'hansei.db'}"

        class OnSqlite(PlaybookMachine):
            def new_store(self) -> SqlPlaybookStore:
                return SqlPlaybookStore(url)

        run_state_machine_as_test(
            OnSqlite,
            settings=settings(
                max_examples=SEQUENCES, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )
