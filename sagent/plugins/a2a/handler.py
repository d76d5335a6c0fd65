"""The methods of the protocol, for the caller of the request's token."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types.a2a_pb2 import (
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
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InvalidParamsError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from a2a.utils.task import (
    ListTasksCursor,
    apply_history_length,
    decode_list_tasks_cursor,
    encode_list_tasks_cursor,
    validate_history_length,
    validate_page_size,
)
from google.protobuf.message import Message as ProtoMessage
from starlette.requests import Request

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object, as_str
from sagent.plugins.a2a.contexts import Contexts
from sagent.plugins.a2a.push import Receivers
from sagent.plugins.a2a.task import ENDED, Update
from sagent.plugins.hosting.door import USER

_PAGE = 50  # tasks, by default
_CALLER = "caller"


@dataclass(frozen=True, slots=True)
class Caller:
    """Owner of a token: their tasks, and the receivers that are notified of these."""

    contexts: Contexts
    receivers: Receivers

    async def aclose(self) -> None:
        await self.contexts.aclose()
        await self.receivers.aclose()


class CallerBuilder(DefaultServerCallContextBuilder):
    """Puts the caller that the door has found into the context of a request."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[_CALLER] = request.scope[USER]
        return context


def _caller(context: ServerCallContext, params: ProtoMessage) -> Caller:
    """Return the caller. Raises InvalidParamsError if a required field is missing."""
    validate_proto_required_fields(params)
    found = context.state[_CALLER]
    assert isinstance(found, Caller)  # everyone needs a token
    return found


def _receivers(context: ServerCallContext, params: ProtoMessage, task: str) -> Receivers:
    """Return the receivers of the caller, who must own the task. Raises A2AError."""
    caller = _caller(context, params)
    caller.contexts.session(task)
    return caller.receivers


def _is_old(context: ServerCallContext) -> bool:
    """Return True if a request is of version 0.3: over REST its streams cannot answer with an error."""
    headers = as_object(context.state.get("headers"))
    return not as_str(headers.get("a2a-version")).startswith("1")


class Handler(RequestHandler):
    """Answers requests, of both versions of the protocol and over both transports."""

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        validate_history_length(params.configuration)
        contexts, name = await self._send(params, context)
        task = contexts.running(name)
        if task is not None and not params.configuration.return_immediately:
            async for _ in task.follow():
                pass
        shown = (await contexts.show(name))[name] if task is None or task.ended.is_set() else task.snapshot()
        return apply_history_length(shown, params.configuration)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Update]:
        validate_history_length(params.configuration)
        contexts, name = await self._send(params, context)
        if (task := contexts.running(name)) is None:  # repeated, and done by now
            yield (await contexts.show(name))[name]
            return
        async with aclosing(task.follow()) as updates:
            async for update in updates:
                yield apply_history_length(update, params.configuration) if isinstance(update, Task) else update

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Update]:
        contexts = _caller(context, params).contexts
        if (task := contexts.running(params.id)) is None:
            shown = (await contexts.show(params.id))[params.id]
            if shown.status.state in ENDED and not _is_old(context):
                why = "".join(f": {part.text}" for part in shown.status.message.parts)
                raise UnsupportedOperationError(
                    f"Task {params.id} has ended, as {TaskState.Name(shown.status.state)}{why}. "
                    "It will not change any more: get the task for its result."
                )
            yield shown
            return
        async with aclosing(task.follow()) as updates:
            async for update in updates:
                yield update

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        validate_history_length(params)
        return apply_history_length((await _caller(context, params).contexts.show(params.id))[params.id], params)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        validate_history_length(params)
        size = _PAGE
        if params.HasField("page_size"):
            validate_page_size(params.page_size)
            size = params.page_size
        contexts = _caller(context, params).contexts
        keys = sorted(_wanted(await contexts.statuses(params.context_id), params), reverse=True)
        total = len(keys)
        if params.page_token:
            if (cursor := decode_list_tasks_cursor(params.page_token)) is None:
                raise InvalidParamsError("pageToken is not one of this server's.")
            keys = [key for key in keys if key < cursor.sort_key()]
        page, token = keys[:size], ""
        if len(keys) > size:
            token = encode_list_tasks_cursor(ListTasksCursor(*page[-1][1:]))
        shown = await contexts.show(*(name for *_, name in page))
        tasks = [apply_history_length(shown[name], params) for *_, name in page]
        for task in tasks if not params.include_artifacts else ():
            task.ClearField("artifacts")
        return ListTasksResponse(tasks=tasks, next_page_token=token, page_size=size, total_size=total)

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        return await _caller(context, params).contexts.cancel(params.id)

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        return await self._notify(_caller(context, params), params.task_id, params)

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        return _receivers(context, params, params.task_id).get(params.task_id, params.id)

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        return ListTaskPushNotificationConfigsResponse(
            configs=_receivers(context, params, params.task_id).all(params.task_id)
        )

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        _receivers(context, params, params.task_id).delete(params.task_id, params.id)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        raise ExtendedAgentCardNotConfiguredError("There is only the public card.")

    async def _send(self, params: SendMessageRequest, context: ServerCallContext) -> tuple[Contexts, str]:
        """Take a message: the caller's contexts and the id of its task."""
        caller = _caller(context, params)
        configuration = params.configuration
        pushes = configuration.HasField("task_push_notification_config")
        if pushes:  # before any work
            await caller.receivers.check(configuration.task_push_notification_config)
        name = await caller.contexts.send(params.message)
        if pushes:
            await self._notify(caller, name, configuration.task_push_notification_config)
        return caller.contexts, name

    async def _notify(
        self, caller: Caller, task: str, config: TaskPushNotificationConfig
    ) -> TaskPushNotificationConfig:
        """Send a receiver the task's state, and every change."""
        kept = await caller.receivers.set(caller.contexts.session(task), task, config)
        caller.receivers.notify((await caller.contexts.show(task))[task])
        return kept


def _wanted(statuses: Mapping[str, TaskStatus], params: ListTasksRequest) -> list[tuple[bool, int, str]]:
    """Return the requested tasks by the cursor's keys: by time, then by id."""
    since = params.status_timestamp_after.ToNanoseconds() if params.HasField("status_timestamp_after") else 0
    return [
        (True, status.timestamp.ToNanoseconds(), name)
        for name, status in statuses.items()
        if params.status in (TaskState.TASK_STATE_UNSPECIFIED, status.state)
        and status.timestamp.ToNanoseconds() >= since
    ]
