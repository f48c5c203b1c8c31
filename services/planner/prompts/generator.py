"""The built-in prompts of the generator, by language (P-116, P-118)."""

from __future__ import annotations

from pathlib import Path

PLAIN = "Context:\n{context}\n\nQuery: {query}\n\nAnswer:"


def _read_template(language: str) -> str:
    return Path(__file__).with_name(f"generator_{language}.txt").read_text(encoding="utf-8")


CITED = {language: _read_template(language) for language in ("ja", "en")}
