"""Test the views of the command line without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from hansei.client.cli.failures import format_error_lines
from hansei.client.cli.output import create_console, print_json, print_line, print_pages, say
from hansei.client.cli.show import jobs, playbooks, status, trials
from hansei.client.cli.show.guards import render_backtest, render_table, render_written_targets
from hansei.client.cli.show.words import label_row
from hansei.client.cli.stack import list_first_commands
from hansei.client.errors import InvalidArgument, Unauthenticated, Violation
from hansei.evidence.v1 import evidence_pb2 as epb
from hansei.evidence.v1.evidence_service_pb2 import GetLiftResponse, GetTrialsResponse
from hansei.evidence.v1.guard_service_pb2 import Guard
from hansei.gateway.v1 import bulk_pb2 as bulk
from hansei.playbook.v1 import playbook_pb2 as pb
from hansei.playbook.v1 import playbook_service_pb2 as service
from hansei.playbook.v1.playbook_service_pb2 import Dataset
from tests.support.commands import runner

HOSTILE = "a\x1b[2J\x1b]52;c;aGk=\x07\x9b31mb\u202ec\u2066\rd"
HARMLESS = "a[2J]52;c;aGk=31mbcd"


def render(view: RenderableType, width: int = 80) -> str:
    """Return the text of a view in a terminal of this width."""
    console = Console(width=width)
    with console.capture() as captured:
        console.print(view, crop=False)
    return captured.get()


def test_a_firing_in_the_archive_is_shown_with_the_command_that_opens_its_step() -> None:
    firing = {"trajectory_id": "part 1", "step": 3, "is_success": False, "is_mistake": False}
    names = ("failed", "failed_firing", "passed", "passed_firing", "false_alarms", "false_alarm_bound")
    counts = dict.fromkeys(names, 1)
    text = render(render_backtest({**counts, "firings": [firing]}, "devtools"), 120)
    assert "failing: hansei trajectories show 'part 1' --dataset devtools --step 3" in text
    assert "failing: part 1, step 3" in render(render_backtest({**counts, "firings": [firing]}))


BULLET = "strategies_and_hard_rules-00001"
JOB = "0f0e0d0c-0b0a-4908-8706-050403020100"
DATASET = "lessons-of-the-platform-team"


def _build_job() -> bulk.Job:
    return bulk.Job(job_id=JOB, dataset=DATASET, state=bulk.JOB_STATE_COMPLETED, learned=12, total=12)


def _build_measurements() -> dict[str, object]:
    served, withheld = (epb.ArmSummary(sessions=12, success_rate=rate) for rate in (0.8, 0.5))
    effect = epb.Effect(served=served, withheld=withheld, difference=0.3, lower=-0.1, upper=0.6, evidence=12.345)
    bullet = epb.BulletEffect(bullet_id=BULLET, effect=effect, state=epb.BULLET_STATE_TRIAL, required_evidence=400)
    trials = GetTrialsResponse(policy=epb.TrialPolicy(), running=True)
    return {"trials": trials, "lift": GetLiftResponse(lift=effect), "effects": [bullet]}


def _build_overview() -> dict[str, object]:
    row: dict[str, object] = {
        "dataset": Dataset(name=DATASET, bullets=12_000),
        "trajectories": 120_000,
        "trials_running": True,
    }
    row |= dict.fromkeys(("success", "usage", "lift"))
    return {"address": "host:1", "problems": [], "datasets": [row], "waiting": []}


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize(
    ("view", "ids"),
    [
        (jobs.render_table([_build_job()]), [JOB, DATASET]),
        (trials.render_effects(_build_measurements(), DATASET), [BULLET]),
        (render_table([Guard(bullet_id=BULLET, suspended=True)]), [BULLET]),
        (status.render_status(_build_overview()), [DATASET]),
    ],
)
def test_ids_are_whole_in_a_narrow_terminal(view: RenderableType, ids: list[str], width: int) -> None:
    text = render(view, width)
    assert all(id_ in text for id_ in ids)
    assert "…" not in text


def test_lines_in_a_pipe_are_not_cut(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    create_console().print(Text("x" * 300))
    assert capsys.readouterr().out == "x" * 300 + "\n"


@pytest.mark.parametrize(
    ("violation", "message", "lines"),
    [
        (Violation("file", "file: too large"), "cannot parse", ["Error: cannot parse [INVALID]", "  file: too large"]),
        (Violation("text", "text is blank"), "refused", ["Error: refused [INVALID]", "  text is blank"]),
        (Violation("file", "files differ"), "refused", ["Error: refused [INVALID]", "  file: files differ"]),
        (Violation("a.b", "a.b: null"), "a.b: null", ["Error: a.b: null [INVALID]"]),
        (Violation("k", "must be positive"), "refused", ["Error: refused [INVALID]", "  k: must be positive"]),
    ],
)
def test_an_error_names_a_field_once(violation: Violation, message: str, lines: list[str]) -> None:
    error = InvalidArgument(message, reason="INVALID", violations=[violation])
    assert format_error_lines(error) == lines


@pytest.mark.parametrize("is_terminal", [False, True])
def test_texts_cannot_send_control_characters_to_the_terminal(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    create_console().print(Text(HOSTILE, "red"), label_row("label", HOSTILE), crop=False)
    create_console().print(Text("own colours", "red"))
    print_pages(Text(HOSTILE))
    print_line(HOSTILE)
    say(HOSTILE)
    out, err = capsys.readouterr()
    assert (out.count(HARMLESS), err) == (4, HARMLESS + "\n")
    assert set("\x07\r\x9b\u202e\u2066").isdisjoint(out)
    assert ("\x1b[31mown colours" in out) is is_terminal
    assert "\x1b[2J" not in out
    assert "\x1b]" not in out


def test_json_keeps_each_character_of_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"content": HOSTILE})
    assert json.loads(capsys.readouterr().out) == {"content": HOSTILE}


def _build_guarded_bullet(expression: str, mode: str, **fields: Any) -> pb.Bullet:
    target = pb.Target(expression=expression, mode=pb.TargetMode.Value(f"TARGET_MODE_{mode}"), pinned=True)
    return pb.Bullet(id=BULLET, content="Ask first.", target=target, **fields)


GUARDED = _build_guarded_bullet("call.tool == 'a'", "DENY")
UNGUARDED = pb.Bullet(id=BULLET, content="Ask first.")
GUARDED_THEN = "guard: deny, pinned, call.tool == 'a' →"


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (UNGUARDED, GUARDED, "guard: none → deny, pinned, call.tool == 'a'"),
        (GUARDED, UNGUARDED, f"{GUARDED_THEN} none"),
        (GUARDED, _build_guarded_bullet("call.tool == 'a'", "ASK"), f"{GUARDED_THEN} ask, pinned, call.tool == 'a'"),
        (GUARDED, _build_guarded_bullet("call.tool == 'b'", "DENY"), f"{GUARDED_THEN} deny, pinned, call.tool == 'b'"),
        (GUARDED, pb.Bullet(id=BULLET, content="Ask a person first."), f"{GUARDED_THEN} none"),
        (GUARDED, None, f"{GUARDED_THEN} none"),
    ],
)
def test_a_change_of_a_guard_is_shown_in_differences_restorations_and_the_history(
    before: pb.Bullet, after: pb.Bullet | None, shown: str
) -> None:
    change = pb.BulletChange(bullet_id=BULLET, before=before, after=after)
    operation = pb.Operation(applied=True, bullet_id=BULLET, delta=pb.Delta(type=pb.DELTA_TYPE_UPDATE))
    views = [
        playbooks.render_difference(service.DiffRevisionsResponse(changes=[change])),
        playbooks.render_restoration(service.RestoreRevisionResponse(changes=[change]), DATASET),
        playbooks.render_revision(pb.Revision(kind=pb.REVISION_KIND_APPLY, operations=[operation], changes=[change])),
        playbooks.render_revision(pb.Revision(kind=pb.REVISION_KIND_RESTORE, changes=[change])),
    ]
    for view in views:
        text = render(view, 200)
        assert text.count(shown) == 1
        assert "keywords" not in text


def test_the_history_shows_the_text_of_a_removed_bullet() -> None:
    operation = pb.Operation(applied=True, bullet_id=BULLET, delta=pb.Delta(type=pb.DELTA_TYPE_DELETE))
    change = pb.BulletChange(bullet_id=BULLET, before=UNGUARDED)
    revision = pb.Revision(kind=pb.REVISION_KIND_APPLY, operations=[operation], changes=[change])
    assert f"- {BULLET} Ask first." in render(playbooks.render_revision(revision), 200)


def test_an_error_of_the_credential_names_the_variable_of_the_command_line() -> None:
    message = "a credential is needed: send authorization: Bearer <key or token>"
    assert format_error_lines(Unauthenticated(message, reason="CREDENTIAL_MISSING")) == [
        f"Error: {message} [CREDENTIAL_MISSING]",
        "  Set HANSEI_TOKEN to an API key or token of this server; `hansei keys create` creates a key.",
    ]


def test_the_commands_of_a_server_at_another_address_name_it() -> None:
    assert list_first_commands("127.0.0.1:50050").startswith("hansei learn FILE · hansei search QUERY · ")
    assert list_first_commands("127.0.0.1:7").startswith(
        "hansei learn FILE --addr 127.0.0.1:7 · hansei search QUERY --"
    )


def test_the_help_of_up_names_the_address_of_the_console(capfd: pytest.CaptureFixture[str]) -> None:
    assert "HANSEI_HTTP_ADDRESS" in runner(capfd)("up", "--help").out


def test_effects_and_decisions_show_a_half_as_the_console_does() -> None:
    served, withheld = (epb.ArmSummary(sessions=8, success_rate=rate) for rate in (0.625, 0.0))
    effect = epb.Effect(served=served, withheld=withheld, difference=0.625, lower=-0.125, upper=0.875)
    bullet = epb.BulletEffect(bullet_id=BULLET, effect=effect, state=epb.BULLET_STATE_TRIAL)
    measured = {**_build_measurements(), "effects": [bullet]}
    table = render(trials.render_effects(measured, DATASET), 200)
    line = render(trials.render_decision(epb.Decision(bullet_id=BULLET, effect=effect)), 200)
    assert "63%" in table
    assert "+63" in table
    assert "+63 (-12 to +88) points" in line


@pytest.mark.parametrize(("state", "is_decided"), [("PROVEN", True), ("NO_EFFECT", True), ("TRIAL", False)])
def test_effects_say_that_the_numbers_of_a_decided_bullet_stay(state: str, is_decided: bool) -> None:
    bullet = epb.BulletEffect(bullet_id=BULLET, state=epb.BulletState.Value(f"BULLET_STATE_{state}"))
    text = render(trials.render_effects({**_build_measurements(), "effects": [bullet]}, DATASET), 200)
    assert ("The numbers of a decided bullet are those at its decision" in text) is is_decided


def test_brackets_of_a_target_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    target = {"target": "args.x == '[a]'", "lesson": "Use [bold]x[/bold] :+1:", "failed_firing": 1, "failed": 2}
    target |= {"false_alarms": 0, "passed": 3, "false_alarm_bound": 0.1}
    written = {"targets": [target], "refused": [], "unanswered": [], "model": "m"}
    create_console().print(render_written_targets({**written, "input_tokens": 1, "output_tokens": 2}))
    out = capsys.readouterr().out
    assert "args.x == '[a]'" in out
    assert "Use [bold]x[/bold] :+1:" in out
