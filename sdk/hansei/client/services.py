"""The services of the contract: one class for each service, one line for each RPC.

A method takes the fields of its request as keyword arguments and returns the response message of the contract. Its name
is the RPC's in snake case, without the noun that the class already names. A mutation gets a new `request_id` unless the
caller passes one. A contract test compares this module with the protos.
"""

from __future__ import annotations

from typing import Any, Generic

from hansei.client.calls import M, ServiceClient, bind_client_stream, bind_server_stream, bind_two_streams, bind_unary
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.evidence.v1 import archive_service_pb2 as archive
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.evidence.v1 import guard_service_pb2 as guards
from hansei.evidence.v1 import overview_service_pb2 as overview
from hansei.gateway.v1 import access_service_pb2 as access
from hansei.gateway.v1 import bulk_service_pb2 as bulk
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.planner.v1 import generator_service_pb2 as generator
from hansei.planner.v1 import planner_service_pb2 as planner
from hansei.planner.v1 import tool_service_pb2 as tools
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from hansei.search.v1 import collection_service_pb2 as collection
from hansei.search.v1 import search_service_pb2 as index
from hansei.validator.v1 import evaluator_service_pb2 as evaluator
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard
from hansei.validator.v1 import validator_service_pb2 as validator


class GatewayServiceClient(ServiceClient[M]):
    """Learn from a trajectory, answer a query."""

    learn = bind_unary(gateway.LearnRequest, gateway.LearnResponse)
    learn_with_progress = bind_server_stream(gateway.LearnWithProgressRequest, gateway.LearnWithProgressResponse)
    run_workflow = bind_unary(gateway.RunWorkflowRequest, gateway.RunWorkflowResponse)
    answer = bind_unary(gateway.AnswerRequest, gateway.AnswerResponse)


class AccessServiceClient(ServiceClient[M]):
    """Identify the caller, manage API keys, list audit records."""

    who_am_i = bind_unary(access.WhoAmIRequest, access.WhoAmIResponse)
    create_key = bind_unary(access.CreateKeyRequest, access.CreateKeyResponse)
    list_keys = bind_unary(access.ListKeysRequest, access.ListKeysResponse)
    revoke_key = bind_unary(access.RevokeKeyRequest, access.RevokeKeyResponse)
    list_audit_records = bind_unary(access.ListAuditRecordsRequest, access.ListAuditRecordsResponse)


class RoundsServiceClient(ServiceClient[M]):
    """Run teams that submit in rounds, and score and judge their submissions."""

    run_rounds = bind_server_stream(rounds.RunRoundsRequest, rounds.RunRoundsResponse)


class BulkServiceClient(ServiceClient[M]):
    """Submit and follow jobs: many trajectories that the server learns in the background."""

    submit = bind_client_stream(bulk.SubmitTrajectoriesRequest, bulk.SubmitTrajectoriesResponse)
    get = bind_unary(bulk.GetJobRequest, bulk.GetJobResponse)
    list = bind_unary(bulk.ListJobsRequest, bulk.ListJobsResponse)
    watch = bind_server_stream(bulk.WatchJobRequest, bulk.WatchJobResponse)
    cancel = bind_unary(bulk.CancelJobRequest, bulk.CancelJobResponse)
    list_dead_letters = bind_unary(bulk.ListDeadLettersRequest, bulk.ListDeadLettersResponse)
    retry_dead_letters = bind_unary(bulk.RetryDeadLettersRequest, bulk.RetryDeadLettersResponse)


