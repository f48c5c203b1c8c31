"""An empty desk for tests of bulk learning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.bulk.tests.desk import Desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    opened = Desk(tmp_path)
    await opened.database.open()
    yield opened
    await opened.database.close()
