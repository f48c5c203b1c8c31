"""The entry of the `hansei` command. `hansei hook` bypasses the command line: agents start it at each prompt."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run `hansei hook`, or any other command, and exit with its code."""
    try:
        _run_command()
    except KeyboardInterrupt:  # ctrl-c while modules are imported; a running command ends itself
        sys.exit(INTERRUPTED)


def _run_command() -> None:
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
        from hansei.client.hooks.run import main as run_hook

        sys.exit(run_hook(sys.argv[2:]))
    from hansei.client.cli import main as run_command

    run_command()
