"""The support bundle: what somebody who helps needs to know of a hansei, as one file, and nothing secret.

What is gathered is parts. A part that cannot be had is left out, and the manifest says so and why: bundles are made
when things are broken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hansei.client.cli.checks import Finding
from hansei.client.cli.show.checks import document
from hansei.client.cli.support import archive, logs, machine, schemas, servers
from hansei.client.cli.support.archive import LeftOut, Part
from hansei.client.cli.support.masking import Masking
from hansei.client.server import ServerNotInstalledError

NEVER_INCLUDED = (
    LeftOut("bullets, trajectories, prompts and documents", "they are yours; of playbooks only sizes and revisions"),
    LeftOut("keys, tokens, passwords, private keys", "they are secret, and are masked wherever they would stand"),
    LeftOut("the environment but for hansei's settings", "of unknown variables of hansei's only the names are told"),
)
FRAMES = 5

Source = Callable[[], Iterator[Part | LeftOut]]


def make(
    file: Path, address: str | None, findings: Sequence[Finding], log_files: Sequence[Path], *, ask: bool = True
) -> dict[str, Any]:
    """Gather everything and write it to `file`, which must not be there yet. Gives the manifest.

    `ask`: whether servers are asked, too. Raises OSError for a file that cannot be written.
    """
    masking = Masking(os.environ, machine.secret_variables())
    sources: dict[str, Source] = {
        "versions": machine.versions,
        "settings": machine.settings,
        "findings": lambda: iter([Part("findings.json", "what the doctor found", [*map(document, findings)])]),
        "schemas": schemas.schemas,
        **(_asked(address) if ask else {}),
        "logs": lambda: logs.tails(log_files, masking),
    }
    gathered = [each for name, source in sources.items() for each in _gathered(name, source)]
    not_asked = () if ask else (LeftOut("health, contracts, playbooks, metrics", "servers were not asked"),)
    return archive.write(file, [*gathered, *not_asked, *NEVER_INCLUDED], masking)


def _asked(address: str | None) -> dict[str, Source]:
    """What is learned from servers."""
    return {
        "health and contracts": lambda: servers.health(address),
        "playbooks": lambda: servers.playbooks(address),
        "metrics": servers.metrics,
    }


def _gathered(name: str, source: Source) -> Iterator[Part | LeftOut]:
    """The parts of a source up to where it breaks, if it does: the others are still wanted then."""
    try:
        yield from source()
    except ServerNotInstalledError as error:
        yield LeftOut(name, str(error))
    except Exception as error:
        frames = logs.frames_of(error)[-FRAMES:]
        yield LeftOut(name, f"{type(error).__name__} at {' < '.join(reversed(frames))}")
