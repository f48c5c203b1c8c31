# mypy: ignore-errors
# Its packages are installed in the environment of the baselines.
"""Client CPU of Instructor for one report with one reask. Runs in the environment of the baselines."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import instructor
import openai
from pydantic import BaseModel, Field, field_validator

from bench.validator.material import DASHBOARD, IDS, PHRASES

KNOWN = frozenset(IDS)


def _reason(value: str) -> str:
    if not value.strip() or any(phrase in value for phrase in PHRASES):
        raise ValueError("reason is empty or contains a command")
    return value


def _node(value: str) -> str:
    if value not in KNOWN:
        raise ValueError(f"'{value}' is not in valid node list")
    return value


class Child(BaseModel):
    title: str = Field(min_length=1)
    context: str = Field(min_length=1)


class Decomposition(BaseModel):
    target_node_id: str
    target_title: str
    reason: str
    suggested_children: list[Child] = Field(min_length=2)

    _check_ids = field_validator("target_node_id")(_node)
    _polite = field_validator("reason")(_reason)


class Grouping(BaseModel):
    group_label: str
    reason: str
    node_ids: list[str]

    _check_ids = field_validator("node_ids")(lambda values: [_node(value) for value in values])
    _polite = field_validator("reason")(_reason)


class Relation(BaseModel):
    from_node_id: str
    to_node_id: str
    relation_type: str
    reason: str

    _check_ids = field_validator("from_node_id", "to_node_id")(_node)
    _polite = field_validator("reason")(_reason)


class Report(BaseModel):
    decomposition_proposals: list[Decomposition]
    grouping_proposals: list[Grouping]
    relation_proposals: list[Relation]
    summary: str

    _polite = field_validator("summary")(_reason)


async def main() -> None:
    """Prints seconds of CPU per run."""
    base_url, rounds, warm_up = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    client = instructor.from_openai(
        openai.AsyncOpenAI(api_key="k", base_url=base_url, max_retries=0), mode=instructor.Mode.JSON
    )
    prompt = f"OrganizerReport を作ります。\n{json.dumps(DASHBOARD, ensure_ascii=False)}"
    began = 0.0
    for number in range(warm_up + rounds):
        if number == warm_up:
            began = time.process_time()
        answer = await client.chat.completions.create(
            model="gpt-4o-mini",
            temperature=0.3,
            response_model=Report,
            max_retries=1,
            messages=[{"role": "user", "content": prompt}],
        )
        assert len(answer.relation_proposals) == 4
    print(json.dumps({"cpu_seconds": (time.process_time() - began) / rounds}))


if __name__ == "__main__":
    asyncio.run(main())