class PlaybookServiceClient(ServiceClient[M]):
    """Read and change playbooks: bullets, history, review, files, change feed."""

    get = bind_unary(playbook.GetPlaybookRequest, playbook.GetPlaybookResponse)
    list_bullets = bind_unary(playbook.ListBulletsRequest, playbook.ListBulletsResponse)
    list_datasets = bind_unary(playbook.ListDatasetsRequest, playbook.ListDatasetsResponse)
    get_dataset = bind_unary(playbook.GetDatasetRequest, playbook.GetDatasetResponse)
    delete_dataset = bind_unary(playbook.DeleteDatasetRequest, playbook.DeleteDatasetResponse)
    get_sections = bind_unary(playbook.GetSectionsRequest, playbook.GetSectionsResponse)
    apply_deltas = bind_unary(playbook.ApplyDeltasRequest, playbook.ApplyDeltasResponse)
    watch = bind_server_stream(playbook.WatchPlaybookRequest, playbook.WatchPlaybookResponse)
    get_history = bind_unary(playbook.GetHistoryRequest, playbook.GetHistoryResponse)
    get_bullet_history = bind_unary(playbook.GetBulletHistoryRequest, playbook.GetBulletHistoryResponse)
    diff_revisions = bind_unary(playbook.DiffRevisionsRequest, playbook.DiffRevisionsResponse)
    restore_revision = bind_unary(playbook.RestoreRevisionRequest, playbook.RestoreRevisionResponse)
    revoke_trajectory = bind_unary(playbook.RevokeTrajectoryRequest, playbook.RevokeTrajectoryResponse)
    get_policy = bind_unary(playbook.GetPolicyRequest, playbook.GetPolicyResponse)
    set_policy = bind_unary(playbook.SetPolicyRequest, playbook.SetPolicyResponse)
    list_pending_changes = bind_unary(playbook.ListPendingChangesRequest, playbook.ListPendingChangesResponse)
    decide_pending_changes = bind_unary(playbook.DecidePendingChangesRequest, playbook.DecidePendingChangesResponse)
    merge = bind_unary(playbook.MergePlaybooksRequest, playbook.MergePlaybooksResponse)
    import_chunks = bind_client_stream(playbook.ImportPlaybookRequest, playbook.ImportPlaybookResponse)
    export_chunks = bind_server_stream(playbook.ExportPlaybookRequest, playbook.ExportPlaybookResponse)


class CuratorServiceClient(ServiceClient[M]):
    """Turn reflections into edits of a playbook."""

    curate = bind_unary(curator.CurateRequest, curator.CurateResponse)
    prepare_curation = bind_unary(curator.PrepareCurationRequest, curator.PrepareCurationResponse)
    get_curation = bind_unary(curator.GetCurationRequest, curator.GetCurationResponse)


class ReflectorServiceClient(ServiceClient[M]):
    """Parse trajectories and reflect on them."""

    reflect = bind_unary(reflector.ReflectRequest, reflector.ReflectResponse)
    parse_trajectories = bind_unary(reflector.ParseTrajectoriesRequest, reflector.ParseTrajectoriesResponse)


class SearchServiceClient(ServiceClient[M]):
    """Rank bullets and embed texts."""

    search = bind_unary(index.SearchRequest, index.SearchResponse)
    batch_search = bind_unary(index.BatchSearchRequest, index.BatchSearchResponse)
    rank_bullets = bind_unary(index.RankBulletsRequest, index.RankBulletsResponse)
    get_status = bind_unary(index.GetIndexStatusRequest, index.GetIndexStatusResponse)
    embed = bind_unary(index.EmbedRequest, index.EmbedResponse)


class CollectionServiceClient(ServiceClient[M]):
    """Store document collections and search their chunks."""

    create = bind_unary(collection.CreateCollectionRequest, collection.CreateCollectionResponse)
    get = bind_unary(collection.GetCollectionRequest, collection.GetCollectionResponse)
    list_all = bind_unary(collection.ListCollectionsRequest, collection.ListCollectionsResponse)
    delete = bind_unary(collection.DeleteCollectionRequest, collection.DeleteCollectionResponse)
    put_documents = bind_unary(collection.PutDocumentsRequest, collection.PutDocumentsResponse)
    get_document = bind_unary(collection.GetDocumentRequest, collection.GetDocumentResponse)
    list_documents = bind_unary(collection.ListDocumentsRequest, collection.ListDocumentsResponse)
    delete_documents = bind_unary(collection.DeleteDocumentsRequest, collection.DeleteDocumentsResponse)
    load_documents = bind_two_streams(collection.LoadDocumentsRequest, collection.LoadDocumentsResponse)
    search = bind_unary(collection.SearchCollectionRequest, collection.SearchCollectionResponse)


class GeneratorServiceClient(ServiceClient[M]):
    """Answer a query from the bullets in the request."""

    generate = bind_unary(generator.GenerateRequest, generator.GenerateResponse)


