"""The HTTP application: the routes of the contract, endpoints of other shapes, and middleware."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import Request

from chassis.errors import HanseiError
from chassis.field_errors import describe_rule
from chassis.server.admission import Admission
from chassis.server.progress import CallsInProgress
from gateway.access.rpc.guard import AccessGuard
from gateway.console.files import Console
from gateway.contract import Contract, load_comments
from gateway.http import gateway_facts, hooks, reports, workflow
from gateway.http import otlp as otlp_routes
from gateway.http.auth import Authentication
from gateway.http.bindings import Binding, list_bindings
from gateway.http.calls import ContractCalls, Methods
from gateway.http.contract_routes import ContractRoutes
from gateway.http.middleware import HEALTH, RequestLimits
from gateway.http.openapi import ContractDocument
from gateway.http.problems import answer_hansei_error, answer_http_error, answer_unknown_error
from gateway.otlp.usecases.receive_exports import ExportReceiver

TITLE = "hansei"
VERSION = "1"
BODY_SECONDS = 30.0
DESCRIPTION = "Agents learn from their trajectories: learn, search, answer, check proposals."
TOKEN_SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key of this gateway (`hansei keys create`), or a token of its identity provider.",
}

HealthCheck = Callable[[], Awaitable[Sequence[object]]]
"""Returns name, state and detail of each service behind the gateway."""


class ServiceStatus(BaseModel):
    """A service behind the gateway and its health."""

    model_config = ConfigDict(
        from_attributes=True, json_schema_extra={"examples": [{"name": "curator", "state": "SERVING", "detail": ""}]}
    )

    name: str
    state: str
    """`SERVING`, `NOT_SERVING`, or `UNREACHABLE` with the reason in `detail`."""
    detail: str


class ServiceStatusList(BaseModel):
    """All services behind the gateway."""

    services: list[ServiceStatus]


def create_app(
    contract: Contract,
    methods: Methods,
    health: HealthCheck,
    *,
    admission: Admission,
    streams: Admission,
    progress: CallsInProgress,
    guard: AccessGuard | None = None,
    is_local: bool = False,
    otlp: ExportReceiver | None = None,
    get_grpc_address: Callable[[], str] = lambda: "",
    max_body_bytes: int = 16 * 1024 * 1024,
    body_seconds: float = BODY_SECONDS,
) -> FastAPI:
    """Return the application. With a `guard`, every request but health needs a credential (G-30). With `is_local`
    and without a guard, requests must name this machine as their host.

    `admission` limits requests, `streams` limits event streams; `progress` ends endless ones. With `otlp`, spans
    and events are received. `get_grpc_address` returns the address at which this process serves gRPC, once it does.
    Raises ValueError for an HTTP rule of the contract that cannot be served.
    """
    # The interactive pages of FastAPI load scripts from other hosts; `/docs` leads to a page of the console instead.
    app = FastAPI(title=TITLE, version=VERSION, docs_url=None, redoc_url=None, redirect_slashes=False)

    @app.get(HEALTH, tags=["health"], operation_id="Health_Check", summary="Check that the gateway responds")
    async def health_of_gateway() -> dict[str, str]:
        """Return ok, also when the services behind the gateway do not respond."""  # G-18
        return {"status": "ok"}

    @app.get(
        "/v1/services",
        response_model=ServiceStatusList,
        tags=["health"],
        operation_id="Health_ListServices",
        summary="Get the health of the services",
    )
    async def health_of_services() -> Any:
        """Query the standard health service of each service behind the gateway."""
        return {"services": await health()}

    bindings, authentication = list_bindings(contract.list_methods()), Authentication(guard, is_local=is_local)
    calls = ContractCalls(contract, methods, authentication)
    app.router.routes.extend(ContractRoutes(calls, streams, progress).build_routes(bindings))
    app.include_router(
        gateway_facts.build_routes(
            lambda: gateway_facts.describe_gateway(get_grpc_address(), shows_paths=not authentication.is_required)
        )
    )
    app.include_router(workflow.build_routes(calls))
    app.include_router(reports.build_routes(calls))
    app.include_router(hooks.build_routes(calls))
    if otlp is not None:
        app.include_router(otlp_routes.build_routes(otlp, authentication, max_body_bytes))
    app.add_exception_handler(HanseiError, answer_hansei_error)
    app.add_exception_handler(HTTPException, answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_body)
    app.add_exception_handler(Exception, answer_unknown_error)
    app.add_middleware(
        RequestLimits,
        authentication=authentication,
        admission=admission,
        max_body_bytes=max_body_bytes,
        body_seconds=body_seconds,
    )
    app.add_middleware(Console)
    app.openapi = lambda: _build_openapi(app, bindings, secured=authentication.is_required)  # type: ignore[method-assign]
    return app


async def _answer_invalid_body(request: Request, error: Exception) -> JSONResponse:
    """Answer 422 with field and rule (G-20), without the values of the request."""
    assert isinstance(error, RequestValidationError)
    return JSONResponse(
        {"detail": [{"type": item["type"], "loc": item["loc"], "msg": describe_rule(item)} for item in error.errors()]},
        422,
    )


def _build_openapi(app: FastAPI, bindings: Sequence[Binding], *, secured: bool) -> dict[str, Any]:
    """Return the OpenAPI document; it is built once."""
    if app.openapi_schema is None:
        contract = ContractDocument(bindings, load_comments())
        document = get_openapi(title=TITLE, version=VERSION, description=DESCRIPTION, routes=app.routes)
        document["paths"] |= contract.build_paths()
        document.setdefault("components", {}).setdefault("schemas", {}).update(contract.build_schemas())
        document["components"]["securitySchemes"] = {"token": TOKEN_SCHEME}
        document["security"] = [{"token": []}] if secured else [{}, {"token": []}]
        document["paths"][HEALTH]["get"]["security"] = []
        app.openapi_schema = document
    return app.openapi_schema
