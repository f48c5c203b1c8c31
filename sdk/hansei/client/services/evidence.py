"""The services of `hansei.evidence.v1`."""

from __future__ import annotations

from hansei.client.calls import M, ServiceClient, bind_server_stream, bind_unary
from hansei.evidence.v1 import archive_service_pb2 as archive
from hansei.evidence.v1 import evidence_service_pb2 as evidence
from hansei.evidence.v1 import guard_service_pb2 as guards
from hansei.evidence.v1 import overview_service_pb2 as overview


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
