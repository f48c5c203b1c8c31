"""An empty system for tests of bulk learning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.bulk.tests.bulk_system import BulkSystem


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[BulkSystem]:
    opened = BulkSystem(tmp_path)
    await opened.database.open()
    yield opened
    await opened.database.close()