class PlannerServiceClient(ServiceClient[M]):
    """Create plans and execute them."""

    create_plan = bind_unary(planner.CreatePlanRequest, planner.CreatePlanResponse)
    refine_plan = bind_unary(planner.RefinePlanRequest, planner.RefinePlanResponse)
    estimate_complexity = bind_unary(planner.EstimateComplexityRequest, planner.EstimateComplexityResponse)
    draw_plan = bind_unary(planner.DrawPlanRequest, planner.DrawPlanResponse)
    run_plan = bind_unary(planner.RunPlanRequest, planner.RunPlanResponse)
    execute_plan = bind_server_stream(planner.ExecutePlanRequest, planner.ExecutePlanResponse)
    resume_plan = bind_server_stream(planner.ResumePlanRequest, planner.ResumePlanResponse)
    watch_execution = bind_server_stream(planner.WatchExecutionRequest, planner.WatchExecutionResponse)
    get_execution = bind_unary(planner.GetExecutionRequest, planner.GetExecutionResponse)
    list_executions = bind_unary(planner.ListExecutionsRequest, planner.ListExecutionsResponse)
    cancel_execution = bind_unary(planner.CancelExecutionRequest, planner.CancelExecutionResponse)
    add_information = bind_unary(planner.AddInformationRequest, planner.AddInformationResponse)
    create_webhook = bind_unary(planner.CreateWebhookRequest, planner.CreateWebhookResponse)
    list_webhooks = bind_unary(planner.ListWebhooksRequest, planner.ListWebhooksResponse)
    delete_webhook = bind_unary(planner.DeleteWebhookRequest, planner.DeleteWebhookResponse)
    verify_execution = bind_unary(planner.VerifyExecutionRequest, planner.VerifyExecutionResponse)
    submit_feedback = bind_unary(planner.SubmitFeedbackRequest, planner.SubmitFeedbackResponse)
    reset_thresholds = bind_unary(planner.ResetThresholdsRequest, planner.ResetThresholdsResponse)
    get_thresholds = bind_unary(planner.GetThresholdsRequest, planner.GetThresholdsResponse)


class ToolServiceClient(ServiceClient[M]):
    """Call a tool server as the planner does. The client needs the address of the tool server, not of the gateway."""

    list_tools = bind_unary(tools.ListToolsRequest, tools.ListToolsResponse)
    call_tool = bind_unary(tools.CallToolRequest, tools.CallToolResponse)
    find_outcome = bind_unary(tools.FindOutcomeRequest, tools.FindOutcomeResponse)


class ValidatorServiceClient(ServiceClient[M]):
    """Check reports, and generate them with self-correction."""

    validate_report = bind_unary(validator.ValidateReportRequest, validator.ValidateReportResponse)
    run_organizer = bind_unary(validator.RunOrganizerRequest, validator.RunOrganizerResponse)
    run_advisor = bind_unary(validator.RunAdvisorRequest, validator.RunAdvisorResponse)
    run_report = bind_unary(validator.RunReportRequest, validator.RunReportResponse)
    register_report_kind = bind_unary(validator.RegisterReportKindRequest, validator.RegisterReportKindResponse)
    get_report_kind = bind_unary(validator.GetReportKindRequest, validator.GetReportKindResponse)
    list_report_kinds = bind_unary(validator.ListReportKindsRequest, validator.ListReportKindsResponse)
    delete_report_kind = bind_unary(validator.DeleteReportKindRequest, validator.DeleteReportKindResponse)


class EvaluatorServiceClient(ServiceClient[M]):
    """Score, judge and compare submissions."""

    evaluate = bind_unary(evaluator.EvaluateRequest, evaluator.EvaluateResponse)
    judge = bind_unary(evaluator.JudgeRequest, evaluator.JudgeResponse)
    decide_round = bind_unary(evaluator.DecideRoundRequest, evaluator.DecideRoundResponse)
    compare_submissions = bind_unary(evaluator.CompareSubmissionsRequest, evaluator.CompareSubmissionsResponse)
    rank_comparisons = bind_unary(evaluator.RankComparisonsRequest, evaluator.RankComparisonsResponse)


class LeaderboardServiceClient(ServiceClient[M]):
    """Record rounds and rank teams."""

    upsert_entry = bind_unary(leaderboard.UpsertLeaderboardEntryRequest, leaderboard.UpsertLeaderboardEntryResponse)
    record_judgement = bind_unary(leaderboard.RecordJudgementRequest, leaderboard.RecordJudgementResponse)
    get_ranking = bind_unary(leaderboard.GetRankingRequest, leaderboard.GetRankingResponse)
    get_best_submission = bind_unary(leaderboard.GetBestSubmissionRequest, leaderboard.GetBestSubmissionResponse)
    list = bind_unary(leaderboard.ListLeaderboardsRequest, leaderboard.ListLeaderboardsResponse)
    list_entries = bind_unary(leaderboard.ListLeaderboardEntriesRequest, leaderboard.ListLeaderboardEntriesResponse)


