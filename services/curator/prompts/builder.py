"""The curation prompt from a user's template file, else from the built-in text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from libs.prompts.templates import PromptTemplates
from services.curator.domain.curation import Insight, SectionDefinition
from services.curator.domain.playbook import Bullet, checked_dataset
from services.curator.prompts.texts import BUILT_IN, OUTLINE, prompt_values


class CuratorPromptBuilder:
    """Fills `<prompts_dir>/<dataset>.txt`, else `<prompts_dir>/default.txt`, else the built-in text (C-44 to C-53)."""

    def __init__(self, prompts_dir: str | Path = "prompts/curator", language: Literal["ja", "en"] = "ja") -> None:
        self._outline = OUTLINE[language]
        self._templates = PromptTemplates(Path(prompts_dir), BUILT_IN[language])

    def build(
        self,
        insights: Sequence[Insight],
        bullets: Sequence[Bullet],
        sections: Sequence[SectionDefinition],
        dataset: str,
        others: Sequence[Bullet] = (),
    ) -> str:
        """The finished text; braces in the values stay as they are (C-47). Of `others` it holds an outline.

        Errors: InvalidDatasetName.
        """
        values = prompt_values(insights, bullets, sections, others, self._outline)
        return self._templates.filled((checked_dataset(dataset), "default"), values)
