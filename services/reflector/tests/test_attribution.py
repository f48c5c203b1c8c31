from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.trajectories.actions import extract_actions
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.adapters.importers.labels import read_labelled, read_wrong_steps
from services.reflector.domain.attribution import WEIGHTS, Candidate, Sign, find_candidates, rank_candidates
from services.reflector.domain.errors import MalformedTrajectory
from services.reflector.domain.recorded_trajectory import LabelledTrajectory
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.tests.trajectories import MakeStep, asks, build_trajectory, calls, returns, says, steps
from services.reflector.usecases.evaluate_blame import Accuracy, evaluate_blame
from services.reflector.usecases.reflect_offline import MAX_CANDIDATES, reflect_by_rules


def find_signs(*makers: MakeStep) -> dict[int, frozenset[Sign]]:
    log = steps(*makers)
    return {candidate.step.index: candidate.signs for candidate in find_candidates(log, extract_actions(log))}


def find_blamed(*makers: MakeStep) -> Candidate:
    log = steps(*makers)
    return rank_candidates(log, extract_actions(log))[0][0]


def test_the_first_failing_call_is_blamed() -> None:
    signs = find_signs(asks("q"), calls("a", {}), returns("ok"), calls("b", {}), returns("Error: x"), calls("b", {}))
    assert "fails_first" not in signs[1]
    assert signs[3] >= {"acts", "fails_first"}
    assert "fails_first" not in signs[5]


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("Therefore the answer is 12.", "claims"),
        ("結果は12です。", "claims"),
        ("Here is the code:\n```python\nx = 12\n```", "claims_and_acts"),
        ("We assume a mock dataset with 12 rows.", "invents"),
        ("ダミーの値を使う。", "invents"),
        ("I will look it up.", "postpones"),
        ("There was an error; I corrected the code.", "amends"),
        ("Done.\n\nTERMINATE", "hands_in"),
    ],
)
def test_signs_are_read_from_the_form_of_a_step(text: str, sign: Sign) -> None:
    assert sign in find_signs(asks("q"), says("Hello."), says(text))[2]


def test_the_step_that_first_has_the_value_of_the_answer_is_blamed() -> None:
    signs = find_signs(asks("how many"), says("Let me see."), says("It was 4,250."), says("So **4250** it is."))
    assert [index for index, sign in signs.items() if "answers_first" in sign] == [2]


def test_invented_data_are_blamed_before_their_consequences() -> None:
    log = [asks("average rent"), says("Let me look for it."), says("I assume a sample: the rents are 900 and 1100, "
           "therefore the average is 1000."), says("The average of 900 and 1100 is 1000. TERMINATE")]  # fmt: skip
    assert find_blamed(*log).step.index == 2


def test_an_agent_that_only_delegates_is_not_blamed() -> None:
    log: list[MakeStep] = [asks("find it")]
    for number in range(4):
        log += [says(f"Plan {number}: here is what we know.", name="Lead"), says("Search for it.", name="Lead")]
        log += [says(f"I opened page {number}.", name="Reader")]
    assert find_blamed(*log).step.speaker == "Reader"
    assert find_blamed(asks("find it"), says("It is 7.", name="Lead")).step.speaker == "Lead"


GUESSED: list[MakeStep] = [
    says("Let me look for it.", name="Reader"),
    says("```python\nprint(1 / 0)\n```", name="Coder"),
    returns("exitcode: 1\nZeroDivisionError: division by zero", tool="terminal"),
    says("I assume a sample of 40 rows, therefore the answer is 12.", name="Reader"),
    says("So it is 12. TERMINATE", name="Coder"),
]


def add_dispatcher(log: list[MakeStep]) -> list[MakeStep]:
    """Return the log with a question first and a dispatcher's ledger and order before every turn."""
    turns: list[MakeStep] = [asks("how many")]
    for turn in log:
        turns += [says('{"is_request_satisfied": false}', name="Lead"), says("Please continue.", name="Lead"), turn]
    return turns


@pytest.mark.parametrize("log", [GUESSED, GUESSED[1:], [*GUESSED[:3], *GUESSED[4:]]])
def test_a_dispatcher_between_the_turns_changes_nothing(log: list[MakeStep]) -> None:
    plain, among = find_blamed(*log), find_blamed(*add_dispatcher(log))
    assert (among.step.content, among.signs) == (plain.step.content, plain.signs)


def test_visited_pages_before_the_mistake_are_no_claims() -> None:
    pages = [says(f"I clicked 'link {n}'.\n\nHere is a screenshot of [page {n}](x). {n}", name="Web") for n in range(9)]
    assert find_blamed(*pages, *GUESSED).step.index == find_blamed(*GUESSED).step.index + len(pages)


def test_a_log_with_speakers_as_roles_is_blamed_by_agent() -> None:
    turns = [("human", "How tall is it?"), ("Orchestrator (thought)", "Here is what we know: 12 facts."),
             ("Orchestrator (-> WebSurfer)", "Find the height."), ("WebSurfer", "I typed it. Here is a page."),
             ("Orchestrator (thought)", "No progress."), ("Orchestrator (-> WebSurfer)", "Try again."),
             ("WebSurfer", "I clicked. Here is the answer: 361."), ("Orchestrator (thought)", "Done."),
             ("Orchestrator (-> WebSurfer)", "Confirm."), ("WebSurfer", "I see 361."),
             ("Orchestrator (thought)", "The answer is 361.")]  # fmt: skip
    log = {
        "question": "How tall is it?",
        "history": [{"role": role, "content": content} for role, content in turns],
    }
    (recorded,) = read_trajectories(json.dumps(log).encode(), "test").trajectories
    attribution = reflect_by_rules(ReflectionRequest(recorded.trajectory, "test")).attribution
    assert attribution is not None
    assert (attribution.step, attribution.agent) == (6, "WebSurfer")


