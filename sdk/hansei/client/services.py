"""The services of the contract: one class for each service, one line for each RPC.

A method takes the fields of its request as keyword arguments and returns the response message of the contract. Its name
is the RPC's in snake case, without the noun that the class already names. A mutation gets a new `request_id` unless the
caller passes one. A contract test compares this module with the protos.
"""

from __future__ import annotations

from typing import Any, Generic

from hansei.client.calls import M, ServiceClient, client_stream, server_stream, two_streams, unary
from hansei.curator.v1 import curator_service_pb2 as curator
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

    learn = unary(gateway.LearnRequest, gateway.LearnResponse)
    learn_with_progress = server_stream(gateway.LearnWithProgressRequest, gateway.LearnWithProgressResponse)
    run_workflow = unary(gateway.RunWorkflowRequest, gateway.RunWorkflowResponse)
    answer = unary(gateway.AnswerRequest, gateway.AnswerResponse)


class AccessServiceClient(ServiceClient[M]):
    """Identify the caller, manage API keys, list audit records."""

    who_am_i = unary(access.WhoAmIRequest, access.WhoAmIResponse)
    create_key = unary(access.CreateKeyRequest, access.CreateKeyResponse)
    list_keys = unary(access.ListKeysRequest, access.ListKeysResponse)
    revoke_key = unary(access.RevokeKeyRequest, access.RevokeKeyResponse)
    list_audit_records = unary(access.ListAuditRecordsRequest, access.ListAuditRecordsResponse)


class RoundsServiceClient(ServiceClient[M]):
    """Run teams that submit in rounds, and score and judge their submissions."""

    run_rounds = server_stream(rounds.RunRoundsRequest, rounds.RunRoundsResponse)


class BulkServiceClient(ServiceClient[M]):
    """Submit and follow jobs: many trajectories that the server learns in the background."""

    submit = client_stream(bulk.SubmitTrajectoriesRequest, bulk.SubmitTrajectoriesResponse)
    get = unary(bulk.GetJobRequest, bulk.GetJobResponse)
    list = unary(bulk.ListJobsRequest, bulk.ListJobsResponse)
    watch = server_stream(bulk.WatchJobRequest, bulk.WatchJobResponse)
    cancel = unary(bulk.CancelJobRequest, bulk.CancelJobResponse)
    list_dead_letters = unary(bulk.ListDeadLettersRequest, bulk.ListDeadLettersResponse)
    retry_dead_letters = unary(bulk.RetryDeadLettersRequest, bulk.RetryDeadLettersResponse)


class PlaybookServiceClient(ServiceClient[M]):
    """Read and change playbooks: bullets, history, review, files, change feed."""

    get = unary(playbook.GetPlaybookRequest, playbook.GetPlaybookResponse)
    list_bullets = unary(playbook.ListBulletsRequest, playbook.ListBulletsResponse)
    list_datasets = unary(playbook.ListDatasetsRequest, playbook.ListDatasetsResponse)
    get_dataset = unary(playbook.GetDatasetRequest, playbook.GetDatasetResponse)
    get_sections = unary(playbook.GetSectionsRequest, playbook.GetSectionsResponse)
    apply_deltas = unary(playbook.ApplyDeltasRequest, playbook.ApplyDeltasResponse)
    watch = server_stream(playbook.WatchPlaybookRequest, playbook.WatchPlaybookResponse)
    get_history = unary(playbook.GetHistoryRequest, playbook.GetHistoryResponse)
    get_bullet_history = unary(playbook.GetBulletHistoryRequest, playbook.GetBulletHistoryResponse)
    diff_revisions = unary(playbook.DiffRevisionsRequest, playbook.DiffRevisionsResponse)
    restore_revision = unary(playbook.RestoreRevisionRequest, playbook.RestoreRevisionResponse)
    revoke_trajectory = unary(playbook.RevokeTrajectoryRequest, playbook.RevokeTrajectoryResponse)
    get_policy = unary(playbook.GetPolicyRequest, playbook.GetPolicyResponse)
    set_policy = unary(playbook.SetPolicyRequest, playbook.SetPolicyResponse)
    list_pending_changes = unary(playbook.ListPendingChangesRequest, playbook.ListPendingChangesResponse)
    decide_pending_changes = unary(playbook.DecidePendingChangesRequest, playbook.DecidePendingChangesResponse)
    merge = unary(playbook.MergePlaybooksRequest, playbook.MergePlaybooksResponse)
    import_chunks = client_stream(playbook.ImportPlaybookRequest, playbook.ImportPlaybookResponse)
    export_chunks = server_stream(playbook.ExportPlaybookRequest, playbook.ExportPlaybookResponse)


class CuratorServiceClient(ServiceClient[M]):
    """Turn reflections into edits of a playbook."""

    curate = unary(curator.CurateRequest, curator.CurateResponse)
    prepare_curation = unary(curator.PrepareCurationRequest, curator.PrepareCurationResponse)
    get_curation = unary(curator.GetCurationRequest, curator.GetCurationResponse)


class ReflectorServiceClient(ServiceClient[M]):
    """Parse trajectories and reflect on them."""

    reflect = unary(reflector.ReflectRequest, reflector.ReflectResponse)
    parse_trajectories = unary(reflector.ParseTrajectoriesRequest, reflector.ParseTrajectoriesResponse)


class SearchServiceClient(ServiceClient[M]):
    """Rank bullets and embed texts."""

    search = unary(index.SearchRequest, index.SearchResponse)
    batch_search = unary(index.BatchSearchRequest, index.BatchSearchResponse)
    rank_bullets = unary(index.RankBulletsRequest, index.RankBulletsResponse)
    get_status = unary(index.GetIndexStatusRequest, index.GetIndexStatusResponse)
    embed = unary(index.EmbedRequest, index.EmbedResponse)


