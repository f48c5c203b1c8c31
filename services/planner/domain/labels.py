"""Bring labels into the order in which they may be used: by execution, and in the order of the decisions.

A label of a wrong result often comes later than one of a correct result. If labels were used as they come, the evidence
would look better than it is. So a proof uses executions in the order of their first question; one whose labels are not
all there holds up those behind it until `MAX_LATER_QUESTIONS` more were asked. What is then unlabelled is missing: it
is counted, and used for nothing. The search for a change uses an execution as soon as it is complete.

**Assumption.** A label is missing with the same probability for wrong and for correct steps above a threshold. Without
it only this holds: if a share m of the labels is missing, at most (1 - m) * alpha + m of the unasked steps are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.planner.domain.guarantee import StepLabel, ThresholdGuarantee

MAX_LATER_QUESTIONS = 100


@dataclass(slots=True)
class _Question:
    """A step that was selected for a label."""

    step_id: int
    score: float
    probability: float
    wrong: bool | None = None


@dataclass(slots=True)
class _Block:
    """The questions of one execution; `first` is the number of the first one."""

    first: int
    rate: float
    questions: list[_Question] = field(default_factory=list)
    has_ended: bool = False
    is_watched: bool = False
    is_void: bool = False

    @property
    def is_complete(self) -> bool:
        return self.has_ended and None not in [question.wrong for question in self.questions]

    @property
    def labels(self) -> list[StepLabel]:
        return [StepLabel(q.score, q.wrong, q.probability) for q in self.questions if q.wrong is not None]


class LabelQueue:
    """Hands the labels of one tool to its guarantee, one execution at a time."""

    def __init__(self, guarantee: ThresholdGuarantee) -> None:
        self.guarantee = guarantee
        self.selected = self.labelled = self.missing = 0
        self._blocks: dict[str, _Block] = {}
        self._overdue: set[str] = set()

    @property
    def waiting(self) -> int:
        """Return the number of steps whose label may still come."""
        return self.selected - self.labelled - self.missing

    def select(self, execution_id: str, step_id: int, score: float, probability: float, rate: float) -> None:
        """Add a step that was selected for a label with `probability`; `rate` is the audit rate of the time."""
        self.selected += 1
        self.guarantee.count_selection(score, probability)
        if execution_id in self._overdue:
            self.missing += 1  # an execution makes one bet, and this one has made it
        else:
            block = self._blocks.setdefault(execution_id, _Block(self.selected, rate))
            block.rate = min(block.rate, rate)
            block.questions.append(_Question(step_id, score, probability))
        self._use_blocks()

    def label(self, execution_id: str, step_id: int, wrong: bool) -> None:
        """Label the latest selection of a step; its first label stays, and one that comes too late has no effect."""
        block = self._blocks.get(execution_id)
        of_step = [question for question in block.questions if question.step_id == step_id] if block else []
        if block is None or not of_step or of_step[-1].wrong is not None:
            return
        of_step[-1].wrong = wrong
        self.labelled += 1
        self._watch_if_complete(block)
        self._use_blocks()

    def end(self, execution_id: str) -> None:
        """Note that an execution has ended, so that no more of its steps will be selected."""
        self._overdue.discard(execution_id)
        block = self._blocks.get(execution_id)
        if block is not None:
            block.has_ended = True
            self._watch_if_complete(block)
            self._use_blocks()

    def _use_blocks(self) -> None:
        """Use the executions at the head that are complete or have waited long enough."""
        while self._blocks:
            execution_id = next(iter(self._blocks))
            block = self._blocks[execution_id]
            if self.selected - block.first < MAX_LATER_QUESTIONS and not block.is_complete:
                return
            del self._blocks[execution_id]
            if not block.has_ended:
                self._overdue.add(execution_id)
            labels = block.labels
            self.missing += len(block.questions) - len(labels)
            if not labels:
                continue
            self._watch(block, labels)
            if not block.is_void:
                self.guarantee.prove(labels, block.rate)

    def _watch_if_complete(self, block: _Block) -> None:
        if block.is_complete:
            self._watch(block, block.labels)

    def _watch(self, block: _Block, labels: list[StepLabel]) -> None:
        if block.is_watched:
            return
        block.is_watched = True
        if self.guarantee.watch(labels, block.rate):
            # Decisions before a revocation cannot prove the threshold again.
            block.is_void = True
            for waiting in self._blocks.values():
                waiting.is_void = True
