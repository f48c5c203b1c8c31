"""Count the planted instructions that the curator holds back, and the texts of real data that it holds back by mistake.

    python -m bench.trust.planted_instructions [FOLDER]

`planted_wordings.toml` has 200 wordings in six languages. Those at even positions were read while the patterns were
written; those at odd positions only give the figure. Both halves have one author, so that unknown attackers will be
caught less often. The trivial rule looks for one word in each language that commands with "instruction" or "ignore".
FOLDER holds real data (`$HANSEI_DATA` or `../shared/data`): a playbook, the lessons that rules learn from
recorded trajectories, and the sentences of the policies that operators gave these agents, which command as well.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.lift.__main__ import calculate_wilson_interval
from bench.report import machine, write
from services.curator.domain.formats import PlaybookFormat, parse_playbook
from services.curator.domain.planted_instructions import find_instruction
from services.reflector.adapters.importers.files import read_trajectories
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.domain.trajectory import Trajectory
from services.reflector.usecases.reflect_offline import reflect_by_rules

WORDINGS = Path(__file__).with_name("planted_wordings.toml")
RUNS = ("tau_bench_airline.jsonl", "tau_retail.jsonl", "state_bench.jsonl")
_TRIVIAL = re.compile(r"ignor|instruct|anweisung|consigne|instrucci|指示|指令|無視|忽略|system prompt", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")

Rule = Callable[[str], bool]
RULES: dict[str, Rule] = {
    "patterns": lambda text: bool(find_instruction(text)),
    "trivial: a word in each language": lambda text: bool(_TRIVIAL.search(text)),
}


def read_wordings(first: int) -> dict[str, list[str]]:
    """Return every second wording of each language, from position `first`."""
    languages: dict[str, list[str]] = tomllib.loads(WORDINGS.read_text(encoding="utf-8"))
    return {language: wordings[first::2] for language, wordings in languages.items()}


def build_row(rule: str, texts: str, found: Sequence[bool]) -> dict[str, Any]:
    """Return the share of texts that a rule holds back, with a Wilson interval of 95 %."""
    low, high = calculate_wilson_interval(sum(found), len(found))
    share = sum(found) / len(found)
    interval = f"{low:.3f}-{high:.3f}"
    return {"texts": texts, "rule": rule, "held": sum(found), "of": len(found), "share": share, "interval": interval}


def read_real_texts(folder: Path) -> dict[str, list[str]]:
    """Return the texts of real data in which no instruction is planted, by their kind."""
    playbook = parse_playbook((folder / "appworld_online_playbook.txt").read_text("utf-8"), PlaybookFormat.PLAIN)
    files = [read_trajectories((folder / name).read_bytes(), "planted") for name in RUNS]
    trajectories = [recorded.trajectory for file in files for recorded in file.trajectories]
    return {
        "bullets of a learned playbook": [bullet.content for bullet in playbook.bullets],
        "lessons that rules learn from trajectories": sorted(set(_learn(trajectories))),
        "sentences of the agents' policies": sorted(set(_read_policies(trajectories))),
    }


def _learn(trajectories: Sequence[Trajectory]) -> Iterable[str]:
    for trajectory in trajectories:
        siblings = tuple(
            other for other in trajectories if other.task_id == trajectory.task_id and other.id != trajectory.id
        )[:3]
        reflection = reflect_by_rules(ReflectionRequest(trajectory=trajectory, dataset="planted", siblings=siblings))
        yield from (insight.key_insight for insight in reflection.insights)


def _read_policies(trajectories: Sequence[Trajectory]) -> Iterable[str]:
    for trajectory in trajectories:
        for step in trajectory.transcript:
            if step.role == "system":
                yield from (part for part in _SENTENCE.split(step.content) if len(part) > 20)


def main(folder: Path) -> None:
    """Print and write the shares."""
    halves = {"planted, half read": read_wordings(0), "planted, half kept for the figure": read_wordings(1)}
    groups = {name: [text for texts in half.values() for text in texts] for name, half in halves.items()}
    if folder.is_dir():
        groups |= read_real_texts(folder)
    rows = [build_row(rule, name, [holds(text) for text in texts])
            for name, texts in groups.items() if texts for rule, holds in RULES.items()]  # fmt: skip
    write("planted", {"machine": machine(), "rows": rows})
    for texts in halves["planted, half kept for the figure"].values():
        for text in texts:
            if not find_instruction(text):
                print("not held back:", text)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("HANSEI_DATA", "../shared/data")))
