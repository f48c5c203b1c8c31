"""Ranked bullets with their scores, and answers with their citations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.show.words import (
    BAD,
    FAINT,
    ID,
    count_noun,
    format_usage,
    format_vote_counters,
    label_row,
    put_on_one_line,
)
from hansei.client.matches import describe_no_match

if TYPE_CHECKING:
    from hansei.gateway.v1.gateway_service_pb2 import AnswerResponse
    from hansei.search.v1.search_pb2 import SearchResult
    from hansei.search.v1.search_service_pb2 import SearchResponse

OFFLINE_MODEL = "offline"


def render_bullets(response: SearchResponse) -> RenderableType:
    """Show the bullets, best first: the scores, the vote counters, and the text."""
    results = response.results
    if not results:
        return Text("no bullet passes the filters", FAINT)
    rows = [_render_bullet(result) for result in results]
    if response.nothing_matched:
        rows.insert(0, Text(f"{describe_no_match(response)} The nearest bullets:\n", BAD))
    return Group(*rows)


def _render_bullet(result: SearchResult) -> RenderableType:
    parts: list[RenderableType] = [
        Text.assemble(
            (f"similarity {result.raw_cosine:.2f}  {'keyword' if result.keyword_match else 'no keyword'}  ", ""),
            (f"vector {result.vector_score:.3f}  BM25 {result.bm25_score:.3f}  ", FAINT),
            (result.bullet.id, ID),
            "  ",
            format_vote_counters(result.bullet),
            (f"  {result.bullet.section}", FAINT),
        ),
        Text(put_on_one_line(result.bullet.content), overflow="fold"),
    ]
    if result.terms:
        parts.append(Text("  ".join(f"{term.term} {term.score:.2f}" for term in result.terms), FAINT))
    return label_row(Text(f"{result.combined_score:.3f}", "bold"), Group(*parts), indent=0, width=6)


def render_answer(response: AnswerResponse) -> RenderableType:
    """Show the answer, its citations, and its model."""
    trajectory = response.trajectory
    if is_failure(response):
        return label_row(Text("failed", BAD), trajectory.error_message)
    served = count_noun(len(response.search_results), "bullet")
    origin = f"{response.model}, from {served} at revision {response.revision}"
    if response.model == OFFLINE_MODEL:
        origin += "; without a model, the answer consists of sentences of the bullets"
    citations = Text(", ").join(Text(id_, ID) for id_ in trajectory.cited_bullet_ids) or Text("nothing", FAINT)
    return Group(
        Text(trajectory.generated_answer),
        Text(),
        label_row("cites", citations, 0),
        label_row("model", Text(origin, FAINT), 0),
        label_row("usage", Text(format_usage(response.usage), FAINT), 0),
        *([label_row("serving", Text(response.serving_id, ID), 0)] if response.serving_id else []),
        *([label_row("note", Text(response.note, FAINT), 0)] if response.note else []),
    )


def is_failure(response: AnswerResponse) -> bool:
    """Return whether the model gave no answer."""
    from hansei.reflector.v1.trajectory_pb2 import TRAJECTORY_STATUS_FAILURE

    return response.trajectory.status == TRAJECTORY_STATUS_FAILURE
