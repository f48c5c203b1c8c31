from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.retry import RetryPolicy
from libs.embedding.errors import EmbeddingFailed
from libs.embedding.remote import RemoteModel
from libs.llm.attempts import Attempts, CallPolicy
from libs.llm.failures import translate_failure


class LengthModel:
    """Embeds a text as (its length, 1)."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.batches.append(texts)
        return [[float(len(text)), 1.0] for text in texts]


class FixedReplyModel:
    """Gives the same answer to every request."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def aembed_documents(self, texts: list[str]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def client_of(model: Any, **options: Any) -> RemoteModel:
    attempts = Attempts("m", CallPolicy(RetryPolicy(attempts=1)), lambda error: translate_failure(error, "m"))
    return RemoteModel(model, "m", attempts, **options)


@given(st.lists(st.text(max_size=5), max_size=20), st.integers(1, 7))
async def test_vectors_have_the_order_of_the_texts_for_any_batches(texts: list[str], batch_size: int) -> None:
    model = LengthModel()
    vectors = await client_of(model, batch_size=batch_size).embed(texts)
    assert vectors.dtype == np.float32
    assert [row[0] for row in vectors.tolist()] == [len(text or " ") for text in texts]
    assert [text for batch in model.batches for text in batch] == [text or " " for text in texts]
    assert max(map(len, model.batches), default=0) <= batch_size


async def test_no_texts_need_no_call() -> None:
    model = LengthModel()
    assert (await client_of(model, dimension=3).embed([])).shape == (0, 3)
    assert model.batches == []


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ([[1.0]], "sent 1 vectors for 2 texts"),
        ([[1.0], [1.0], [1.0]], "sent 3 vectors for 2 texts"),
        ([[1.0, 2.0], [1.0]], "sent a vector of dimension 1, not 2"),
        ([[], []], "sent a vector of dimension 0, not 0"),
        ([[float("nan")], [1.0]], "a number that is not finite"),
        ([[float("inf")], [1.0]], "a number that is not finite"),
        ([[1e300], [1.0]], "a number that is not finite"),
        ([[[1.0]], [[1.0]]], "a vector whose elements are lists"),
        ([None, [1.0]], "malformed response"),
        ([["a"], [1.0]], "malformed response"),
        (None, "malformed response"),
    ],
)
async def test_a_reply_without_valid_vectors_is_refused(answer: Any, complaint: str) -> None:
    client = client_of(FixedReplyModel(answer))
    with pytest.raises(EmbeddingFailed, match=complaint):
        await client.embed(["a", "b"])
    assert client.dimension == 0


async def test_the_dimension_may_not_change() -> None:
    with pytest.raises(EmbeddingFailed, match="dimension 2, not 3"):
        await client_of(LengthModel(), dimension=3).embed(["a"])
    client = client_of(LengthModel())
    await client.embed(["a"])
    assert client.dimension == 2


async def test_a_failing_batch_fails_the_whole() -> None:
    with pytest.raises(EmbeddingFailed, match="cannot be reached"):
        await client_of(FixedReplyModel(ConnectionResetError("reset")), batch_size=1).embed(["a", "b", "c"])
