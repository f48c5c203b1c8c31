"""What a process imports until it serves: nothing that only some use, and that takes long to import."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import systems

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
    "scipy": "nothing is ranked yet",
    "sqlalchemy.dialects.mysql": "no service speaks it",
    "sudachipy": "no Japanese text came yet",
    "uvicorn": "there is no HTTP",
}
NEEDED = {"search": {"numpy"}, "allinone": {"numpy"}}


def imported(log: str) -> set[str]:
    """The modules that a process says it imported."""
    lines = (line for line in log.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.mark.parametrize("name", [*systems.SERVICES, "allinone"])
def test_a_second_start_imports_nothing_that_is_rarely_needed(name: str, tmp_path: Path) -> None:
    form = systems.one_process(tmp_path, PYTHONPROFILEIMPORTTIME="1") if name == "allinone" else None
    with form or systems.one_service(tmp_path, name, PYTHONPROFILEIMPORTTIME="1") as system:
        assert "grpc" in imported(system.log(name))
        assert system.stop(name) == 0
        before = len(system.log(name))
        system.start(name)
        system.started(name)
        found = imported(system.log(name)[before:])
    found -= NEEDED.get(name, set())
    assert {module: why for module, why in RARELY_NEEDED.items() if module in found} == {}
