"""Read the sections of datasets from a YAML file (C-27 to C-30)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from chassis.logging import get_logger
from services.curator.domain.curation import SectionDefinition

DEFAULT_FILE = Path("config/sections.yaml")
SHIPPED_FILE = Path(__file__).parents[3] / DEFAULT_FILE
MAX_FILE_BYTES = 1024 * 1024

_log = get_logger(__name__)

_Version = tuple[int, int, int]
"""Modification time in ns, size and inode of a file; they change if the file is edited or replaced."""


@dataclass(frozen=True, slots=True)
class _SectionsFile:
    """The content of one version of the file, or its problem; the version is None without a file."""

    version: _Version | None
    content: object = None
    problem: str = ""


class SectionLoader:
    """Reads sections, and parses the file again after each change of it. Never raises."""

    def __init__(self, config_path: str | Path = DEFAULT_FILE) -> None:
        self._path = Path(config_path)
        self._is_shipped = self._path.resolve() == SHIPPED_FILE.resolve()
        self._parsed: _SectionsFile | None = None

    async def read(self, dataset: str) -> list[SectionDefinition]:
        """Return the sections of `dataset`; a changed file is parsed in a thread."""
        if self._parsed is None or self._parsed.version != self._stat_version():
            return await asyncio.to_thread(self.load, dataset)
        return self.load(dataset)

    def load(self, dataset: str) -> list[SectionDefinition]:
        """Return the sections of `dataset` in file order; [] with a log line if there are none (C-29)."""
        parsed = self._get_current()
        if parsed.problem:
            _log.warning("sections file cannot be read", file=str(self._path), problem=parsed.problem)
            return []
        listed = parsed.content.get(dataset) if isinstance(parsed.content, dict) else None
        if not isinstance(listed, list):
            # The shipped file is an example: most datasets are not in it.
            log = _log.info if self._is_shipped else _log.warning
            log("sections file defines no sections for the dataset", file=str(self._path), dataset=dataset)
            return []
        return list(self._read_definitions(dataset, listed))

    def _get_current(self) -> _SectionsFile:
        version = self._stat_version()
        if self._parsed is None or self._parsed.version != version:
            self._parsed = self._parse(version)
        return self._parsed

    def _stat_version(self) -> _Version | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _parse(self, version: _Version | None) -> _SectionsFile:
        try:
            content = self._path.read_bytes()
            if len(content) > MAX_FILE_BYTES:
                raise ValueError(f"larger than {MAX_FILE_BYTES} bytes")
            return _SectionsFile(version, yaml.safe_load(content.decode("utf-8")))
        except OSError as error:
            return _SectionsFile(None, problem=str(error))  # the same version may be readable later
        except (ValueError, yaml.YAMLError, RecursionError) as error:
            return _SectionsFile(version, problem=str(error))

    def _read_definitions(self, dataset: str, listed: list[object]) -> Iterator[SectionDefinition]:
        for index, element in enumerate(listed):
            name, description = (
                (element.get("name"), element.get("description")) if isinstance(element, dict) else (None, None)
            )
            if isinstance(name, str) and isinstance(description, str):
                yield SectionDefinition(name, description)
            else:
                _log.warning(
                    "section has no name or description; skipping it",
                    file=str(self._path),
                    index=index,
                    dataset=dataset,
                )
