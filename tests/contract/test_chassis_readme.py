"""The service in the chassis's README runs, word for word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from chassis import Peers
from chassis.errors import InvalidArgument
from chassis.policy import MethodPolicy
from chassis.tests.process import probe_process
from tests.support.shared_resources import ROOT

PATH = "/echo.v1.EchoService/Echo"


async def test_the_service_of_the_readme_answers_and_leaves(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "chassis/README.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "echo.py").write_text(code, encoding="utf-8")

    async with probe_process("echo", tmp_path, HANSEI_LAME_DUCK_SECONDS="0") as process:
        address = (await process.read_until("server started"))["address"]
        peers = Peers({"echo": address}, policies={PATH: MethodPolicy(30, "read", True)})
        echo = peers.get_channel("echo").unary_unary(PATH, StringValue.SerializeToString, StringValue.FromString)

        assert (await echo(StringValue(value="反省"))).value == "反省"
        with pytest.raises(InvalidArgument, match="value must not be empty") as refused:
            await echo(StringValue())
        await peers.close()
        process.terminate()

        assert (refused.value.reason, refused.value.domain) == ("EMPTY_VALUE", "echo.hansei")
        assert await process.read_rest() == 0
