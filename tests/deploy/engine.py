"""Run commands of a container engine, and read the rights of its containers."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping

ENGINE = shlex.split(os.environ.get("DOCKER", "docker"))
SECONDS = 600
PYTHON = "/opt/hansei/bin/python"
_RIGHTS = """
import json, os, pathlib
status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
written = []
for folder in ('/', '/srv/hansei', '/opt/hansei', '/usr'):
    try:
        pathlib.Path(folder, 'written').touch(); written.append(folder)
    except OSError:
        pass
print(json.dumps([os.getuid(), os.getgid(), int(status['CapEff'], 16), int(status['CapBnd'], 16), written]))
"""
NO_RIGHTS = [10001, 10001, 0, 0, []]


def docker(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a command of the engine and return its output; `logs` include the container's standard error."""
    done = subprocess.run(
        [*ENGINE, *arguments], capture_output=True, text=True, timeout=SECONDS, env=environment, check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout + (done.stderr if arguments[0] == "logs" else "")


def python(container: str, program: str) -> str:
    """Run a Python program in a container of ours and return its output."""
    return docker("exec", container, PYTHON, "-c", program)


def rights(container: str) -> object:
    """Return user, group, capabilities (effective, bounding) and the writable folders of the image."""
    return json.loads(python(container, _RIGHTS))
