"""Build the curation prompt from the template file of a user, else from the built-in template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from libs.prompts.language import LanguageSetting, choose_language
from libs.prompts.templates import PromptTemplates
from services.curator.domain.curation import Lesson, SectionDefinition
from services.curator.domain.playbook import Bullet, validate_dataset_name
from services.curator.prompts.texts import PROMPT_TEXTS, build_prompt_values


class CuratorPromptBuilder:
    """Fills `<prompts_dir>/<dataset>.txt`, else `<prompts_dir>/default.txt`, else the built-in one (C-44 to C-53)."""

    def __init__(self, prompts_dir: str | Path = "prompts/curator", language: LanguageSetting = "ja") -> None:
        """`auto` is the language of the lessons."""
        self._folder = Path(prompts_dir)
        self._language: LanguageSetting = language

    def build(
        self,
        insights: Sequence[Lesson],
        bullets: Sequence[Bullet],
        sections: Sequence[SectionDefinition],
        dataset: str,
        others: Sequence[Bullet] = (),
    ) -> str:
        """Return the prompt, with an outline of `others`; braces in the values are unchanged (C-47).

        Raises InvalidDatasetName.
        """
        texts = PROMPT_TEXTS[choose_language(self._language, *(insight.key_insight for insight in insights))]
        values = build_prompt_values(insights, bullets, sections, others, texts)
        return PromptTemplates(self._folder, texts.curation).fill_first(
            (validate_dataset_name(dataset), "default"), values
        )
