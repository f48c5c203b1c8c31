from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.planner.adapters.answerers import OfflineAnswerer
from services.planner.domain.extraction import MAX_CONTENT_CHARS, extract_answer
from services.planner.domain.generation import Question, RetrievedBullet, list_cited_ids
from services.planner.usecases.generate import GeneratorAgent

GIT = RetrievedBullet("er-00001", "git", "Set user.name before the first commit. Otherwise git refuses to commit.")
SQL = RetrievedBullet("er-00002", "sqlite", "A locked database needs a busy timeout. Check e.g. the WAL mode.")
JAPANESE = RetrievedBullet("er-00003", "api", "ログインしてから呼び出す。429のときはRetry-Afterの秒数だけ待つ。")


def lines_of(query: str, *bullets: RetrievedBullet) -> list[str]:
    return extract_answer(query, bullets).text.splitlines()


def test_the_sentences_closest_to_the_query_are_cited_best_first() -> None:
    first, *sentences = lines_of("Why is the database locked?", GIT, SQL)
    assert first == "Offline and extractive: no language model was asked. Closest to the query:"
    assert sentences[0] == "- A locked database needs a busy timeout. [er-00002]"


def test_words_without_a_meaning_of_their_own_do_not_count() -> None:
    revenue = RetrievedBullet("exam-00001", "examples", "What is the revenue of all orders that were not cancelled?")
    push = RetrievedBullet("ts-00001", "git", '`git push` fails with "failed to push some refs" until it is pulled.')
    assert "[ts-00001]" in lines_of("What do I do when pushing is rejected?", revenue, push)[1]
    assert len(lines_of("What do I do when pushing is rejected?", revenue, push)) == 2


def test_an_example_is_one_sentence() -> None:
    text = 'Example of `git commit`: "Commit CHANGELOG.md. Its subject is: Add it." → `git commit` {"m": "Add it"}'
    example = RetrievedBullet("exam-00020", "examples", text)
    assert lines_of("How do I commit?", example)[1:] == [f"- {text} [exam-00020]"]


def test_an_abbreviation_does_not_end_a_sentence() -> None:
    assert "- Check e.g. the WAL mode. [er-00002]" in lines_of("wal mode", SQL)


def test_japanese_is_compared_without_words() -> None:
    first, sentence, *_ = lines_of("４２９が返ったら何秒待てばよいか", GIT, JAPANESE)
    assert first == "オフラインモードの抽出回答です（言語モデルは使っていません）。質問に最も近い知識の文:"
    assert sentence == "- 429のときはRetry-Afterの秒数だけ待つ。 [er-00003]"


def test_without_common_words_the_ranking_of_search_decides_and_the_answer_states_it() -> None:
    first, sentence, *_ = lines_of("zebra", SQL, GIT)
    assert "No sentence shares a word with the query; ranked highest by search:" in first
    assert sentence == "- A locked database needs a busy timeout. [er-00002]"


@pytest.mark.parametrize(
    ("query", "nothing"), [("q", "The playbook has nothing"), ("質問", "関連する知識はありません")]
)
def test_without_bullets_it_says_that_nothing_is_known(query: str, nothing: str) -> None:
    (line,) = lines_of(query)
    assert nothing in line


def test_the_work_is_bounded_for_any_input() -> None:
    filler = RetrievedBullet("big", "", "word. " * (MAX_CONTENT_CHARS // 6))
    late = RetrievedBullet("late", "", "needle")
    assert "late" not in "".join(lines_of("needle " * 100_000, filler, filler, late))
    (_, sentence) = lines_of("x", RetrievedBullet("long", "", "x" * 5_000))
    assert len(sentence) < 420


bullets = st.lists(st.builds(RetrievedBullet, st.sampled_from(["a", "b", "c"]), st.just(""), st.text()), max_size=5)


@given(st.text(), bullets)
def test_every_sentence_is_an_extract_and_the_answer_is_always_the_same(
    query: str, given_bullets: list[RetrievedBullet]
) -> None:
    answer = extract_answer(query, given_bullets)
    assert answer == extract_answer(query, given_bullets)
    if any(bullet.content.strip() for bullet in given_bullets):
        assert list_cited_ids(answer.text, given_bullets)
    for line in answer.text.split("\n")[1:]:
        sentence, _, cited = line.removeprefix("- ").rpartition(" ")
        assert any(sentence in bullet.content and cited == f"[{bullet.id}]" for bullet in given_bullets)


async def test_offline_the_generator_names_its_model_offline() -> None:
    outcome = await GeneratorAgent(OfflineAnswerer()).generate(Question("locked database", "d", (GIT, SQL)))
    assert (outcome.model, outcome.status) == ("offline", "success")
    assert outcome.cited_bullet_ids[0] == "er-00002"
    assert "Compared 4 sentences of 2 bullets with the query" in outcome.reasoning_steps[0]
