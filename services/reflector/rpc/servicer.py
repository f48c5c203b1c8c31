"""ReflectorService: runs come in, lessons and votes go out; nothing is kept (R-33, R-38)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hansei.reflector.v1 import reflector_service_pb2 as pb
from hansei.reflector.v1 import reflector_service_pb2_grpc as rpc
from services.reflector.domain.recorded_run import Format, TrajectoryFile
from services.reflector.rpc.convert import file_message, format_from, request_from, result_message
from services.reflector.usecases.ports import Reflector

ReadTrajectories = Callable[[bytes, str, Format | None], TrajectoryFile]
"""Reads a file for a dataset in a format, None to tell the format by the content."""


class ReflectorServicer(rpc.ReflectorServiceServicer):
    """Reflects with a reflector and reads files.

    A run may have 10 MB, so messages are converted in a thread and the event loop stays free.
    """

    def __init__(self, reflector: Reflector, read_trajectories: ReadTrajectories) -> None:
        self._reflector = reflector
        self._read_trajectories = read_trajectories

    async def Reflect(self, request: pb.ReflectRequest, context: Any) -> pb.ReflectResponse:
        """Draws lessons from one run and votes on the bullets it used."""
        asked = await asyncio.to_thread(request_from, request)
        return pb.ReflectResponse(result=result_message(await self._reflector.run(asked)))

    async def ParseTrajectories(
        self, request: pb.ParseTrajectoriesRequest, context: Any
    ) -> pb.ParseTrajectoriesResponse:
        """Reads trajectories from a file of any format the service knows."""
        return await asyncio.to_thread(self._parsed, request)

    def _parsed(self, request: pb.ParseTrajectoriesRequest) -> pb.ParseTrajectoriesResponse:
        return file_message(self._read_trajectories(request.content, request.dataset, format_from(request.format)))
