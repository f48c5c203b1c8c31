"""A plan as a diagram, with any text in its steps."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from services.planner.domain.mermaid import draw_mermaid
from services.planner.domain.plans import StepStatus
from services.planner.tests.parts import agent_plan, agent_step

LINE = re.compile(
    r'flowchart TD|  s\d+\["\d+\. \w+<br/>(?:\w|[ \-.,…_]|#\d+;)*"\]|  s\d+ --> s\d+'
    r"|  classDef \w+ fill:[#\w,:\-]+|  class s\d+ \w+"
)


def test_every_step_has_its_state_and_its_edges() -> None:
    plan = agent_plan(agent_step(1), agent_step(2, 1), agent_step(3, 1, 2))
    drawn = draw_mermaid(plan, {1: StepStatus.SUCCESS, 2: StepStatus.FAILED})
    assert [line for line in drawn.splitlines() if "class " in line] == [
        "  class s1 success",
        "  class s2 failed",
        "  class s3 pending",
    ]
    assert [line.strip() for line in drawn.splitlines() if "-->" in line] == ["s1 --> s2", "s1 --> s3", "s2 --> s3"]
    assert 's1["1. run_legacy_agent<br/>d1"]' in drawn
    assert {line.split()[1] for line in drawn.splitlines() if "classDef" in line} == {"success", "failed", "pending"}


@settings(max_examples=200)
@given(st.text(min_size=1, max_size=80).filter(str.strip))
def test_no_description_is_more_than_a_label(description: str) -> None:
    drawn = draw_mermaid(agent_plan(agent_step(1, description=description)), {1: StepStatus.RUNNING})
    assert len(drawn.splitlines()) == 4
    for line in drawn.split("\n")[:-1]:
        assert LINE.fullmatch(line), line
