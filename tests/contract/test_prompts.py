"""Every built-in prompt equals its file in `prompts/`; run this module (`python -m`) to rewrite the files."""

from __future__ import annotations

import asyncio
import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from libs.guards.failed_trajectories import build_messages, describe_tools
from libs.guards.guard_trajectory import GuardTrajectory, TrajectoryCall, TrajectoryMessage
from libs.guards.policy import RULES, collect_policies
from libs.guards.tests.trajectories import call
from libs.llm.client import LLMClient
from libs.prompts.builder import UserPromptBuilder
from libs.prompts.contexts import EvaluatorPromptContext, RoundPromptContext, RoundState
from libs.prompts.language import Language
from libs.prompts.settings import PromptBuilderSettings
from libs.trajectories.actions import extract_actions
from services.curator.domain.curation import DeltaContextItem, Lesson, Proposal, Reflection, SectionDefinition
from services.curator.domain.playbook import Bullet
from services.curator.domain.review import PendingChange, PendingState
from services.curator.prompts.builder import CuratorPromptBuilder, Material
from services.planner.adapters.answerers import ModelAnswerer
from services.planner.domain.generation import AnswerStyle, Question, RetrievedBullet
from services.planner.domain.plan_rules import PlanRules
from services.planner.domain.plans import ExecutionPlan, PlanStep
from services.planner.domain.replanning import ReplanContext, ReplanTrigger
from services.planner.domain.results import Hit, StepResult
from services.planner.domain.tools import ToolInput
from services.planner.prompts.planning import (
    build_planning_prompt,
    build_refinement_hints,
    build_replan_hints,
    format_planning_rules,
)
from services.planner.prompts.steps import build_judge_prompt, build_reasoning_prompt, format_agent_rules
from services.planner.prompts.texts import PROMPTS
from services.planner.tests.parts import FixedBackend, ScriptedModel, ScriptedTool, reasoning_tool
from services.planner.usecases.legacy_agent import LegacyAgentTool
from services.planner.usecases.tools import AskUserTool, RAGSearchTool, ToolRegistry
from services.reflector.domain.reduction import Transcript
from services.reflector.domain.reflection import Insight, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.prompts.builder import ReflectorPrompts
from services.reflector.prompts.record import build_record
from services.reflector.tests.trajectories import asks, build_trajectory, calls, returns, says
from services.validator.adapters.rules.kind_compiler import compile_kind
from services.validator.domain.dashboard import Brief, Node
from services.validator.domain.kind_definition import Count, Expression, Reference, Rule, RuleLimits
from services.validator.domain.kinds import ADVISOR, ORGANIZER
from services.validator.prompts.instructions import JUDGE_INSTRUCTIONS, METRIC_INSTRUCTIONS
from services.validator.prompts.reports import (
    build_base_prompt,
    build_correction_prompt,
    build_inputs_prompt,
    build_regeneration_prompt,
    build_repair_prompt,
)
from services.validator.tests.risk_review import DEFINITION
from tests.contract.readmes import ROOT

FOLDER = Path(__file__).with_name("prompts")
LANGUAGES: tuple[Language, ...] = ("ja", "en")
QUERY: Mapping[Language, str] = {"ja": "{復元}が遅いのは{{ なぜ }}?", "en": "Why is the {restore} so {{ slow }}?"}
COMMAND = "python -m tests.contract.test_prompts"


