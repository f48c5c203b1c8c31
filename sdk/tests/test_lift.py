"""Made-up worlds, and agents that choose with a model."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from hansei.client.cli.show.scores import render_lift
from hansei.client.lift.agent import ChoosingAgent, TaskScore
from hansei.client.lift.decisions import CANDIDATES, Task, build_tasks, list_tools, render_call
from hansei.client.lift.generated_world import KINDS, generate_world
from hansei.client.lift.measurement import LiftMeter
from hansei.client.lift.memories import HANSEI, NO_MEMORY, STRONGEST_SIMPLE_MEMORY, build_simple_memories, cut_to_budget
from hansei.client.lift.model import CachedScorer, LetterScorer, TextScorer, UnsupportedEchoError, connect
from hansei.client.lift.world import build_test_requests, build_training_trajectories, fill_template
from tests.fakes.openai_answers import chat
from tests.fakes.openai_server import OpenAIServer

SEEDS = range(12)


class NotesScorer:
    """Prefers the continuation that the notes of the prompt hold."""

    method = "notes"

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        notes = prompt.partition("Notes from earlier work:")[2].partition("Request:")[0]
        return [float(text.strip() in notes) for text in continuations]


def build_some_tasks(seed: int, count: int = 24) -> list[Task]:
    world = generate_world(seed)
    return build_tasks(world, build_test_requests(world, count, seed), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_right_calls_show_a_convention_and_wrong_ones_do_not(seed: int) -> None:
    world = generate_world(seed)
    assert {convention.kind for convention in world.conventions} == set(KINDS)
    chance = random.Random(seed)
    for request in build_test_requests(world, 24, seed):
        convention = request.convention
        calls = [
            f"{tool} {json.dumps(fill_template(fields, request.values, chance))}" for tool, fields in convention.calls
        ]
        assert convention.is_in(["; ".join(calls)], request.values)
        assert convention.is_in([convention.rule], request.values)
        for wrong in convention.wrong:
            tool, fields = convention.calls[0]
            arguments = fill_template({**fields, convention.argument: wrong}, request.values, chance)
            assert not convention.is_in([f"{tool} {json.dumps(arguments)}"], request.values)


def test_a_seed_makes_one_world() -> None:
    worlds = [generate_world(seed) for seed in (7, 7, 8)]
    rules = [[convention.rule for convention in world.conventions] for world in worlds]
    assert rules[0] == rules[1] != rules[2]
    assert len(list_tools(worlds[0])) >= 10


@pytest.mark.parametrize("seed", SEEDS)
def test_every_turn_offers_one_right_call_among_different_ones(seed: int) -> None:
    for task in build_some_tasks(seed):
        for call, candidates in zip(task.calls, task.candidates, strict=True):
            assert [candidate.call for candidate in candidates if candidate.is_right] == [call]
            assert len({render_call(candidate.call) for candidate in candidates}) == len(candidates) == CANDIDATES
        assert any(candidate.breaks for candidate in task.candidates[task.deciding])


def test_an_agent_that_is_shown_the_right_calls_succeeds_and_one_without_notes_does_not() -> None:
    tasks = [task for task in build_some_tasks(3) if not task.request.convention.also]
    agent = ChoosingAgent(NotesScorer(), list_tools(generate_world(3)))
    shown = [agent.measure(task, [render_call(call) for call in task.calls]) for task in tasks]
    blind = [agent.measure(task, []) for task in tasks]
    assert all(score.is_chosen and score.is_success and score.probability > 0.25 for score in shown)
    assert all(score.probability == pytest.approx(0.25) for score in blind)
    assert sum(score.is_success for score in blind) < len(tasks)


def test_one_failing_call_can_be_repaired_and_a_silent_one_cannot() -> None:
    for task in build_some_tasks(4):
        convention = task.request.convention
        first = task.candidates[task.deciding]
        order = sorted(first, key=lambda candidate: not candidate.breaks or candidate.call.tool == "finish")
        if not order[0].breaks:
            continue
        turns = list(task.candidates)
        turns[task.deciding] = tuple(order)
        wrong_first = replace(task, candidates=tuple(turns))
        agent = ChoosingAgent(
            PreferenceScorer([render_call(order[0].call)], [render_call(call) for call in task.calls]), []
        )
        is_repairable = bool(convention.error) and order[0].call.tool != "finish"
        assert agent.measure(wrong_first, []).is_success is is_repairable


class PreferenceScorer:
    """Prefers some calls most, others next."""

    method = "preference"

    def __init__(self, first: Sequence[str], second: Sequence[str]) -> None:
        self._first, self._second = first, second

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        return [2.0 * (text.strip() in self._first) + (text.strip() in self._second) for text in continuations]


def test_rows_compare_hansei_with_each_memory_in_the_same_tasks() -> None:
    world = generate_world(5)
    memories = build_simple_memories(world, build_training_trajectories(world, 24, 5), ["a bullet"], 5)
    meter = LiftMeter(world, build_some_tasks(5, 12), {HANSEI: memories[STRONGEST_SIMPLE_MEMORY], **memories}, 150)
    assert len(list(meter.measure(NotesScorer()))) == 12 * len(meter.memories)
    right, wrong = TaskScore(0.9, is_chosen=True, is_success=True), TaskScore(0.1, is_chosen=False, is_success=False)
    meter.scores = {HANSEI: [right] * 11 + [wrong], "same": [right] * 11 + [wrong], NO_MEMORY: [wrong] * 12}
    rows = {row["memory"]: row for row in meter.build_rows()}
    assert rows[HANSEI]["right_call"] == 0.917
    assert rows["same"]["hansei_minus_this_right_call"] == "0"
    low, high = map(float, rows[NO_MEMORY]["hansei_minus_this_right_call"].split(" to "))
    assert 0.5 < low < high == 1
    console = Console(width=80, record=True, file=StringIO())
    names = {"memory": STRONGEST_SIMPLE_MEMORY, "hansei_minus_this_right_call": "-0.18 to -0.03"}
    table = render_lift({"world": "w", "tasks": 12, "tokens": 150, "method": "m", "rows": [{**rows[HANSEI], **names}]})
    console.print(table)
    shown = console.export_text()
    assert "…" not in shown
    assert any("0.92" in line and "-0.18 to -0.03" in line for line in shown.splitlines())


def test_a_budget_cuts_the_last_text() -> None:
    assert cut_to_budget(["abcd", "efghijkl"], 2) == ["abcd", "efg"]


def test_a_chat_server_chooses_by_letter_without_probabilities() -> None:
    with OpenAIServer(otherwise=chat("B")) as server:
        scorer = connect(server.base_url, "", "small")
        assert isinstance(scorer, LetterScorer)
        weights = scorer.score("Action:", [" one", " two", " three"])
        assert weights.index(max(weights)) == 1
        assert "B: two" in server.requests[-1].prompt


def test_letters_can_be_chosen_without_a_probe_of_the_server() -> None:
    with OpenAIServer(otherwise=chat("B")) as server:
        scorer = connect("http://127.0.0.1:9/v1", "", "small", by_letters=True)
        assert isinstance(scorer, LetterScorer)
        assert isinstance(connect(server.base_url, "", "", by_letters=True), LetterScorer)
        assert server.requests == []


class EchoClient:
    """Stands for a client of a server that gives each character of an echoed prompt a probability."""

    def __init__(self, *, is_complete: bool = True) -> None:
        self.completions, self._is_complete = self, is_complete

    def create(self, *, prompt: str, **_: object) -> object:
        from types import SimpleNamespace

        scores = [-1.0 if self._is_complete else None] * len(prompt)
        logprobs = SimpleNamespace(text_offset=list(range(len(prompt))), token_logprobs=scores)
        return SimpleNamespace(choices=[SimpleNamespace(logprobs=logprobs)])


def test_the_weight_of_a_text_does_not_depend_on_its_length() -> None:
    scorer = TextScorer(EchoClient(), "m")  # type: ignore[arg-type]
    assert scorer.score("prompt", ["ab", "abcd"]) == [-3.0, -3.0]
    with pytest.raises(UnsupportedEchoError):
        TextScorer(EchoClient(is_complete=False), "m").score("prompt", ["ab"])  # type: ignore[arg-type]


def test_scores_are_kept_in_a_file(tmp_path: Path) -> None:
    first = CachedScorer(NotesScorer(), tmp_path / "scores.jsonl")
    scores = first.score("prompt", ["a", "b"])
    again = CachedScorer(PreferenceScorer([], []), tmp_path / "scores.jsonl")
    assert again.score("prompt", ["a", "b"]) == scores
    assert again.score("prompt", ["a", "c"]) == [0.0, 0.0]
