"""The page of the playbooks that the recorded examples result in is current."""

from __future__ import annotations

from pathlib import Path

from docs.example_playbooks import PAGE, write_page


def test_the_page_shows_what_the_recorded_trajectories_teach(tmp_path: Path) -> None:
    page = tmp_path / PAGE.name
    write_page(page)
    assert page.read_text() == PAGE.read_text(), "run `python -m docs.example_playbooks`"
    assert page.read_text().count("```text") >= 2
