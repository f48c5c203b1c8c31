"""Names the step and the agent at which a failed trajectory went wrong, from the form of the steps.

Every step after the question is a candidate: of an agent, of the user, or of a tool, which is the environment. Signs
of form (the first failing call, made-up data, the first occurrence of a value of the answer, ...) are weighted and
summed; the candidate with the highest sum is blamed, the first of equal ones, and the softmax of the sums estimates the
probabilities. No sign depends on a question or the name of an agent; a call writes unless its tool is named by a verb
of reading. The weights were fitted by conditional logistic regression, except that of `writes_first`: weights fitted on
logs of agents do not find the step in conversations with a user, so there the first writing call leads (ADR 163).
`bench/attribution.py` fits the weights again, with cross-validation and with one source left out.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from libs.trajectories.actions import ToolUse
from libs.trajectories.excerpts import shorten_middle
from services.reflector.domain.trajectory import Step

Sign = Literal[
    "acts", "opens_with_code", "fails_first", "claims", "claims_and_acts", "invents", "postpones", "amends",
    "answers_first", "hands_in", "writes_first", "writes", "requests", "asks", "returns",
]  # fmt: skip

WEIGHTS: Mapping[Sign, float] = {
    "acts": 1.2,
    "opens_with_code": 0.9,
    "fails_first": 0.6,
    "claims": 1.4,
    "claims_and_acts": -0.2,
    "invents": 0.6,
    "postpones": -0.6,
    "amends": -0.4,
    "answers_first": 0.8,
    "hands_in": -0.5,
    "writes_first": 2.0,
    "writes": 0.7,
    "requests": 0.1,
    "asks": 0.7,
    "returns": -1.5,
}
"""The weight of each sign."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A step that may have caused the failure, and its signs."""

    step: Step
    signs: frozenset[Sign]

    @property
    def weight(self) -> float:
        """Return the sum of its signs' weights."""
        return math.fsum(WEIGHTS[sign] for sign in self.signs)  # fsum gives the same sum in any order

    @property
    def leading_sign(self) -> Sign | None:
        """Return the sign with the highest positive weight, None if there is none; `returns` for a result."""
        speaking = [sign for sign in WEIGHTS if sign in self.signs and (WEIGHTS[sign] > 0 or sign == "returns")]
        return max(speaking, key=lambda sign: WEIGHTS[sign], default=None)


def rank_candidates(steps: Sequence[Step], actions: Sequence[ToolUse]) -> list[tuple[Candidate, float]]:
    """Return the candidates with their estimated probabilities, most probable first, the first of equal ones first."""
    ranked = sorted(find_candidates(steps, actions), key=lambda candidate: -candidate.weight)
    total = math.fsum(math.exp(candidate.weight) for candidate in ranked)
    return [(candidate, math.exp(candidate.weight) / total) for candidate in ranked]


def find_writing_calls(steps: Sequence[Step], actions: Sequence[ToolUse]) -> list[int]:
    """Return the steps of the tool calls that may change something: all but those named by a verb of reading."""
    return [use.call_step for use in actions if steps[use.call_step].tool_calls and not _READS.search(use.tool)]


_READ_CHARS = 3_000
_MAX_VALUES = 100
_VALUE_CHARS = 60
_PROMISE_CHARS = 900
_DISPATCHED_SHARE = 0.8
_MIN_DISPATCHED = 3
_MIN_DISPATCHER_SHARE = 0.4
_FENCE = re.compile(r"```[^\n]{0,80}\n.*?(?:```|\Z)", re.S)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_MARKED = re.compile(r"\*\*([^*\n]{1,60})\*\*|\"([^\"\n]{1,60})\"(?!\s*:)|「([^」\n]{1,60})」")
_END_MARK = re.compile(r"\bTERMINATE\W*$")
_READS = re.compile(
    r"(?:^|[^A-Za-z])(?:get|list|find|search|read|look|fetch|view|show|query|count|check|calculate|think)(?![a-z])"
)
# These patterns match lower-case text, which takes half the time of re.IGNORECASE.
_INVENTED = re.compile(
    r"\b(?:assum\w*|hypothetical\w*|simulat\w*|mock|dummy|placeholder|synthetic|sample data\w*|fictional"
    r"|example (?:data|dataset|values?|url|id)|demonstrat\w*|for illustration|let's say|suppose|path/to|your_\w+)\b"
    r"|仮定|架空|ダミー|サンプルデータ|仮の"
)
_PROMISED = re.compile(
    r"\b(?:i will|i'll|let's|let me|next,? |we need to|we will|please provide|could you|can you|shall we|hold on)\b"
    r"|します。|しましょう|てください"
)
_CLAIMED = re.compile(
    r"\b(?:the (?:final )?(?:answer|result|output) (?:is|are)|therefore|thus|based on|according to"
    r"|i (?:have )?(?:found|checked|verified|confirmed|identified|obtained|retrieved|gathered)"
    # Output that is only displayed is no claim.
    r"|here (?:is|are)(?! an? (?:screenshot|list|page)))\b"
    r"|\b(?:is|are) \*\*|によると|に基づ|答えは|結果は"
)
_AMENDED = re.compile(
    r"\b(?:it (?:seems|appears|looks like)|there (?:was|is) an (?:issue|error)|the error|correct(?:ed)? (?:the )?"
    r"(?:code|script)|fix\w*|instead|alternative)\b|エラーが|修正|代わりに"
)


