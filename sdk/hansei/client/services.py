"""Every service of the contract, one class each, one line for each RPC (a contract test holds this against the protos).

A method takes the fields of its request as keyword arguments and returns the response message of the contract. Its
name is the RPC's in snake case, less the noun the class already says. A mutation gets a fresh `request_id` unless the
caller gives one.
"""

from __future__ import annotations

from hansei.client.calls import BothStreams, ClientStream, M, ServerStream, Service, Unary
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.curator.v1.curator_service_pb2_grpc import CuratorServiceStub
from hansei.gateway.v1 import access_service_pb2 as access
from hansei.gateway.v1 import bulk_service_pb2 as bulk
from hansei.gateway.v1 import gateway_service_pb2 as gateway
from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.gateway.v1.access_service_pb2_grpc import AccessServiceStub
from hansei.gateway.v1.bulk_service_pb2_grpc import BulkServiceStub
from hansei.gateway.v1.gateway_service_pb2_grpc import GatewayServiceStub
from hansei.gateway.v1.rounds_service_pb2_grpc import RoundsServiceStub
from hansei.planner.v1 import generator_service_pb2 as generator
from hansei.planner.v1 import planner_service_pb2 as planner
from hansei.planner.v1 import tool_service_pb2 as tools
from hansei.planner.v1.generator_service_pb2_grpc import GeneratorServiceStub
from hansei.planner.v1.planner_service_pb2_grpc import PlannerServiceStub
from hansei.planner.v1.tool_service_pb2_grpc import ToolServiceStub
from hansei.playbook.v1 import playbook_service_pb2 as playbook
from hansei.playbook.v1.playbook_service_pb2_grpc import PlaybookServiceStub
from hansei.reflector.v1 import reflector_service_pb2 as reflector
from hansei.reflector.v1.reflector_service_pb2_grpc import ReflectorServiceStub
from hansei.search.v1 import collection_service_pb2 as collection
from hansei.search.v1 import search_service_pb2 as index
from hansei.search.v1.collection_service_pb2_grpc import CollectionServiceStub
from hansei.search.v1.search_service_pb2_grpc import SearchServiceStub
from hansei.validator.v1 import evaluator_service_pb2 as evaluator
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard
from hansei.validator.v1 import validator_service_pb2 as validator
from hansei.validator.v1.evaluator_service_pb2_grpc import EvaluatorServiceStub
from hansei.validator.v1.leaderboard_service_pb2_grpc import LeaderboardServiceStub
from hansei.validator.v1.validator_service_pb2_grpc import ValidatorServiceStub


class Gateway(Service[M]):
    """The chains: learn from a run, answer a query."""

    STUB = GatewayServiceStub
    learn = Unary(gateway.LearnRequest, gateway.LearnResponse)
    learn_with_progress = ServerStream(gateway.LearnWithProgressRequest, gateway.LearnWithProgressResponse)
    run_workflow = Unary(gateway.RunWorkflowRequest, gateway.RunWorkflowResponse)
    answer = Unary(gateway.AnswerRequest, gateway.AnswerResponse)


class Access(Service[M]):
    """Who the caller is, API keys, and the record of who changed what."""

    STUB = AccessServiceStub
    who_am_i = Unary(access.WhoAmIRequest, access.WhoAmIResponse)
    create_key = Unary(access.CreateKeyRequest, access.CreateKeyResponse)
    list_keys = Unary(access.ListKeysRequest, access.ListKeysResponse)
    revoke_key = Unary(access.RevokeKeyRequest, access.RevokeKeyResponse)
    list_audit_records = Unary(access.ListAuditRecordsRequest, access.ListAuditRecordsResponse)


class Rounds(Service[M]):
    """Teams that submit in rounds, are scored and judged."""

    STUB = RoundsServiceStub
    run_rounds = ServerStream(rounds.RunRoundsRequest, rounds.RunRoundsResponse)


class Jobs(Service[M]):
    """Jobs of many trajectories, learned in the background."""

    STUB = BulkServiceStub
    submit = ClientStream(bulk.SubmitTrajectoriesRequest, bulk.SubmitTrajectoriesResponse)
    get = Unary(bulk.GetJobRequest, bulk.GetJobResponse)
    list = Unary(bulk.ListJobsRequest, bulk.ListJobsResponse)
    watch = ServerStream(bulk.WatchJobRequest, bulk.WatchJobResponse)
    cancel = Unary(bulk.CancelJobRequest, bulk.CancelJobResponse)
    list_dead_letters = Unary(bulk.ListDeadLettersRequest, bulk.ListDeadLettersResponse)
    retry_dead_letters = Unary(bulk.RetryDeadLettersRequest, bulk.RetryDeadLettersResponse)


