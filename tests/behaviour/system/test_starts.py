"""A process that starts imports no module that few processes use and that takes long to import."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support import systems

RARELY_NEEDED = {
    "alembic": "the schema is the newest",
    "celpy": "no report kind was registered",
    "cryptography": "there is no TLS and no issuer of tokens",
    "fastapi": "there is no HTTP",
    "httpx": "nobody is asked over HTTP",
    "jsonschema": "no report kind was registered",
    "langchain_core": "there is no model",
    "numba": "its loops are compiled later",
    "numpy": "no vectors are compared yet",
    "onnxruntime": "texts are embedded without it",
    "openai": "there is no model",
    "opentelemetry.sdk.metrics": "nobody reads metrics",
    "psycopg": "there is no PostgreSQL",
    "qdrant_client": "there is no Qdrant",
    "sqlalchemy.dialects.mysql": "no service speaks it",
    "sudachipy": "no Japanese text came yet",
    "uvicorn": "there is no HTTP",
}
NEEDED = {"curator": {"numpy"}, "search": {"numpy"}, "evidence": {"numpy"}, "allinone": {"numpy"}}


def imported_modules(log: str) -> set[str]:
    """Return the modules that a process has logged as imported."""
    lines = (line for line in log.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.mark.parametrize("name", [*systems.SERVICES, "allinone"])
def test_a_second_start_imports_nothing_that_is_rarely_needed(name: str, tmp_path: Path) -> None:
    with start_process(name, tmp_path) as first:
        assert first.stop(name) == 0  # its databases have the newest schema
    with start_process(name, tmp_path, PYTHONPROFILEIMPORTTIME="1") as second:
        found = imported_modules(second.log(name))
        assert second.stop(name) == 0
    assert "grpc" in found
    found -= NEEDED.get(name, set())
    assert {module: why for module, why in RARELY_NEEDED.items() if module in found} == {}


def start_process(name: str, data: Path, **environment: str) -> AbstractContextManager[systems.System]:
    """Run the process of a service, or of all of them, on the databases of an earlier one."""
    if name == "allinone":
        return systems.one_process(data, **environment)
    return systems.one_service(data, name, **environment)
