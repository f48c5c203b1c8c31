"""Puts the validator together."""

from __future__ import annotations

import chassis
from hansei.validator.v1 import evaluator_service_pb2_grpc, leaderboard_service_pb2_grpc, validator_service_pb2_grpc
from libs.llm.settings import LLMSettings
from services.validator.adapters.kind_catalog import KindCatalog
from services.validator.adapters.linguistic import JapaneseWords
from services.validator.adapters.report_model import ChatReportModel
from services.validator.rpc.evaluator import EvaluatorServicer
from services.validator.rpc.leaderboard import LeaderboardServicer
from services.validator.rpc.validator import ValidatorServicer
from services.validator.settings import ValidatorSettings
from services.validator.usecases.generate_report import Unobserved
from services.validator.usecases.run_reports import RunReports
from services.validator.usecases.validate_report import ValidateReport


def build(settings: ValidatorSettings, peers: chassis.Peers) -> chassis.Service:
    """The validator as a service of the chassis; it calls no peers."""
    writer = ChatReportModel(LLMSettings)
    kinds, words = KindCatalog(), JapaneseWords()
    runs = RunReports(kinds, words, writer, Unobserved())
    validator = ValidatorServicer(ValidateReport(kinds, words), runs)
    return chassis.Service(
        name="validator",
        registrations=[
            chassis.Registration(validator_service_pb2_grpc.add_ValidatorServiceServicer_to_server, validator),
            chassis.Registration(
                evaluator_service_pb2_grpc.add_EvaluatorServiceServicer_to_server,
                EvaluatorServicer(),
            ),
            chassis.Registration(
                leaderboard_service_pb2_grpc.add_LeaderboardServiceServicer_to_server,
                LeaderboardServicer(),
            ),
        ],
        close=writer.close,
    )
