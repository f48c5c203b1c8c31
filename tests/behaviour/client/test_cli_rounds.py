"""Test `hansei rounds`, `evaluate`, `judge`, `leaderboard` and `report`."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from services.validator.tests.samples import advisor, decomposition, organizer
from tests.fakes.openai_answers import chat_json
from tests.fakes.openai_server import OpenAIServer
from tests.support import systems
from tests.support.commands import Hansei, hansei, runner

__all__ = ["hansei"]  # a fixture

TEAMS = ("--team", "short=Answer in three sentences.", "--team", "steps=Answer as numbered steps.")
QUESTION = "How does one keep a changelog?"


def test_teams_answer_in_rounds_and_the_rounds_are_shown(hansei: Hansei, tmp_path: Path) -> None:
    execution = f"cli-{uuid.uuid4().hex[:8]}"
    (tmp_path / "prompt.txt").write_text(QUESTION, encoding="utf-8")
    *rounds, last = hansei(
        "rounds", "run", f"@{tmp_path / 'prompt.txt'}", *TEAMS, "--max-rounds", 2, "--execution", execution, "--json"
    ).lines
    assert sorted(
        (line["round_finished"]["team_id"], line["round_finished"]["round"]["round_number"]) for line in rounds
    ) == [
        ("short", 1),
        ("short", 2),
        ("steps", 1),
        ("steps", 2),
    ]
    assert last["execution_id"] == execution

    entries = hansei("rounds", "show", execution, "--team", "steps", "--json").lines
    assert [(entry["key"]["team_id"], entry["key"]["round_number"]) for entry in entries] == [
        ("steps", 1),
        ("steps", 2),
    ]
    (best,) = hansei("rounds", "show", execution, "--best", "--json").lines
    assert best["submission_content"] == last["result"]["best_submission"]
    shown = hansei("rounds", "show", execution).out
    assert "steps round 2" in shown
    assert "max_rounds_reached" in shown
    ranking = hansei("leaderboard", execution, "--shrunken", "--json").document["rows"]
    assert [row["team_id"] for row in ranking] == [row["team_id"] for row in last["result"]["ranking"]]
    assert all("standard_error" in row for row in ranking)
    listed = hansei("rounds", "list", "--json").lines
    assert (execution, 2, 4) in [(summary["execution_id"], summary["teams"], summary["entries"]) for summary in listed]
    assert "2 teams, 4 submissions" in hansei("rounds", "list").out


def test_people_see_each_round_the_ranking_and_the_best_submission(hansei: Hansei) -> None:
    outcome = hansei("rounds", "run", QUESTION, *TEAMS, "--max-rounds", 1)
    assert outcome.code == 0, outcome.err
    assert all(text in outcome.out for text in ("short round 1", "steps round 1", "best score", "best, by "))
    assert "execution " in outcome.out.splitlines()[-1]


def test_an_unknown_execution_is_an_error(hansei: Hansei) -> None:
    for arguments in (
        ("rounds", "show", "no-such"),
        ("leaderboard", "no-such"),
        ("rounds", "show", "no-such", "--best"),
    ):
        outcome = hansei(*arguments)
        assert (outcome.code, outcome.out) == (4, "")
        assert outcome.err.startswith("Error: ")


def test_a_submission_is_scored_and_a_prompt_is_judged(hansei: Hansei) -> None:
    scored = hansei("evaluate", QUESTION, "Write each change down.", "--metric", "Coverage", "--json").document
    assert [metric["metric_name"] for metric in scored["result"]["metrics"]] == ["Coverage"]
    assert scored["usage"]["calls"] == 0
    shown = hansei("evaluate", QUESTION, "Write each change down.").out
    assert all(
        name in shown for name in ("ClarityCoherence", "Coverage", "Relevance", "overall", "no model was called")
    )
    assert hansei("evaluate", QUESTION, "x", "--metric", "Coverage=much").code == 2
    assert "should_continue" in hansei("judge", "Round 1 scored 50.", "--json").document["judgment"]
    assert "further round" in hansei("judge", "Round 1 scored 50.").out.replace("another round", "further round")


@pytest.fixture
def dashboard(tmp_path: Path) -> Path:
    file = tmp_path / "dashboard.json"
    file.write_text('{"trays": {"in_progress": [{"id": "n1", "title": "見積", "status": "IN_PROGRESS"}]}}', "utf-8")
    return file


def test_a_report_without_a_model_has_a_stop_reason(hansei: Hansei, dashboard: Path) -> None:
    outcome = hansei("report", "organizer", dashboard)
    assert outcome.code == 1
    assert "no valid report" in outcome.out
    assert "LLM_PROVIDER=offline" in outcome.out


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("trays", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "is not a dashboard: an object with `trays`, an object of lists of nodes with an `id`"),
        ('{"trays": []}', "is not a dashboard: an object with `trays`, an object of lists of nodes with an `id`"),
    ],
)
@pytest.mark.parametrize("kind", ["organizer", "advisor"])
def test_a_file_without_a_dashboard_is_named(
    hansei: Hansei, tmp_path: Path, content: str, rule: str, kind: str
) -> None:
    file = tmp_path / "dashboard.json"
    file.write_text(content, "utf-8")
    outcome = hansei("report", kind, file)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"Error: {file} {rule}\n")


def test_reports_are_generated_and_findings_of_broken_ones_shown(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, dashboard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid, broken = (
        organizer(decomposition_proposals=[decomposition()]),
        organizer(decomposition_proposals=[decomposition("zz")]),
    )
    with OpenAIServer() as model:
        environment = {"LLM_PROVIDER": "openai", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": model.base_url}
        with systems.one_process(tmp_path, **environment) as system:
            monkeypatch.setenv("HANSEI_ADDR", system.address)
            monkeypatch.setenv("COLUMNS", "200")
            run = runner(capfd)
            model.script(chat_json(valid))
            made = run("report", "organizer", dashboard, "--intent", "decide by Friday", "--constraint", "10万円")
            assert made.code == 0, made.out + made.err
            assert "1 model call" in made.out
            assert all(text in model.requests[-1].prompt for text in ("decide by Friday", "10万円"))
            model.script(chat_json(advisor()))
            assert run("report", "advisor", dashboard, "--focus", "n1", "--json").document["ok"] is True
            model.script(*(chat_json(broken),) * 3)
            failed = run("report", "organizer", dashboard)
            assert failed.code == 1
            assert "'zz' is not in valid node list" in " ".join(failed.out.split())
