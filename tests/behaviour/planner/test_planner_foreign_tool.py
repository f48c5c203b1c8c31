"""Issue: a tool is a gRPC service in any language. This one is JavaScript that knows nothing but the contract."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import playwright

from hansei.planner.v1 import planner_pb2 as pb
from tests.support.planner_service import running, wait_for_tool_result

NODE = Path(playwright.__file__).parent / "driver" / "node"
SERVICE = Path(__file__).parents[2] / "fakes" / "tool_service.mjs"


@contextmanager
def tool_service() -> Iterator[str]:
    """Yield the address of the service, in a process of its own."""
    with subprocess.Popen([NODE, SERVICE], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


async def test_a_tool_in_another_language_is_a_step(tmp_path: Path) -> None:
    with tool_service() as address:
        async with running(tmp_path, planner_tool_addrs=address) as stub:
            result = await wait_for_tool_result(stub, pb.ACTION_WEB_SEARCH, "空の色")
    assert result.overall_status == pb.EXECUTION_STATUS_SUCCESS
    assert result.step_results[0].output == f"空の色 を {result.plan_id}:1:1 で"