def planner_prompts(language: Language) -> Iterator[tuple[str, str]]:
    texts, query = PROMPTS[language], QUERY[language]
    backend, model = FixedBackend(), ScriptedModel("no JSON", '{"answer": "done"}')
    web = ScriptedTool(name="web_search", description='Find pages. query: JSON {"properties": {"words": {}}}')
    tools = ToolRegistry([RAGSearchTool(backend), reasoning_tool(), AskUserTool(), web])
    agent = LegacyAgentTool(model, tools)
    tools.add(agent)
    actions = ["rag_search", "web_search", "reasoning", "ask_user", "run_legacy_agent"]
    tools.add(ScriptedTool(name="files.read", description="Read a file. query: path"))
    rules = PlanRules(frozenset(actions), ["notes", "wikipedia_ja"], language=language)
    yield "planning", format_planning_rules(rules, tools.describe(actions, language))
    many = replace(rules, collections=[f"notes-{i}" for i in range(102)], kept_ids=frozenset([1]))
    yield "planning the rest, with many collections", format_planning_rules(many, tools.describe(actions, language))
    yield "planning without collections", format_planning_rules(replace(rules, collections=[]), [])
    steps = [
        PlanStep(step_id=1, action="rag_search", description="find", query="restore time", collection="notes"),
        PlanStep(step_id=2, action="web_search", description="look", query="restore", fallback="rag_search"),
        PlanStep(step_id=3, action="reasoning", description="answer", depends_on=(1, 2)),
    ]
    plan = ExecutionPlan(original_query=query, complexity=0.5, requires_confirmation=False, steps=tuple(steps))
    yield (
        "refining",
        build_planning_prompt(query, build_refinement_hints(plan, "without {the} web", language), language),
    )
    done = {1: StepResult(step_id=1, status="success", output="It takes {2} hours.", confidence=1)}
    failed = ReplanContext(
        trigger=ReplanTrigger.STEP_FAILED,
        original_query=query,
        failed_step_id=2,
        error_message="no {luck}",
        completed_results=done,
        user_feedback="faster",
        new_information="it is red",
    )
    for name, broader in (("replanning the rest", False), ("replanning everything", True)):
        yield (
            name,
            build_planning_prompt(
                query, build_replan_hints(failed, plan, broader=broader, language=language), language
            ),
        )
    doubtful = failed.model_copy(update={"error_message": None, "user_feedback": None, "new_information": None})
    yield "replanning a doubtful step", build_replan_hints(doubtful, plan, broader=False, language=language)
    yield "complexity", texts.complexity
    yield "reasoning", texts.reasoning
    hit = Hit(content="Restores take {2} hours.", source="notes#1")
    step_input = ToolInput(query, sources=(hit,), context=(("Step 1", "{x}"),), language=language)
    yield "input of reasoning", build_reasoning_prompt(step_input)
    yield "input of reasoning without results", build_reasoning_prompt(ToolInput(query, language=language))
    yield "judge of a step", texts.step_judge
    yield "step to judge", build_judge_prompt(step_input, "A {reason}.", "Because of {x}.", b"golden")
    bare = ToolInput(query, language=language)
    yield "step to judge without sources", build_judge_prompt(bare, "", "Because of {x}.", b"golden")
    yield "agent", format_agent_rules(tools.describe(tools.agent_tools, language), language)
    asyncio.run(agent.run(ToolInput(query, language=language)))
    yield "turn of the agent", model.prompts[-1][1]
    bullets = [RetrievedBullet("er-00001", "git", "Set {user.name} first.")]
    answerer = ModelAnswerer(LLMClient(None), "m", None, language)  # type: ignore[arg-type]
    for name, question in (
        ("generator", Question(query, "d", bullets)),
        ("generator without knowledge", Question(query, "d")),
        ("generator without a template", Question(query, "d", bullets, AnswerStyle.PLAIN)),
    ):
        yield name, answerer._build_prompt(question)


def reflector_prompts(language: Language) -> Iterator[tuple[str, str]]:
    prompts = ReflectorPrompts(None, language, b"golden")
    texts = prompts.get_texts(ReflectionRequest(build_trajectory(query=QUERY[language]), "d"))

    def build(request: ReflectionRequest, *previous: Insight, chars: int = 50_000) -> str:
        record = build_record(request, extract_actions(request.trajectory.transcript), texts, chars)
        return "\n\n".join(f"--- {role}\n{text}" for role, text in prompts.build_messages(request, record, previous))

    shared = (asks("x"), calls("git", {"command": "commit"}), returns("fatal: no {email}"))
    log = build_trajectory(
        *shared,
        says("Done by [er-00001]."),
        query=QUERY[language],
        generated_answer="a" * 60,
        reasoning_steps=("look",),
        error_message="exit 128",
        used_bullet_ids=("er-00001", "er-00002"),
    )
    won = build_trajectory(*shared, calls("git", {"command": "config"}), reward=1.0, status="success")
    lost = build_trajectory(asks("y"), calls("hg", "no JSON"), signal="test_report")
    bullets = tuple(
        UsedBullet(id=f"er-{number:05}", section="git", content=f"Set {{user.name}} {number}.", helpful=number)
        for number in (1, 2, 3)
    )
    fields = dict.fromkeys(("reasoning", "error_identification", "root_cause_analysis", "correct_approach"), "r")
    previous = Insight(**fields, key_insight="Look {twice}.")
    request = ReflectionRequest(log, "d", ground_truth="{G}", bullets=bullets, siblings=(won, lost))
    yield "reflection", build(request, previous)
    other = ReflectionRequest(
        build_trajectory(query=QUERY["en" if language == "ja" else "ja"], generated_answer=""), "d"
    )
    yield "reflection on a run in the other language", build(other)
    long = build_trajectory(*(says(f"{number} " + "z" * 900) for number in range(9)), query="q" * 900, reward=0.0)
    yield "reflection on a long run", build(ReflectionRequest(long, "d"), chars=2_000)
    record = build_record(request, (), texts, 50_000)
    transcript = Transcript("[0] look\n[1] {x}", shortened=(1,), omitted=(2, 3))
    yield "bullet", prompts.build_bullet_prompt(request, record, bullets[0])
    with TemporaryDirectory() as folder:
        (Path(folder) / "default.txt").write_text("{reasoning_steps}\n{used_bullets}\n{siblings}", encoding="utf-8")
        own = ReflectorPrompts(Path(folder), language)
        yield (
            "values of a template",
            own.build_own_prompt(request, replace(record, siblings=()), transcript, [], []) or "",
        )
    yield "objection", prompts.build_objection(request, [7, 9], range(3))


