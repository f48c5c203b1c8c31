"""Measure the processor time of each command of `hansei`: that of its help, and that of a call of a running gateway.

`python -m bench.commands` writes `bench/results/commands.json` and the table in `bench/README.md`. Each figure is the
least of some runs of the process. An empty Python is measured before each run, because the speed of a busy machine
changes: only the ratio to it says something there. Commands that start services in their process (`up`, `demo`, `mcp`,
`a2a`) and those that measure files (`eval`) have only a help.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import machine, write
from hansei.client import Client
from hansei.client.cli.examples import EXAMPLES
from tests.support import systems

ROOT = Path(__file__).parents[1]
HANSEI = str(Path(sys.executable).with_name("hansei"))
RUNS = 3
LIMIT_TO_PYTHON = 23
"""250 ms on an idle core, where `python -c pass` takes about 11 ms."""
TRAJECTORIES = "examples/trajectories"
GUARD = "call.tool == 'git'"
ROUNDS = 'rounds run "How does one keep a changelog?" --max-rounds 1 --team one --team two'
CALLS = {
    "open": "open --print --url {console}",
    "status": "status",
    "doctor": "doctor",
    "learn": f"learn {TRAJECTORIES}/git-push-rebased.json",
    "hooks install": "hooks install claude",
    "hooks uninstall": "hooks uninstall claude",
    "hooks status": "hooks status",
    "jobs list": "jobs list",
    "jobs show": "jobs show {job}",
    "jobs watch": "jobs watch {job}",
    "jobs cancel": "jobs cancel {job}",
    "jobs dead-letters": "jobs dead-letters {job}",
    "jobs retry": "jobs retry {job}",
    "trajectories list": "trajectories list -d devtools",
    "trajectories show": "trajectories show git-push-forced -d devtools",
    "trajectories export": "trajectories export -d devtools",
    "trajectories delete": "trajectories delete git-push-forced -d devtools",
    "relearn": "relearn devtools --into again-{run}",
    "search": 'search "a push was rejected" -d devtools',
    "ask": 'ask "What do I do when a push is rejected?" -d devtools',
    "guards list": "guards list devtools",
    "guards backtest": f'guards backtest "{GUARD}" --archive devtools',
    "guards allow": f'guards allow devtools "{GUARD}"',
    "guards add": f'guards add devtools "Lesson {{run}}." --target "{GUARD}"',
    "guards mine": "guards mine devtools",
    "guards decisions": "guards decisions devtools",
    "guards set": "guards set devtools {bullet} --mode shadow --reason bench",
    "plan create": 'plan create "What is known of pushes?"',
    "plan run": 'plan run "What is known of pushes?" -d devtools',
    "plan watch": "plan watch {execution}",
    "plan inform": 'plan inform {execution} "Run {run}."',
    "plan list": "plan list",
    "plan cancel": "plan cancel {execution}",
    "plan thresholds": "plan thresholds",
    "playbook show": "playbook show -d devtools",
    "playbook history": "playbook history -d devtools",
    "playbook diff": "playbook diff 1 -d devtools",
    "playbook restore": "playbook restore 1 -d {scratch}",
    "playbook revoke": "playbook revoke git-push-rebased -d devtools --dry-run",
    "playbook review": "playbook review -d devtools",
    "playbook export": "playbook export - -d devtools",
    "playbook sync": "playbook sync",
    "playbook import": "playbook import {playbook} -d copy-{run}",
    "playbook merge": "playbook merge devtools --into merged-{run}",
    "remember": 'remember "Lesson {run} of the bench." -d by-hand',
    "edit": 'edit {bullet} "Another lesson {run}." -d devtools',
    "forget": "forget {bullet} -d devtools",
    "dataset delete": "dataset delete {scratch} --yes",
    "trials start": "trials start devtools",
    "trials stop": "trials stop devtools",
    "trials status": "trials status devtools",
    "effects": "effects devtools",
    "decisions": "decisions devtools",
    "validate": "validate {report} --type organizer",
    "rounds run": ROUNDS,
    "rounds list": "rounds list",
    "rounds show": "rounds show bench",
    "leaderboard": "leaderboard bench",
    "evaluate": 'evaluate "Name three risks" "Time, money and people."',
    "judge": 'judge "Round 1 scored 52. Is another round worthwhile?"',
    "keys create": 'keys create "key-{run}" --scope read',
    "keys list": "keys list",
    "audit": "audit",
    "config init": "config init --workspace {folder} --force",
}
"""A call of each command. One that finds nothing left to do ends with an error, and is measured as well."""
LAST = ("playbook restore", "forget", "trajectories delete", "dataset delete")
"""Calls that remove what others read."""


@dataclass(frozen=True)
class CommandCost:
    """The least processor time of a command, that of `python -c pass` beside it, and the exit codes of the command."""

    ms: float
    python_ms: float
    codes: set[int]

    @property
    def to_python(self) -> float:
        return round(self.ms / self.python_ms, 1)


def main() -> None:
    """Measure and write."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        http = f"127.0.0.1:{systems.free_port()}"
        (folder / "data").mkdir()
        system = stack.enter_context(
            systems.one_process(folder / "data", HANSEI_HTTP_ADDRESS=http, HANSEI_LOG_LEVEL="WARNING")
        )
        environment = _build_environment(folder, system.address)
        values = _fill(folder, system.address, environment) | {"console": f"http://{http}/console/"}
        calls = {
            name: _measure_call(CALLS[name], values, environment)
            for name in sorted(CALLS, key=lambda name: name in LAST)
        }
        rows = [_build_row(name, calls.get(name), environment) for name in ("", *EXAMPLES)]
    results = {"machine": machine(), "load": os.getloadavg()[0], "rows": rows}
    write("commands", results)
    above = [row["command"] for row in rows if row["call_to_python"] != "" and row["call_to_python"] > LIMIT_TO_PYTHON]
    print(f"calls above {LIMIT_TO_PYTHON} times `python -c pass`: {', '.join(above) or 'none'}")


