"""The services behind the gateway as the chains call them: a method of the contract under the name of a port."""

from __future__ import annotations

from typing import Any

import grpc

from hansei.curator.v1.curator_service_pb2_grpc import CuratorServiceStub
from hansei.planner.v1.generator_service_pb2_grpc import GeneratorServiceStub
from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceStub
from hansei.reflector.v1.reflector_service_pb2_grpc import ReflectorServiceStub
from hansei.search.v1.search_service_pb2_grpc import SearchServiceStub
from hansei.validator.v1.evaluator_service_pb2_grpc import EvaluatorServiceStub
from hansei.validator.v1.leaderboard_service_pb2_grpc import LeaderboardServiceStub


class CuratorPeer:
    """The curator and its playbooks (C-77)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub, playbooks = CuratorServiceStub(channel), PlaybookServiceStub(channel)
        self.curate: Any = stub.Curate
        self.prepare: Any = stub.PrepareCuration
        self.dataset: Any = playbooks.GetDataset


class ReflectorPeer:
    """The reflector (R-33)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.reflect: Any = ReflectorServiceStub(channel).Reflect


class SearchPeer:
    """The search service."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.search: Any = SearchServiceStub(channel).Search


class GeneratorPeer:
    """The generator, served by the planner (P-113)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.generate: Any = GeneratorServiceStub(channel).Generate


class EvaluatorPeer:
    """The evaluator, served by the validator (V-60, V-64)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub = EvaluatorServiceStub(channel)
        self.evaluate: Any = stub.Evaluate
        self.decide: Any = stub.DecideRound


class LeaderboardPeer:
    """The leaderboard, served by the validator (V-68, V-70, V-71)."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub = LeaderboardServiceStub(channel)
        self.upsert: Any = stub.UpsertLeaderboardEntry
        self.record_judgement: Any = stub.RecordJudgement
        self.ranking: Any = stub.GetRanking
