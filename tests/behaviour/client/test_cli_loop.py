"""Test `hansei learn`, `hansei search` and `hansei ask` on a running server."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import zstandard

from hansei.client import Client, learning
from hansei.client.cli.sources import MAX_DECOMPRESSED_BYTES
from hansei.client.learning import LearnOutcome
from hansei.client.trajectories import TrajectoryRecord
from tests.support import systems
from tests.support.commands import Hansei, bullets, copy_trajectories, dataset, hansei, runner
from tests.support.shared_resources import CODE

__all__ = ["dataset", "hansei"]  # fixtures

EXAMPLES = Path(__file__).parents[3] / "examples/formats"


def test_lessons_learned_from_a_file_are_found_and_used_in_answers(
    hansei: Hansei, dataset: str, tmp_path: Path
) -> None:
    (file,) = copy_trajectories(tmp_path, dataset, "git-push-rebased")
    learned = hansei("learn", file, "--verbose")
    assert learned.code == 0, learned.err
    assert "git-push-rebased" in learned.out
    assert "insight" in learned.out
    assert "revision 1" in learned.out
    assert "usage      no model was called" in learned.out
    ids = [bullet["id"] for bullet in bullets(hansei, dataset)]
    assert ids

    found = hansei("search", "git pull refuses: unstaged changes", "-d", dataset, "--min-revision", 1)
    assert found.code == 0
    assert all(word in found.out for word in ("vector", "BM25", ids[0], "similarity", "  keyword"))
    nothing = hansei("search", "zebra quiche", "-d", dataset)
    assert nothing.out.startswith("Nothing matches: no bullet has a word of the query, and the highest similarity, ")
    assert hansei("search", "zebra quiche", "-d", dataset, "--json").document["nothing_matched"]
    ranked = hansei("search", "git pull refuses: unstaged changes", "-d", dataset, "--json").document["results"]
    scores = [result["combined_score"] for result in ranked]
    assert scores == sorted(scores, reverse=True)
    assert {result["bullet"]["id"] for result in ranked} <= set(ids)

    answered = hansei("ask", "what if a push is rejected?", "-d", dataset)
    assert answered.code == 0
    assert "offline" in answered.out
    assert "no model was called" in answered.out
    assert any(bullet in answered.out for bullet in ids)


def test_learning_a_file_again_learns_nothing_twice(hansei: Hansei, dataset: str, tmp_path: Path) -> None:
    files = copy_trajectories(tmp_path, dataset, "git-push-forced", "git-push-rebased")
    first = hansei("learn", *files, "--jobs", 1, "--json")
    before = hansei("playbook", "show", "-d", dataset, "--json").document
    again = hansei("learn", tmp_path, "--jobs", 1, "--json")
    assert hansei("playbook", "show", "-d", dataset, "--json").document == before
    assert [line["request_id"] for line in again.lines] == [line["request_id"] for line in first.lines]
    expected = [line["response"] | {"already_learned": True} for line in first.lines]
    assert [line["response"] for line in again.lines] == expected
    shown = hansei("learn", tmp_path, "--again").out
    assert shown.count("  already learned  ") == 2
    assert "; 2 already learned" in shown


def test_trajectories_that_name_another_dataset_than_the_option_are_reported(
    hansei: Hansei, dataset: str, tmp_path: Path
) -> None:
    files = copy_trajectories(tmp_path, dataset, "git-push-forced", "git-push-rebased")
    learned = hansei("learn", *files, "--dataset", "mix", "--json")
    note = f"not learned into mix, as they name another dataset: 2 trajectories of {dataset}"
    assert (learned.code, learned.err.splitlines()) == (0, [note])
    assert hansei("learn", *files, "--dataset", dataset).err == ""
    assert hansei("learn", *files).err == ""


def test_the_history_shows_changes_and_confirmations(hansei: Hansei, dataset: str, tmp_path: Path) -> None:
    files = copy_trajectories(tmp_path, dataset, "git-push-forced", "git-push-rebased", "git-commit-identity")
    copies = [tmp_path / f"copy-{file.name}" for file in files]
    for file, copy in zip(files, copies, strict=True):
        trajectory = json.loads(file.read_text(encoding="utf-8"))
        copy.write_text(json.dumps(trajectory | {"id": f"copy-{trajectory['id']}"}), encoding="utf-8")
    assert hansei("learn", *files, "--jobs", 1).code == 0
    assert hansei("learn", *copies, "--jobs", 1).code == 0
    newest, *_, oldest = hansei("playbook", "history", "-d", dataset, "--json").lines
    added = sum(operation["applied"] for operation in oldest["operations"])
    assert oldest["summary"].startswith(f"{added} added")
    assert "added" not in newest["summary"]
    assert re.search(r"[a-z]+-\d{5} confirmed", newest["summary"])
    assert "ADD:" not in hansei("playbook", "history", "-d", dataset).out


# The command splits and shortens; a call of the largest size passes two processes.
@pytest.mark.parametrize("system", ["separate processes"], indirect=True)
def test_a_long_array_is_split_and_a_trajectory_that_is_too_long_is_shortened_or_named(
    hansei: Hansei, dataset: str, tmp_path: Path
) -> None:
    (file,) = copy_trajectories(tmp_path, dataset, "git-push-rebased")
    trajectory = json.loads(file.read_text(encoding="utf-8"))
    long = tmp_path / "long.json"
    steps = [{**step, "content": "x" * 900_000} for step in trajectory["steps"][:4]]
    long.write_text(
        json.dumps([trajectory | {"id": f"run-{number}", "steps": steps} for number in range(6)]), encoding="utf-8"
    )
    outcome = hansei("learn", long, "--json")
    assert {line["source"] for line in outcome.lines} == {f"{long}#{number}" for number in range(1, 7)}, outcome.err
    long.write_text(json.dumps(trajectory | {"generated_answer": "x" * 20_000_000}), encoding="utf-8")
    learned = hansei("learn", long, file)
    assert (learned.code, learned.err.count("shortened")) == (0, 1)
    assert f"{long}: a call takes at most 16.7 MB and the document has 20.0 MB: 1 of its texts were" in learned.err
    long.write_text(json.dumps(trajectory | {"metadata": [0.12345678901234568] * 1_142_800}), encoding="utf-8")
    refused = hansei("learn", long, file)
    assert refused.code == 5
    assert f"{long}: Error: one document of 24.0 MB without texts that can be shortened" in refused.err


def test_an_interrupted_command_reports_its_progress(
    hansei: Hansei, dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = copy_trajectories(tmp_path, dataset, "git-push-forced", "git-push-rebased")

    def interrupt_after_one(client: Client, records: Sequence[TrajectoryRecord], jobs: int) -> Iterator[LearnOutcome]:
        yield learning.learn(client, records[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(learning, "learn_all", interrupt_after_one)
    outcome = hansei("learn", *files)
    assert outcome.code == 130
    assert "interrupted: 1 of 2 trajectories are done; repeat the command to continue" in outcome.err


def test_a_tree_is_learned_incrementally_with_a_progress_bar(hansei: Hansei, dataset: str, tmp_path: Path) -> None:
    """A terminal shows the bar; of a tree that has grown, only the new file is learned."""
    tree = tmp_path / "projects"
    for folder, trajectory in (("shop", "git-push-rebased"), ("shop/subagents", "git-push-forced")):
        (tree / folder).mkdir(parents=True)
        copy_trajectories(tree / folder, dataset, trajectory)
    first = run_in_terminal("learn", str(tree))
    assert "reading" in first
    assert re.search(r"learning .* 0/2 .*learning .* 2/2 ", first, re.DOTALL), first

    copy_trajectories(tree, dataset, "git-commit-identity")
    second = run_in_terminal("learn", str(tree))
    assert "2 files did not change since they were learned" in second
    assert re.search(r"learning .* 1/1 ", second), second

    assert hansei("dataset", "delete", dataset, "--yes").code == 0
    assert hansei("remember", "Read the log first.", "-d", dataset).code == 0
    anew = hansei("learn", tree)
    assert (anew.code, "did not change" in anew.err) == (0, False)
    assert "3 files did not change" in hansei("learn", tree).err

    piped = hansei("learn", tree, "--again")
    assert "/3 " not in piped.out + piped.err


def run_in_terminal(*arguments: str) -> str:
    """Run `hansei` with a pseudo-terminal, and return what it shows without control sequences. It must succeed."""
    command = [sys.executable, "-m", "tests.support.forked_command", *arguments]
    environment = {**os.environ, "PYTHONPATH": CODE, "TERM": "xterm"}
    terminal, side = pty.openpty()
    with os.fdopen(terminal, "rb", buffering=0) as screen:
        process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environment)
        os.close(side)
        shown = b""
        try:
            while part := screen.read(65536):
                shown += part
        except OSError:
            pass  # Linux ends the output of a terminal by this error, when no process has it any more.
        code = process.wait(timeout=60)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert code == 0, text
    return text


def test_a_file_that_is_no_playbook_is_not_imported(hansei: Hansei, dataset: str, tmp_path: Path) -> None:
    (file,) = copy_trajectories(tmp_path, dataset, "git-push-rebased")
    outcome = hansei("playbook", "import", file, "-d", dataset, "--replace")
    assert outcome.code == 2
    assert "bullets: is missing: the file is JSON, but not a playbook" in outcome.err
    file.write_bytes(b"")
    (line,) = hansei("playbook", "import", file, "-d", dataset).err.splitlines()
    assert line.startswith("Error: chunk: the file is empty; ")


def test_the_summary_claims_no_review_of_changes_that_the_same_command_confirmed(
    hansei: Hansei, dataset: str, tmp_path: Path
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    file = tmp_path / "pay.jsonl"
    conversations = (
        [
            {"role": "user", "content": f"Pay the {fee} fee"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "error E7: bad amount"},
            {"role": "assistant", "content": "It did not work."},
        ]
        for fee in ("gym", "library", "parking")
    )
    file.write_text("\n".join(json.dumps({"messages": messages}) for messages in conversations), encoding="utf-8")
    learned = hansei("learn", file, "-d", dataset, "--jobs", "1")
    assert learned.code == 0, learned.err
    review = f"hansei playbook review --dataset {dataset}"
    assert f"1 change was held for review; see which still wait: {review}" in learned.out
    assert hansei(*review.split()[1:]).out == "No changes are pending.\n"


def test_each_outcome_is_one_json_line(hansei: Hansei, dataset: str, tmp_path: Path) -> None:
    (file,) = copy_trajectories(tmp_path, dataset, "git-push-rebased")
    (line,) = hansei("learn", file, "--json").lines
    assert set(line) == {"source", "trajectory_id", "dataset", "request_id", "failure", "response"}
    assert (line["trajectory_id"], line["dataset"], line["failure"]) == ("git-push-rebased", dataset, None)
    assert uuid.UUID(line["request_id"])
    assert line["response"]["curation"]["saved"] is True


def test_a_broken_line_is_named_and_the_others_are_learned(hansei: Hansei, dataset: str, tmp_path: Path) -> None:
    good = [
        json.loads(file.read_text())
        for file in copy_trajectories(tmp_path, dataset, "git-push-forced", "git-push-rebased")
    ]
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join([json.dumps(good[0]), '{"steps": "none"}', json.dumps(good[1])]), encoding="utf-8")
    outcome = hansei("learn", file, "--json")
    assert outcome.code == 5
    assert {line["trajectory_id"] for line in outcome.lines} == {"git-push-forced", "git-push-rebased"}
    assert f"{file}:2: Error: " in outcome.err
    assert "0 of 2 trajectories were not learned, 1 could not be read" in outcome.err


def test_a_broken_line_is_named_again_by_each_command_for_the_folder(
    hansei: Hansei, dataset: str, tmp_path: Path
) -> None:
    (file,) = copy_trajectories(tmp_path, dataset, "git-push-forced")
    good = json.loads(file.read_text(encoding="utf-8"))
    file.unlink()
    (tmp_path / "runs.jsonl").write_text(f'{json.dumps(good)}\n{{"steps": "none"}}\n', encoding="utf-8")
    first, second = hansei("learn", tmp_path), hansei("learn", tmp_path)
    assert (first.code, second.code) == (5, 5)
    assert "runs.jsonl:2: Error: " in second.err
    assert "1 already learned" in " ".join(second.out.split())


def test_compressed_sessions_are_learned_once_and_broken_ones_are_named(
    hansei: Hansei, dataset: str, tmp_path: Path
) -> None:
    """Codex compresses its old sessions."""
    session = (EXAMPLES / "codex.jsonl").read_bytes()
    first, second = (session.replace(b"01a1", digits) for digits in (b"01a1", b"02b2"))
    (tmp_path / "rollout-1.jsonl").write_bytes(first)
    (tmp_path / "rollout-1.jsonl.zst").write_bytes(zstandard.compress(first))
    frames = [zstandard.compress(line) for line in second.splitlines(keepends=True)]
    (tmp_path / "rollout-2.jsonl.zst").write_bytes(b"".join(frames))
    (tmp_path / "rollout-3.jsonl.zst").write_bytes(zstandard.compress(session)[:-20])
    (tmp_path / "rollout-4.jsonl.zst").write_bytes(session)
    (tmp_path / "rollout-5.jsonl.zst").write_bytes(zstandard.compress(bytes(MAX_DECOMPRESSED_BYTES + 1)))
    (tmp_path / "notes.zst").write_bytes(b"no session")
    outcome = hansei("learn", tmp_path, "--dataset", dataset, "--json")
    assert outcome.code == 5
    sources = sorted(Path(line["source"]).name for line in outcome.lines)
    assert sources == ["rollout-1.jsonl", "rollout-2.jsonl.zst"]
    for name, problem in (("3", "cut off"), ("4", "is not compressed by Zstandard"), ("5", "is too large")):
        assert re.search(rf"rollout-{name}.jsonl.zst: Error: .*{problem}", outcome.err)
    assert "0 of 2 trajectories were not learned, 3 could not be read" in outcome.err


@pytest.mark.parametrize("content", ["", "not json", '{"neither": "known"}', "[1, 2]", "\x00\x01"])
def test_a_file_without_a_trajectory_is_refused_with_a_reason(hansei: Hansei, tmp_path: Path, content: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(content, encoding="utf-8")
    outcome = hansei("learn", file)
    assert outcome.code == 2
    assert "broken.json: Error: " in outcome.err


def test_reasons_of_all_formats_are_shown_on_request(hansei: Hansei, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"theme": "dark"}', encoding="utf-8")
    error, hint, end = hansei("learn", file).err.splitlines()
    assert "its fields are theme" in error
    assert "--verbose shows for each format" in hint
    assert end == "Error: nothing was learned: 1 could not be read"
    assert "as codex: " in hansei("learn", file, "--verbose").err


def test_a_file_that_is_not_there_is_named(hansei: Hansei, tmp_path: Path) -> None:
    outcome = hansei("learn", tmp_path / "absent.json")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"Error: {tmp_path / 'absent.json'} does not exist\n"


def test_several_datasets_need_a_name(hansei: Hansei, dataset: str, tmp_path: Path) -> None:
    for name in (dataset, f"{dataset}-too"):
        hansei("learn", *copy_trajectories(tmp_path, name, "git-push-rebased"))
    outcome = hansei("search", "anything")
    assert outcome.code == 2
    assert "which dataset? Name one with --dataset" in outcome.err
    assert dataset in outcome.err


def test_a_rule_of_the_contract_that_is_broken_names_field_and_rule(hansei: Hansei) -> None:
    outcome = hansei("search", "anything", "-d", "no such name!")
    assert outcome.code == 2
    assert "dataset" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_server_that_is_not_there_gives_exit_code_3_and_a_way_out(
    capfd: pytest.CaptureFixture[str],
) -> None:
    address = f"127.0.0.1:{systems.free_port()}"
    outcome = runner(capfd)("search", "anything", "-d", "some", "--addr", address)
    assert (outcome.code, outcome.out) == (3, "")
    assert f"hansei at {address} does not answer" in outcome.err
    assert "hansei up" in outcome.err
    assert "--local" in outcome.err
