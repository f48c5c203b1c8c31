"""No response of any kind of endpoint has the text of an unexpected error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.protobuf.descriptor import MethodDescriptor

from gateway.adapters.health import ServiceHealth
from gateway.tests.scripted_http import BINDINGS, Peers, client_of, request_arguments

SECRET = "postgresql://hansei:s3cret@db/"
DASHBOARD: dict[str, Any] = {"trays": {"in_progress": []}}


class FailingPeers(Peers):
    """Every method, and the look at the services, fails with an error that nobody foresaw."""

    def get_function(self, method: MethodDescriptor) -> Callable[[Any], Any]:
        async def respond(request: Any) -> bytes:
            raise RuntimeError(SECRET)

        async def many(request: Any) -> AsyncIterator[bytes]:
            raise RuntimeError(SECRET)
            yield b""

        return many if method.server_streaming else respond

    async def list_states(self) -> list[ServiceHealth]:
        raise RuntimeError(SECRET)


KINDS: dict[str, Any] = {
    "workflow": {"method": "POST", "url": "/workflow/run", "json": {"query": "Q"}},
    "organizer": {"method": "POST", "url": "/api/organizer/run", "json": {"dashboard": DASHBOARD}},
    "advisor": {"method": "POST", "url": "/api/advisor/run", "json": {"dashboard": DASHBOARD}},
    "validate": {
        "method": "POST",
        "url": "/api/proposal-quality/validate",
        "json": {"type": "advisor", "report": {}},
    },
    "services": {"method": "GET", "url": "/v1/services"},
} | {f"{binding.verb} {binding.path}": request_arguments(binding) for binding in BINDINGS}


@pytest.mark.parametrize("request_", KINDS.values(), ids=KINDS)
async def test_an_unexpected_error_reveals_no_text(request_: dict[str, Any]) -> None:  # G-25
    async with client_of(FailingPeers()) as client:
        response = await client.request(**request_)
    assert response.status_code == 500
    assert "the log has it under " in response.text
    for part in (SECRET, "s3cret", "postgresql", "RuntimeError"):
        assert part not in response.text
        assert part not in str(response.headers)