class Playbooks(Service[M]):
    """Playbooks: their bullets, history, review and change feed."""

    STUB = PlaybookServiceStub
    get = Unary(playbook.GetPlaybookRequest, playbook.GetPlaybookResponse)
    list_bullets = Unary(playbook.ListBulletsRequest, playbook.ListBulletsResponse)
    list_datasets = Unary(playbook.ListDatasetsRequest, playbook.ListDatasetsResponse)
    get_dataset = Unary(playbook.GetDatasetRequest, playbook.GetDatasetResponse)
    get_sections = Unary(playbook.GetSectionsRequest, playbook.GetSectionsResponse)
    apply_deltas = Unary(playbook.ApplyDeltasRequest, playbook.ApplyDeltasResponse)
    watch = ServerStream(playbook.WatchPlaybookRequest, playbook.WatchPlaybookResponse)
    get_history = Unary(playbook.GetHistoryRequest, playbook.GetHistoryResponse)
    get_bullet_history = Unary(playbook.GetBulletHistoryRequest, playbook.GetBulletHistoryResponse)
    diff_revisions = Unary(playbook.DiffRevisionsRequest, playbook.DiffRevisionsResponse)
    restore_revision = Unary(playbook.RestoreRevisionRequest, playbook.RestoreRevisionResponse)
    revoke_trajectory = Unary(playbook.RevokeTrajectoryRequest, playbook.RevokeTrajectoryResponse)
    get_policy = Unary(playbook.GetPolicyRequest, playbook.GetPolicyResponse)
    set_policy = Unary(playbook.SetPolicyRequest, playbook.SetPolicyResponse)
    list_pending_changes = Unary(playbook.ListPendingChangesRequest, playbook.ListPendingChangesResponse)
    decide_pending_changes = Unary(playbook.DecidePendingChangesRequest, playbook.DecidePendingChangesResponse)
    merge = Unary(playbook.MergePlaybooksRequest, playbook.MergePlaybooksResponse)
    import_chunks = ClientStream(playbook.ImportPlaybookRequest, playbook.ImportPlaybookResponse)
    export_chunks = ServerStream(playbook.ExportPlaybookRequest, playbook.ExportPlaybookResponse)


class Curator(Service[M]):
    """Turns reflections into edits of a playbook."""

    STUB = CuratorServiceStub
    curate = Unary(curator.CurateRequest, curator.CurateResponse)
    prepare_curation = Unary(curator.PrepareCurationRequest, curator.PrepareCurationResponse)
    get_curation = Unary(curator.GetCurationRequest, curator.GetCurationResponse)


class Reflector(Service[M]):
    """Reads runs and draws lessons from them."""

    STUB = ReflectorServiceStub
    reflect = Unary(reflector.ReflectRequest, reflector.ReflectResponse)
    parse_trajectories = Unary(reflector.ParseTrajectoriesRequest, reflector.ParseTrajectoriesResponse)


class Index(Service[M]):
    """The search service: ranks bullets, embeds texts."""

    STUB = SearchServiceStub
    search = Unary(index.SearchRequest, index.SearchResponse)
    batch_search = Unary(index.BatchSearchRequest, index.BatchSearchResponse)
    rank_bullets = Unary(index.RankBulletsRequest, index.RankBulletsResponse)
    get_status = Unary(index.GetIndexStatusRequest, index.GetIndexStatusResponse)
    embed = Unary(index.EmbedRequest, index.EmbedResponse)


class Collections(Service[M]):
    """Document collections: kept, cut into chunks, searched."""

    STUB = CollectionServiceStub
    create = Unary(collection.CreateCollectionRequest, collection.CreateCollectionResponse)
    get = Unary(collection.GetCollectionRequest, collection.GetCollectionResponse)
    list_all = Unary(collection.ListCollectionsRequest, collection.ListCollectionsResponse)
    delete = Unary(collection.DeleteCollectionRequest, collection.DeleteCollectionResponse)
    put_documents = Unary(collection.PutDocumentsRequest, collection.PutDocumentsResponse)
    get_document = Unary(collection.GetDocumentRequest, collection.GetDocumentResponse)
    list_documents = Unary(collection.ListDocumentsRequest, collection.ListDocumentsResponse)
    delete_documents = Unary(collection.DeleteDocumentsRequest, collection.DeleteDocumentsResponse)
    load_documents = BothStreams(collection.LoadDocumentsRequest, collection.LoadDocumentsResponse)
    search = Unary(collection.SearchCollectionRequest, collection.SearchCollectionResponse)


