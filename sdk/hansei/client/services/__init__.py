"""The services of the contract: one class for each service, one line for each RPC.

A method takes the fields of its request as keyword arguments and returns the response message of the contract. Its name
is the RPC's in snake case, without the noun that the class already names. A mutation gets a new `request_id` unless the
caller passes one. A contract test compares these modules with the protos.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic

from hansei.client.calls import M

if TYPE_CHECKING:
    from hansei.client.services.curator import CuratorServiceClient
    from hansei.client.services.evidence import (
        ArchiveServiceClient,
        EvidenceServiceClient,
        GuardServiceClient,
        OverviewServiceClient,
    )
    from hansei.client.services.gateway import (
        AccessServiceClient,
        BulkServiceClient,
        GatewayServiceClient,
        RoundsServiceClient,
    )
    from hansei.client.services.planner import GeneratorServiceClient, PlannerServiceClient, ToolServiceClient
    from hansei.client.services.playbook import PlaybookServiceClient
    from hansei.client.services.reflector import ReflectorServiceClient
    from hansei.client.services.search import CollectionServiceClient, SearchServiceClient
    from hansei.client.services.validator import (
        EvaluatorServiceClient,
        LeaderboardServiceClient,
        ValidatorServiceClient,
    )

PACKAGES = ("curator", "evidence", "gateway", "planner", "playbook", "reflector", "search", "validator")
"""The packages of the contract, each with a module here."""


def load_contract() -> None:
    """Import the messages of all services: the contract is then whole in the pool of descriptors."""
    for package in PACKAGES:
        import_module(f"{__name__}.{package}")


class _LazyService:
    """A service of a client, whose messages are imported when it is used first: each call needs only a few of them."""

    def __init__(self, path: str) -> None:
        self._package, _, self._class_name = path.partition(".")

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, client: AllServices[Any] | None, owner: type) -> Any:
        if client is None:
            return self
        service = getattr(import_module(f"{__name__}.{self._package}"), self._class_name)(client._channel)
        client.__dict__[self._name] = service
        return service


def _load(path: str) -> Any:
    """Return the service `PACKAGE.CLASS`, which loads when it is used."""
    return _LazyService(path)


class AllServices(Generic[M]):
    """The services on one channel, which the clients have as attributes."""

    gateway: GatewayServiceClient[M] = _load("gateway.GatewayServiceClient")
    access: AccessServiceClient[M] = _load("gateway.AccessServiceClient")
    rounds: RoundsServiceClient[M] = _load("gateway.RoundsServiceClient")
    jobs: BulkServiceClient[M] = _load("gateway.BulkServiceClient")
    playbooks: PlaybookServiceClient[M] = _load("playbook.PlaybookServiceClient")
    curator: CuratorServiceClient[M] = _load("curator.CuratorServiceClient")
    reflector: ReflectorServiceClient[M] = _load("reflector.ReflectorServiceClient")
    index: SearchServiceClient[M] = _load("search.SearchServiceClient")
    collections: CollectionServiceClient[M] = _load("search.CollectionServiceClient")
    generator: GeneratorServiceClient[M] = _load("planner.GeneratorServiceClient")
    planner: PlannerServiceClient[M] = _load("planner.PlannerServiceClient")
    tools: ToolServiceClient[M] = _load("planner.ToolServiceClient")
    validator: ValidatorServiceClient[M] = _load("validator.ValidatorServiceClient")
    evaluator: EvaluatorServiceClient[M] = _load("validator.EvaluatorServiceClient")
    leaderboard: LeaderboardServiceClient[M] = _load("validator.LeaderboardServiceClient")
    evidence: EvidenceServiceClient[M] = _load("evidence.EvidenceServiceClient")
    archive: ArchiveServiceClient[M] = _load("evidence.ArchiveServiceClient")
    guards: GuardServiceClient[M] = _load("evidence.GuardServiceClient")
    overview: OverviewServiceClient[M] = _load("evidence.OverviewServiceClient")

    def __init__(self, address: str, channel: Any) -> None:
        self.address = address
        self._channel = channel
