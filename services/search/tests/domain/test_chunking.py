"""Long texts are cut into chunks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.search.domain.chunking import Chunking, split_into_chunks
from services.search.domain.collection_errors import ChunkOverlapTooLarge
from services.search.domain.tokenizers import TOKENIZERS

WORDS = st.text(st.sampled_from('abc.!?。、 \n　日本語かなカナ"」x'), max_size=400)


def split_texts(text: str, tokens: int, overlap: int, tokenizer: str = "whitespace") -> list[str]:
    tokenize = TOKENIZERS[tokenizer]
    spans = split_into_chunks(text, lambda part: len(tokenize(part)), Chunking(tokens, overlap))
    return [text[slice(*span)] for span in spans]


def test_a_short_text_is_one_chunk_without_the_blank_around_it() -> None:
    assert split_texts("  One sentence. Another one.\n", 10, 2) == ["One sentence. Another one."]


@pytest.mark.parametrize("blank", ["", " ", "\n\n　\t"])
def test_a_blank_text_has_no_chunk(blank: str) -> None:
    assert split_texts(blank, 10, 2) == []


def test_chunks_are_whole_sentences_and_begin_with_the_end_of_the_one_before() -> None:
    text = "One two three. Four five six. Seven eight. Nine ten eleven twelve."
    assert split_texts(text, 8, 3) == [
        "One two three. Four five six. Seven eight.",
        "Seven eight. Nine ten eleven twelve.",
    ]


def test_japanese_is_cut_behind_its_own_full_stops() -> None:
    text = "締め切りを渡す。再試行は一度だけ行う！「はい。」と答えた。終わり"
    tokens = [len(TOKENIZERS["mixed"](part)) for part in ("締め切りを渡す。", "再試行は一度だけ行う！")]
    assert split_texts(text, sum(tokens), 0, "mixed") == [
        "締め切りを渡す。再試行は一度だけ行う！",
        "「はい。」と答えた。終わり",
    ]


def test_a_chunk_that_is_half_full_ends_with_its_paragraph() -> None:
    text = "A b c d.\n\nE f g. H i j k l."
    assert split_texts(text, 8, 0) == ["A b c d.", "E f g. H i j k l."]


def test_a_sentence_longer_than_a_chunk_is_cut_between_words() -> None:
    chunks = split_texts("word " * 100, 20, 5)
    assert all(chunk.split() == ["word"] * len(chunk.split()) for chunk in chunks)
    assert max(len(chunk.split()) for chunk in chunks) <= 20


def test_a_text_without_any_border_is_cut_all_the_same() -> None:
    for tokenizer in TOKENIZERS:
        chunks = split_texts("x" * 100_000, 8, 2, tokenizer)
        assert max(map(len, chunks)) <= 8 * 16
        assert "x" * len(chunks[0]) == chunks[0]
    assert max(map(len, split_texts("字" * 5_000, 8, 2, "mixed"))) <= 8


def test_an_overlap_of_more_than_half_is_refused() -> None:
    assert Chunking(10, 5).overlap == 5
    with pytest.raises(ChunkOverlapTooLarge, match="chunk_overlap 6 must be at most half of chunk_tokens 10"):
        Chunking(10, 6)


@example("? ?\n\n? ?", 2, 1, "ja_bigram")  # a paragraph ends within the overlap
@settings(max_examples=300, deadline=None)
@given(WORDS, st.integers(2, 40), st.integers(0, 20), st.sampled_from(sorted(TOKENIZERS)))
def test_chunks_hold_all_that_is_not_blank_in_order_and_none_is_too_long(
    text: str, tokens: int, overlap: int, tokenizer: str
) -> None:
    tokenize = TOKENIZERS[tokenizer]
    chunking = Chunking(tokens, min(overlap, tokens // 2))
    spans = split_into_chunks(text, lambda part: len(tokenize(part)), chunking)
    covered = {position for span in spans for position in range(*span)}
    assert covered >= {position for position, char in enumerate(text) if not char.isspace()}
    assert spans == sorted(set(spans))
    for before, after in pairwise(spans):
        assert before.start < after.start
        assert before.end < after.end
    for span in spans:
        part = text[slice(*span)]
        assert part == part.strip() != ""
        assert len(part) <= chunking.characters
        if tokenizer == "whitespace":  # otherwise a pair of characters may span the border of two pieces
            assert len(tokenize(part)) <= tokens
