"""The endpoint `POST /workflow/run` (G-19 to G-21)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict
from starlette.requests import Request

from chassis.errors import HanseiError
from chassis.server import validation
from gateway.http.calls import ContractCalls
from gateway.http.problems import get_http_status
from gateway.orchestrator.workflow import DEFAULT_DATASET
from hansei.gateway.v1 import gateway_service_pb2 as gateway

RUN_WORKFLOW = gateway.DESCRIPTOR.services_by_name["GatewayService"].methods_by_name["RunWorkflow"]


def _check_encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("must not contain a lone surrogate") from error
    return text


Text = Annotated[str, AfterValidator(_check_encodable)]


class WorkflowQuery(BaseModel):
    """A question, and the dataset to answer it from."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "How do I make the first commit?", "dataset": "appworld"}]}
    )

    query: Text
    dataset: Text = DEFAULT_DATASET


class WorkflowAnswer(BaseModel):
    """The answer, and the number of bullets in its prompt."""

    llm_response: str
    search_results_count: int


class ErrorDetail(BaseModel):
    """An error."""

    detail: str


_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorDetail, "description": "The dataset's name, or another value, breaks a rule."},
    403: {"model": ErrorDetail, "description": "The credential lacks the scope read."},
    404: {"model": ErrorDetail, "description": "The dataset does not exist for the caller."},
    429: {"model": ErrorDetail, "description": "The credential has reached its limit of calls."},
    502: {"model": ErrorDetail, "description": "The model call failed."},
    503: {"model": ErrorDetail, "description": "A service or the embedding model does not respond."},
}


def build_routes(calls: ContractCalls) -> APIRouter:
    """Return the endpoint of the workflow."""
    router = APIRouter()

    @router.post(
        "/workflow/run",
        response_model=WorkflowAnswer,
        responses=_ERRORS,
        tags=["GatewayService"],
        operation_id="GatewayService_RunWorkflow",
        summary="Answer from a playbook",
    )
    async def run_workflow(body: WorkflowQuery, request: Request) -> Any:
        """Load the playbook, search it and answer in style plain."""
        try:
            message = gateway.RunWorkflowRequest(query=body.query, dataset=body.dataset)
            validation.check(message)
            response = gateway.RunWorkflowResponse.FromString(await calls.unary(RUN_WORKFLOW, request, message))
        except HanseiError as error:
            return JSONResponse({"detail": error.message}, get_http_status(error))
        return WorkflowAnswer(llm_response=response.llm_response, search_results_count=response.search_results_count)

    return router
