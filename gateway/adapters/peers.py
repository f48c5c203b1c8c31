"""The services behind the gateway, called over the contracts."""

from __future__ import annotations

import grpc

from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.curator.v1 import curator_service_pb2_grpc as grpc_curator
from hansei.planner.v1 import generator_service_pb2 as generator
from hansei.planner.v1 import generator_service_pb2_grpc as grpc_generator
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.playbook.v1 import playbook_service_pb2_grpc as grpc_playbook
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from hansei.reflector.v1 import reflector_service_pb2_grpc as grpc_reflector
from hansei.search.v1 import search_service_pb2 as search
from hansei.search.v1 import search_service_pb2_grpc as grpc_search


class CuratorPeer:
    """The curator and its playbooks."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._curator = grpc_curator.CuratorServiceStub(channel)
        self._playbooks = grpc_playbook.PlaybookServiceStub(channel)

    async def curate(self, request: curator.CurateRequest) -> curator.CurateResponse:
        """C-77."""
        return await self._curator.Curate(request)

    async def curation(self, request: curator.GetCurationRequest) -> curator.GetCurationResponse:
        """A committed curation. Raises NotFound."""
        return await self._curator.GetCuration(request)

    async def bullets(self, request: playbook.ListBulletsRequest) -> playbook.ListBulletsResponse:
        """A page of bullets, with the revision it shows."""
        return await self._playbooks.ListBullets(request)


class ReflectorPeer:
    """The reflector."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._reflector = grpc_reflector.ReflectorServiceStub(channel)

    async def reflect(self, request: reflector.ReflectRequest) -> reflector.ReflectResponse:
        """R-33."""
        return await self._reflector.Reflect(request)


class SearchPeer:
    """The search service."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._search = grpc_search.SearchServiceStub(channel)

    async def search(self, request: search.SearchRequest) -> search.SearchResponse:
        """Ranked bullets of a dataset."""
        return await self._search.Search(request)


class GeneratorPeer:
    """The generator, served by the planner."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._generator = grpc_generator.GeneratorServiceStub(channel)

    async def generate(self, request: generator.GenerateRequest) -> generator.GenerateResponse:
        """P-113."""
        return await self._generator.Generate(request)
