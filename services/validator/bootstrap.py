"""Composition of the validator."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import chassis
from chassis.repetition import repeat
from chassis.server.cpu import CpuPool
from hansei.validator.v1 import evaluator_service_pb2_grpc, leaderboard_service_pb2_grpc, validator_service_pb2_grpc
from libs.llm.settings import LLMSettings
from libs.prompts.builder import UserPromptBuilder
from libs.prompts.settings import load_prompt_builder_settings
from libs.storage.startup import report_setting, wait_until_open
from services.validator.adapters.judge_model import ChatJudgeModel
from services.validator.adapters.linguistic import JapaneseVocabulary
from services.validator.adapters.metrics import RunMetrics
from services.validator.adapters.report_model import ConfiguredReportModel
from services.validator.adapters.sql.repository import LeaderBoardStore, SqlKindStore, ValidatorDatabase
from services.validator.adapters.sql.schema import requests
from services.validator.domain.kind_definition import KindDefinition, RuleLimits
from services.validator.domain.kinds import ReportKind
from services.validator.rpc.servicer.evaluator import EvaluatorServicer
from services.validator.rpc.servicer.leaderboard import LeaderboardServicer
from services.validator.rpc.servicer.validator import ValidatorServicer
from services.validator.settings import ValidatorSettings
from services.validator.usecases.compare import CompareSubmissions, RankComparisons
from services.validator.usecases.evaluate import Evaluator
from services.validator.usecases.judge import JudgmentClient
from services.validator.usecases.judge_by_rules import OFFLINE_MODEL, RuleJudge
from services.validator.usecases.judging import RetryingJudge
from services.validator.usecases.kinds import Kinds
from services.validator.usecases.leaderboard import Leaderboard
from services.validator.usecases.run_reports import RunReports
from services.validator.usecases.validate_report import ValidateReport

_HOUSEKEEPING_SECONDS = 60.0


def build(settings: ValidatorSettings, peers: chassis.Peers) -> chassis.Service:
    """Return the validator as a service of the chassis; it calls no peers."""
    with report_setting("HANSEI_VALIDATOR_DATABASE_URL"):
        database = ValidatorDatabase(settings.validator_database_url)
    retention = timedelta(days=settings.validator_response_retention_days)
    delete_responses = partial(requests.delete_expired, database, retention)
    writer, judges = ConfiguredReportModel(LLMSettings), ChatJudgeModel(LLMSettings, RuleJudge(settings.language))
    validator = _create_validator(settings, database, writer)
    ranking_pool = CpuPool("validator-rank")
    evaluator = _create_evaluator(settings, RetryingJudge(judges), RankComparisons(ranking_pool))
    leaderboard = LeaderboardServicer(Leaderboard(LeaderBoardStore(database)))

    async def start() -> None:
        await wait_until_open(
            database.open, database.url, "HANSEI_VALIDATOR_DATABASE_URL", settings.database_wait_seconds
        )

    async def close() -> None:
        await writer.close()
        await judges.close()
        await ranking_pool.close()
        await database.close()

    return chassis.Service(
        name="validator",
        registrations=[
            chassis.Registration(validator_service_pb2_grpc.add_ValidatorServiceServicer_to_server, validator),
            chassis.Registration(evaluator_service_pb2_grpc.add_EvaluatorServiceServicer_to_server, evaluator),
            chassis.Registration(leaderboard_service_pb2_grpc.add_LeaderboardServiceServicer_to_server, leaderboard),
        ],
        start=start,
        close=close,
        tasks={"housekeeping": partial(repeat, _HOUSEKEEPING_SECONDS, delete_responses)},
    )


def _create_validator(
    settings: ValidatorSettings, database: ValidatorDatabase, writer: ConfiguredReportModel
) -> ValidatorServicer:
    limits = RuleLimits(settings.rule_steps, settings.rule_seconds)
    kinds = Kinds(SqlKindStore(database), lambda definition: _compile(definition, limits))
    vocabulary = JapaneseVocabulary()
    runs = RunReports(kinds, vocabulary, writer, RunMetrics(), "en" if settings.language == "en" else "ja")
    return ValidatorServicer(kinds, ValidateReport(kinds, vocabulary), runs)


def _compile(definition: KindDefinition, limits: RuleLimits) -> ReportKind:
    # CEL and JSON Schema take a third of a second to import; they are only needed where kinds were registered.
    from services.validator.adapters.rules.kind_compiler import compile_kind

    return compile_kind(definition, limits)


def _create_evaluator(settings: ValidatorSettings, judge: RetryingJudge, rank: RankComparisons) -> EvaluatorServicer:
    prompts = UserPromptBuilder(load_prompt_builder_settings(settings.workspace))
    scoring, judging = judge_models(settings, LLMSettings())
    return EvaluatorServicer(
        Evaluator(judge, prompts, scoring, settings.language),
        JudgmentClient(judge, judging, settings.language),
        CompareSubmissions(judge, rank, judging, settings.language),
        rank,
    )


def judge_models(settings: ValidatorSettings, models: LLMSettings) -> tuple[str, str]:
    """Return the models that score and judge: the shared one, offline the rules, unless settings name a model."""
    shared = OFFLINE_MODEL if models.is_offline else f"{models.llm_provider}:{models.llm_model}"
    return settings.evaluator_model or shared, settings.judge_model or shared
