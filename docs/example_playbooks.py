"""Write the playbooks that recorded trajectories result in, without and with a model, into a docs page.

`python -m docs.example_playbooks [FILE]`; without FILE, into `docs/tasks/example-playbooks.md`. Only the parts between
the markers are written. The model's replies are recorded in `recorded_replies.json`, which says where they come from.
The public data set is read from `$HANSEI_DATA` or `../shared/data`; without it its parts stay as they are.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hansei.client.cli.embedded_stack import build_temp_settings
from hansei.client.cli.loop import BUNDLED_TRAJECTORIES, read_file, read_folder
from hansei.client.client import Client
from hansei.client.learning import learn
from hansei.client.trajectories import TrajectoryRecord
from hansei.playbook.v1.playbook_pb2 import Bullet
from tests.fakes.openai_answers import chat_json
from tests.fakes.openai_server import OpenAIServer

PAGE = Path(__file__).parent / "tasks/example-playbooks.md"
RETAIL = Path(os.environ.get("HANSEI_DATA", Path(__file__).parents[2] / "shared/data")) / "tau_retail.jsonl"
_RECORDED = Path(__file__).with_name("recorded_replies.json")
_SETTINGS = {"HANSEI_LLM_PROVIDER": "offline", "HANSEI_EMBEDDING_PROVIDER": "hashing"}
EXAMPLES = "examples"
RETAIL_DATASET = "retail"
"""Its examples quote the data, which is not part of hansei, and are not shown."""


def render_parts() -> dict[str, str]:
    """Return the generated parts of the page by marker; those of the public data set only if its file is there."""
    recorded = json.loads(_RECORDED.read_text(encoding="utf-8"))
    sets = {"examples": read_examples, **({"retail": read_retail} if RETAIL.exists() else {})}
    parts: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, Client.local(**_build_settings(folder)) as client:
        for name, read in sets.items():
            parts[f"{name}, rules"] = render_playbooks(client, read(client))
    with tempfile.TemporaryDirectory() as folder, OpenAIServer() as model:
        settings = {"HANSEI_LLM_PROVIDER": "openai", "HANSEI_OPENAI_BASE_URL": model.base_url}
        settings["HANSEI_OPENAI_API_KEY"] = "none"
        with Client.local(**{**_build_settings(folder), **settings}) as client:
            for name, read in sets.items():
                model.script(*(chat_json(reply) for item in recorded[name] for reply in item["replies"]))
                records = {record.trajectory.id: record for record in read(client)}
                answered = [records[item["trajectory"]] for item in recorded[name]]
                parts[f"{name}, model"] = render_playbooks(client, answered)
    return parts


def _build_settings(folder: str) -> dict[str, str]:
    return {**build_temp_settings(Path(folder)), **_SETTINGS}


def render_playbooks(client: Client, records: Sequence[TrajectoryRecord]) -> str:
    """Learn trajectories and return the bullets of each dataset as Markdown. Ends the program if one is not learned."""
    for record in records:
        outcome = learn(client, record)
        if problem := outcome.failure or outcome.model_problem:
            raise SystemExit(f"{record.trajectory.id}: {problem}")
    lines: list[str] = []
    for dataset in sorted({record.trajectory.dataset for record in records}):
        count = sum(record.trajectory.dataset == dataset for record in records)
        bullets = client.playbooks.get(dataset=dataset).playbook.bullets
        lines += _render_playbook(dataset, count, bullets, {EXAMPLES} if dataset == RETAIL_DATASET else set())
    return "\n".join(lines)


def _render_playbook(dataset: str, trajectories: int, bullets: Sequence[Bullet], hidden: set[str]) -> list[str]:
    lines = [f"### {dataset}: {trajectories} trajectories, {len(bullets)} bullets", ""]
    for section in dict.fromkeys(bullet.section for bullet in bullets):
        members = [bullet for bullet in bullets if bullet.section == section]
        if section in hidden:
            lines += [f"`{section}`: {len(members)}, not shown", ""]
            continue
        lines += [f"`{section}`", "", "```text"]
        lines += [f"({len(bullet.sources)}) {bullet.content}" for bullet in members]
        lines += ["```", ""]
    return lines


def read_examples(client: Client) -> list[TrajectoryRecord]:
    """Return the recorded example trajectories."""
    return read_folder(client, BUNDLED_TRAJECTORIES)


def read_retail(client: Client) -> list[TrajectoryRecord]:
    """Return the trajectories of the public data set."""
    return list(read_file(client, RETAIL, RETAIL_DATASET))


def write_page(page: Path) -> None:
    """Replace the generated parts of the page."""
    text = PAGE.read_text(encoding="utf-8")
    for marker, part in render_parts().items():
        before, begin, rest = text.partition(f"<!-- {marker} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not end:
            raise SystemExit(f"{PAGE} has no part <!-- {marker} -->")
        text = f"{before}{begin}{part}{end}{after}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_page(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE)
