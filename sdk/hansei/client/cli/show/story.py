"""The chapters of the demo, for a terminal and as JSON."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.rule import Rule
from rich.text import Text

from hansei.client.cli.loop import AnswerChapter, Chapter, ReuseChapter, SearchChapter
from hansei.client.cli.output import encode_message
from hansei.client.cli.show import outcomes, search_results
from hansei.client.cli.show.words import FAINT, ID, format_vote_counters, label_row
from hansei.client.learning import LearnOutcome

HEADINGS = {
    LearnOutcome: "1  Learn: what went wrong, and the bullets that the playbook gets",
    SearchChapter: "2  Search: the bullets for a query, by vector and BM25 score",
    AnswerChapter: "3  Answer: from the bullets that search returned",
    ReuseChapter: "4  Learn again: a trajectory that was served a bullet votes on it",
}
HEADING_WIDTH = 100


def render_heading(chapter: Chapter) -> RenderableType:
    """Show the heading of the chapters of one kind in the demo."""
    rule = Rule(Text(HEADINGS[type(chapter)], "bold"), align="left", style=FAINT)
    return Group(Constrain(rule, HEADING_WIDTH), Text())  # a pipe has lines of any length


def render_chapter(chapter: Chapter) -> RenderableType:
    """Show a chapter of the demo."""
    match chapter:
        case LearnOutcome():
            return outcomes.render_outcome(chapter)
        case SearchChapter():
            return Group(_render_query(chapter), search_results.render_bullets(chapter.response), Text())
        case AnswerChapter():
            return Group(_render_query(chapter), search_results.render_answer(chapter.response), Text())
        case ReuseChapter():
            return _render_reuse(chapter)


def _render_query(chapter: SearchChapter | AnswerChapter) -> Text:
    return Text.assemble(("? ", "bold"), (chapter.query, "bold"), (f"  {chapter.dataset}", FAINT))


def _render_reuse(chapter: ReuseChapter) -> RenderableType:
    before, after = chapter.before, chapter.after
    counters = Text.assemble((f"{before.id} ", ID), format_vote_counters(before), "  →  ", format_vote_counters(after))
    counters.append(f"  confidence {before.confidence_score:.2f} → {after.confidence_score:.2f}")
    return Group(
        _render_query(chapter.search),
        search_results.render_bullets(chapter.search.response),
        Text(),
        Text("The trajectory is served the first bullet, cites it, and is learned:"),
        Text(),
        outcomes.render_outcome(chapter.outcome),
        label_row("counters", counters),
        Text(),
    )


def build_document(chapter: Chapter) -> dict[str, object]:
    """Return a chapter of the demo as a JSON object."""
    match chapter:
        case LearnOutcome():
            return {"chapter": "learned", **outcomes.build_document(chapter)}
        case SearchChapter() | AnswerChapter():
            name = "searched" if isinstance(chapter, SearchChapter) else "answered"
            query = {"dataset": chapter.dataset, "query": chapter.query}
            return {"chapter": name, **query, "response": encode_message(chapter.response)}
        case ReuseChapter():
            return {
                "chapter": "used_again",
                "searched": build_document(chapter.search),
                "learned": build_document(chapter.outcome),
                "bullet_before": encode_message(chapter.before),
                "bullet_after": encode_message(chapter.after),
            }
