"""A method that no line of the gateway knows is over HTTP, in the OpenAPI document and in the pass-through."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

from chassis import Peers, serve
from chassis.policy import MethodPolicy
from chassis.server.admission import Admission
from chassis.server.progress import CallsInProgress
from chassis.server.service import Service
from gateway.adapters.health import list_health
from gateway.adapters.methods import ContractMethods
from gateway.contract import Contract, get_kind, get_path
from gateway.http.app import create_app
from gateway.http.bindings import list_bindings
from gateway.rpc import passthrough

ROOT = Path(__file__).parents[2]
PROTO = """
syntax = "proto3";
package hansei.greeter.v1;
import "google/api/annotations.proto";
import "google/protobuf/timestamp.proto";

service GreeterService {
  rpc Greet(GreetRequest) returns (GreetResponse) {
    option (google.api.http) = {
      get: "/v1/people/{person.name}/greeting"
      additional_bindings { post: "/v1/greetings" body: "person" }
      additional_bindings { put: "/v1/greetings/{language}" body: "*" }
    };
  }
  rpc WatchGreetings(GreetRequest) returns (stream GreetResponse) {
    option (google.api.http) = { get: "/v1/people/{person.name}/greetings" };
  }
  rpc GreetAll(stream GreetRequest) returns (GreetResponse) {
    option (google.api.http) = { post: "/v1/greetings/all" body: "*" };
  }
  rpc Whisper(GreetRequest) returns (GreetResponse);
}
enum Mood { MOOD_UNSPECIFIED = 0; MOOD_HAPPY = 1; }
message Person {
  string name = 1;
  int32 age = 2;
  Mood mood = 3;
  repeated string titles = 4;
  google.protobuf.Timestamp born = 5;
  bool shy = 6;
}
message GreetRequest { Person person = 1; string language = 2; repeated int64 numbers = 3; }
message GreetResponse { repeated GreetRequest requests = 1; double warmth = 2; }
"""


def compile_proto(folder: Path, text: str) -> descriptor_pool.DescriptorPool:
    """Return a pool of descriptors with a proto and its imports."""
    (folder / "greeter.proto").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{ROOT / 'third_party'}"]
    command += ["--include_imports", f"--descriptor_set_out={folder / 'set'}", "greeter.proto"]
    subprocess.run(command, check=True, timeout=60)
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString((folder / "set").read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def contract_of(folder: Path, text: str = PROTO) -> Contract:
    service = compile_proto(folder, text).FindServiceByName("hansei.greeter.v1.GreeterService")
    policies = {get_path(method): MethodPolicy(10.0, "read", retry=False) for method in service.methods}
    return Contract({"greeter": [service]}, policies)


class Greeter:
    """Answers with its request."""

    def __init__(self, contract: Contract) -> None:
        (self.service,) = contract.services["greeter"]

    def handlers(self) -> Any:
        methods = {method.name: self._handler(method) for method in self.service.methods}
        return grpc.method_handlers_generic_handler(self.service.full_name, methods)

    def _handler(self, method: Any) -> Any:
        response = GetMessageClass(method.output_type)

        async def respond(request: Any, context: Any) -> Any:
            return response(requests=[request], warmth=0.1)

        async def many(request: Any, context: Any) -> AsyncIterator[Any]:
            for _ in range(2):
                yield response(requests=[request])

        async def of_all(requests: AsyncIterator[Any], context: Any) -> Any:
            return response(requests=[message async for message in requests])

        behaviour = of_all if method.client_streaming else many if method.server_streaming else respond
        return getattr(grpc, f"{get_kind(method)}_rpc_method_handler")(
            behaviour, GetMessageClass(method.input_type).FromString, response.SerializeToString
        )


@dataclass(frozen=True)
class GreeterGateway:
    """A gateway before a greeter: a client of its HTTP, and where its gRPC is."""

    client: httpx.AsyncClient
    address: str


@asynccontextmanager
async def front(contract: Contract) -> AsyncIterator[GreeterGateway]:
    backend = grpc.aio.server()
    backend.add_generic_rpc_handlers((Greeter(contract).handlers(),))
    port = backend.add_insecure_port("127.0.0.1:0")
    await backend.start()
    peers = Peers({"greeter": f"127.0.0.1:{port}"}, policies=contract.policies)
    app = create_app(
        contract,
        ContractMethods(peers.get_channel, contract, {}),
        partial(list_health, peers.get_channel, contract),
        admission=Admission("HTTP requests", 10, 1),
        streams=Admission("HTTP streams", 10, 1),
        progress=CallsInProgress(),
    )
    service = Service("gateway", passthrough.build_registrations(peers.get_channel, contract))
    transport = httpx.ASGITransport(app)
    try:
        async with (
            serve(service) as running,
            httpx.AsyncClient(transport=transport, base_url="http://gateway") as client,
        ):
            yield GreeterGateway(client, running.address)
    finally:
        await peers.close()
        await backend.stop(0)


ADA = {"name": "Ada/é", "age": 36, "mood": "MOOD_HAPPY", "titles": ["Dr", "Prof"], "born": "1815-12-10T00:00:00Z"}


async def test_a_new_method_takes_its_fields_from_path_query_and_body(tmp_path: Path) -> None:
    query: Any = {f"person.{name}": value for name, value in ADA.items() if name != "name"}
    query |= {"person.shy": "true", "language": "ja", "numbers": ["1", "9007199254740993"]}
    expected = {"person": ADA | {"shy": True}, "language": "ja", "numbers": ["1", "9007199254740993"]}
    async with front(contract_of(tmp_path)) as gateway:
        got = await gateway.client.get("/v1/people/Ada%2F%C3%A9/greeting", params=query)
        posted = await gateway.client.post("/v1/greetings?language=ja", json=ADA)
        put = await gateway.client.put("/v1/greetings/ja", json={"person": ADA})
        streamed = await gateway.client.get("/v1/people/Ada/greetings")
        both = await gateway.client.post("/v1/greetings/all", json=[{"language": "a"}, {"language": "b"}])
        absent = await gateway.client.post("/v1/whisper", json={})
    assert (got.status_code, got.json()) == (200, {"requests": [expected], "warmth": 0.1})
    whole = {"person": ADA | {"shy": False}, "language": "ja", "numbers": []}
    assert posted.json()["requests"] == put.json()["requests"] == [whole]
    assert [line for line in streamed.text.splitlines() if line.startswith("event: ")] == [
        "event: message",
        "event: message",
        "event: end",
    ]
    assert [item["language"] for item in both.json()["requests"]] == ["a", "b"]
    assert absent.status_code == 404  # it has no HTTP rule


@pytest.mark.parametrize(
    ("verb", "path", "body", "field"),
    [
        ("GET", "/v1/people/Ada/greeting?person.age=x", None, "age"),
        ("GET", "/v1/people/Ada/greeting?person.age=1&person.height=2", None, "person"),
        ("GET", "/v1/people/Ada/greeting?person=1", None, "person"),
        ("GET", "/v1/people/Ada/greeting?person.name=Bob", None, "person.name"),
        ("GET", "/v1/people/Ada/greeting?person.mood=MOOD_X", None, "person.mood"),
        ("GET", "/v1/people/Ada/greeting?person.born=yesterday", None, "person.born"),
        ("GET", "/v1/people/Ada/greeting?nothing=1", None, None),
        ("POST", "/v1/greetings", {"name": 5}, "person.name"),
        ("PUT", "/v1/greetings/ja", {"language": "en"}, "language"),
        ("PUT", "/v1/greetings/ja", {"person": {"titles": ["a", 5]}}, "person.titles"),
    ],
)
async def test_a_wrong_field_is_named(tmp_path: Path, verb: str, path: str, body: Any, field: str | None) -> None:
    async with front(contract_of(tmp_path)) as gateway:
        response = await gateway.client.request(verb, path, json=body)
    assert response.status_code == 400, response.text
    violations = response.json().get("violations", [])
    assert field is None or violations[0]["field"].startswith(field) or violations[0]["field"].endswith(field)


async def test_a_new_method_is_in_the_document(tmp_path: Path) -> None:
    async with front(contract_of(tmp_path)) as gateway:
        document = (await gateway.client.get("/openapi.json")).json()
    got, posted = (
        document["paths"]["/v1/people/{person.name}/greeting"]["get"],
        document["paths"]["/v1/greetings"]["post"],
    )
    assert (got["operationId"], posted["operationId"]) == ("GreeterService_Greet", "GreeterService_Greet_1")
    parameters = {item["name"]: (item["in"], item["schema"]) for item in got["parameters"]}
    assert parameters["person.name"] == ("path", {"type": "string"})
    assert parameters["person.mood"] == ("query", {"type": "string", "enum": ["MOOD_UNSPECIFIED", "MOOD_HAPPY"]})
    assert parameters["person.titles"] == ("query", {"type": "array", "items": {"type": "string"}})
    assert posted["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/hansei.greeter.v1.Person"
    }
    assert "hansei.greeter.v1.GreetResponse" in document["components"]["schemas"]


async def test_a_new_method_is_passed_through(tmp_path: Path) -> None:
    contract = contract_of(tmp_path)
    (service,) = contract.services["greeter"]
    method = service.methods_by_name["Whisper"]
    request = GetMessageClass(method.input_type)(language="ja")
    async with front(contract) as gateway, grpc.aio.insecure_channel(gateway.address) as channel:
        call: Any = channel.unary_unary(
            get_path(method),
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        response = await call(request)
    assert MessageToDict(response)["requests"] == [{"language": "ja"}]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('get: "/v1/{person.name=people/*}/greeting"', "variables must be names of scalar fields"),
        ('get: "/v1/{person}/greeting"', "variables must be names of scalar fields"),
        ('get: "/v1/{nobody}/greeting"', "variables must be names of scalar fields"),
        ('post: "/v1/greetings" body: "language"', "must be a message or bytes"),
        ('post: "/v1/greetings" body: "nobody"', "must be a message or bytes"),
        ('get: "/v1/greetings" response_body: "requests"', "no response_body"),
    ],
)
def test_a_rule_that_cannot_be_served_is_refused(tmp_path: Path, rule: str, message: str) -> None:
    before, _, rest = PROTO.partition('      get: "/v1/people/{person.name}/greeting"')
    text = before + rule + rest[rest.index("    };") :]
    with pytest.raises(ValueError, match=message):
        list_bindings(contract_of(tmp_path, text).list_methods())