class Generator(Service[M]):
    """Answers a query with given bullets."""

    STUB = GeneratorServiceStub
    generate = Unary(generator.GenerateRequest, generator.GenerateResponse)


class Planner(Service[M]):
    """Makes plans and executes them."""

    STUB = PlannerServiceStub
    create_plan = Unary(planner.CreatePlanRequest, planner.CreatePlanResponse)
    refine_plan = Unary(planner.RefinePlanRequest, planner.RefinePlanResponse)
    estimate_complexity = Unary(planner.EstimateComplexityRequest, planner.EstimateComplexityResponse)
    draw_plan = Unary(planner.DrawPlanRequest, planner.DrawPlanResponse)
    run_plan = Unary(planner.RunPlanRequest, planner.RunPlanResponse)
    execute_plan = ServerStream(planner.ExecutePlanRequest, planner.ExecutePlanResponse)
    resume_plan = ServerStream(planner.ResumePlanRequest, planner.ResumePlanResponse)
    watch_execution = ServerStream(planner.WatchExecutionRequest, planner.WatchExecutionResponse)
    get_execution = Unary(planner.GetExecutionRequest, planner.GetExecutionResponse)
    list_executions = Unary(planner.ListExecutionsRequest, planner.ListExecutionsResponse)
    cancel_execution = Unary(planner.CancelExecutionRequest, planner.CancelExecutionResponse)
    add_information = Unary(planner.AddInformationRequest, planner.AddInformationResponse)
    audit_execution = Unary(planner.AuditExecutionRequest, planner.AuditExecutionResponse)
    submit_feedback = Unary(planner.SubmitFeedbackRequest, planner.SubmitFeedbackResponse)
    get_thresholds = Unary(planner.GetThresholdsRequest, planner.GetThresholdsResponse)


class Tools(Service[M]):
    """A tool server, as the planner calls it. Give the client the tool server's address, not the gateway's."""

    STUB = ToolServiceStub
    list_tools = Unary(tools.ListToolsRequest, tools.ListToolsResponse)
    call_tool = Unary(tools.CallToolRequest, tools.CallToolResponse)
    find_outcome = Unary(tools.FindOutcomeRequest, tools.FindOutcomeResponse)


class Validator(Service[M]):
    """Checks reports, and generates them with self-correction."""

    STUB = ValidatorServiceStub
    validate_report = Unary(validator.ValidateReportRequest, validator.ValidateReportResponse)
    run_organizer = Unary(validator.RunOrganizerRequest, validator.RunOrganizerResponse)
    run_advisor = Unary(validator.RunAdvisorRequest, validator.RunAdvisorResponse)
    run_report = Unary(validator.RunReportRequest, validator.RunReportResponse)
    register_report_kind = Unary(validator.RegisterReportKindRequest, validator.RegisterReportKindResponse)
    get_report_kind = Unary(validator.GetReportKindRequest, validator.GetReportKindResponse)
    list_report_kinds = Unary(validator.ListReportKindsRequest, validator.ListReportKindsResponse)
    delete_report_kind = Unary(validator.DeleteReportKindRequest, validator.DeleteReportKindResponse)


class Evaluator(Service[M]):
    """Scores, judges and compares submissions."""

    STUB = EvaluatorServiceStub
    evaluate = Unary(evaluator.EvaluateRequest, evaluator.EvaluateResponse)
    judge = Unary(evaluator.JudgeRequest, evaluator.JudgeResponse)
    decide_round = Unary(evaluator.DecideRoundRequest, evaluator.DecideRoundResponse)
    compare_submissions = Unary(evaluator.CompareSubmissionsRequest, evaluator.CompareSubmissionsResponse)
    rank_comparisons = Unary(evaluator.RankComparisonsRequest, evaluator.RankComparisonsResponse)


class Leaderboard(Service[M]):
    """Records of rounds and the ranking of teams."""

    STUB = LeaderboardServiceStub
    upsert_entry = Unary(leaderboard.UpsertLeaderboardEntryRequest, leaderboard.UpsertLeaderboardEntryResponse)
    record_judgement = Unary(leaderboard.RecordJudgementRequest, leaderboard.RecordJudgementResponse)
    get_ranking = Unary(leaderboard.GetRankingRequest, leaderboard.GetRankingResponse)
    get_best_submission = Unary(leaderboard.GetBestSubmissionRequest, leaderboard.GetBestSubmissionResponse)
    list_entries = Unary(leaderboard.ListLeaderboardEntriesRequest, leaderboard.ListLeaderboardEntriesResponse)
