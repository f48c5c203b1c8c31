"""The `hansei` command in a forked process: `python -m tests.support.forked_command ARGUMENTS`.

For its caller it is the command: the same input and output, signals and exit status. A start takes a tenth of the
processor time, because the fork server has imported the command and, for `--local`, all services.
"""

from __future__ import annotations

import os
import signal
import sys

from tests.support.processes import ForkedProcess, ModuleCommand
from tests.support.shared_resources import get_run

MODULE = "tests.support.command_line"


def main() -> int:
    """Run the command, and return its exit status."""
    command = ModuleCommand(MODULE, os.getcwd(), dict(os.environ), tuple(sys.argv[1:]))
    run = get_run()
    if run is None:
        os.execv(sys.executable, [sys.executable, "-m", MODULE, *sys.argv[1:]])
    process = ForkedProcess(run, command, {0: sys.stdin, 1: sys.stdout, 2: sys.stderr})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: process.send_signal(number))
    return process.wait()


if __name__ == "__main__":
    status = main()
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)
