from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from libs.trajectories.actions import extract_actions
from services.reflector.domain.anchoring import find_nearest_steps
from services.reflector.domain.reduction import Transcript, format_ranges, reduce_transcript
from services.reflector.domain.trajectory import Trajectory
from services.reflector.tests.trajectories import MakeStep, asks, build_trajectory, calls, returns, says, steps


def prompt_of(trajectory: Trajectory, budget: int = 100_000) -> Transcript:
    return reduce_transcript(trajectory, extract_actions(trajectory.transcript), budget)


def test_reasoning_steps_are_numbered_from_one() -> None:
    assert prompt_of(build_trajectory(reasoning_steps=("look", "decide {x}"))).text == "1. look\n2. decide {x}"
    assert prompt_of(build_trajectory()).text == ""


def test_a_log_is_shown_with_its_indices_and_calls() -> None:
    log = build_trajectory(asks("sum"), calls("add", {"x": 1}, content="I add."), returns("2", tool="add"))
    assert prompt_of(log) == Transcript(
        '[0] user: sum\n[1] assistant agent: I add.\n  -> add({"x": 1})\n[2] tool add: 2'
    )


def long_log() -> Trajectory:
    log: list[MakeStep] = [asks("find the rent")]
    for number in range(60):
        log += [calls("look", {"page": number}), returns(f"page {number} " + "filler " * 200)]
    log += [calls("pay", {"x": 1}), returns("Error: account locked " + "detail " * 50)]
    for number in range(60, 120):
        log += [calls("look", {"page": number}), returns(f"page {number} " + "filler " * 200)]
    return build_trajectory(*log, says("The rent is 1200."))


def test_a_long_log_keeps_important_steps_and_lists_the_omitted_ones() -> None:
    transcript = prompt_of(long_log(), 6_000)
    assert len(transcript.text) <= 6_000
    assert "[0] user: find the rent" in transcript.text
    assert "Error: account locked" in transcript.text
    assert "The rent is 1200." in transcript.text
    assert transcript.omitted
    shown = [int(line[1 : line.index("]")]) for line in transcript.text.splitlines() if line.startswith("[")]
    assert shown == sorted(shown)
    assert set(shown) | set(transcript.omitted) == set(range(len(long_log().steps)))
    assert not set(shown) & set(transcript.omitted)


def test_results_that_contradict_each_other_are_kept() -> None:
    filler: list[MakeStep] = [says("I think about the rooms. " * 30) for _ in range(60)]
    first, second = '{"id": "r-1", "rent": 900}', '{"id": "r-1", "rent": 700}'
    log = [
        asks("rent"),
        *filler,
        calls("get_room", {"id": "r-1"}),
        returns(first),
        *filler,
        calls("get_room", {"id": "r-1"}),
    ]
    transcript = prompt_of(build_trajectory(*log, returns(second), *filler), 3_000)
    assert first in transcript.text
    assert second in transcript.text


def test_left_out_reasoning_steps_are_named_by_the_numbers_of_the_prompt() -> None:
    transcript = prompt_of(
        build_trajectory(reasoning_steps=[f"{number} " + "thought " * 100 for number in range(50)]), 2_000
    )
    assert max(transcript.omitted) <= 50
    assert min(transcript.shortened) == 1


@given(st.lists(st.builds(says, st.text(max_size=400)), max_size=30), st.integers(200, 3_000))
def test_the_budget_holds_for_any_log(log: list[MakeStep], budget: int) -> None:
    trajectory = build_trajectory(*log)
    transcript = prompt_of(trajectory, budget)
    assert len(transcript.text) <= budget
    whole = prompt_of(trajectory)
    assert (transcript.text == whole.text) == (not transcript.omitted and not transcript.shortened)


def test_numbers_are_described_as_ranges() -> None:
    assert format_ranges([]) == ""
    assert format_ranges([1, 3, 4, 5, 9]) == "1, 3-5, 9"


def test_a_lesson_rests_on_the_step_whose_rare_words_it_uses() -> None:
    log = steps(
        says("I search the flights to Oslo."),
        calls("book", {"flight": "HAT030"}),
        returns("Error: gift card balance is not enough"),
        says("I search the flights to Rome."),
    )
    texts = ["The gift card balance was too low to book the flight", "フライトの検索", "flights"]
    assert find_nearest_steps(texts, log) == [2, None, None]
    assert find_nearest_steps(texts, ()) == [None, None, None]


def test_encoded_data_and_repeated_texts_are_not_shown() -> None:
    prompt = "You are a helpful agent. " * 40
    log = build_trajectory(says(prompt), says(f"image: {'iVBORw0KGgo' * 100}"), says(prompt), says("done"))
    text = prompt_of(log).text
    assert text.count("You are a helpful agent.") == 40
    assert "[2] assistant agent: [the same text as step 0]" in text
    assert "image: [1100 encoded characters]" in text


def test_steps_at_both_ends_come_before_those_in_the_middle() -> None:
    log = build_trajectory(*(says(f"{number} " + "word " * 80) for number in range(100)))
    shown = set(range(100)) - set(prompt_of(log, 6_000).omitted)
    assert {0, 1, 2, 97, 98, 99} <= shown
    assert 50 not in shown
