"""Compares the validator with Guardrails and Instructor in one run, and writes results.json and the README's tables.

python -m venv build/baselines && build/baselines/bin/pip install -r bench/validator/baselines.txt
python -m bench.validator --baselines build/baselines/bin/python
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.validator.material import IDS, broken_report, report
from bench.validator.prompts import prompt_times
from bench.validator.wording import wording_rows
from services.validator.domain.organizer import validate_organizer_report

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROUNDS, WARM_UP = 150, 20


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--baselines", required=True, help="a Python in which bench/validator/baselines.txt is installed"
    )
    arguments = parser.parse_args()
    results: dict[str, Any] = {
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "python": platform.python_version()},
        "baselines": (HERE / "baselines.txt").read_text().splitlines()[1:],
        "validate": _validate(arguments.baselines),
        "correct": _correct(arguments.baselines),
        "prompts": prompt_times(),
        "wording": wording_rows(),
    }
    (HERE / "results.json").write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for name in ("validate", "correct", "prompts", "wording"):
        _write_table(name, results[name])


def _validate(baselines: str) -> list[dict[str, Any]]:
    text = json.dumps(report(), ensure_ascii=False)
    parsed = json.loads(text)
    assert validate_organizer_report(parsed, IDS).ok
    assert not validate_organizer_report(broken_report(), IDS).ok
    rules = _measure_cpu(lambda: validate_organizer_report(parsed, IDS))
    whole = _measure_cpu(lambda: validate_organizer_report(json.loads(text), IDS))
    baseline = _output([baselines, str(HERE / "guardrails_baseline.py"), "40"])["cpu_seconds"]
    size = len(text.encode())
    return [
        {"what": "hansei, all rules", "bytes": size, "cpu_us": rules * 1e6, "baseline_to_this": baseline / rules},
        {
            "what": "hansei, parse and all rules",
            "bytes": size,
            "cpu_us": whole * 1e6,
            "baseline_to_this": baseline / whole,
        },
        {"what": "Guardrails, the same rules", "bytes": size, "cpu_us": baseline * 1e6, "baseline_to_this": 1.0},
    ]


def _measure_cpu(work: Callable[[], object], rounds: int = 3000, series: int = 5) -> float:
    """Seconds of CPU per call; the best of several series, as other load can only add."""
    best = float("inf")
    for _ in range(series):
        began = time.process_time()
        for _ in range(rounds):
            work()
        best = min(best, (time.process_time() - began) / rounds)
    return best


def _correct(baselines: str) -> list[dict[str, Any]]:
    own = [sys.executable, "-m", "bench.validator.own_loop"]
    baseline = [baselines, str(HERE / "instructor_baseline.py")]
    seconds = {"hansei": [], "Instructor": []}  # type: dict[str, list[float]]
    for _ in range(3):
        for name, command in (("hansei", own), ("Instructor", baseline)):
            with _start_model_server() as base_url:
                seconds[name].append(_output([*command, base_url, str(ROUNDS), str(WARM_UP)])["cpu_seconds"])
    least = {name: min(series) for name, series in seconds.items()}
    return [
        {"what": f"{name}, one reask", "client_cpu_ms": value * 1e3, "to_baseline": value / least["Instructor"]}
        for name, value in least.items()
    ]


@contextmanager
def _start_model_server() -> Iterator[str]:
    """Yield the URL of an OpenAI-compatible server that returns a broken and a good report in turn."""
    answers = [json.dumps(value, ensure_ascii=False) for value in (broken_report(), report())]
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as script:
        json.dump(answers * (ROUNDS + WARM_UP + 1), script)
        script.flush()
        command = [sys.executable, "-m", "tests.fakes.openai_server", "--script", script.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=_environment()) as process:
            try:
                assert process.stdout is not None
                yield process.stdout.readline().strip().partition("=")[2]
            finally:
                process.terminate()


def _output(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=_environment(), check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "stubs", "sdk"))}


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _write_table(name: str, rows: list[dict[str, Any]]) -> None:
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns), *([_format_cell(row[column]) for column in columns] for row in rows)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    readme = HERE / "README.md"
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    text = marked.sub(lambda found: found[1] + table + found[2], readme.read_text(encoding="utf-8"))
    readme.write_text(text, encoding="utf-8")
    print(table)


def _format_cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return str(value)


if __name__ == "__main__":
    main()