def find_candidates(steps: Sequence[Step], actions: Sequence[ToolUse]) -> list[Candidate]:
    """Return the candidate steps with their signs, in order, in linear time."""
    spoken = [step for step in steps if step.role == "assistant" and (_says_something(step) or step.tool_calls)]
    dispatcher = _find_dispatcher(spoken)
    suspects = {step.index for step in spoken if step.speaker != dispatcher} or {step.index for step in spoken}
    first = min(suspects, default=None)
    first_failure = next((action.call_step for action in actions if action.error is not None), None)
    values = _extract_values([step for step in spoken if step.index in suspects][-2:])
    conversation_signs = _find_conversation_signs(steps, actions)
    numbers_before: set[str] = set()
    answered = False
    found: list[Candidate] = []
    for step in steps:
        text = _read(step)
        answers = not answered and step.index in suspects and step.index != first and _holds_any(text, values)
        answered |= answers
        if step.index in suspects:
            signs = _find_signs(text, _acts(step, text), numbers_before)
            if step.index == first_failure:
                signs.add("fails_first")
            if answers:
                signs.add("answers_first")
            if step.index == first and "acts" in signs:
                signs.add("opens_with_code")
            found.append(Candidate(step, frozenset(signs | conversation_signs.get(step.index, set()))))
        elif first is not None and step.index > first and step.role in ("user", "tool"):
            sign: Sign = "asks" if step.role == "user" else "returns"
            found.append(Candidate(step, frozenset({sign} | conversation_signs.get(step.index, set()))))
        numbers_before.update(_NUMBER.findall(text))
    return found


def _find_conversation_signs(steps: Sequence[Step], actions: Sequence[ToolUse]) -> dict[int, set[Sign]]:
    """Return the signs of writing calls and of the user's messages before them; none if the user never replies."""
    signs: dict[int, set[Sign]] = {}
    turns = [step.index for step in steps if step.role == "user"]
    first = next((step.index for step in steps if step.role == "assistant"), len(steps))
    if not turns or turns[-1] < first:
        return signs
    for index in find_writing_calls(steps, actions):
        signs.setdefault(index, {"writes"} if signs else {"writes_first"})
        position = bisect_left(turns, index)
        if position and turns[position - 1] > first:
            signs[turns[position - 1]] = {"requests"}
    return signs


def _says_something(step: Step) -> bool:
    text = step.content if len(step.content) > _VALUE_CHARS else _END_MARK.sub("", step.content.strip())
    return bool(text.strip())


def _find_dispatcher(spoken: Sequence[Step]) -> str | None:
    """Return the agent that only dispatches work, None if there is none.

    It rarely acts, has a large share of all turns, and speaks before nearly every turn of the other agents.
    """
    collector = Counter(step.speaker for step in spoken)
    if len(collector) < 2:
        return None
    name, count = collector.most_common(1)[0]
    before = [earlier.speaker for earlier, step in pairwise(spoken) if step.speaker != name]
    acted = sum(_acts(step, _read(step)) for step in spoken if step.speaker == name)
    hands_out = (
        count >= _MIN_DISPATCHER_SHARE * len(spoken)
        and len(before) >= _MIN_DISPATCHED
        and before.count(name) >= _DISPATCHED_SHARE * len(before)
        and acted <= (1 - _DISPATCHED_SHARE) * count
    )
    return name if hands_out else None


def _acts(step: Step, text: str) -> bool:
    return bool(step.tool_calls) or bool(_FENCE.search(text))


def _find_signs(text: str, acts: bool, numbers_before: Collection[str]) -> set[Sign]:
    lower = text.lower()
    prose = _FENCE.sub(" ", lower)
    signs: set[Sign] = set()
    if acts:
        signs.add("acts")
    if _CLAIMED.search(prose):
        signs.add("claims_and_acts" if acts else "claims")
    if _INVENTED.search(lower):
        signs.add("invents")
    if _AMENDED.search(prose):
        signs.add("amends")
    if _END_MARK.search(text):
        signs.add("hands_in")
    if not acts and len(text) < _PROMISE_CHARS and _PROMISED.search(prose):
        numbers = (number for number in _NUMBER.findall(prose) if len(number) > 1)
        if all(number in numbers_before for number in numbers):
            signs.add("postpones")
    return signs


def _read(step: Step) -> str:
    return shorten_middle(step.content, _READ_CHARS)


def _extract_values(last: Sequence[Step]) -> tuple[str, ...]:
    """Return the values of the answer: marked or quoted words and numbers of the last messages."""
    values: dict[str, None] = {}
    for text in map(_read, last):
        marked = (found for groups in _MARKED.findall(text) for found in groups)
        numbers = (number for number in _NUMBER.findall(text) if len(number) > 1)
        values.update(dict.fromkeys(_normalize_value(value) for value in (*marked, *numbers) if value.strip()))
    return tuple(values)[:_MAX_VALUES]


def _holds_any(text: str, values: Sequence[str]) -> bool:
    plain = _normalize_value(text)
    return any(value in plain for value in values)


def _normalize_value(text: str) -> str:
    return text.strip().lower().replace(",", "")
