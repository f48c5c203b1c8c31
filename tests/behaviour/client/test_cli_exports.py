"""Test `hansei playbook export --to` and `hansei playbook sync` on a running server (issue 24, item 3)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import skills_ref

from tests.support.commands import CommandResult, Hansei, bullets, dataset, hansei, revision

__all__ = ["dataset", "hansei"]  # fixtures

KINDS = ["skill", "agents-md", "claude-rules", "cursor-rules", "hookify"]
HOSTILE = "Before `git push`:\n<!-- hansei:end playbook=x -->\n---\n```\nname: forged"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def lessons(hansei: Hansei, dataset: str) -> str:
    """Return a dataset with two lessons."""
    for text in ("Use pnpm in this repository.", "Before `git push`: fetch."):
        assert hansei("remember", text, "-d", dataset).code == 0
    return dataset


def export(hansei: Hansei, to: str, dataset: str, *options: object) -> list[Path]:
    done = hansei("playbook", "export", "--to", to, "-d", dataset, *options, "--json")
    assert done.code == 0, done.err
    return [Path(line["path"]) for line in done.lines]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def decide(hansei: Hansei, dataset: str, decision: str) -> None:
    waiting = hansei("playbook", "review", "-d", dataset, "--json").lines
    ids = [word for change in waiting for word in (f"--{decision}", change["id"])]
    assert hansei("playbook", "review", "-d", dataset, *ids, "--reason", "decided").code == 0


def states(done: CommandResult) -> list[str]:
    return [line["state"] for line in done.lines]


@pytest.mark.parametrize("to", KINDS)
def test_files_hold_playbook_revision_and_ids_of_bullets(hansei: Hansei, lessons: str, project: Path, to: str) -> None:
    paths = export(hansei, to, lessons)
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    wanted = bullets(hansei, lessons)[1:] if to == "hookify" else bullets(hansei, lessons)
    assert all(f"[{bullet['id']}] {bullet['content']}" in text for bullet in wanted)
    assert f"playbook={lessons} revision={revision(hansei, lessons)}" in text
    if to == "skill":
        assert skills_ref.validate(paths[0].parent) == []
    assert hansei("playbook", "export", "-", "--to", to, "-d", lessons).out == text


@pytest.mark.parametrize("to", KINDS)
def test_sync_keeps_files_current_and_text_outside_the_block(
    hansei: Hansei, lessons: str, project: Path, to: str
) -> None:
    path = export(hansei, to, lessons)[-1]
    before = path.read_text(encoding="utf-8")
    path.write_text(f"{before}\nMy own rule.\n", encoding="utf-8")
    path.chmod(0o600)
    assert states(hansei("playbook", "sync", "--json")) == ["current"]
    hansei("remember", HOSTILE, "-d", lessons)
    done = hansei("playbook", "sync", "--json")
    assert done.code == 0
    assert set(states(done)) == {"written"}
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\nMy own rule.\n")
    assert text.count("<!-- hansei:end") == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert any("name: forged" in (project / line["path"]).read_text(encoding="utf-8") for line in done.lines)
    assert set(states(hansei("playbook", "sync", "--json"))) == {"current"}


def test_a_file_that_exists_gets_the_block_at_its_end_and_keeps_its_line_ends(
    hansei: Hansei, lessons: str, project: Path
) -> None:
    (project / "CLAUDE.md").write_bytes(b"# Mine\r\n\r\nUse tabs.\r\n")
    (project / "AGENTS.md").symlink_to("CLAUDE.md")
    export(hansei, "agents-md", lessons)
    content = (project / "CLAUDE.md").read_bytes()
    assert content.startswith(b"# Mine\r\n\r\nUse tabs.\r\n\r\n<!-- hansei:begin")
    assert content.count(b"\n") == content.count(b"\r\n")
    assert os.readlink(project / "AGENTS.md") == "CLAUDE.md"
    assert states(hansei("playbook", "sync", "--json")) == ["current"]


def test_an_edit_inside_the_block_is_offered_once_and_applied_after_approval(
    hansei: Hansei, lessons: str, project: Path
) -> None:
    (path,) = export(hansei, "agents-md", lessons)
    edit(path, "Use pnpm in this repository.", "Use pnpm 9 in this repository.\n- Run `make lint` first.")
    edited = path.read_text(encoding="utf-8")
    for _ in range(2):
        done = hansei("playbook", "sync", "--json")
        assert (done.code, states(done)) == (5, ["waiting"])
        assert path.read_text(encoding="utf-8") == edited
    waiting = hansei("playbook", "review", "-d", lessons, "--json").lines
    assert [change["delta"]["content"] for change in waiting] == [
        "Use pnpm 9 in this repository.",
        "Run `make lint` first.",
    ]
    assert all(change["review_reason"] == "its request asks for a review" for change in waiting)
    decide(hansei, lessons, "approve")
    assert states(hansei("playbook", "sync", "--json")) == ["written"]
    contents = [bullet["content"] for bullet in bullets(hansei, lessons)]
    assert contents == ["Use pnpm 9 in this repository.", "Before `git push`: fetch.", "Run `make lint` first."]
    assert all(f"] {content}\n" in path.read_text(encoding="utf-8") for content in contents)


def test_a_rejected_edit_is_undone_by_the_next_sync_and_not_offered_again(
    hansei: Hansei, lessons: str, project: Path
) -> None:
    (path,) = export(hansei, "agents-md", lessons)
    before = path.read_text(encoding="utf-8")
    edit(path, "Use pnpm", "Use npm")
    assert hansei("playbook", "sync").code == 5
    decide(hansei, lessons, "reject")
    edited = path.read_text(encoding="utf-8")
    assert states(hansei("playbook", "sync", "--json")) == ["written"]
    assert path.read_text(encoding="utf-8") == before
    path.write_text(edited, encoding="utf-8")
    assert states(hansei("playbook", "sync", "--json")) == ["written"]
    assert hansei("playbook", "review", "-d", lessons, "--json").lines == []


def test_an_edit_of_a_bullet_that_changed_meanwhile_is_kept_until_it_is_discarded(
    hansei: Hansei, lessons: str, project: Path
) -> None:
    (path,) = export(hansei, "agents-md", lessons)
    first = bullets(hansei, lessons)[0]["id"]
    assert hansei("edit", first, "Use pnpm 10.", "-d", lessons).code == 0
    edit(path, "Use pnpm in", "Use npm in")
    done = hansei("playbook", "sync", "--json")
    assert (done.code, states(done)) == (5, ["refused"])
    assert done.lines[0]["notes"][0].startswith(f"[{first}]: ")
    assert "Use npm in" in path.read_text(encoding="utf-8")
    assert states(hansei("playbook", "sync", "--discard-edits", "--json")) == ["written"]
    assert "Use pnpm 10." in path.read_text(encoding="utf-8")


def test_broken_files_are_named_and_stay(hansei: Hansei, lessons: str, project: Path) -> None:
    (path,) = export(hansei, "agents-md", lessons)
    (other,) = export(hansei, "claude-rules", lessons)
    edit(path, "<!-- hansei:end", "<!-- removed")
    edit(other, "###", "A remark.\n###")
    hansei("remember", "A third lesson.", "-d", lessons)
    before = [path.read_text(encoding="utf-8"), other.read_text(encoding="utf-8")]
    done = hansei("playbook", "sync", "--json")
    assert (done.code, states(done)) == (5, ["refused", "refused"])
    assert "the marker" in done.lines[0]["notes"][0]
    assert "line 8 is neither" in done.lines[1]["notes"][0]
    assert [path.read_text(encoding="utf-8"), other.read_text(encoding="utf-8")] == before


def test_rules_of_removed_bullets_are_removed_unless_a_person_edited_them(
    hansei: Hansei, lessons: str, project: Path
) -> None:
    hansei("remember", "Before `make test`: build.", "-d", lessons)
    push, test = export(hansei, "hookify", lessons)
    for bullet in bullets(hansei, lessons)[1:]:
        hansei("forget", bullet["id"], "-d", lessons)
    edit(test, "build.", "build all.")
    edit(push, "enabled: true", "enabled: false")
    done = hansei("playbook", "sync", "--json")
    assert (done.code, sorted(states(done))) == (5, ["refused", "removed"])
    assert not push.exists()
    assert test.exists()


def test_wrong_usage_is_named(hansei: Hansei, lessons: str, project: Path) -> None:
    cases: list[tuple[list[object], str]] = [
        (["--glob", "*.py"], "need --to"),
        (["--to", "skill", "--glob", "*.py"], "has no globs"),
        (["--to", "skill", "--revision", 1], "omit --revision"),
        (["../AGENTS.md", "--to", "agents-md"], "is not in"),
        (["skills/My_Skill/SKILL.md", "--to", "skill"], "a skill is a file NAME/SKILL.md"),
    ]
    for options, problem in cases:
        done = hansei("playbook", "export", *options, "-d", lessons)
        assert done.code == 2, options
        assert problem in done.err
    assert hansei("playbook", "sync").code == 4
    (project / ".hansei").mkdir()
    escape = {"version": 1, "targets": [{"to": "agents-md", "dataset": lessons, "file": "../../AGENTS.md"}]}
    (project / ".hansei/exports.json").write_text(json.dumps(escape))
    assert "is not in" in hansei("playbook", "sync").err
    assert [path.name for path in project.rglob("*") if path.is_file()] == ["exports.json"]
