"""Reports of the built-in kinds from a dashboard, and of registered kinds from any inputs."""

from __future__ import annotations

from collections.abc import Sequence

from libs.prompts.language import Language
from services.validator.domain.dashboard import Brief, DashboardError, TargetError, find_focus, list_nodes
from services.validator.domain.errors import InputsNotObject, KindBuiltIn, ReportNotJson
from services.validator.domain.kinds import BUILT_IN_KINDS, ReportKind
from services.validator.domain.runs import DEFAULT_OPTIONS, ReportRun, RunOptions, StopReason, refuse_run
from services.validator.domain.wording import LITERAL, PhraseFinders
from services.validator.prompts.reports import build_base_prompt, build_inputs_prompt
from services.validator.usecases.generate_report import Assignment, generate_report
from services.validator.usecases.kinds import Kinds
from services.validator.usecases.ports import ReportModel, RunObserver, Vocabulary
from services.validator.usecases.validate_report import parse_json


async def run_dashboard_report(
    kind: ReportKind,
    brief: Brief,
    model: ReportModel,
    options: RunOptions = DEFAULT_OPTIONS,
    *,
    words: PhraseFinders = LITERAL,
    observer: RunObserver | None = None,
    language: Language = "ja",
) -> ReportRun:
    """Generate a report about a dashboard; a dashboard or focus with errors ends the run before any model call.

    An advisor's report is about the focus node, else about the first node (V-34); that of an organizer needs no node
    (V-35).
    """
    try:
        nodes = list_nodes(brief.dashboard)
        focus = find_focus(brief, nodes, needs_node=kind.focus_needed)
    except DashboardError as error:
        return refuse_run(str(error), StopReason.DASHBOARD_INVALID)
    except TargetError as error:
        return refuse_run(str(error), StopReason.TARGET_UNKNOWN)
    prompt = build_base_prompt(kind, brief, nodes, focus, language)
    assignment = Assignment(kind, prompt, [node.id for node in nodes], nodes, words, language)
    return await generate_report(assignment, model, options, observer)


async def run_inputs_report(
    kind: ReportKind,
    inputs: object,
    valid_node_ids: Sequence[str],
    model: ReportModel,
    options: RunOptions,
    words: PhraseFinders,
    observer: RunObserver | None = None,
    language: Language = "ja",
) -> ReportRun:
    """Generate a report of a registered kind from any JSON inputs."""
    prompt = build_inputs_prompt(kind, inputs, valid_node_ids, language)
    assignment = Assignment(kind, prompt, valid_node_ids, (), words, language)
    return await generate_report(assignment, model, options, observer)


class RunReports:
    """Generates reports with the service's model, word finders, observer and language."""

    def __init__(
        self, kinds: Kinds, vocabulary: Vocabulary, model: ReportModel, observer: RunObserver, language: Language = "ja"
    ) -> None:
        self._kinds = kinds
        self._vocabulary = vocabulary
        self._model = model
        self._observer = observer
        self._language: Language = language

    async def run_built_in(self, kind: ReportKind, brief: Brief, options: RunOptions) -> ReportRun:
        """Generate a report about a dashboard. Raises ModelKeyMissing, ModelOffline."""
        return await run_dashboard_report(
            kind,
            brief,
            self._model,
            options,
            words=await self._vocabulary.list_words(options.wording),
            observer=self._observer,
            language=self._language,
        )

    async def run_kind(
        self, name: str, inputs_json: str, valid_node_ids: Sequence[str], options: RunOptions
    ) -> ReportRun:
        """Generate a report of a registered kind.

        Raises KindBuiltIn, ReportTypeUnknown, InputsNotObject, ModelKeyMissing.
        """
        if name in BUILT_IN_KINDS:
            raise KindBuiltIn(name)
        kind = await self._kinds.get_kind(name)
        try:
            inputs = parse_json(inputs_json)
        except ReportNotJson:
            inputs = None
        if not isinstance(inputs, dict):
            raise InputsNotObject("inputs_json must be the JSON text of an object")
        words = await self._vocabulary.list_words(options.wording)
        return await run_inputs_report(
            kind, inputs, valid_node_ids, self._model, options, words, self._observer, self._language
        )
