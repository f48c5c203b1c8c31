"""Prompt templates with `{name}` placeholders: filled in one pass, with a fallback when a template is broken.

A value is never read as a template, so text with braces arrives unchanged (C-47, G-06); and there are no attributes,
indexes, conversions or formats in a placeholder, so a template can reach nothing but the values it is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from chassis.errors import InvalidArgument, Violation, shorten
from chassis.field_errors import DATASET_NAME_RULE
from chassis.logging import get_logger

MAX_TEMPLATE_BYTES = 256 * 1024

_BUILT_IN = "built-in template"
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_TOKEN = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")

_log = get_logger(__name__)


class TemplateError(ValueError):
    """A template cannot be filled: a stray brace, or a placeholder that has no value."""


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` of a template by `values[name]` and each `{{`, `}}` by a brace (C-46, C-47, G-06).

    Errors: TemplateError for a stray brace or a placeholder without value.
    """

    def replacement(found: re.Match[str]) -> str:
        token, name = found.group(), found.group(1)
        if name is not None:
            return _get_value(name, values)
        if token in ("{{", "}}"):
            return token[0]
        around = template[max(0, found.start() - 20) : found.end() + 20]
        raise TemplateError(f"stray '{token}' at character {found.start()}, near {around!r}: write it as '{token * 2}'")

    return _TOKEN.sub(replacement, template)


def _get_value(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        names = ", ".join(f"{{{placeholder}}}" for placeholder in sorted(values)) or "none"
        raise TemplateError(f"placeholder {{{shorten(name)}}} has no value; known placeholders: {names}")
    return values[name]


class PromptTemplates:
    """The templates of one prompt: files of a folder that a user may edit, and the text that is built in."""

    def __init__(self, folder: Path | None, built_in: str) -> None:
        """`folder` may be missing, or None for the built-in text alone."""
        self._folder = folder
        self._built_in = built_in

    def fill_first(self, names: Iterable[str], values: Mapping[str, str]) -> str:
        """Fill the first usable template of `<folder>/<name>.txt` (names in order), else the built-in one.

        A template that is broken, unreadable or larger than 256 KiB is logged and the next one is used (C-45, C-48).
        Errors: InvalidArgument for a name that does not match `[A-Za-z0-9_-]+` (C-13); TemplateError if the built-in
        text itself is broken.
        """
        own = self.fill_from_folder(names, values)
        if own is not None:
            return own
        try:
            return fill(self._built_in, values)
        except TemplateError as error:
            raise TemplateError(f"{_BUILT_IN}: {error}") from error

    def fill_from_folder(self, names: Iterable[str], values: Mapping[str, str]) -> str | None:
        """Fill the first usable template of the folder, as `fill_first` does; None without one."""
        for source, template in self._iterate_user_templates(names):
            try:
                return fill(template, values)
            except TemplateError as error:
                _log.warning("prompt template is broken; not using it", template=source, error=str(error))
        return None

    def _iterate_user_templates(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        for name in names:
            checked = check_dataset_name(name)
            if self._folder is None:
                continue
            template = _read(self._folder / f"{checked}.txt")
            if template is not None:
                yield f"{checked}.txt", template


def check_dataset_name(name: str) -> str:
    """Return a name of a dataset. Raises InvalidArgument for a name from which no path may be built (C-13)."""
    if _NAME.fullmatch(name) is None:
        message = f"Invalid dataset name: '{shorten(name)}'"
        raise InvalidArgument(
            message, reason="INVALID_DATASET", violations=[Violation("dataset", f"dataset {DATASET_NAME_RULE}", "C-13")]
        )
    return name


def _read(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TEMPLATE_BYTES + 1)
        if len(content) > MAX_TEMPLATE_BYTES:
            raise TemplateError(f"larger than {MAX_TEMPLATE_BYTES} bytes")
        return content.decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        _log.warning("prompt template cannot be read; not using it", template=path.name, error=str(error))
        return None
