"""The sections a dataset defines, read from a YAML file (C-27 to C-30)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import yaml

from services.curator.domain.curation import SectionDefinition

DEFAULT_FILE = Path("config/sections.yaml")
SHIPPED_FILE = Path(__file__).parents[3] / DEFAULT_FILE
MAX_FILE_BYTES = 1024 * 1024

_log = logging.getLogger(__name__)


class SectionLoader:
    """Reads the file at each call, so that an edit is seen without a restart. It never raises."""

    def __init__(self, config_path: str | Path = DEFAULT_FILE) -> None:
        self._path = Path(config_path)

    def load(self, dataset: str) -> list[SectionDefinition]:
        """The sections of `dataset` in file order; [] and a log line when there are none (C-29)."""
        try:
            content = self._path.read_bytes()
            if len(content) > MAX_FILE_BYTES:
                raise ValueError(f"larger than {MAX_FILE_BYTES} bytes")
            config = yaml.safe_load(content.decode("utf-8"))
        except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
            _log.warning("sections file %s cannot be read: %s", self._path, error)
            return []
        listed = config.get(dataset) if isinstance(config, dict) else None
        if not isinstance(listed, list):
            _log.warning("sections file %s defines no sections for dataset %s", self._path, dataset)
            return []
        return list(self._defined(dataset, listed))

    def _defined(self, dataset: str, listed: list[object]) -> Iterator[SectionDefinition]:
        for index, element in enumerate(listed):
            name, description = (
                (element.get("name"), element.get("description")) if isinstance(element, dict) else (None, None)
            )
            if isinstance(name, str) and isinstance(description, str):
                yield SectionDefinition(name, description)
            else:
                _log.warning(
                    "sections file %s: element %d of dataset %s has no name or description", self._path, index, dataset
                )