class CollectionServiceClient(ServiceClient[M]):
    """Store document collections and search their chunks."""

    create = unary(collection.CreateCollectionRequest, collection.CreateCollectionResponse)
    get = unary(collection.GetCollectionRequest, collection.GetCollectionResponse)
    list_all = unary(collection.ListCollectionsRequest, collection.ListCollectionsResponse)
    delete = unary(collection.DeleteCollectionRequest, collection.DeleteCollectionResponse)
    put_documents = unary(collection.PutDocumentsRequest, collection.PutDocumentsResponse)
    get_document = unary(collection.GetDocumentRequest, collection.GetDocumentResponse)
    list_documents = unary(collection.ListDocumentsRequest, collection.ListDocumentsResponse)
    delete_documents = unary(collection.DeleteDocumentsRequest, collection.DeleteDocumentsResponse)
    load_documents = two_streams(collection.LoadDocumentsRequest, collection.LoadDocumentsResponse)
    search = unary(collection.SearchCollectionRequest, collection.SearchCollectionResponse)


class GeneratorServiceClient(ServiceClient[M]):
    """Answer a query from the bullets in the request."""

    generate = unary(generator.GenerateRequest, generator.GenerateResponse)


class PlannerServiceClient(ServiceClient[M]):
    """Create plans and execute them."""

    create_plan = unary(planner.CreatePlanRequest, planner.CreatePlanResponse)
    refine_plan = unary(planner.RefinePlanRequest, planner.RefinePlanResponse)
    estimate_complexity = unary(planner.EstimateComplexityRequest, planner.EstimateComplexityResponse)
    draw_plan = unary(planner.DrawPlanRequest, planner.DrawPlanResponse)
    run_plan = unary(planner.RunPlanRequest, planner.RunPlanResponse)
    execute_plan = server_stream(planner.ExecutePlanRequest, planner.ExecutePlanResponse)
    resume_plan = server_stream(planner.ResumePlanRequest, planner.ResumePlanResponse)
    watch_execution = server_stream(planner.WatchExecutionRequest, planner.WatchExecutionResponse)
    get_execution = unary(planner.GetExecutionRequest, planner.GetExecutionResponse)
    list_executions = unary(planner.ListExecutionsRequest, planner.ListExecutionsResponse)
    cancel_execution = unary(planner.CancelExecutionRequest, planner.CancelExecutionResponse)
    add_information = unary(planner.AddInformationRequest, planner.AddInformationResponse)
    audit_execution = unary(planner.AuditExecutionRequest, planner.AuditExecutionResponse)
    submit_feedback = unary(planner.SubmitFeedbackRequest, planner.SubmitFeedbackResponse)
    get_thresholds = unary(planner.GetThresholdsRequest, planner.GetThresholdsResponse)


class ToolServiceClient(ServiceClient[M]):
    """Call a tool server as the planner does. The client needs the address of the tool server, not of the gateway."""

    list_tools = unary(tools.ListToolsRequest, tools.ListToolsResponse)
    call_tool = unary(tools.CallToolRequest, tools.CallToolResponse)
    find_outcome = unary(tools.FindOutcomeRequest, tools.FindOutcomeResponse)


class ValidatorServiceClient(ServiceClient[M]):
    """Check reports, and generate them with self-correction."""

    validate_report = unary(validator.ValidateReportRequest, validator.ValidateReportResponse)
    run_organizer = unary(validator.RunOrganizerRequest, validator.RunOrganizerResponse)
    run_advisor = unary(validator.RunAdvisorRequest, validator.RunAdvisorResponse)
    run_report = unary(validator.RunReportRequest, validator.RunReportResponse)
    register_report_kind = unary(validator.RegisterReportKindRequest, validator.RegisterReportKindResponse)
    get_report_kind = unary(validator.GetReportKindRequest, validator.GetReportKindResponse)
    list_report_kinds = unary(validator.ListReportKindsRequest, validator.ListReportKindsResponse)
    delete_report_kind = unary(validator.DeleteReportKindRequest, validator.DeleteReportKindResponse)


class EvaluatorServiceClient(ServiceClient[M]):
    """Score, judge and compare submissions."""

    evaluate = unary(evaluator.EvaluateRequest, evaluator.EvaluateResponse)
    judge = unary(evaluator.JudgeRequest, evaluator.JudgeResponse)
    decide_round = unary(evaluator.DecideRoundRequest, evaluator.DecideRoundResponse)
    compare_submissions = unary(evaluator.CompareSubmissionsRequest, evaluator.CompareSubmissionsResponse)
    rank_comparisons = unary(evaluator.RankComparisonsRequest, evaluator.RankComparisonsResponse)


class LeaderboardServiceClient(ServiceClient[M]):
    """Record rounds and rank teams."""

    upsert_entry = unary(leaderboard.UpsertLeaderboardEntryRequest, leaderboard.UpsertLeaderboardEntryResponse)
    record_judgement = unary(leaderboard.RecordJudgementRequest, leaderboard.RecordJudgementResponse)
    get_ranking = unary(leaderboard.GetRankingRequest, leaderboard.GetRankingResponse)
    get_best_submission = unary(leaderboard.GetBestSubmissionRequest, leaderboard.GetBestSubmissionResponse)
    list_entries = unary(leaderboard.ListLeaderboardEntriesRequest, leaderboard.ListLeaderboardEntriesResponse)


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
