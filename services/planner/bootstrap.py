"""Compose the planner: connect its use cases with their adapters."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import Any

from chassis import deadlines
from chassis.channels import Peers
from chassis.repetition import repeat
from chassis.server.service import Registration, Service
from chassis.settings import BadSetting
from hansei.planner.v1 import generator_service_pb2_grpc, planner_service_pb2_grpc
from libs.llm.client import LLMClient
from libs.llm.connect import connect_chat
from libs.llm.providers import OFFLINE
from libs.storage.startup import report_setting, wait_until_open
from services.planner.adapters.answerers import ModelAnswerer, OfflineAnswerer
from services.planner.adapters.caller_webhooks import CallerWebhooks
from services.planner.adapters.chat import ChatCompletions
from services.planner.adapters.guards import EvidenceCallChecks
from services.planner.adapters.metrics import count_guard_check
from services.planner.adapters.peers import KnowledgeSearch, SearchEmbedder
from services.planner.adapters.remote_tools import register_remote_tools
from services.planner.adapters.sql.repository import SqlExecutionStore
from services.planner.adapters.sql.schema import requests
from services.planner.config import GraceConfig, load_grace_config
from services.planner.domain.confidence import ConfidenceCalculator
from services.planner.domain.events import Budget
from services.planner.domain.guarantee import ThresholdGuarantee
from services.planner.domain.moves import ExecutionRules
from services.planner.rpc.servicer.generator import GeneratorServicer
from services.planner.rpc.servicer.planner import PlannerServicer
from services.planner.settings import NO_GUARDS, PlannerSettings
from services.planner.usecases.execute import Executor
from services.planner.usecases.executions import Executions, Ownership
from services.planner.usecases.feedback import FeedbackBook
from services.planner.usecases.gates import AdjustedGate, GuaranteedGate, LearningGate
from services.planner.usecases.generate import GeneratorAgent
from services.planner.usecases.guarded_calls import GuardedToolCalls, UncheckedCalls
from services.planner.usecases.judge import StepJudge
from services.planner.usecases.legacy_agent import LegacyAgentTool
from services.planner.usecases.notify import QuestionNotifier, StateNotifier
from services.planner.usecases.plan import Planner
from services.planner.usecases.ports import Answerer, CallChecks, CompletionModel, Embedder
from services.planner.usecases.replan import ReplanOrchestrator
from services.planner.usecases.tools import (
    AskUserTool,
    ExtractiveReasoningTool,
    RAGSearchTool,
    ReasoningTool,
    ToolRegistry,
)

_HOUSEKEEPING_SECONDS = 60.0


def build(settings: PlannerSettings, peers: Peers) -> Service:
    """Build the planner service. Raises BadSetting, for example if the provider needs a key that is missing (G-08)."""
    config = load_grace_config(settings.grace_config)
    closing = AsyncExitStack()
    client = connect_chat(settings, remaining=partial(deadlines.compute_budget, None))
    closing.push_async_callback(client.aclose)
    models = _Models(settings, config, closing)
    if settings.planner_max_cost_usd and models.unpriced_model:
        raise BadSetting(
            f"HANSEI_PLANNER_MAX_COST_USD is {settings.planner_max_cost_usd:g}, but the price of the model "
            f"{models.unpriced_model} is unknown, so its cost cannot be limited: set LLM_PRICES"
        )
    estimator = models.estimating if config.planner.llm_complexity else None
    backend = KnowledgeSearch(peers)
    calls = GuardedToolCalls(_create_checks(settings, peers), settings.planner_max_output_chars)
    registry, gate = _create_registry(config, backend, models.planning, calls), _create_gate(config)
    planner = Planner(
        backend,
        models.planning,
        tools=registry,
        simple_threshold=config.planner.simple_threshold,
        estimator=estimator,
        language=settings.language,
    )
    setting = "HANSEI_PLANNER_DATABASE_URL"
    with report_setting(setting):
        store = SqlExecutionStore(settings.planner_database_url)
    closing.push_async_callback(store.database.close)
    retention = timedelta(days=settings.planner_response_retention_days)
    delete_responses = partial(requests.delete_expired, store.database, retention)
    ownership = Ownership(f"planner-{secrets.token_hex(4)}", settings.planner_lease_seconds)
    executor = _create_executor(
        settings, config, planner, registry, calls, gate, models.evaluating, SearchEmbedder(peers)
    )
    executions = Executions(store, executor, ownership)
    book = FeedbackBook(store, gate, executions)
    named_hosts = [host.strip() for host in settings.planner_webhook_hosts.split(",") if host.strip()]
    caller_webhooks = CallerWebhooks(named_hosts, settings.planner_webhook_secret.get_secret_value())
    closing.push_async_callback(caller_webhooks.close)

    async def start() -> None:
        closing.push_async_callback(executions.close)
        await wait_until_open(store.database.open, store.database.url, setting, settings.database_wait_seconds)
        await executions.open()
        await book.catch_up()

    return Service(
        name="planner",
        registrations=[
            Registration(
                generator_service_pb2_grpc.add_GeneratorServiceServicer_to_server,
                GeneratorServicer(GeneratorAgent(_create_answerer(client, settings))),
            ),
            Registration(
                planner_service_pb2_grpc.add_PlannerServiceServicer_to_server,
                PlannerServicer(
                    planner,
                    executions,
                    book,
                    caller_webhooks,
                    _build_limits(settings, config),
                    unpriced_model=models.unpriced_model,
                ),
                endless=("ExecutePlan", "ResumePlan"),
            ),
        ],
        start=start,
        close=closing.aclose,
        tasks={
            "leases": executions.renew_leases,
            "sweep": executions.sweep,
            "feedback": book.keep_up,
            "webhooks": StateNotifier(store, caller_webhooks).keep_up,
            "housekeeping": partial(repeat, _HOUSEKEEPING_SECONDS, delete_responses),
            **_list_tool_tasks(settings, registry, closing),
            **_list_webhook_tasks(settings, store, closing),
        },
    )


def _create_answerer(client: LLMClient, settings: PlannerSettings) -> Answerer:
    if client.is_offline:
        return OfflineAnswerer(settings.language)
    return ModelAnswerer(client, settings.llm_model, settings.prompts_dir, settings.language)


class _Models:
    """The models for planning and reasoning, for evaluating, and for estimating; None offline (P-126, P-127)."""

    def __init__(self, settings: PlannerSettings, config: GraceConfig, closing: AsyncExitStack) -> None:
        self._settings = settings
        self._config = config
        self._closing = closing
        self._provider, self._name = config.llm.choose_model(settings.llm_provider, settings.llm_model)
        self.planning = self._create_model(config.llm.temperature, config.llm.max_tokens)
        self.evaluating = self._create_model(None, config.llm.max_tokens, default_temperature=0.0)
        self.estimating = self._create_model(None, 10, default_temperature=0.1)

    @property
    def unpriced_model(self) -> str:
        """Return the name of the model if its price is unknown, else an empty text."""
        return self._name if self.planning is not None and self._settings.get_price(self._name) is None else ""

    def _create_model(
        self, temperature: float | None, max_tokens: int, default_temperature: float | None = None
    ) -> CompletionModel | None:
        """Return a model; values that the configuration of planning leaves out come from the shared settings."""
        if self._settings.llm_provider == OFFLINE:
            return None
        llm = self._config.llm
        changes: dict[str, Any] = {
            "llm_provider": self._provider,
            "llm_model": self._name,
            "llm_temperature": temperature,
            "llm_max_tokens": max_tokens,
            "llm_attempt_seconds": llm.timeout_seconds,
            "llm_retries": llm.retry.max_retries,
            "llm_retry_base_seconds": llm.retry.base_seconds,
            "llm_retry_max_seconds": llm.retry.max_seconds,
        }
        chosen = {name: value for name, value in changes.items() if value is not None}
        settings = self._settings.model_copy(update=chosen)
        client = connect_chat(settings, default_temperature=default_temperature)
        self._closing.push_async_callback(client.aclose)
        return ChatCompletions(client)


def _create_gate(config: GraceConfig) -> LearningGate:
    thresholds = config.confidence.thresholds
    guarantee = config.guarantee
    make_guarantee = partial(ThresholdGuarantee, guarantee.alpha, guarantee.delta, min_rate=guarantee.audit_rate)
    if config.confidence.mode == "guaranteed":
        return GuaranteedGate(thresholds, make_guarantee)
    return AdjustedGate(thresholds, make_guarantee, **config.adjustment.model_dump())


def _create_checks(settings: PlannerSettings, peers: Peers) -> CallChecks:
    dataset = settings.planner_guards_dataset
    if dataset == NO_GUARDS:
        return UncheckedCalls()
    return EvidenceCallChecks(peers, dataset, settings.planner_guard_seconds, count_guard_check)


def _create_registry(
    config: GraceConfig, backend: KnowledgeSearch, model: CompletionModel | None, calls: GuardedToolCalls
) -> ToolRegistry:
    search = RAGSearchTool(backend, search_limit=config.search.limit, score_threshold=config.search.score_threshold)
    reasoning = ExtractiveReasoningTool() if model is None else ReasoningTool(model)
    registry = ToolRegistry([search, reasoning, AskUserTool()])
    if model is not None:
        registry.add(LegacyAgentTool(model, registry, calls))
    return registry


def _create_executor(
    settings: PlannerSettings,
    config: GraceConfig,
    planner: Planner,
    registry: ToolRegistry,
    calls: GuardedToolCalls,
    gate: LearningGate,
    evaluator: CompletionModel | None,
    embedder: Embedder,
) -> Executor:
    rules = ExecutionRules(config.intervention, config.replan, config.executor.max_parallel_steps, settings.language)
    weights = config.confidence.weights
    judge = StepJudge(gate, ConfidenceCalculator(weights), evaluator=evaluator, embedder=embedder)
    orchestrator = ReplanOrchestrator(planner, rules.replans)
    return Executor(registry, judge, orchestrator, rules, weights, calls)


def _build_limits(settings: PlannerSettings, config: GraceConfig) -> Budget:
    intervention = config.intervention
    # The default of 300 seconds (P-88) is for callbacks of a program; a person who has to be found needs days.
    is_configured = "default_timeout" in intervention.model_fields_set
    return Budget(
        max_answer_seconds=intervention.default_timeout if is_configured else settings.planner_answer_seconds,
        max_tokens=settings.planner_max_tokens or None,
        max_cost_micro_usd=round(1e6 * settings.planner_max_cost_usd) or None,
        max_wall_seconds=settings.planner_max_wall_seconds,
        max_tool_calls=settings.planner_max_tool_calls,
    )


def _list_webhook_tasks(
    settings: PlannerSettings, store: SqlExecutionStore, closing: AsyncExitStack
) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
    """Return the background task that sends questions to the webhook, if there is one. Raises BadSetting."""
    if not settings.planner_webhook_url:
        return {}
    # httpx takes long to import, so import it only where it is used.
    from services.planner.adapters.webhook import Webhook

    webhook = Webhook(settings.planner_webhook_url, settings.planner_webhook_secret.get_secret_value())
    closing.push_async_callback(webhook.close)
    return {"questions": QuestionNotifier(store, webhook).keep_up}


def _list_tool_tasks(
    settings: PlannerSettings, registry: ToolRegistry, closing: AsyncExitStack
) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
    """Return the background tasks that register the tools of other services and of MCP servers."""
    addresses = [address.strip() for address in settings.planner_tool_addrs.split(",") if address.strip()]
    tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
    if addresses:
        peers = Peers({address: address for address in addresses})
        closing.push_async_callback(peers.close)
        tasks["tools"] = partial(register_remote_tools, peers, addresses, registry)
    if settings.planner_mcp_servers:
        # The package is large, so import it only where it is used.
        from services.planner.adapters.mcp_tools import connect_mcp_servers

        tasks["mcp"] = partial(connect_mcp_servers, settings.planner_mcp_servers, registry)
    return tasks
