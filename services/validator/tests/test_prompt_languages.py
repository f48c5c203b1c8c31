"""Prompts of runs in English; the Japanese texts of the specification are tested with their users."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from services.validator.adapters.rules.kind_compiler import compile_kind
from services.validator.domain.dashboard import Brief
from services.validator.domain.kind_definition import RuleLimits
from services.validator.domain.kinds import ADVISOR, BUILT_IN_KINDS, ORGANIZER, ReportKind
from services.validator.domain.runs import Repair, RunOptions
from services.validator.domain.wording import LITERAL
from services.validator.prompts.texts import PROMPT_TEXTS, RULE_TEXTS
from services.validator.tests.risk_review import DEFINITION, GOOD
from services.validator.tests.samples import advisor, decomposition, organizer
from services.validator.tests.scripted_model import ScriptedModel
from services.validator.usecases.run_reports import run_dashboard_report, run_inputs_report

BRIEF = Brief({"trays": {"in_progress": [{"id": "n1", "title": "Quote", "status": "IN_PROGRESS"}, {"id": "n2"}]}})
BROKEN = organizer("", decomposition_proposals=[decomposition("zz")])
# Words of the rules and the label of the example option stay Japanese, as reports must or must not contain them.
_QUOTED = re.compile(r"「[^」]*」|A案")
_JAPANESE = re.compile(r"[぀-ヿ一-鿿（-ﾟ、。]")


def japanese_in(prompt: str) -> list[str]:
    return _JAPANESE.findall(_QUOTED.sub("", prompt))


@pytest.mark.parametrize("kind", BUILT_IN_KINDS.values(), ids=list(BUILT_IN_KINDS))
async def test_an_english_base_prompt_holds_no_japanese_but_the_words_it_is_about(kind: ReportKind) -> None:  # V-32
    model = ScriptedModel(["no JSON"] * 3)
    await run_dashboard_report(kind, BRIEF, model, language="en")
    assert not japanese_in(model.prompts[0])
    assert kind.instructions["en"].rules in model.prompts[0]
    assert '{"id": "n1", "title": "Quote", "status": "IN_PROGRESS"}' in model.prompts[0]


@pytest.mark.parametrize("repair", list(Repair))
async def test_a_correction_is_asked_for_in_the_language_of_the_base_prompt(repair: Repair) -> None:  # V-30, V-39
    model = ScriptedModel([BROKEN, BROKEN])
    await run_dashboard_report(ORGANIZER, BRIEF, model, RunOptions(repair=repair), language="en")
    correction = model.prompts[1].removeprefix(model.prompts[0])
    assert "Available ids: n1, n2" in correction
    japanese = PROMPT_TEXTS["ja"]
    for line in (japanese.correction, japanese.previous_answer, japanese.parts, japanese.nodes):
        assert line not in correction


async def test_registered_kinds_are_described_in_english_too() -> None:
    kind = compile_kind(DEFINITION, RuleLimits(20_000, 5.0))
    model = ScriptedModel([GOOD])
    await run_inputs_report(kind, {"project": "x"}, ["n1"], model, RunOptions(), LITERAL, language="en")
    prompt = model.prompts[0]
    assert "- /risks/*/title is required and may not be blank." in prompt
    assert "- The value of /risks/*/nodes is one of the ids that may be referred to." in prompt
    assert "- /risks has 1 to 3 items." in prompt
    assert 'the CEL expression "this.score >= 0.0 && this.score <= 1.0" holds. score must be 0..1' in prompt


@pytest.mark.parametrize("texts", [PROMPT_TEXTS, RULE_TEXTS], ids=["prompts", "rules"])
def test_every_text_is_there_in_both_languages_and_takes_the_same_parts(texts: object) -> None:
    japanese, english = texts["ja"], texts["en"]  # type: ignore[index]
    for name in [field.name for field in fields(japanese)]:
        japanese_text, english_text = str(getattr(japanese, name)), str(getattr(english, name))
        assert japanese_text.strip()
        assert english_text.strip()
        assert japanese_text != english_text
        assert set(re.findall(r"\{\w+\}", japanese_text)) == set(re.findall(r"\{\w+\}", english_text)), name
        assert not _JAPANESE.search(english_text)


async def test_the_questions_are_japanese_unless_english_is_set() -> None:
    model = ScriptedModel([advisor()])
    await run_dashboard_report(ADVISOR, BRIEF, model)
    assert "を作ります。次の形の JSON オブジェクトを1つだけ出力してください。" in model.prompts[0]
