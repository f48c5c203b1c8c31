"""The chapters of the demo: for people, and as JSON."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from hansei.client.cli.loop import Answered, Chapter, Found, UsedAgain
from hansei.client.cli.output import as_json
from hansei.client.cli.show import learned, ranked
from hansei.client.cli.show.words import FAINT, ID, hanging, votes_of
from hansei.client.learning import Outcome

STAGES = {
    Outcome: "1  Learn: what went wrong, and what the playbook keeps of it",
    Found: "2  Search: the bullets for a query, by vector and BM25 score",
    Answered: "3  Answer: from the bullets that were found",
    UsedAgain: "4  Learn again: a run that was served a bullet votes on it",
}


def heading(chapter: Chapter) -> RenderableType:
    """The title of the part a chapter belongs to."""
    return Group(Rule(Text(STAGES[type(chapter)], "bold"), align="left", style=FAINT), Text())


def view(chapter: Chapter) -> RenderableType:
    """A chapter for people."""
    match chapter:
        case Outcome():
            return learned.report(chapter)
        case Found():
            return Group(_asked(chapter), ranked.bullets(chapter.response.results), Text())
        case Answered():
            return Group(_asked(chapter), ranked.answer(chapter.response), Text())
        case UsedAgain():
            return _used_again(chapter)


def _asked(asked: Found | Answered) -> Text:
    return Text.assemble(("? ", "bold"), (asked.query, "bold"), (f"  {asked.dataset}", FAINT))


def _used_again(chapter: UsedAgain) -> RenderableType:
    counters = Text.assemble(
        (f"{chapter.before.id} ", ID), votes_of(chapter.before), "  →  ", votes_of(chapter.after), "  confidence "
    )
    counters.append(f"{chapter.before.confidence_score:.2f} → {chapter.after.confidence_score:.2f}")
    return Group(
        _asked(chapter.found),
        ranked.bullets(chapter.found.response.results),
        Text(),
        Text.assemble("The run is served the first one, cites it, and is learned from:"),
        Text(),
        learned.report(chapter.outcome),
        hanging("counters", counters),
        Text(),
    )


def document(chapter: Chapter) -> dict[str, object]:
    """A chapter as JSON."""
    match chapter:
        case Outcome():
            return {"chapter": "learned", **learned.document(chapter)}
        case Found() | Answered():
            name = "searched" if isinstance(chapter, Found) else "answered"
            asked = {"dataset": chapter.dataset, "query": chapter.query}
            return {"chapter": name, **asked, "response": as_json(chapter.response)}
        case UsedAgain():
            return {
                "chapter": "used_again",
                "searched": document(chapter.found),
                "learned": document(chapter.outcome),
                "bullet_before": as_json(chapter.before),
                "bullet_after": as_json(chapter.after),
            }
