"""The outcome of a trajectory by the scores that people and evaluators gave it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from services.reflector.adapters.importers.step_collector import RecordedOutcome
from services.reflector.domain.outcome import REWARD_OF_SUCCESS

_OF_SUCCESS = re.compile(
    r"correct|success|pass(?:ed)?\b|solved|resolved|reward|accura|complet|goal|thumb"
    r"|user[-_ ]?(?:score|feedback|rating)|^score$",
    re.IGNORECASE,
)
"""Names of scores that say whether the task was done; others, such as cost or toxicity, say something else."""
_LABELS = {
    **dict.fromkeys(("pass", "passed", "correct", "success", "true", "yes", "good", "thumbs_up", "thumbs up"), True),
    **dict.fromkeys(
        ("fail", "failed", "incorrect", "wrong", "false", "no", "bad", "thumbs_down", "thumbs down"), False
    ),
}


@dataclass(frozen=True, slots=True)
class Score:
    """A score of a trajectory: a number, a truth value or a label."""

    name: str
    value: object
    comment: str = ""
    is_of_person: bool = False


def choose_outcome(scores: Sequence[Score], program: str) -> RecordedOutcome | None:
    """Return the outcome by the last score that says whether the task was done; a person's precedes a program's.

    None without such a score. A number outside 0 to 1 is ignored, because its scale is unknown.
    """
    rated = [score for score in scores if _OF_SUCCESS.search(score.name) and _read_rating(score.value) is not None]
    chosen = next((score for score in reversed(rated) if score.is_of_person), rated[-1] if rated else None)
    rating = _read_rating(chosen.value) if chosen else None
    if chosen is None or rating is None:
        return None
    by = " by a person" if chosen.is_of_person else ""
    source = f"{program}'s score {chosen.name}{by} is {chosen.value}"
    comment = " ".join(chosen.comment.split())[:1_000]
    source = f"{source} ({comment})" if comment else source
    return RecordedOutcome(rating > REWARD_OF_SUCCESS, source, "reward", rating)


def _read_rating(value: object) -> float | None:
    """Return a score from 0 to 1; None for anything else."""
    if isinstance(value, str):
        label = _LABELS.get(value.strip().lower())
        return None if label is None else float(label)
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    return None
