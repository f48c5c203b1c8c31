"""Serves ReflectorService, which is stateless (R-33, R-38)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hansei.reflector.v1 import reflector_service_pb2 as pb
from hansei.reflector.v1 import reflector_service_pb2_grpc as rpc
from libs.llm.usage import collect_usage, encode_usage
from services.reflector.domain.recorded_trajectory import Format, TrajectoryFile
from services.reflector.rpc.convert import encode_file, encode_result, parse_format, parse_request
from services.reflector.usecases.ports import Reflector

ReadTrajectories = Callable[[bytes, str, Format | None], TrajectoryFile]
"""A function that reads a file for a dataset; the format None means that it is detected."""


_SMALL_BYTES = 64_000
"""A request of at most this size is converted on the event loop: a thread would cost more than the conversion."""


class ReflectorServicer(rpc.ReflectorServiceServicer):
    """Reflects on trajectories and parses files.

    Large messages, up to 10 MB, are converted in a thread, so that the event loop is not blocked.
    """

    def __init__(self, reflector: Reflector, read_trajectories: ReadTrajectories) -> None:
        self._reflector = reflector
        self._read_trajectories = read_trajectories

    async def Reflect(self, request: pb.ReflectRequest, context: Any) -> pb.ReflectResponse:
        """Reflect on one trajectory."""
        is_small = request.ByteSize() <= _SMALL_BYTES
        reflection_request = parse_request(request) if is_small else await asyncio.to_thread(parse_request, request)
        with collect_usage() as usage:
            result = await self._reflector.run(reflection_request)
        return pb.ReflectResponse(result=encode_result(result), usage=encode_usage(usage))

    async def ParseTrajectories(
        self, request: pb.ParseTrajectoriesRequest, context: Any
    ) -> pb.ParseTrajectoriesResponse:
        """Parse a trajectory file of any supported format."""
        return await asyncio.to_thread(self._parse_file, request)

    def _parse_file(self, request: pb.ParseTrajectoriesRequest) -> pb.ParseTrajectoriesResponse:
        return encode_file(self._read_trajectories(request.content, request.dataset, parse_format(request.format)))
