"""A container engine, and what is asked of every container that it runs."""

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
    """What a command of the engine writes; `logs` come with what the container wrote to its standard error."""
    done = subprocess.run(
        [*ENGINE, *arguments], capture_output=True, text=True, timeout=SECONDS, env=environment, check=False
    )
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout + (done.stderr if arguments[0] == "logs" else "")


def python(container: str, program: str) -> str:
    """What a program in Python writes within a container of ours."""
    return docker("exec", container, PYTHON, "-c", program)


def rights(container: str) -> object:
    """User, group, capabilities (effective, bounding), and the folders of the image that can be written to."""
    return json.loads(python(container, _RIGHTS))
