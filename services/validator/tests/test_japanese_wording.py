"""Forbidden words by Japanese morphology."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.validator.adapters.linguistic import CHUNK_CHARS, LinguisticFinders, SudachiTokenizer
from services.validator.domain.advisor import validate_advisor_report
from services.validator.domain.japanese import normalise
from services.validator.domain.organizer import validate_organizer_report
from services.validator.domain.wording import ADVISOR_WORDS, LITERAL, ORGANIZER_PHRASES, PhraseFinders
from services.validator.tests.samples import ADVISOR_SAMPLES, ORGANIZER_SAMPLES, advisor, organizer

LABELLED = [
    line.split("\t") for line in Path(__file__).with_name("wording.tsv").read_text(encoding="utf-8").splitlines()
]
"""Kind, 1 for forbidden or 0, text; bench/validator publishes the results of both methods."""
PHRASES = {"organizer": ORGANIZER_PHRASES, "advisor": ADVISOR_WORDS}

TOKENIZER = SudachiTokenizer()
LINGUISTIC = LinguisticFinders(TOKENIZER)


def is_found(kind: str, text: str, words: PhraseFinders = LINGUISTIC) -> bool:
    return words.get_finder(PHRASES[kind]).occurs_in(text)


def test_half_of_a_surrogate_pair_is_a_character_like_others() -> None:
    assert [morpheme.surface for morpheme in TOKENIZER("不正\ud83d")][-1] == "\ufffd"


@pytest.mark.parametrize("text", ["調べきれない点", "べき乗で増える"])
def test_organizer_words_that_only_contain_a_phrase_pass(text: str) -> None:
    assert is_found("organizer", text, LITERAL)
    assert not is_found("organizer", text)


@pytest.mark.parametrize("text", ["非推奨の設定", "不正解データ"])
def test_advisor_words_that_only_contain_a_phrase_pass(text: str) -> None:
    assert is_found("advisor", text, LITERAL)
    assert not is_found("advisor", text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("organizer", "対応すべキ"),
        ("organizer", "確認して下さい"),
        ("organizer", "対応すべ\u200bき"),
        ("advisor", "おすすめは案A"),
        ("advisor", "ﾍﾞｽﾄな案"),
        ("advisor", "優先すべキ案"),
    ],
)
def test_other_spellings_are_found(kind: str, text: str) -> None:
    assert not is_found(kind, text, LITERAL)
    assert is_found(kind, text)


def test_advisors_may_say_what_is_to_be_decided() -> None:  # V-27
    assert not is_found("advisor", "決めるべきこと")
    assert is_found("advisor", "決定すべきこと")


def test_the_labelled_set_is_large_enough() -> None:
    labels = [label for _, label, _ in LABELLED]
    assert min(labels.count("0"), labels.count("1")) >= 200
    assert len({(kind, text) for kind, _, text in LABELLED}) == len(LABELLED)


@pytest.mark.parametrize("kind", ["organizer", "advisor"])
def test_precision_and_recall_of_the_labelled_set_are_high(kind: str) -> None:
    outcomes = [(label == "1", is_found(kind, text)) for own, label, text in LABELLED if own == kind]
    true = sum(wanted and hit for wanted, hit in outcomes)
    assert true / sum(hit for _, hit in outcomes) >= 0.95
    assert true / sum(wanted for wanted, _ in outcomes) >= 0.95


def test_the_samples_of_the_specification_pass_linguistically_too() -> None:  # section 4
    for ids, report, _ in ORGANIZER_SAMPLES.values():
        assert validate_organizer_report(report, ids, LINGUISTIC).ok
    for ids, report, _ in ADVISOR_SAMPLES.values():
        assert validate_advisor_report(report, ids, LINGUISTIC).ok
    assert not validate_organizer_report(organizer("まず確認して下さい"), [], LINGUISTIC).ok
    assert not validate_advisor_report(advisor(summary="おすすめは案A"), ["n1"], LINGUISTIC).ok


def test_phrases_of_other_kinds_are_found_as_whole_words() -> None:
    finder = LINGUISTIC.get_finder(("絶対", "引っ越す"))
    assert finder.occurs_in("絶対に必要")
    assert finder.occurs_in("来月引越します")
    assert not finder.occurs_in("引き続き検討")
    assert LINGUISTIC.get_finder(("絶対", "引っ越す")) is finder


def test_only_grammar_is_folded_to_hiragana() -> None:
    assert normalise("対応スベキ") == "対応すべき"
    assert normalise("ウズベキスタンのベスト") == "ウズベキスタンのベスト"


def test_text_longer_than_the_tokenizer_takes_is_searched_to_its_end() -> None:
    for filler in ("範囲が広い。", "あ"):
        text = filler * (3 * CHUNK_CHARS // len(filler)) + "。すぐ確認して下さい"
        assert is_found("organizer", text)


def test_several_threads_may_search() -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: is_found("organizer", "対応すべキ項目と確認して下さい"), range(200)))
    assert all(results)


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_is_searched_without_an_exception(text: str) -> None:  # V-77
    is_found("organizer", text)
    is_found("advisor", text)


@pytest.mark.parametrize("phrases", [ORGANIZER_PHRASES, ("絶対",)])
def test_a_search_ends_when_its_time_is_over(phrases: Sequence[str]) -> None:
    checks = 0

    def check_time() -> None:
        nonlocal checks
        checks += 1
        if checks > 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        LINGUISTIC.get_finder(phrases).occurs_in("私は東京へ行きます。" * 100_000, check_time)
    assert checks == 4


def test_phrases_with_the_same_first_word_are_found() -> None:
    finder = LINGUISTIC.get_finder(("絶対に必要", "絶対に無理", " "))
    assert finder.occurs_in("それは絶対に無理です")
    assert not finder.occurs_in("それは絶対です")
