"""Test `hansei playbook …`, `hansei plan …` and `hansei validate` on a running server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hansei.client import Client
from hansei.playbook.v1.review_pb2 import REVIEW_MODE_REVIEW, DatasetPolicy
from tests.support import systems
from tests.support.commands import Hansei, bullets, copy_trajectories, dataset, hansei, revision

__all__ = ["dataset", "hansei"]  # fixtures


@pytest.fixture
def learned_dataset(hansei: Hansei, dataset: str, tmp_path: Path) -> str:
    """Return a dataset that learned_dataset two trajectories."""
    for file in copy_trajectories(tmp_path, dataset, "git-push-forced", "git-push-rebased"):
        assert hansei("learn", file).code == 0
    return dataset


def test_history_shows_author_reason_and_changes(hansei: Hansei, learned_dataset: str) -> None:
    entries = hansei("playbook", "history", "-d", learned_dataset, "--json").lines
    assert [int(entry["revision"]) for entry in entries] == [2, 1]
    assert {entry["source_trajectory"] for entry in entries} == {"git-push-forced", "git-push-rebased"}
    shown = hansei("playbook", "history", "-d", learned_dataset).out
    assert all(word in shown for word in ("curate", "curator", "git-push-forced", " added"))
    (first, *_) = bullets(hansei, learned_dataset)
    of_bullet = hansei("playbook", "history", first["id"], "-d", learned_dataset, "--json").lines
    assert int(of_bullet[0]["revision"]) == 1


def test_a_playbook_reads_as_of_a_revision(hansei: Hansei, learned_dataset: str) -> None:
    assert hansei("playbook", "show", "-d", learned_dataset, "-r", 0, "--json").document["bullets"] == []
    assert hansei("playbook", "show", "-d", learned_dataset, "-r", 99).code == 2
    shown = hansei("playbook", "show", "-d", learned_dataset).out
    assert all(bullet["id"] in shown for bullet in bullets(hansei, learned_dataset))


def test_restore_brings_an_earlier_revision_back_as_a_new_one(hansei: Hansei, learned_dataset: str) -> None:
    ids = {bullet["id"] for bullet in bullets(hansei, learned_dataset)}
    done = hansei("playbook", "restore", 0, "-d", learned_dataset, "--reason", "start again")
    assert f"{learned_dataset} is at revision 3" in done.out
    assert bullets(hansei, learned_dataset) == []
    hansei("playbook", "restore", 2, "-d", learned_dataset)
    assert {bullet["id"] for bullet in bullets(hansei, learned_dataset)} == ids
    difference = hansei("playbook", "diff", 0, 2, "-d", learned_dataset)
    assert all(bullet_id in difference.out for bullet_id in ids)
    assert hansei("playbook", "diff", 2, 4, "-d", learned_dataset, "--json").document["changes"] == []


def test_a_revocation_without_effect_says_so(hansei: Hansei, learned_dataset: str) -> None:
    head = hansei("playbook", "history", "-d", learned_dataset, "--limit", "1", "--json").lines[0]["revision"]
    for options in ((), ("--dry-run",)):
        shown = hansei("playbook", "revoke", "git-push-rebase", "-d", learned_dataset, *options)
        assert shown.code == 0
        assert shown.out == f"no bullet and no vote comes from this trajectory; revision {head} is unchanged\n"


def test_a_dry_run_of_revoke_lists_its_effects(hansei: Hansei, learned_dataset: str) -> None:
    would = hansei("playbook", "revoke", "git-push-rebased", "-d", learned_dataset, "--dry-run")
    assert "would be removed" in would.out
    assert revision(hansei, learned_dataset) == 2
    done = hansei("playbook", "revoke", "git-push-rebased", "-d", learned_dataset, "--json").document
    left = {bullet["id"] for bullet in bullets(hansei, learned_dataset)}
    assert done["removed"]
    assert left.isdisjoint(done["removed"])


@pytest.mark.parametrize("form", ["json", "text", "counted"])
def test_a_playbook_travels_as_a_file(hansei: Hansei, learned_dataset: str, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"book.{form}"
    assert hansei("playbook", "export", file, "-d", learned_dataset, "-f", form).code == 0
    copy = f"{learned_dataset}-{form}"
    assert hansei("playbook", "import", file, "-d", copy).code == 0
    assert [b["content"] for b in bullets(hansei, copy)] == [b["content"] for b in bullets(hansei, learned_dataset)]
    assert hansei("playbook", "export", "-", "-d", learned_dataset, "-f", form).out.encode() == file.read_bytes()


def test_a_file_that_is_no_playbook_changes_nothing(hansei: Hansei, learned_dataset: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{"bullets": 7}', encoding="utf-8")
    outcome = hansei("playbook", "import", file, "-d", learned_dataset)
    assert outcome.code == 2
    assert outcome.err.startswith("Error: ")
    assert revision(hansei, learned_dataset) == 2


def test_a_merge_reports_its_conflicts(hansei: Hansei, learned_dataset: str, tmp_path: Path) -> None:
    other = f"{learned_dataset}-other"
    hansei("learn", *copy_trajectories(tmp_path, other, "python-shift-jis-ja"))
    done = hansei("playbook", "merge", other, "--into", learned_dataset, "--json").document
    assert done["added"] == len(bullets(hansei, other))
    assert {conflict["from_dataset"] for conflict in done["conflicts"]} == {other}


def test_a_change_that_waits_is_listed_and_decided(
    hansei: Hansei, system: systems.System, dataset: str, tmp_path: Path
) -> None:
    with Client(system.address) as client:
        client.playbooks.set_policy(dataset=dataset, policy=DatasetPolicy(review_mode=REVIEW_MODE_REVIEW))
    learned = hansei("learn", *copy_trajectories(tmp_path, dataset, "git-push-forced")).out
    assert bullets(hansei, dataset) == []
    waiting = hansei("playbook", "review", "-d", dataset, "--json").lines
    count = f"{len(waiting)} {'waits' if len(waiting) == 1 else 'wait'} for review"
    assert f"+0 ~0 -0  {count}" in learned
    assert f"held for review; see which still wait: hansei playbook review --dataset {dataset}\n" in learned
    first, *rest = (change["id"] for change in waiting)
    assert first in hansei("playbook", "review", "-d", dataset).out

    assert hansei("playbook", "review", "-d", dataset, "--reject", first).code == 2
    both = hansei("playbook", "review", "-d", dataset, "--approve", first, "--reject", first, "--reason", "unsure")
    assert (both.code, f"--approve and --reject both name {first}" in both.err) == (2, True)
    approved = hansei("playbook", "review", "-d", dataset, "--approve", first, "--json").lines
    assert [change["state"] for change in approved] == ["PENDING_STATE_APPROVED"]
    if rest:
        rejected = [argument for change_id in rest for argument in ("--reject", change_id)]
        assert hansei("playbook", "review", "-d", dataset, *rejected, "--reason", "not now").code == 0
    assert len(bullets(hansei, dataset)) == 1
    assert "No changes are pending" in hansei("playbook", "review", "-d", dataset).out


def test_an_approved_change_of_a_bullet_that_changed_is_an_error(
    hansei: Hansei, system: systems.System, dataset: str
) -> None:
    bullet_id = hansei("remember", "Run the tests.", "-d", dataset, "--json").document["operations"][0]["bullet_id"]
    with Client(system.address) as client:
        client.playbooks.set_policy(dataset=dataset, policy=DatasetPolicy(review_mode=REVIEW_MODE_REVIEW))
    for text in ("Run all tests.", "Run the fast tests."):
        assert hansei("edit", bullet_id, text, "-d", dataset).code == 0
    first, second = (change["id"] for change in hansei("playbook", "review", "-d", dataset, "--json").lines)
    assert hansei("playbook", "review", "-d", dataset, "--approve", first).code == 0
    stale = hansei("playbook", "review", "-d", dataset, "--approve", second)
    assert (stale.code, "stale" in stale.out) == (1, True)
    assert stale.err == f"Error: change {second} was not applied: its bullet changed after the proposal\n"


def test_plans_are_made_run_and_answered(hansei: Hansei, learned_dataset: str, tmp_path: Path) -> None:
    plan = hansei("plan", "create", "What if git push is rejected?", "--json").document
    plan["steps"][0]["collection"] = learned_dataset
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan), encoding="utf-8")
    plan_id = plan["plan_id"]
    ran = hansei("plan", "run", file, "--json")
    assert [int(event["sequence"]) for event in ran.lines] == list(range(1, len(ran.lines) + 1))
    assert {event["execution_id"] for event in ran.lines} == {plan_id}
    assert plan_id in hansei("plan", "list").out
    while ran.code == 5:
        question = ran.lines[-1]["intervention_requested"]
        ran = hansei("plan", "answer", plan_id, question["options"][0], "--json")
    assert ran.code == 0, ran.out
    assert json.dumps(ran.lines[-1]["finished"])
    assert hansei("plan", "answer", plan_id, "yes").code == 1


def test_a_plan_with_a_prefix_keeps_to_it(hansei: Hansei, learned_dataset: str) -> None:
    prefix = learned_dataset.partition("-")[0] + "-"
    plan = hansei("plan", "create", "What if git push is rejected?", "--prefix", prefix, "--json").document
    assert plan["plan_id"].startswith(prefix)
    assert plan["steps"][0].get("collection", prefix).startswith(prefix)
    ran = hansei("plan", "run", "What if git push is rejected?", "--prefix", prefix, "--max-cost", 0.5, "--json")
    assert all(event["execution_id"].startswith(prefix) for event in ran.lines)
    assert ran.lines[0]["started"]["budget"]["max_cost_micro_usd"] == "500000"
    assert hansei("plan", "run", "What?", "--max-cost", 0).code == 2


def test_a_plan_searches_everything_or_the_collection_that_was_named(hansei: Hansei, learned_dataset: str) -> None:
    query = "What if git push is rejected?"
    ran = hansei("plan", "run", query, "--json")
    (found,) = (event["step_finished"]["result"] for event in ran.lines if "step_finished" in event)
    assert learned_dataset in found["searched_collections"]
    execution = ran.lines[0]["execution_id"]
    assert "recorded as report" in hansei("plan", "feedback", execution, 1, "--correct").out
    assert ", 0 reports" not in hansei("plan", "thresholds").out
    assert "adjusted, 0 reports  silent 0.90, notify 0.70, confirm 0.40" in hansei("plan", "thresholds", "--reset").out
    named = hansei("plan", "create", query, "--dataset", learned_dataset, "--json").document
    assert named["steps"][0]["collection"] == learned_dataset
    assert f"searched {learned_dataset}" in hansei("plan", "run", query, "--collection", learned_dataset).out
    unknown = hansei("plan", "run", query, "--dataset", learned_dataset[:-1])
    assert unknown.code != 0
    assert f"similar names: {learned_dataset}" in unknown.err


def _ask_plan(*queries: str) -> str:
    steps = [
        {"step_id": number, "action": "ACTION_ASK_USER", "description": "ask", "query": query}
        for number, query in enumerate(queries, start=1)
    ]
    for number, step in enumerate(steps[1:], start=1):
        step["depends_on"] = [number]
    return json.dumps({"original_query": "Which colour?", "complexity": 0.5, "steps": steps})


def test_a_question_is_answered_with_every_decision(
    hansei: Hansei, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(_ask_plan("Which colour?", "Which size?"), encoding="utf-8")
    shown = hansei("plan", "run", file).out
    execution = hansei("plan", "list", "--json", "-n", 1).lines[0]["execution_id"]
    assert "--action proceed|retry|skip|remove|modify|cancel, --edit, --plan FILE" in shown
    assert hansei("plan", "answer", execution).code == 2
    again = hansei("plan", "answer", execution, "--action", "retry", "--json")
    assert again.lines[-1]["intervention_requested"]["step_id"] == 1
    answered = hansei("plan", "answer", execution, "blue", "--json")
    assert answered.lines[-1]["intervention_requested"]["question"] == "Which size?"
    undecided = hansei("plan", "feedback", execution, 1)
    assert (undecided.code, undecided.err) == (2, "Error: set --correct or --wrong: the label of the result\n")
    informed = hansei("plan", "inform", execution, "Only small ones are left.")
    assert f"hansei plan watch {execution} --after" in informed.out
    file.write_text(_ask_plan("Which shop?"), encoding="utf-8")
    replaced = hansei("plan", "answer", execution, "--plan", file, "--json")
    assert replaced.lines[-1]["intervention_requested"]["question"] == "Which shop?"
    monkeypatch.setenv("EDITOR", "sed -i s/shop/street/")
    edited = hansei("plan", "answer", execution, "--edit", "--json")
    assert edited.lines[-1]["intervention_requested"]["question"] == "Which street?"
    file.write_text(_ask_plan("Which shop?", "Which street?"), encoding="utf-8")
    hansei("plan", "answer", execution, "--plan", file)
    removed = hansei("plan", "answer", execution, "--action", "remove", "--json")
    assert removed.lines[-1]["intervention_requested"]["question"] == "Which street?"  # it depended on the other
    cancelled = hansei("plan", "answer", execution, "--action", "cancel")
    assert (cancelled.code, "cancelled" in cancelled.out) == (1, True)
    refused = hansei("plan", "refine", file, "fewer steps")
    assert (refused.code, "offline: no model is configured" in refused.err) == (1, True)


def test_validate_exits_with_1_for_a_report_with_errors(hansei: Hansei, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text("{}", encoding="utf-8")
    outcome = hansei("validate", file, "--type", "organizer", "--json")
    assert outcome.code == 1
    assert outcome.document["ok"] is False
    shown = hansei("validate", file, "--type", "organizer")
    assert all(error in shown.out for error in outcome.document["errors"])
    unknown = hansei("validate", file, "--type", "no-such-kind")
    assert unknown.code == 2
    assert "  --type must be 'organizer' or 'advisor'" in unknown.err
    assert "(got 'no-such-kind')" in unknown.err
