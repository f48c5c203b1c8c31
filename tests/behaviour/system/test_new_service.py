"""A made-up service stands behind the gateway with a contract, a policy and an entry in the list; nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from tests.support import systems
from tests.support.shared_resources import CODE

ROOT = Path(__file__).parents[3]
SERVICE = "hansei.greeter.v1.GreeterService"
PROTO = """
syntax = "proto3";
package hansei.greeter.v1;
import "google/api/annotations.proto";

service GreeterService {
  // Greets somebody. Politely.
  rpc Greet(GreetRequest) returns (GreetResponse) {
    option (google.api.http) = { get: "/v1/greetings/{name}" };
  }
}
message GreetRequest { string name = 1; }
message GreetResponse { string name = 1; }
"""
POLICY = {SERVICE: {"Greet": {"timeout_seconds": 5, "idempotency": "read", "retry": False, "scope": "read"}}}


def write_service(folder: Path) -> list[str]:
    """Write what `make protos` writes for the service; return its input files."""
    sources = {
        "protos/hansei/greeter/v1/greeter_service.proto": PROTO,
        "protos/hansei/greeter/v1/greeter_policy.json": json.dumps(POLICY),
        "deploy/services.yaml": json.dumps({"greeter": [SERVICE]}),
    }
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    package = folder / "stubs/hansei/greeter/v1"
    package.mkdir(parents=True)
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder / 'protos'}", f"-I{ROOT / 'third_party'}"]
    command += ["--include_source_info", f"--descriptor_set_out={package / 'sources.binpb'}"]
    command += [f"--python_out={folder / 'stubs'}", "hansei/greeter/v1/greeter_service.proto"]
    subprocess.run(command, check=True, timeout=60)
    (package / "greeter_policy.json").write_text(sources["protos/hansei/greeter/v1/greeter_policy.json"])
    (folder / "stubs/hansei/services.json").write_text(sources["deploy/services.yaml"])
    return list(sources)


@contextmanager
def greeter() -> Iterator[str]:
    """A server of the service; it answers with the bytes of the request, which have the same form."""
    server = grpc.server(ThreadPoolExecutor(2))
    method = grpc.unary_unary_rpc_method_handler(lambda request, context: request)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Greet": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def test_a_new_service_needs_its_contract_its_policy_and_its_entry(tmp_path: Path) -> None:
    needed = write_service(tmp_path)
    http = f"127.0.0.1:{systems.free_port()}"
    dead = f"127.0.0.1:{systems.free_port()}"
    peers = {f"{name.upper()}_ADDR": dead for name in systems.SERVICES if name != "gateway"}
    code = os.pathsep.join((str(tmp_path / "stubs"), CODE))
    with (
        greeter() as address,
        systems.one_service(
            tmp_path,
            "gateway",
            **peers,
            GREETER_ADDR=dead,
            HANSEI_GREETER_ADDR=address,
            HANSEI_HTTP_ADDRESS=http,
            PYTHONPATH=code,
            GATEWAY_API_TOKEN="token",
        ) as system,
        httpx.Client(base_url=f"http://{http}", headers={"Authorization": "Bearer token"}, timeout=60) as client,
        grpc.insecure_channel(system.address) as channel,
    ):
        answered = client.get("/v1/greetings/Ada")
        operation = client.get("/openapi.json").json()["paths"]["/v1/greetings/{name}"]["get"]
        listed = [service["name"] for service in client.get("/v1/services").json()["services"]]
        open_call: Any = channel.unary_unary
        call = open_call(f"/{SERVICE}/Greet")
        with pytest.raises(grpc.RpcError) as refused:
            call(b"\n\x03Ada", timeout=60)
        passed = call(b"\n\x03Ada", timeout=60, metadata=(("authorization", "Bearer token"),))
    assert (answered.status_code, answered.json()) == (200, {"name": "Ada"})
    assert (operation["summary"], operation["description"]) == ("Greets somebody", "Greets somebody. Politely.")
    assert "greeter" in listed
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert passed == b"\n\x03Ada"
    assert {name.split("/")[0] for name in needed} == {"protos", "deploy"}


def test_the_places_that_a_new_service_touches_are_at_most_six() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"^\d\. `([^`]+)`", text[text.index("**A new service**") :], re.MULTILINE)
    assert 3 <= len(paths) <= 6
    assert [path for path in paths if not (ROOT / path).exists()] == []
