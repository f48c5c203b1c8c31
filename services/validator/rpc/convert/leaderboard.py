"""Conversion between messages and entries of the leaderboard."""

from __future__ import annotations

from chassis.server.messages import decode, encode
from hansei.validator.v1 import leaderboard_service_pb2 as pb
from services.validator.domain.leaderboard import LeaderBoardEntry, LeaderboardSummary, RoundKey, Submission
from services.validator.rpc.convert.evaluation import decode_result


def decode_submission(entry: pb.LeaderBoardEntry) -> Submission:
    """Return the submission of a round. Raises EvaluationInvalid."""
    return Submission(
        RoundKey(**decode(entry.key)),
        entry.team_name,
        entry.submission_content,
        entry.score,
        decode_result(entry.score_details) if entry.HasField("score_details") else None,
        entry.submission_format or "md",
        entry.final_submission,
        entry.exit_reason if entry.HasField("exit_reason") else None,
    )


def encode_entry(entry: LeaderBoardEntry) -> pb.LeaderBoardEntry:
    """Return the message of an entry."""
    return encode(
        entry.submission,
        pb.LeaderBoardEntry,
        id=entry.id,
        create_time=entry.created_at,
        update_time=entry.updated_at,
        judgement=entry.judgement,
    )


def encode_summary(summary: LeaderboardSummary) -> pb.LeaderboardSummary:
    """Return the message of an execution in short."""
    return encode(summary, pb.LeaderboardSummary, create_time=summary.created_at, update_time=summary.updated_at)
