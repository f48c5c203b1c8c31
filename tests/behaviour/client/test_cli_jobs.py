"""Test `hansei learn --bulk` and `hansei jobs`."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import Hansei, bullets, copy_trajectories, dataset, hansei  # noqa: F401  fixtures

TRAJECTORIES = ("git-commit-identity", "git-push-forced", "python-relative-import")


def test_files_are_learned_as_a_job_and_the_same_files_are_the_same_job(
    hansei: Hansei,  # noqa: F811
    dataset: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    files = copy_trajectories(tmp_path, dataset, *TRAJECTORIES)

    first = hansei("learn", "--bulk", "--json", *files)

    assert first.code == 0, first.err
    (job,) = first.lines
    assert (job["state"], job["total"], job["learned"]) == ("JOB_STATE_COMPLETED", 3, 3)
    assert len(bullets(hansei, dataset)) >= 3
    again = hansei("learn", "--bulk", "--json", *files)
    assert again.lines == first.lines
    assert "3 of 3 already learned" in hansei("learn", "--bulk", *files).out

    jobs = hansei("jobs", "list", "-d", dataset, "--json").document["jobs"]
    assert [listed["job_id"] for listed in jobs] == [job["job_id"]]
    assert "3 of 3 learned" in hansei("jobs", "show", job["job_id"]).out
    assert "completed" in hansei("jobs", "watch", job["job_id"]).out
    assert "no dead letters" in hansei("jobs", "dead-letters", job["job_id"]).out
    assert hansei("jobs", "retry", job["job_id"], "--json").document["state"] == "JOB_STATE_COMPLETED"
    assert hansei("jobs", "cancel", job["job_id"], "--json").document["learned"] == 3


def test_jobs_and_calls_learn_a_file_once_together(hansei: Hansei, dataset: str, tmp_path: Path) -> None:  # noqa: F811
    files = copy_trajectories(tmp_path, dataset, *TRAJECTORIES)
    assert hansei("learn", files[0]).code == 0

    job = hansei("learn", "--bulk", "--json", *files).document
    again = hansei("learn", "--json", *files)

    assert (job["state"], job["learned"]) == ("JOB_STATE_COMPLETED", 3)
    assert [outcome["response"]["already_learned"] for outcome in again.lines] == [True] * 3
    assert len(hansei("playbook", "history", "-d", dataset, "--json").lines) == 3


def test_an_unreadable_file_submits_nothing(hansei: Hansei, dataset: str, tmp_path: Path) -> None:  # noqa: F811
    broken = tmp_path / "broken.json"
    broken.write_text("no run at all")

    outcome = hansei("learn", "--bulk", *copy_trajectories(tmp_path, dataset, *TRAJECTORIES), broken)

    assert outcome.code == 2
    assert "no job was submitted" in outcome.err
    assert all(job["dataset"] != dataset for job in hansei("jobs", "list", "--json").document["jobs"])


def test_an_unknown_job_is_named(hansei: Hansei) -> None:  # noqa: F811
    outcome = hansei("jobs", "show", "00000000-0000-4000-8000-000000000000")
    assert outcome.code != 0
    assert "00000000-0000-4000-8000-000000000000" in outcome.err
