"""Ranked bullets with their scores, and answers with what they cite."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.show.words import BAD, FAINT, ID, counted, hanging, one_line, votes_of
from hansei.gateway.v1.gateway_service_pb2 import AnswerResponse
from hansei.reflector.v1.trajectory_pb2 import TRAJECTORY_STATUS_FAILURE
from hansei.search.v1.search_pb2 import SearchResult

EXTRACTIVE = "offline"


def bullets(results: Sequence[SearchResult]) -> RenderableType:
    """The bullets, best first: the combined score, what it is made of, the counters, and the text."""
    return Group(*(_bullet(result) for result in results)) if results else Text("nothing fits", FAINT)


def _bullet(result: SearchResult) -> RenderableType:
    parts: list[RenderableType] = [
        Text.assemble(
            (f"vector {result.vector_score:.3f}  BM25 {result.bm25_score:.3f}  ", FAINT),
            (result.bullet.id, ID),
            "  ",
            votes_of(result.bullet),
            (f"  {result.bullet.section}", FAINT),
        ),
        Text(one_line(result.bullet.content), overflow="fold"),
    ]
    if result.terms:
        parts.append(Text("  ".join(f"{term.term} {term.score:.2f}" for term in result.terms), FAINT))
    return hanging(Text(f"{result.combined_score:.3f}", "bold"), Group(*parts), indent=0, width=6)


def answer(response: AnswerResponse) -> RenderableType:
    """The answer, who gave it, and the bullets it cites."""
    run = response.trajectory
    if failed(response):
        return hanging(Text("failed", BAD), run.error_message)
    given = counted(len(response.search_results), "bullet")
    by = f"{response.model}, from {given} at revision {response.revision}"
    if response.model == EXTRACTIVE:
        by += "; without a model the answer is made of the bullets' own sentences"
    cited = Text(", ").join(Text(each, ID) for each in run.cited_bullet_ids) or Text("nothing", FAINT)
    return Group(Text(run.generated_answer), Text(), hanging("cites", cited, 0), hanging("by", Text(by, FAINT), 0))


def failed(response: AnswerResponse) -> bool:
    """Whether the model gave no answer."""
    return response.trajectory.status == TRAJECTORY_STATUS_FAILURE
