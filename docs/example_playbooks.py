"""Write the playbooks that the recorded example trajectories result in without a model into a docs page.

`python -m docs.example_playbooks [FILE]`; without FILE, into `docs/tasks/example-playbooks.md`. Only the part between
the markers is written.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from hansei.client.cli.embedded_stack import build_temp_settings, embedded_client
from hansei.client.cli.loop import BUNDLED_TRAJECTORIES, read_folder
from hansei.client.learning import learn

PAGE = Path(__file__).parent / "tasks/example-playbooks.md"
_GENERATED = re.compile(r"(?<=<!-- playbooks -->\n).*?(?=<!-- end -->)", re.S)
_SETTINGS = {"HANSEI_LLM_PROVIDER": "offline", "HANSEI_EMBEDDING_PROVIDER": "hashing"}


def render_playbooks() -> str:
    """Learn all recorded trajectories in a temporary directory and return the bullets of each dataset as Markdown."""
    lines: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        embedded_client({**build_temp_settings(Path(folder)), **_SETTINGS}) as client,
    ):
        records = read_folder(client, BUNDLED_TRAJECTORIES)
        for record in records:
            learn(client, record)
        for dataset in sorted({record.trajectory.dataset for record in records}):
            trajectories = sum(record.trajectory.dataset == dataset for record in records)
            bullets = client.playbooks.get(dataset=dataset).playbook.bullets
            lines += [f"## {dataset}", "", f"{trajectories} trajectories, {len(bullets)} bullets.", ""]
            for section in dict.fromkeys(bullet.section for bullet in bullets):
                lines += [f"### {section}", "", "```text"]
                lines += [bullet.content for bullet in bullets if bullet.section == section]
                lines += ["```", ""]
    return "\n".join(lines)


def write_page(page: Path) -> None:
    """Replace the generated part of the page."""
    page.write_text(_GENERATED.sub(lambda _: render_playbooks(), PAGE.read_text()))


if __name__ == "__main__":
    write_page(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE)