def curator_prompts(language: Language) -> Iterator[tuple[str, str]]:
    def bullet(number: int) -> Bullet:
        text = f"Set {{user.name}} {number}."
        return Bullet(id=f"er-{number:05}", section="git", content=text, searchable_text=text)

    def build(material: Material) -> str:
        return "\n\n".join(f"--- {role}\n{text}" for role, text in prompts.build_messages(material))

    prompts = CuratorPromptBuilder("nowhere", language, b"golden")
    lessons = (Lesson("r", "e", "c", "a", "Look {twice}.", (3, 5), "", "mistake", "er-00001", "er-00002"),)
    sections = [SectionDefinition("git", "commits")]
    delta = DeltaContextItem(type="ADD", section="s", content="Look {again}.", reasoning="r")
    time = datetime(2025, 11, 25, tzinfo=UTC)
    change = PendingChange("id", "d", Proposal(delta), 0, "a", "run-0", "waits", PendingState.WAITING, time, time)
    for signal in ("reward", "test_report", "ground_truth", "self_report"):
        reflection = Reflection(lessons, (), "run-1", QUERY[language], signal, is_success=signal == "reward")
        others = [bullet(2), bullet(3)] if signal == "reward" else []
        yield f"curation by {signal}", build(Material(reflection, [bullet(1)], others, sections, {"w-1": change}))
    yield "curation of nothing", build(Material(Reflection()))


def round_prompts(language: Language) -> Iterator[tuple[str, str]]:
    builder = UserPromptBuilder(PromptBuilderSettings(language=language), lambda: "2025-11-25T10:00:00+09:00")
    evaluated = EvaluatorPromptContext(user_query=QUERY[language], submission="S {{ x }} {% raw %}")
    yield "evaluator", builder.build_evaluator_prompt(evaluated)
    time = datetime(2025, 11, 25, tzinfo=UTC)
    state = RoundState(
        round_number=1,
        submission_content="{{ 7 * 7 }}",
        evaluation_score=85.5,
        score_details={"metric": 85.5},
        round_started_at=time,
        round_ended_at=time,
    )
    fields: dict[str, Any] = {"user_prompt": QUERY[language], "team_id": "t2", "team_name": "B", "execution_id": "e"}
    yield (
        "team, first round",
        asyncio.run(builder.build_team_prompt(RoundPromptContext(round_number=1, round_history=[], **fields))),
    )

    class Store:
        def __init__(self, position: int) -> None:
            teams = [f"t{number + 10}" for number in range(4)]
            self.ranking = [{"team_id": t, "team_name": t, "max_score": 80.0, "total_rounds": 1} for t in teams]
            self.ranking.insert(position - 1, {"team_id": "t2", "team_name": "B", "max_score": 80.0})

        def get_leader_board_ranking(self, execution_id: str) -> list[dict[str, Any]]:
            return self.ranking

    for position in (1, 2, 5):
        context = RoundPromptContext(round_number=2, round_history=[state], store=Store(position), **fields)
        yield f"team, position {position}", asyncio.run(builder.build_team_prompt(context))
    yield "judgment", asyncio.run(builder.build_judgment_prompt(context))


def validator_prompts(language: Language) -> Iterator[tuple[str, str]]:
    yield from METRIC_INSTRUCTIONS[language].items()
    yield "prospects", JUDGE_INSTRUCTIONS[language].prospects
    yield "comparison", JUDGE_INSTRUCTIONS[language].comparison
    nodes = [Node("n1", "Quote", "IN_PROGRESS")]
    brief = Brief({"trays": {}}, user_intent="{soon}", constraints=("cheap",))
    for kind in (ORGANIZER, ADVISOR):
        yield kind.name, build_base_prompt(kind, brief, nodes, nodes[0], language)
    yield "organizer without nodes", build_base_prompt(ORGANIZER, brief, [], None, language)
    rules = (
        *DEFINITION.rules,
        Rule("LEAST", Count("/risks", 1, None)),
        Rule("NODES", Reference("/risks/*/nodes", ("a", "b"))),
        Rule("WHOLE", Expression("true", "")),
    )
    kind = compile_kind(replace(DEFINITION, rules=rules), RuleLimits(20_000, 5.0))
    yield "registered kind", build_inputs_prompt(kind, {"project": "{x}"}, ["n1"], language)
    correction = build_correction_prompt(["/summary: required"] * 201, ["n1", "n2"], language)
    yield "regeneration", build_regeneration_prompt("BASE", correction, "{}", language)
    parts = {"/summary": ["required"]}
    yield "repair", build_repair_prompt(ORGANIZER, {"summary": ""}, parts, ["n1"], nodes, language)


