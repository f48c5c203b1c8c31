"""The support bundle: one file with the facts for a support request, without secrets.

The bundle consists of parts. A part that cannot be collected is left out, and the manifest names the reason: bundles
are made when something is broken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hansei.client.cli.service_checks import CheckResult
from hansei.client.cli.show.checks import build_document
from hansei.client.cli.support import archive, logs, machine, servers
from hansei.client.cli.support.archive import BundlePart, OmittedPart
from hansei.client.masking import SecretMask
from hansei.client.server import ServerNotInstalledError

NEVER_INCLUDED = (
    OmittedPart("bullets, trajectories, prompts and documents", "they are private; sizes and revisions are included"),
    OmittedPart("keys, tokens, passwords, private keys", "they are secret, and are masked everywhere"),
    OmittedPart(
        "environment variables other than hansei's settings",
        "only the names of unknown variables of hansei are included",
    ),
)
FRAMES = 5

Source = Callable[[], Iterator[BundlePart | OmittedPart]]


def write_bundle(
    file: Path,
    address: str | None,
    results: Sequence[CheckResult],
    log_files: Sequence[Path],
    *,
    ask_servers: bool,
) -> dict[str, Any]:
    """Collect all parts, write them to `file`, and return the manifest.

    Raises:
        OSError: the file exists, or cannot be written.
    """
    mask = SecretMask(os.environ, machine.list_secret_variables())
    findings = BundlePart("findings.json", "the results of the doctor", [*map(build_document, results)])
    sources: dict[str, Source] = {
        "versions": machine.collect_versions,
        "settings": machine.collect_settings,
        "findings": lambda: iter([findings]),
        "schemas": machine.collect_schemas,
    }
    if ask_servers:
        sources |= {
            "health and contracts": lambda: servers.collect_health(address),
            "playbooks": lambda: servers.collect_playbooks(address),
            "metrics": servers.collect_metrics,
        }
    sources["logs"] = lambda: logs.collect_logs(log_files, mask)
    parts = [part for name, source in sources.items() for part in _collect(name, source)]
    if not ask_servers:
        parts.append(OmittedPart("health, contracts, playbooks, metrics", "the command did not call the servers"))
    return archive.write_archive(file, [*parts, *NEVER_INCLUDED], mask)


def _collect(name: str, source: Source) -> Iterator[BundlePart | OmittedPart]:
    """Yield the parts of a source until it fails, if it does: one failure must not cost the other parts."""
    try:
        yield from source()
    except ServerNotInstalledError as error:
        yield OmittedPart(name, str(error))
    except Exception as error:
        frames = logs.list_frames(error)[-FRAMES:]
        yield OmittedPart(name, f"{type(error).__name__} at {' < '.join(reversed(frames))}")