def _build_environment(folder: Path, address: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HANSEI_", "PYTHON", "LLM_"))}
    home = folder / "home"
    home.mkdir()
    return {**own, "HOME": str(home), "HANSEI_ADDR": address, "HANSEI_DATA_DIR": str(folder / "own"), "COLUMNS": "120"}


def _fill(folder: Path, address: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Learn the recorded trajectories, plan, run rounds, and return the names that calls need."""
    for line in (
        f"learn {TRAJECTORIES}",
        f"learn --bulk --again {TRAJECTORIES}",
        CALLS["plan run"],
        f"{ROUNDS} --execution bench",
    ):
        subprocess.run([HANSEI, *shlex.split(line)], env=environment, cwd=ROOT, check=False, capture_output=True)
    (folder / "report.json").write_text("{}")
    with Client(address) as client:
        (folder / "playbook.json").write_bytes(client.export_playbook("devtools"))
        for run in range(RUNS):
            client.remember(f"scratch-{run}", "A lesson.")
        return {
            "job": client.jobs.list().jobs[0].job_id,
            "bullet": client.playbooks.list_bullets(dataset="devtools").bullets[0].id,
            "execution": client.planner.list_executions().executions[0].execution_id,
            "playbook": str(folder / "playbook.json"),
            "report": str(folder / "report.json"),
            "folder": str(folder),
        }


def _measure_call(line: str, values: Mapping[str, str], environment: Mapping[str, str]) -> CommandCost:
    lines = [line.format(**values, run=run, scratch=f"scratch-{run}") for run in range(RUNS)]
    return _measure_runs([shlex.split(line) for line in lines], environment)


def _measure_runs(runs: Sequence[Sequence[str]], environment: Mapping[str, str]) -> CommandCost:
    """Measure runs of `hansei` with these arguments, and an empty Python before each."""
    floors, costs = [], []
    for arguments in runs:
        floors.append(_measure([sys.executable, "-c", "pass"], environment)[0])
        costs.append(_measure([HANSEI, *arguments], environment))
    return CommandCost(min(spent for spent, _ in costs), min(floors), {code for _, code in costs})


def _measure(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, int]:
    """Return the milliseconds of processor time of a process and its children, and its exit code."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return round(1000 * (usage.ru_utime + usage.ru_stime), 1), process.returncode


def _build_row(name: str, call: CommandCost | None, environment: Mapping[str, str]) -> dict[str, Any]:
    shown = _measure_runs([[*name.split(), "--help"]] * RUNS, environment)
    return {
        "command": name or "hansei",
        "help_ms": shown.ms,
        "help_to_python": shown.to_python,
        "call_ms": call.ms if call else "",
        "call_to_python": call.to_python if call else "",
        "exit_codes": ", ".join(map(str, sorted(call.codes))) if call else "",
    }


if __name__ == "__main__":
    main()
