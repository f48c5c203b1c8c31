"""The page of the playbooks that recorded trajectories result in is current."""

from __future__ import annotations

from pathlib import Path

from docs.example_playbooks import PAGE, write_page


def test_the_page_shows_what_the_recorded_trajectories_teach(tmp_path: Path) -> None:
    page = tmp_path / PAGE.name
    write_page(page)
    text = page.read_text(encoding="utf-8")
    assert text == PAGE.read_text(encoding="utf-8"), "run `python -m docs.example_playbooks`"
    rules, by_model, *_ = text.split("<!-- end -->")
    by_rules = rules.rpartition("<!-- examples, rules -->")[2]
    assert "--autostash" in by_model
    assert "--autostash" in by_rules
    assert "cp932" in by_model
    *lessons, examples = by_rules.split("`examples`")[:2]
    assert not any("cp932" in part for part in lessons)
    assert "cp932" in examples
