"""Scores continuations with a model behind an OpenAI-compatible server.

Servers that return the probabilities of a given text (`echo` with `logprobs`: vLLM, `bench.lift.model_server`) score
each continuation. Other servers choose among letters; without probabilities, the letter that they name gets all weight.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from hansei.client.lift.agent import Scorer

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types.chat import ChatCompletion, ChatCompletionUserMessageParam

LETTERS = "ABCDEFGH"
TIMEOUT_SECONDS = 300
_UNLIKELY = -20.0
"""The weight of a letter that is not among the most likely tokens."""


def connect(base_url: str, api_key: str, model: str, *, by_letters: bool = False) -> Scorer:
    """Return the best scorer that the server supports; an empty `model` is the first that the server lists.

    `by_letters` avoids the probabilities of texts, which some servers compute slowly.
    """
    from openai import BadRequestError, NotFoundError, OpenAI, UnprocessableEntityError

    client = OpenAI(base_url=base_url, api_key=api_key or "none", timeout=TIMEOUT_SECONDS)
    once = client.with_options(max_retries=0)  # a wrong address is reported without a pause
    name = model or next(iter(once.models.list())).id
    if by_letters:
        return LetterScorer(client, name)
    try:
        TextScorer(once, name).score("1 2 3", [" 4", " 5"])
    except (BadRequestError, NotFoundError, UnprocessableEntityError, UnsupportedEchoError):
        return LetterScorer(client, name)
    return TextScorer(client, name)


class UnsupportedEchoError(Exception):
    """The server does not return the probabilities of the prompt."""


@dataclass(slots=True)
class TextScorer:
    """Scores each continuation by its probability for each character, so that long ones are not at a disadvantage."""

    client: OpenAI
    model: str
    method: str = "probability of the text"

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the mean logarithm of a character, times the mean length of the continuations."""
        length = sum(map(len, continuations)) / len(continuations)
        return [self._score_text(prompt, text) / len(text) * length for text in continuations]

    def _score_text(self, prompt: str, text: str) -> float:
        completion = self.client.completions.create(
            model=self.model, prompt=prompt + text, max_tokens=1, echo=True, logprobs=1, temperature=0
        )
        found = completion.choices[0].logprobs
        offsets, logprobs = (found.text_offset or [], found.token_logprobs or []) if found else ([], [])
        end = len(prompt) + len(text)
        scored = [logprob for offset, logprob in zip(offsets, logprobs, strict=False) if len(prompt) <= offset < end]
        if not scored or None in scored:
            raise UnsupportedEchoError
        return math.fsum(logprob for logprob in scored if logprob is not None)


@dataclass(slots=True)
class LetterScorer:
    """Lets a chat model choose a letter."""

    client: OpenAI
    model: str
    method: str = "chosen letter"
    _has_logprobs: bool = field(default=True, init=False)

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the logarithm of the probability of each letter, or 0 for the letter that the reply names."""
        letters = LETTERS[: len(continuations)]
        options = "\n".join(f"{letter}:{text.rstrip()}" for letter, text in zip(letters, continuations, strict=True))
        question = f"{prompt}\n\nWhich action is right?\n{options}\nReply with the letter alone."
        completion = self._complete(question)
        choice = completion.choices[0]
        weights = dict.fromkeys(letters, _UNLIKELY)
        tokens = choice.logprobs.content if choice.logprobs and choice.logprobs.content else []
        for option in tokens[0].top_logprobs if tokens else []:
            letter = option.token.strip()
            if letter in weights:
                weights[letter] = max(weights[letter], option.logprob)
        if max(weights.values()) == _UNLIKELY:
            named = next((letter for letter in (choice.message.content or "") if letter in weights), None)
            weights.update({named: 0.0} if named else {})
        return list(weights.values())

    def _complete(self, question: str) -> ChatCompletion:
        from openai import BadRequestError, UnprocessableEntityError

        messages: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": question}]
        if self._has_logprobs:
            try:
                return self.client.chat.completions.create(
                    model=self.model, messages=messages, max_tokens=1, logprobs=True, top_logprobs=10, temperature=0
                )
            except (BadRequestError, UnprocessableEntityError):
                self._has_logprobs = False
        return self.client.chat.completions.create(model=self.model, messages=messages)


@dataclass(slots=True)
class CachedScorer:
    """Keeps scores in a file of JSON lines, so that an interrupted measurement can be continued."""

    scorer: Scorer
    file: Path
    _scores: dict[str, list[float]] = field(default_factory=dict, init=False)

    @property
    def method(self) -> str:
        """Return how the scorer makes its estimates."""
        return self.scorer.method

    def __post_init__(self) -> None:
        """Read the scores of earlier measurements."""
        if self.file.exists():
            lines = self.file.read_text(encoding="utf-8").splitlines()
            self._scores = {entry["key"]: entry["scores"] for entry in map(json.loads, lines)}

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the stored scores, or those of the model."""
        key = sha256(json.dumps([prompt, *continuations]).encode()).hexdigest()
        if key not in self._scores:
            self._scores[key] = self.scorer.score(prompt, continuations)
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"key": key, "scores": self._scores[key]}) + "\n")
        return self._scores[key]
