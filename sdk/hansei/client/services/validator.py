"""The services of `hansei.validator.v1`."""

from __future__ import annotations

from hansei.client.calls import M, ServiceClient, bind_unary
from hansei.validator.v1 import evaluator_service_pb2 as evaluator
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard
from hansei.validator.v1 import validator_service_pb2 as validator


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
