"""Rounds of teams, scores, judgements and rankings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.show.words import (
    BAD,
    FAINT,
    GOOD,
    ID,
    count_noun,
    format_time,
    format_usage,
    keep_ids_whole,
    label_row,
    make_score_table,
    put_on_one_line,
)
from hansei.validator.v1.leaderboard_service_pb2 import GetRankingResponse, LeaderBoardEntry, LeaderboardSummary

if TYPE_CHECKING:
    from hansei.gateway.v1.rounds_service_pb2 import RoundsResult, RunRoundsResponse
    from hansei.validator.v1.evaluator_service_pb2 import EvaluateResponse, JudgeResponse

SHOWN_CHARS = 160


def render_event(response: RunRoundsResponse) -> RenderableType:
    """Show a finished round on one line, or the result of all teams."""
    if response.HasField("result"):
        return _render_result(response.result, response.execution_id)
    finished = response.round_finished
    line = _render_round_heading(finished.team_id, finished.round.round_number, finished.round.evaluation_score)
    return line.append(f"  {put_on_one_line(finished.round.submission_content, SHOWN_CHARS)}", FAINT)


def render_entry(row: LeaderBoardEntry) -> RenderableType:
    """Show a submission with its scores and its judgement."""
    heading = _render_round_heading(row.key.team_id, row.key.round_number, row.score)
    if row.final_submission:
        heading.append("  final", GOOD)
        heading.append(f"  {row.exit_reason}", FAINT)
    parts: list[RenderableType] = [heading, label_row("submitted", row.submission_content)]
    parts += [
        label_row(metric.metric_name, f"{metric.score:.2f}  {put_on_one_line(metric.evaluator_comment)}", width=18)
        for metric in row.score_details.metrics
    ]
    if row.HasField("judgement"):
        parts.append(label_row("judged", row.judgement.reasoning))
    return Group(*parts)


def render_leaderboards(row: LeaderboardSummary) -> RenderableType:
    """Show an execution with its best team."""
    line = Text.assemble((row.execution_id, ID), f"  {row.best_team_id} {row.max_score:.2f}")
    counts = f"{count_noun(row.teams, 'team')}, {count_noun(row.entries, 'submission')}"
    return line.append(f"  {counts}, {format_time(row.update_time)}", FAINT)


def render_ranking(response: GetRankingResponse) -> RenderableType:
    """Show the teams by rank."""
    is_shrunken = any(row.HasField("shrunken_score") for row in response.rows)
    table = make_score_table("team", "rank", "best score", "rounds", *(["mean", "±"] if is_shrunken else []))
    for row in response.rows:
        estimate = (f"{row.shrunken_score:.2f}", f"{row.standard_error:.2f}") if is_shrunken else ()
        table.add_row(Text(row.team_id, ID), str(row.rank), f"{row.max_score:.2f}", str(row.total_rounds), *estimate)
    return keep_ids_whole(table)


def render_evaluation(response: EvaluateResponse) -> RenderableType:
    """Show the score of each metric, the overall score, and the usage."""
    table = make_score_table("metric", "score")
    table.add_column("comment", overflow="fold")
    for metric in response.result.metrics:
        score = f"{metric.score:.2f}"
        if metric.HasField("sampled"):
            score += f" ({metric.sampled.lower:.0f} to {metric.sampled.upper:.0f})"
        table.add_row(metric.metric_name, score, put_on_one_line(metric.evaluator_comment))
    table.add_row(Text("overall", "bold"), Text(f"{response.result.overall_score:.2f}", "bold"), "")
    return Group(table, Text(format_usage(response.usage), FAINT))


def render_judgement(response: JudgeResponse) -> RenderableType:
    """Show whether another round is worthwhile, why, and the usage."""
    judged = response.judgment
    verdict = Text("another round is worthwhile" if judged.should_continue else "no further round is worthwhile")
    verdict.append(f"  confidence {judged.confidence_score:.2f}", FAINT)
    return Group(verdict, Text(judged.reasoning), Text(format_usage(response.usage), FAINT))


def _render_result(result: RoundsResult, execution_id: str) -> RenderableType:
    """Show the ranking, how each team ended, and the best submission."""
    parts: list[RenderableType] = (
        [Text(), render_ranking(GetRankingResponse(rows=result.ranking))] if result.ranking else []
    )
    for team in result.teams:
        ended = Text(team.exit_reason or "failed", FAINT if team.exit_reason else BAD)
        ended.append(f"  {count_noun(team.rounds, 'round')}", FAINT)
        if team.error:
            ended.append(f"  {team.error}", BAD)
        parts.append(label_row(Text(team.team_id, ID), ended, indent=0, width=20))
    if result.HasField("best_submission"):
        parts += [Text.assemble("\nbest, by ", (result.best_team_id, ID), ":"), Text(result.best_submission)]
    return Group(*parts, Text(f"\n{format_usage(result.usage)}\nexecution {execution_id}", FAINT))


def _render_round_heading(team_id: str, round_number: int, score: float) -> Text:
    return Text.assemble((team_id, ID), f" round {round_number}  ", (f"{score:.2f}", "bold"))