CONVERSATION: list[MakeStep] = [
    asks("cancel one item"),
    says("Which one?"),
    asks("the hose"),
    calls("get_order", {"id": "W1"}),
    returns("pending"),
    asks("yes"),
    calls("cancel_order", {"id": "W1"}),
    returns("cancelled"),
    calls("refund", {"id": "W1"}),
    returns("done"),
]


def test_in_a_conversation_the_first_writing_call_is_blamed_and_user_and_environment_are_candidates() -> None:
    signs = find_signs(*CONVERSATION)
    assert {index: signs[index] for index in (2, 4, 5)} == {2: {"asks"}, 4: {"returns"}, 5: {"asks", "requests"}}
    assert "writes_first" in signs[6]
    assert "writes" in signs[8]
    assert signs.keys() & {0} == set()
    blamed = reflect_by_rules(ReflectionRequest(build_trajectory(*CONVERSATION), "test")).attribution
    assert blamed is not None
    assert (blamed.step, len(blamed.alternatives)) == (6, MAX_CANDIDATES - 1)
    chances = [blamed.probability, *(candidate.probability for candidate in blamed.alternatives)]
    assert chances == sorted(chances, reverse=True)
    assert 0 < sum(chances) < 1


def test_without_an_answering_user_a_writing_call_is_a_call_as_any_other() -> None:
    signs = find_signs(*CONVERSATION[:1], *CONVERSATION[6:])
    assert not {"writes", "writes_first", "requests"} & set().union(*signs.values())


def test_labels_of_tau_bench_results_name_the_root_cause_and_all_failures() -> None:
    messages = [{"role": role, "content": role} for role in ("system", "user", "assistant", "user", "assistant")]
    failures = [
        {"failure_id": 7, "step_number": 3, "failed_agent": "Assistant"},
        {"failure_id": 8, "step_number": 4, "failed_agent": "User"},
    ]
    labels = {"failures": failures, "root_cause": {"failure_id": 8}}
    failed = {"task_id": 1, "trial": 0, "reward": 0, "traj": messages, "labels": labels}
    passed = {"task_id": 2, "trial": 0, "reward": 1, "traj": messages}
    content = "\n".join(map(json.dumps, (failed, passed))).encode()
    [result] = read_labelled(content)
    assert read_wrong_steps(content) == (result.step, None)
    assert (result.step, result.agent, sorted(result.failures)) == (3, "user", [2, 3])
    for wrong, rule in (
        ({"root_cause": {"failure_id": 9}}, "root_cause"),
        ({"failures": [{**failures[1], "step_number": 6}]}, "1 to 5"),
    ):
        with pytest.raises(MalformedTrajectory, match=rule):
            read_labelled(json.dumps({**failed, "labels": {**labels, **wrong}}).encode())


def test_the_earlier_of_equals_is_blamed_and_bare_closing_marks_never() -> None:
    assert find_blamed(says("Therefore it is so."), says("Therefore it is so.")).step.index == 0
    assert list(find_signs(says("TERMINATE"), says("Hello"))) == [1]
    assert rank_candidates(steps(asks("q")), ()) == []


def test_every_sign_has_a_weight() -> None:
    assert Candidate(steps(says("x"))[0], frozenset(WEIGHTS)).weight == pytest.approx(sum(WEIGHTS.values()))


@given(st.lists(st.builds(says, st.text(max_size=80), st.sampled_from(["A", "B", "C"])), min_size=1, max_size=12))
def test_the_names_of_agents_do_not_matter(log: list[MakeStep]) -> None:
    renamed = {"A": "Zoe", "B": "Yan", "C": "Xia"}
    original = rank_candidates(steps(*log), ())
    other_steps = tuple(step.model_copy(update={"name": renamed[step.name]}) for step in steps(*log))
    with_new_names = rank_candidates(other_steps, ())
    assert [blamed.step.index for blamed, _ in original[:1]] == [blamed.step.index for blamed, _ in with_new_names[:1]]


def test_scores_are_shares_beside_those_of_one_line_rules() -> None:
    log = build_trajectory(
        says("Here is the task.", name="A"), says("I will do it.", name="B"),
        says("```python\nrun()\n```", name="B"), returns("exitcode: 1\nValueError: x", tool="shell"),
    )  # fmt: skip
    labelled = [LabelledTrajectory(log, 2, "B", frozenset({2})), LabelledTrajectory(log, 0, "A", frozenset({0, 2}))]
    scores = evaluate_blame(labelled)
    assert (scores.n, scores.step_accuracy, scores.agent_accuracy, scores.top_3) == (2, 0.5, 0.5, 1)
    assert scores.any_labelled_failure == 1
    assert scores.baselines["turn_before_first_error"] == Accuracy(0.5, 0.5, 1)
    assert scores.baselines["first_turn"] == Accuracy(0.5, 0.5, 0.5)
    assert scores.baselines["first_turn_of_busiest_agent"] == Accuracy(0, 0.5, 0)
    assert scores.baselines["last_turn"] == Accuracy(0, 0, 0)
    assert evaluate_blame([]).n == 0