class EvidenceServiceClient(ServiceClient[M]):
    """Serve bullets in trials, report outcomes, and read the effects of bullets."""

    start_trials = bind_unary(evidence.StartTrialsRequest, evidence.StartTrialsResponse)
    stop_trials = bind_unary(evidence.StopTrialsRequest, evidence.StopTrialsResponse)
    get_trials = bind_unary(evidence.GetTrialsRequest, evidence.GetTrialsResponse)
    recall = bind_unary(evidence.RecallRequest, evidence.RecallResponse)
    report_outcome = bind_unary(evidence.ReportOutcomeRequest, evidence.ReportOutcomeResponse)
    get_effects = bind_unary(evidence.GetEffectsRequest, evidence.GetEffectsResponse)
    get_effect_history = bind_unary(evidence.GetEffectHistoryRequest, evidence.GetEffectHistoryResponse)
    undo_decision = bind_unary(evidence.UndoDecisionRequest, evidence.UndoDecisionResponse)
    watch_decisions = bind_server_stream(evidence.WatchDecisionsRequest, evidence.WatchDecisionsResponse)
    get_lift = bind_unary(evidence.GetLiftRequest, evidence.GetLiftResponse)
    list_decisions = bind_unary(evidence.ListDecisionsRequest, evidence.ListDecisionsResponse)


class ArchiveServiceClient(ServiceClient[M]):
    """Store, find and delete the trajectories of datasets."""

    store_trajectory = bind_unary(archive.StoreTrajectoryRequest, archive.StoreTrajectoryResponse)
    get_trajectory = bind_unary(archive.GetTrajectoryRequest, archive.GetTrajectoryResponse)
    list_trajectories = bind_unary(archive.ListTrajectoriesRequest, archive.ListTrajectoriesResponse)
    delete_trajectory = bind_unary(archive.DeleteTrajectoryRequest, archive.DeleteTrajectoryResponse)
    get_retention = bind_unary(archive.GetRetentionRequest, archive.GetRetentionResponse)
    set_retention = bind_unary(archive.SetRetentionRequest, archive.SetRetentionResponse)
    delete_archive = bind_unary(archive.DeleteArchiveRequest, archive.DeleteArchiveResponse)
    delete_archives = bind_unary(archive.DeleteArchivesRequest, archive.DeleteArchivesResponse)


class GuardServiceClient(ServiceClient[M]):
    """Decide tool calls by guards, report the calls, and test targets on recorded trajectories."""

    check_call = bind_unary(guards.CheckCallRequest, guards.CheckCallResponse)
    report_call = bind_unary(guards.ReportCallRequest, guards.ReportCallResponse)
    report_session = bind_unary(guards.ReportSessionRequest, guards.ReportSessionResponse)
    list_decisions = bind_unary(guards.ListGuardDecisionsRequest, guards.ListGuardDecisionsResponse)
    undo_decision = bind_unary(guards.UndoGuardDecisionRequest, guards.UndoGuardDecisionResponse)
    list_all = bind_unary(guards.ListGuardsRequest, guards.ListGuardsResponse)
    backtest_target = bind_unary(guards.BacktestTargetRequest, guards.BacktestTargetResponse)
    store_backtest = bind_unary(guards.StoreBacktestRequest, guards.StoreBacktestResponse)


class OverviewServiceClient(ServiceClient[M]):
    """Count the archived trajectories of a dataset by day and agent."""

    get = bind_unary(overview.GetOverviewRequest, overview.GetOverviewResponse)


class AllServices(Generic[M]):
    """The services on one channel, which the clients have as attributes."""

    def __init__(self, address: str, channel: Any) -> None:
        self.address = address
        self._channel = channel
        self.gateway = GatewayServiceClient[M](channel)
        self.access = AccessServiceClient[M](channel)
        self.rounds = RoundsServiceClient[M](channel)
        self.jobs = BulkServiceClient[M](channel)
        self.playbooks = PlaybookServiceClient[M](channel)
        self.curator = CuratorServiceClient[M](channel)
        self.reflector = ReflectorServiceClient[M](channel)
        self.index = SearchServiceClient[M](channel)
        self.collections = CollectionServiceClient[M](channel)
        self.generator = GeneratorServiceClient[M](channel)
        self.planner = PlannerServiceClient[M](channel)
        self.tools = ToolServiceClient[M](channel)
        self.validator = ValidatorServiceClient[M](channel)
        self.evaluator = EvaluatorServiceClient[M](channel)
        self.leaderboard = LeaderboardServiceClient[M](channel)
        self.evidence = EvidenceServiceClient[M](channel)
        self.archive = ArchiveServiceClient[M](channel)
        self.guards = GuardServiceClient[M](channel)
        self.overview = OverviewServiceClient[M](channel)
