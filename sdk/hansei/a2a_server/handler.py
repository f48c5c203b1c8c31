"""The methods of A2A, by the methods of the planner."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.types.a2a_pb2 import (
    TASK_STATE_COMPLETED,
    TASK_STATE_UNSPECIFIED,
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskStatusUpdateEvent,
)
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE, MAX_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    ExtendedAgentCardNotConfiguredError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from hansei.a2a_server.card import TEXT
from hansei.a2a_server.errors import build_field_error, report_errors
from hansei.a2a_server.tasks import STATES, build_listed_task, build_task, build_updates, is_finished
from hansei.client.client import AsyncClient
from hansei.client.errors import AlreadyExists, InvalidArgument, NotFound
from hansei.client.plan_questions import PlanQuestion, build_response, build_resumption
from hansei.planner.v1 import planner_pb2 as pb

MAX_TEXT = 10_000
"""Characters of a message; the limit of a query and of an answer in the contract."""
UNKNOWN_SIZE = -1
"""`total_size` of a list that does not fit on one page: the planner does not count executions."""
_ACCEPTED = (TEXT, "text/*", "*/*")

Event = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent


class PlanTasks(RequestHandler):
    """Answers requests of agents; a task is an execution, and its questions are the input that it requires."""

    def __init__(self, choose_client: Callable[[ServerCallContext], AsyncClient]) -> None:
        """`choose_client` returns the client of the caller of a request."""
        self._choose_client = choose_client

    @validate_request_params
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        """Start a task or continue one; return it when it requires input or has ended, or at once if asked to."""
        client = self._choose_client(context)
        execution = await self._start_or_continue(client, params, context)
        configuration = params.configuration
        if not configuration.return_immediately:
            async for _ in _follow(client, execution):
                pass
            execution = await _get_execution(client, execution.execution_id)
        return build_task(execution, _get_history_length(configuration))

    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Start a task or continue one; yield it and its updates until it requires input or has ended."""
        client = self._choose_client(context)
        execution = await self._start_or_continue(client, params, context)
        yield build_task(execution, _get_history_length(params.configuration))
        async for update in _follow(client, execution):
            yield update

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Yield a task and its updates until it requires input or has ended."""
        _check_tenant(context)
        client = self._choose_client(context)
        execution = await _get_execution(client, params.id)
        if is_finished(execution):
            raise UnsupportedOperationError(f"task {params.id} has ended, so it has no more updates: use GetTask")
        yield build_task(execution)
        async for update in _follow(client, execution):
            yield update

    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """Return a task."""
        _check_tenant(context)
        execution = await _get_execution(self._choose_client(context), params.id)
        return build_task(execution, _get_history_length(params))

    @validate_request_params
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return a page of tasks, newest first. A page with fewer tasks than its size need not be the last one."""
        _check_tenant(context)
        size = params.page_size if params.HasField("page_size") else DEFAULT_LIST_TASKS_PAGE_SIZE
        if not 1 <= size <= MAX_LIST_TASKS_PAGE_SIZE:
            raise build_field_error("page_size", f"must be 1 to {MAX_LIST_TASKS_PAGE_SIZE}, not {size}")
        client, length = self._choose_client(context), _get_history_length(params)
        if params.context_id:
            return await _list_tasks_of_context(client, params, size)
        filters: dict[str, Any] = {}
        if params.status not in (TASK_STATE_UNSPECIFIED, TASK_STATE_COMPLETED):
            statuses = [status for status, state in STATES.items() if state == params.status]
            if not statuses:
                return ListTasksResponse(page_size=size)
            filters["status"] = statuses[0]
        with report_errors():
            page = await client.planner.list_executions(page_size=size, page_token=params.page_token, **filters)
        found = [
            summary
            for summary in page.executions
            if params.status in (TASK_STATE_UNSPECIFIED, STATES[summary.status])
            and summary.update_time.ToNanoseconds() >= params.status_timestamp_after.ToNanoseconds()
        ]
        if params.include_artifacts:
            executions = await asyncio.gather(*(_get_execution(client, summary.execution_id) for summary in found))
            tasks = [build_task(execution, length) for execution in executions]
        else:
            tasks = [build_listed_task(summary, length) for summary in found]
        is_complete = not params.page_token and not page.next_page_token
        return ListTasksResponse(
            tasks=tasks,
            next_page_token=page.next_page_token,
            page_size=size,
            total_size=len(tasks) if is_complete else UNKNOWN_SIZE,
        )

    @validate_request_params
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """Cancel a task; a task that was cancelled before is returned."""
        _check_tenant(context)
        client = self._choose_client(context)
        execution = await _get_execution(client, params.id)
        if not is_finished(execution):
            with report_errors():
                response = await client.planner.cancel_execution(execution_id=params.id, reason="cancelled over A2A")
            async for _ in _follow(client, response.execution):
                pass
            execution = await _get_execution(client, params.id)
        if execution.status != pb.EXECUTION_STATUS_CANCELLED:
            raise TaskNotCancelableError(f"task {params.id} has ended and cannot be cancelled")
        return build_task(execution)

    @validate_request_params
    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Send the changes of a task from now on to a URL."""
        _check_tenant(context)
        client = self._choose_client(context)
        execution = await _get_execution(client, params.task_id)
        return await _create_webhook(client, execution.execution_id, params, after_sequence=execution.sequence)

    @validate_request_params
    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Return the configuration with an id, without its secrets."""
        _check_tenant(context)
        for config in await _list_webhooks(self._choose_client(context), params.task_id):
            if config.id == params.id:
                return config
        raise TaskNotFoundError(f"task {params.task_id!r} has no push notification configuration {params.id!r}")

    @validate_request_params
    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return the configurations of a task, at most 10, on one page, without their secrets."""
        _check_tenant(context)
        configs = await _list_webhooks(self._choose_client(context), params.task_id)
        return ListTaskPushNotificationConfigsResponse(configs=configs)

    @validate_request_params
    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Send nothing more to the URL of a configuration; an unknown one is no error."""
        _check_tenant(context)
        client = self._choose_client(context)
        await _get_execution(client, params.task_id)
        with report_errors():
            await client.planner.delete_webhook(execution_id=params.task_id, webhook_id=params.id)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Refuse: there is only the public card."""
        raise ExtendedAgentCardNotConfiguredError

    async def _start_or_continue(
        self, client: AsyncClient, params: SendMessageRequest, context: ServerCallContext
    ) -> pb.Execution:
        """Start the execution for a message, or pass the message to its execution. Return the execution."""
        _check_tenant(context)
        _check_configuration(params.configuration)
        message = params.message
        text = _read_text(message)
        config = params.configuration
        push_config = config.task_push_notification_config if config.HasField("task_push_notification_config") else None
        if message.task_id:
            return await _continue(client, message, text, push_config)
        if message.context_id:
            raise build_field_error(
                "message.context_id", f"must be empty without a task: a context is one task, not {message.context_id!r}"
            )
        return await _start(client, message, text, push_config)


async def _start(
    client: AsyncClient, message: Message, text: str, push_config: TaskPushNotificationConfig | None
) -> pb.Execution:
    """Make and start the plan for a message. Its id is a digest of the message: a repeated one finds its execution."""
    collection = _get_collection_name(message)
    with report_errors():
        plan = (await client.planner.create_plan(query=text, collection=collection)).plan
        digest = hashlib.sha256("\0".join((message.message_id, text, collection)).encode()).hexdigest()
        prefix, separator, own = plan.plan_id.rpartition("-")
        plan.plan_id = prefix + separator + digest[: len(own)]
        if push_config is not None:  # before the plan runs: a message with a wrong URL starts nothing
            await _create_webhook(client, plan.plan_id, push_config, validate_only=True)
        with suppress(AlreadyExists):  # the same message came before
            await _await_first(client.planner.execute_plan(plan=plan))
        if push_config is not None:
            await _create_webhook(client, plan.plan_id, push_config)
    return await _get_execution(client, plan.plan_id)


async def _continue(
    client: AsyncClient, message: Message, text: str, push_config: TaskPushNotificationConfig | None
) -> pb.Execution:
    """Answer the question of a task with a message, or add its text as information to a task that works."""
    execution = await _get_execution(client, message.task_id)
    if message.context_id not in ("", message.task_id):
        raise build_field_error(
            "message.context_id", f"must be empty or the id of the task, {message.task_id}, not {message.context_id!r}"
        )
    if is_finished(execution):
        raise UnsupportedOperationError(f"task {message.task_id} has ended: send the message without a task")
    if push_config is not None:
        await _create_webhook(client, message.task_id, push_config, after_sequence=execution.sequence)
    with report_errors():
        if execution.HasField("intervention_request"):
            response = build_response(execution.intervention_request, text)
            resumption = build_resumption(PlanQuestion.from_execution(execution), response)
            await _await_first(client.planner.resume_plan(**resumption))
        else:
            await client.planner.add_information(execution_id=message.task_id, text=text)
    return await _get_execution(client, message.task_id)


async def _create_webhook(
    client: AsyncClient, task_id: str, config: TaskPushNotificationConfig, **options: Any
) -> TaskPushNotificationConfig:
    """Create the webhook of a configuration, and return the configuration with its ids."""
    if config.task_id not in ("", task_id):
        raise build_field_error("task_id", f"must be empty or the id of the task, {task_id}, not {config.task_id!r}")
    authentication = config.authentication
    authorization = f"{authentication.scheme} {authentication.credentials}" if authentication.credentials else ""
    with report_errors():
        response = await client.planner.create_webhook(
            execution_id=task_id,
            webhook_id=config.id,
            url=config.url,
            token=config.token,
            authorization=authorization.strip(),
            **options,
        )
    created = TaskPushNotificationConfig()
    created.CopyFrom(config)
    created.task_id, created.id = task_id, response.webhook.webhook_id
    return created


async def _list_webhooks(client: AsyncClient, task_id: str) -> list[TaskPushNotificationConfig]:
    await _get_execution(client, task_id)
    with report_errors():
        webhooks = (await client.planner.list_webhooks(execution_id=task_id)).webhooks
    return [TaskPushNotificationConfig(task_id=task_id, id=item.webhook_id, url=item.url) for item in webhooks]


async def _await_first(events: AsyncIterator[Any]) -> None:
    """Wait for the first event of an execution, which continues when its stream is closed."""
    async with aclosing(events) as open_events:  # type: ignore[type-var]
        await anext(open_events, None)


async def _follow(
    client: AsyncClient, execution: pb.Execution
) -> AsyncGenerator[TaskStatusUpdateEvent | TaskArtifactUpdateEvent]:
    """Yield the updates after the state in `execution`, until the task requires input or has ended."""
    if execution.status != pb.EXECUTION_STATUS_RUNNING:
        return
    with report_errors():
        events = client.planner.watch_execution(
            execution_id=execution.execution_id, after_sequence=execution.sequence, until_paused=True
        )
        async for response in events:
            for update in build_updates(response.event):
                yield update


async def _get_execution(client: AsyncClient, task_id: str) -> pb.Execution:
    """Return an execution. Raises TaskNotFoundError, also for an id that no execution can have."""
    try:
        with report_errors():
            execution: pb.Execution = (await client.planner.get_execution(execution_id=task_id)).execution
    except Exception as error:
        if isinstance(error.__cause__, NotFound | InvalidArgument):
            raise TaskNotFoundError(f"task {task_id!r} does not exist") from error
        raise
    return execution


async def _list_tasks_of_context(client: AsyncClient, params: ListTasksRequest, size: int) -> ListTasksResponse:
    """Return the only task of a context, if the other filters match it."""
    try:
        execution = await _get_execution(client, params.context_id)
    except TaskNotFoundError:
        return ListTasksResponse(page_size=size)
    task = build_task(execution, _get_history_length(params), with_artifacts=params.include_artifacts)
    after = params.status_timestamp_after.ToNanoseconds()
    if (
        params.status not in (TASK_STATE_UNSPECIFIED, task.status.state)
        or task.status.timestamp.ToNanoseconds() < after
    ):
        return ListTasksResponse(page_size=size)
    return ListTasksResponse(tasks=[task], page_size=size, total_size=1)


def _check_tenant(context: ServerCallContext) -> None:
    if context.tenant:
        raise build_field_error("tenant", f"must be empty: the token names the tenant, not {context.tenant!r}")


def _check_configuration(configuration: SendMessageConfiguration) -> None:
    modes = configuration.accepted_output_modes
    if modes and not any(mode in _ACCEPTED for mode in modes):
        raise ContentTypeNotSupportedError(
            f"configuration.accepted_output_modes: must contain {TEXT}, not {', '.join(modes)}"
        )


def _read_text(message: Message) -> str:
    """Return the text of a message. Raises InvalidParamsError, ContentTypeNotSupportedError."""
    for number, part in enumerate(message.parts):
        kind = part.WhichOneof("content")
        if kind != "text":
            raise ContentTypeNotSupportedError(f"message.parts[{number}]: must contain a text, not {kind or 'nothing'}")
        if part.media_type not in ("", TEXT):
            raise ContentTypeNotSupportedError(
                f"message.parts[{number}].media_type: must be {TEXT}, not {part.media_type!r}"
            )
    text = "\n".join(part.text for part in message.parts).strip()
    if not 1 <= len(text) <= MAX_TEXT:
        raise build_field_error("message.parts", f"must have 1 to {MAX_TEXT} characters of text, not {len(text)}")
    return text


def _get_collection_name(message: Message) -> str:
    if "collection" not in message.metadata:
        return ""
    collection = message.metadata["collection"]
    if not isinstance(collection, str):
        raise build_field_error("message.metadata.collection", "must be a string")
    return collection


def _get_history_length(params: SendMessageConfiguration | GetTaskRequest | ListTasksRequest) -> int | None:
    return params.history_length if params.HasField("history_length") else None