def guard_prompts(language: Language) -> Iterator[tuple[str, str]]:
    def render(messages: Sequence[tuple[str, str]]) -> str:
        return "\n\n".join(f"--- {role}\n{text}" for role, text in messages)

    refused = call(2, "refund", "order {A-1} is locked", id="A-1")
    done = call(1, "get_order", "", {"total": 30}, id="A-1")
    instructions = TrajectoryMessage(0, "system", QUERY[language])
    cases: list[tuple[str, tuple[TrajectoryMessage | TrajectoryCall, ...], int]] = [
        ("failed trajectory", (instructions, done, refused), 9_000),
        ("long", (done,) * 99, 900),
    ]
    for name, events, chars in cases:
        trajectory = GuardTrajectory("t", "task", False, (*events, TrajectoryMessage(3, "user", QUERY[language])))
        yield name, render(build_messages(trajectory, describe_tools([trajectory], ""), chars, b"golden"))
    [policy] = collect_policies([GuardTrajectory("t", "task", True, (instructions, done, refused))])
    yield "policy", render([("system", RULES), ("human", policy.prompt)])


SOURCES = {
    "planner": planner_prompts,
    "reflector": reflector_prompts,
    "curator": curator_prompts,
    "rounds": round_prompts,
    "validator": validator_prompts,
    "guards": guard_prompts,
}
FILES = [(name, language) for name in SOURCES for language in LANGUAGES]


def render_file(name: str, language: Language) -> str:
    """Return the content of a golden file: each prompt under a line with its name."""
    return "".join(f"===== {title}\n{text}\n" for title, text in SOURCES[name](language))


def golden_file(name: str, language: Language) -> Path:
    return FOLDER / f"{name}.{language}.txt"


@pytest.mark.parametrize(("name", "language"), FILES)
def test_prompts_are_those_of_their_files(name: str, language: Language) -> None:
    expected, found = golden_file(name, language).read_text(encoding="utf-8"), render_file(name, language)
    difference = difflib.unified_diff(expected.splitlines(), found.splitlines(), "file", "code", lineterm="", n=1)
    assert found == expected, "\n".join([f"rewrite with `{COMMAND}`:", *difference])


def text_files() -> list[Path]:
    return sorted(
        [*ROOT.glob("services/*/prompts/*.toml"), *ROOT.glob("libs/prompts/*.toml"), *ROOT.glob("libs/guards/*.toml")]
    )


def texts_in(value: Any, language: Language | None = None) -> Iterator[tuple[Language, str]]:
    """Return all texts below the tables of the languages."""
    if isinstance(value, str) and language is not None:
        yield language, value
    elif isinstance(value, list | dict):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts_in(item, name if language is None and name in LANGUAGES else language)


_PLACEHOLDER = re.compile(r"\{\{ \w+ \}\}|\{%.*?%\}|(?<!\{)\{[\w:.]*\}(?!\})")


def literals(text: str) -> list[str]:
    """Return the parts of a template between its placeholders and line ends."""
    parts = [part for line in text.splitlines() for part in _PLACEHOLDER.split(line)]
    return [part.replace("{{", "{").replace("}}", "}") for part in parts if part.strip()]


@pytest.mark.parametrize("file", text_files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_every_text_of_a_prompt_is_in_a_golden_file(file: Path) -> None:
    golden = {
        language: "".join(golden_file(name, language).read_text(encoding="utf-8") for name in SOURCES)
        for language in LANGUAGES
    }
    found = list(texts_in(tomllib.loads(file.read_text(encoding="utf-8"))))
    assert {language for language, _ in found} == set(LANGUAGES)
    missing = [part for language, text in found for part in literals(text) if part not in golden[language]]
    assert missing == [], f"render these texts in {Path(__file__).name}"


def test_prompts_are_written_in_text_files() -> None:
    """No module of the planner, nor one beside prompts, contains a text in Japanese."""
    modules = [*ROOT.glob("services/*/prompts/*.py"), *ROOT.glob("libs/prompts/*.py")]
    modules += [p for p in ROOT.glob("services/planner/*/*.py") if p.parent.name != "tests"]
    allowed = {"complexity.py", "extraction.py", "config_init.py", "outcomes.py", "interventions.py", "tools.py"}
    japanese = re.compile(r"[\u3041-\u30ff\u3400-\u9fff]")
    found = [p for p in modules if p.name not in allowed and japanese.search(p.read_text(encoding="utf-8"))]
    assert found == []


if __name__ == "__main__":
    for source, text_language in FILES:
        golden_file(source, text_language).write_text(render_file(source, text_language), encoding="utf-8")
