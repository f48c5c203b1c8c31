"""The page of trials: the effects of the playbook and of each bullet."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.console.reader import Reader
from tests.console.test_access import dialog_faults, faults
from tests.console.windows import Stack, reading

SESSIONS = 90


def test_trials_are_started_and_stopped(reader: Reader, stack: Stack) -> None:
    stack.seeds.playbook("untried", 4)
    reader.open("#/evidence/untried")
    reader.sees("No trials yet")
    reader.button("Start trials…").click()
    reader.page.get_by_role("dialog").get_by_role("button", name="Start").click()
    reader.sees("Trials are running.")
    reader.sees("No bullet was served yet.")
    reader.button("Stop trials…").click()
    reader.page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    reader.sees("Trials have stopped; no further session is measured.")


def test_effects_and_decisions_are_shown_with_their_lessons(reader: Reader, browser: Browser, stack: Stack) -> None:
    stack.seeds.trials("proven", SESSIONS)
    reader.open("#/playbooks/proven")
    reader.page.get_by_role("link", name="Evidence", exact=True).last.click()
    reader.sees(f"{SESSIONS} sessions")
    effects = reader.page.get_by_role("region", name="Effects")
    rows = effects.locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("The whole playbook")
    proven = rows.filter(has_text="proven")
    expect(proven).to_contain_text("(0)")
    expect(proven).to_contain_text("+100")
    chart = reader.page.get_by_role("img", name="Success with the playbook minus success without it")
    expect(chart).to_have_accessible_name(
        re.compile(rf"points after {SESSIONS} sessions, 95 % confidence interval .* to .*\.")
    )
    line = chart.locator(".curve").get_attribute("points") or ""
    assert 40 < len(line.split()) <= SESSIONS
    decision = reader.main.locator(".decision")
    expect(decision).to_contain_text("trial→proven")
    assert faults(reader, None) == []
    expect(reader.main.locator(".lead")).to_have_text(re.compile(r"The playbook .* \S+ to \S+ points"))
    with reading(browser, stack.url, locale="ja-JP") as japanese:
        assert dialog_faults(japanese, "#/evidence/proven", "evidence.undo_2") == []
        japanese.open("#/evidence/proven")
        expect(japanese.main.locator(".lead")).to_have_text(re.compile(r"^プレイブックは.* \S+ から \S+ ポイント"))
    decision.get_by_role("link").click()
    expect(reader.page.get_by_role("region", name="Bullet")).to_contain_text("(0)")
    evidence = reader.page.get_by_role("region", name="Bullet")
    expect(evidence).to_contain_text(re.compile(r"With it\s*\d+ sessions, success 100 %"))
    expect(evidence).to_contain_text("+100 points")
    expect(evidence.get_by_role("img", name="Success with the bullet minus success without it")).to_be_visible()
    assert faults(reader, None) == []


def test_a_chart_shows_that_an_early_interval_includes_harm(reader: Reader, stack: Stack) -> None:
    """Only the first of the intervals reach below zero; the axis does, too."""
    points = [
        {"effect": {"served": {"sessions": n}, "withheld": {"sessions": n}, "difference": 0.6, "upper": 0.9}}
        for n in range(1, 101)
    ]
    for point, lower in zip(points, [-1.0] * 10 + [0.2] * 90, strict=True):
        point["effect"]["lower"] = lower
    stack.seeds.trials("early-harm", 4)
    history = "**/v1/playbooks/early-harm/effects/history*"
    reader.page.route(history, lambda route: route.fulfill(json={"points": points}))
    reader.open("#/evidence/early-harm")
    chart = reader.page.get_by_role("img", name="Success with the playbook minus success without it")
    expect(chart.locator(".tick").first).to_have_text("−20")
