"""A replica is known by its own name in DNS: it may return with another address, and owns what it owned."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shared_resources import CODE, ROOT


def test_a_pod_that_returns_with_another_address_owns_its_datasets(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "mount", "ip"))):
        pytest.skip("needs root, unshare, mount and ip for a resolv.conf of its own")
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions ndots:1 timeout:1 attempts:2\n")
    script = (
        f'mount --bind {resolver} /etc/resolv.conf && ip link set lo up && exec "$0" -m tests.resilience.replica_names'
    )
    ran = subprocess.run(
        ["unshare", "--mount", "--net", "sh", "-c", script, sys.executable],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": CODE},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    found = json.loads(ran.stdout.splitlines()[-1])

    assert sorted(name.partition(":")[0] for name in found["names"]) == ["search-0", "search-1", "search-2"]
    assert set(found["first"].values()) == {"127.0.0.2", "127.0.0.3", "127.0.0.4"}
    moved = {"127.0.0.3": "127.0.0.5"}
    assert found["second"] == {dataset: moved.get(address, address) for dataset, address in found["first"].items()}
