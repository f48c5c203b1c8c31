"""RoundsService: runs rounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from gateway.orchestrator.rounds import Rounds
from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.gateway.v1 import rounds_service_pb2_grpc as grpc_rounds


class RoundsServicer(grpc_rounds.RoundsServiceServicer):
    """Serves rounds."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    async def RunRounds(
        self, request: rounds.RunRoundsRequest, context: Any
    ) -> AsyncIterator[rounds.RunRoundsResponse]:
        """Run the rounds of a request (G-46). A cancelled call ends its teams before it returns."""
        async with aclosing(self._rounds.events(request)) as events:
            async for event in events:
                yield event
