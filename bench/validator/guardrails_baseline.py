# mypy: ignore-errors
# Its packages are installed in the environment of the baselines.
"""CPU of Guardrails for one report with the rules of the Organizer report. Runs in the environment of the baselines."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["OTEL_SDK_DISABLED"] = "true"  # it would report to its makers
sys.path.insert(0, str(Path(__file__).parents[2]))

import guardrails
from guardrails.validators import FailResult, PassResult, Validator, register_validator
from pydantic import BaseModel, Field

from bench.validator.material import IDS, PHRASES, broken_report, report

KNOWN = frozenset(IDS)


def _rule(name: str, holds: Any) -> Any:
    class BaselineRule(Validator):
        def validate(self, value: Any, metadata: dict[str, Any]) -> Any:
            return PassResult() if holds(value) else FailResult(error_message=f"{value} breaks {name}")

    return register_validator(name=f"hansei/{name}", data_type="all")(BaselineRule)(on_fail="noop")


fill_playbook = _rule("filled", lambda value: isinstance(value, str) and bool(value.strip()))
polite = _rule("polite", lambda value: not any(phrase in value for phrase in PHRASES))
known_id = _rule("known_id", lambda value: value in KNOWN)
all_known = _rule("all_known", lambda value: all(item in KNOWN for item in value))
several = _rule("several", lambda value: len(value) >= 2)


class Child(BaseModel):
    title: str = Field(validators=[fill_playbook])
    context: str = Field(validators=[fill_playbook])


class Decomposition(BaseModel):
    target_node_id: str = Field(validators=[known_id])
    target_title: str
    reason: str = Field(validators=[fill_playbook, polite])
    suggested_children: list[Child] = Field(validators=[several])


class Grouping(BaseModel):
    group_label: str
    reason: str = Field(validators=[fill_playbook, polite])
    node_ids: list[str] = Field(validators=[all_known])


class Relation(BaseModel):
    from_node_id: str = Field(validators=[known_id])
    to_node_id: str = Field(validators=[known_id])
    relation_type: str
    reason: str = Field(validators=[fill_playbook, polite])


class Report(BaseModel):
    decomposition_proposals: list[Decomposition]
    grouping_proposals: list[Grouping]
    relation_proposals: list[Relation]
    summary: str = Field(validators=[fill_playbook, polite])


def main() -> None:
    """Prints seconds of CPU per report."""
    guard = guardrails.Guard.for_pydantic(Report)
    guard.configure(allow_metrics_collection=False)
    good, bad = (json.dumps(value, ensure_ascii=False) for value in (report(), broken_report()))
    assert guard.parse(good, num_reasks=0).validation_passed
    outcome = guard.parse(bad, num_reasks=0)
    assert not outcome.validation_passed, "the baseline must find the fault"
    rounds = int(sys.argv[1])
    began = time.process_time()
    for _ in range(rounds):
        guard.parse(good, num_reasks=0)
    print(json.dumps({"cpu_seconds": (time.process_time() - began) / rounds}))


if __name__ == "__main__":
    main()
