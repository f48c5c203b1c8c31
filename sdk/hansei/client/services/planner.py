"""The services of `hansei.planner.v1`."""

from __future__ import annotations

from hansei.client.calls import M, ServiceClient, bind_server_stream, bind_unary
from hansei.planner.v1 import generator_service_pb2 as generator
from hansei.planner.v1 import planner_service_pb2 as planner
from hansei.planner.v1 import tool_service_pb2 as tools


class GeneratorServiceClient(ServiceClient[M]):
    """Answer a query from the bullets in the request."""

    generate = bind_unary(generator.GenerateRequest, generator.GenerateResponse)


class PlannerServiceClient(ServiceClient[M]):
    """Create plans and execute them."""

    create_plan = bind_unary(planner.CreatePlanRequest, planner.CreatePlanResponse)
    refine_plan = bind_unary(planner.RefinePlanRequest, planner.RefinePlanResponse)
    estimate_complexity = bind_unary(planner.EstimateComplexityRequest, planner.EstimateComplexityResponse)
    draw_plan = bind_unary(planner.DrawPlanRequest, planner.DrawPlanResponse)
    run_plan = bind_unary(planner.RunPlanRequest, planner.RunPlanResponse)
    execute_plan = bind_server_stream(planner.ExecutePlanRequest, planner.ExecutePlanResponse)
    resume_plan = bind_server_stream(planner.ResumePlanRequest, planner.ResumePlanResponse)
    watch_execution = bind_server_stream(planner.WatchExecutionRequest, planner.WatchExecutionResponse)
    get_execution = bind_unary(planner.GetExecutionRequest, planner.GetExecutionResponse)
    list_executions = bind_unary(planner.ListExecutionsRequest, planner.ListExecutionsResponse)
    cancel_execution = bind_unary(planner.CancelExecutionRequest, planner.CancelExecutionResponse)
    add_information = bind_unary(planner.AddInformationRequest, planner.AddInformationResponse)
    create_webhook = bind_unary(planner.CreateWebhookRequest, planner.CreateWebhookResponse)
    list_webhooks = bind_unary(planner.ListWebhooksRequest, planner.ListWebhooksResponse)
    delete_webhook = bind_unary(planner.DeleteWebhookRequest, planner.DeleteWebhookResponse)
    verify_execution = bind_unary(planner.VerifyExecutionRequest, planner.VerifyExecutionResponse)
    submit_feedback = bind_unary(planner.SubmitFeedbackRequest, planner.SubmitFeedbackResponse)
    reset_thresholds = bind_unary(planner.ResetThresholdsRequest, planner.ResetThresholdsResponse)
    get_thresholds = bind_unary(planner.GetThresholdsRequest, planner.GetThresholdsResponse)


class ToolServiceClient(ServiceClient[M]):
    """Call a tool server as the planner does. The client needs the address of the tool server, not of the gateway."""

    list_tools = bind_unary(tools.ListToolsRequest, tools.ListToolsResponse)
    call_tool = bind_unary(tools.CallToolRequest, tools.CallToolResponse)
    find_outcome = bind_unary(tools.FindOutcomeRequest, tools.FindOutcomeResponse)
