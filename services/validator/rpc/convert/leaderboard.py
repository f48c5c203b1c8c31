"""Entries, judgements and rankings as protobuf messages."""

from __future__ import annotations

from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from hansei.validator.v1 import leaderboard_service_pb2 as pb
from services.validator.domain.leaderboard import (
    JudgementRecord,
    LeaderBoardEntry,
    RankingRow,
    RoundKey,
    Submission,
)
from services.validator.rpc.convert.evaluation import result_message, result_of


def key_of(key: pb.RoundKey) -> RoundKey:
    """One round of one team."""
    return RoundKey(key.execution_id, key.team_id, key.round_number)


def submission_of(entry: pb.LeaderBoardEntry) -> Submission:
    """What is written for a round. Raises EvaluationInvalid."""
    return Submission(
        key_of(entry.key),
        entry.team_name,
        entry.submission_content,
        entry.score,
        result_of(entry.score_details) if entry.HasField("score_details") else None,
        entry.submission_format or "md",
        entry.final_submission,
        entry.exit_reason if entry.HasField("exit_reason") else None,
    )


def record_of(record: pb.JudgementRecord) -> JudgementRecord:
    """A judgement; what is absent is null."""
    return JudgementRecord(
        record.should_continue if record.HasField("should_continue") else None,
        record.reasoning if record.HasField("reasoning") else None,
        record.confidence_score if record.HasField("confidence_score") else None,
    )


def entry_message(entry: LeaderBoardEntry) -> pb.LeaderBoardEntry:
    """An entry on the wire."""
    submission, key = entry.submission, entry.submission.key
    details = submission.score_details
    return pb.LeaderBoardEntry(
        id=entry.id,
        key=pb.RoundKey(execution_id=key.execution_id, team_id=key.team_id, round_number=key.round_number),
        team_name=submission.team_name,
        submission_content=submission.submission_content,
        submission_format=submission.submission_format,
        score=submission.score,
        score_details=None if details is None else result_message(details),
        final_submission=submission.final_submission,
        exit_reason=submission.exit_reason,
        create_time=_timestamp(entry.created_at),
        update_time=_timestamp(entry.updated_at),
        judgement=None if entry.judgement is None else _record_message(entry.judgement),
    )


def _record_message(record: JudgementRecord) -> pb.JudgementRecord:
    return pb.JudgementRecord(
        should_continue=record.should_continue,
        reasoning=record.reasoning,
        confidence_score=record.confidence_score,
    )


def row_message(rank: int, row: RankingRow) -> pb.RankingRow:
    """A row of a ranking on the wire."""
    return pb.RankingRow(
        rank=rank,
        team_id=row.team_id,
        team_name=row.team_name,
        max_score=row.max_score,
        total_rounds=row.total_rounds,
        shrunken_score=row.shrunken_score,
        standard_error=row.standard_error,
    )


def _timestamp(moment: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp
