"""`POST /workflow/run` (G-19 to G-21)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict
from starlette.requests import Request

from chassis.errors import HanseiError
from chassis.server import validation
from gateway.http.calls import ContractCalls
from gateway.http.problems import status_of
from gateway.orchestrator.workflow import DEFAULT_DATASET
from hansei.gateway.v1 import gateway_service_pb2 as gateway

RUN_WORKFLOW = gateway.DESCRIPTOR.services_by_name["GatewayService"].methods_by_name["RunWorkflow"]


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("half a surrogate pair is no text") from error
    return text


Text = Annotated[str, AfterValidator(_encodable)]


class WorkflowQuery(BaseModel):
    """A question, and the dataset that answers it."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "How do I make the first commit?", "dataset": "appworld"}]}
    )

    query: Text
    dataset: Text = DEFAULT_DATASET


class WorkflowAnswer(BaseModel):
    """The answer, and how many bullets it was given."""

    llm_response: str
    search_results_count: int


class Detail(BaseModel):
    """What went wrong."""

    detail: str


_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Detail, "description": "The dataset's name, or another value, breaks a rule."},
    403: {"model": Detail, "description": "The credential has not the scope read."},
    404: {"model": Detail, "description": "The dataset is not the caller's."},
    429: {"model": Detail, "description": "The credential has used up its calls."},
    502: {"model": Detail, "description": "The model gave no answer."},
    503: {"model": Detail, "description": "A service or the embedder does not answer."},
}


def routes(calls: ContractCalls) -> APIRouter:
    """Return the endpoint of the workflow."""
    router = APIRouter()

    @router.post("/workflow/run", response_model=WorkflowAnswer, responses=_ERRORS, summary="Answer from a playbook")
    async def run_workflow(body: WorkflowQuery, request: Request) -> Any:
        """Loads the playbook, searches it and answers in style plain."""
        try:
            message = gateway.RunWorkflowRequest(query=body.query, dataset=body.dataset)
            validation.check(message)
            response = gateway.RunWorkflowResponse.FromString(await calls.unary(RUN_WORKFLOW, request, message))
        except HanseiError as error:
            return JSONResponse({"detail": error.message}, status_of(error))
        return WorkflowAnswer(llm_response=response.llm_response, search_results_count=response.search_results_count)

    return router
