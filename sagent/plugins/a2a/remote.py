"""Remote agents as tools, reached by the SDK's client in the version and transport that their card names first.

The token, and every request, only go to the host that the person has named. An agent's answer is the result of a call.
The cost of its work is unknown, and recorded as that in the ledger.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from uuid import uuid4

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.errors import A2AClientError
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_str, valid_text
from sagent.lib.text import one_line, printable
from sagent.lib.tls import system_context
from sagent.messages import Text
from sagent.plugins.a2a.task import PAUSED
from sagent.plugins.gateway.address import check_secrets
from sagent.tool import RunContext, ToolOutput, arguments_schema
from sagent.usage import Charge, Usage

ROLE = "a2a"
"""Whom the work of agents elsewhere is billed to."""
_CARD_TIMEOUT_SECONDS = 10.0  # for a card
_MAX_SILENCE_SECONDS = 600.0  # seconds of silence, after which a connection counts as lost
_PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds before a task is requested again
_MAX_DESCRIPTION_CHARS = 1_500
_FAILURES = (A2AError, A2AClientError, httpx.HTTPError, ValueError)
_PAUSED = PAUSED | {TaskState.TASK_STATE_AUTH_REQUIRED}


@asynccontextmanager
async def find_agents(named: Sequence[str], notices: list[str]) -> "AsyncGenerator[tuple[RemoteAgent, ...]]":
    """Find the reachable agents among "name=URL"; `notices` says why others are not."""
    tls = await asyncio.to_thread(system_context)
    async with AsyncExitStack() as stack:

        async def find(text: str) -> RemoteAgent | None:
            name, _, url = text.partition("=")
            token = os.environ.get(f"A2A_{name.upper().replace('-', '_')}_TOKEN")
            headers = {"authorization": f"Bearer {token}"} if token else {}
            timeout = httpx.Timeout(_CARD_TIMEOUT_SECONDS, read=_MAX_SILENCE_SECONDS)
            http = await stack.enter_async_context(httpx.AsyncClient(headers=headers, timeout=timeout, verify=tls))
            try:
                async with asyncio.timeout(_CARD_TIMEOUT_SECONDS):
                    return RemoteAgent(name, *await _client(url, http))
            except (*_FAILURES, TimeoutError) as error:
                notices.append(f"The agent {name} at {url} cannot be used: {_reason(error)}")
                return None

        found = await asyncio.gather(*map(find, named))
        yield tuple(each for each in found if each is not None)


async def _client(url: str, http: httpx.AsyncClient) -> tuple[AgentCard, Client]:
    """Return the agent's card and a client for it. Raises ValueError for a card that leads to another host."""
    card = await A2ACardResolver(http, url).get_agent_card()
    own = [each for each in card.supported_interfaces if _origin(each.url) == _origin(url)]
    if not own:
        others = ", ".join(sorted({printable(each.url) for each in card.supported_interfaces}))
        raise ValueError(f"its card leads to another address ({others or 'none'}), which would be sent its token")
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(own)
    config = ClientConfig(httpx_client=http, supported_protocol_bindings=["JSONRPC", "HTTP+JSON"])
    return card, ClientFactory(config).create(card)


def _origin(url: str) -> tuple[str, str, int | None]:
    address = httpx.URL(url)
    return address.scheme, address.host, address.port


class RemoteAgent:
    """A tool that gives a remote agent a task. Its effects are unknown: a policy asks as for a command."""

    parameters = arguments_schema("prompt", prompt={"type": "string"}, conversation={"type": "string"})

    def __init__(self, name: str, card: AgentCard, client: Client) -> None:
        self.name, self._own, self._client = f"a2a__{name}", name, client
        skills = "; ".join(f"{skill.name}: {skill.description}" for skill in card.skills)
        about = one_line(printable(f"{card.name}: {card.description} Skills: {skills}"), _MAX_DESCRIPTION_CHARS)
        self.description = (
            f"Have an agent elsewhere do something. It knows only what the prompt says. Returns its answer and a "
            f"conversation, with which it can be continued. What it says of itself: {about}"
        )
        self.bill: Callable[[Charge], None] = lambda _: None
        self._asking: dict[str, str] = {}  # by conversation, the task that waits for an answer

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Ask the remote agent. Raises ToolError without an answer; the effect of a task it got may be unknown."""
        prompt, conversation = as_str(arguments.get("prompt")), as_str(arguments.get("conversation"))
        check_secrets(prompt)
        message = Message(
            message_id=uuid4().hex,
            role=Role.ROLE_USER,
            parts=[Part(text=valid_text(prompt))],
            context_id=conversation,
            task_id=self._asking.pop(conversation, ""),
        )
        try:
            answer = await self._answer(message, run)
        finally:  # also after an abort: it may have worked
            self.bill(Charge(self._own, Usage(), role=ROLE, provider=ROLE, agent=run.agent))
        return self._output(answer)

    async def _answer(self, message: Message, run: RunContext) -> Task | Message:
        """Return the answer to a message. Raises ToolError."""
        name: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        reading = asyncio.create_task(self._read(message, run, name))
        try:
            await asyncio.wait([reading])
            if (said := reading.result()) is not None:
                return said
            if not name.done():
                raise ToolError(f"{self.name} did not answer. {_UNKNOWN}")
            return await self._settled(name.result())
        except _FAILURES as error:
            raise ToolError(f"{self.name} failed: {_reason(error)}. {_UNKNOWN}") from error
        except asyncio.CancelledError:
            await asyncio.shield(self._cancel(name, reading))
            raise

    async def _read(self, message: Message, run: RunContext, name: "asyncio.Future[str]") -> Message | None:
        """Show the stream: an answer without a task, else the task's id is in `name`. Raises the client's errors before
        there is a task."""
        try:
            async for response in self._client.send_message(SendMessageRequest(message=message)):
                match response.WhichOneof("payload"):
                    case "message":
                        return response.message
                    case "task":
                        task = response.task.id
                    case "status_update":
                        task = response.status_update.task_id
                        if said := _texts(response.status_update.status.message.parts):
                            run.progress(one_line(printable(said), 200))
                    case _:
                        task = response.artifact_update.task_id
                if not name.done():
                    name.set_result(task)
        except _FAILURES:
            if not name.done():
                raise
        return None

    async def _settled(self, task: str) -> Task:
        """Return the task once it has ended or asks something, because lost parts of a stream are not repeated."""
        failures = 0
        while True:
            try:
                found = await self._client.get_task(GetTaskRequest(id=task))
            except _FAILURES as error:
                if failures == len(_PAUSES):
                    raise ToolError(
                        f"The connection to {self.name} was lost while it worked: {_reason(error)}. {_UNKNOWN}"
                    ) from error
                failures += 1
            else:
                if found.status.state in _PAUSED:
                    return found
                failures = min(failures, 1)
            await asyncio.sleep(_PAUSES[max(failures - 1, 0)])

    async def _cancel(self, name: "asyncio.Future[str]", reading: "asyncio.Task[Message | None]") -> None:
        """Stop it with the call; a task that was only sent gets its name in a moment."""
        await asyncio.wait([name, reading], timeout=_CARD_TIMEOUT_SECONDS / 2, return_when=asyncio.FIRST_COMPLETED)
        reading.cancel()
        await asyncio.wait([reading])
        if name.done():
            with suppress(*_FAILURES, TimeoutError):
                async with asyncio.timeout(_CARD_TIMEOUT_SECONDS / 2):
                    await self._client.cancel_task(CancelTaskRequest(id=name.result()))

    def _output(self, answer: Task | Message) -> ToolOutput:
        if isinstance(answer, Message):
            return ToolOutput((Text(f"{_texts(answer.parts)}{_note(answer.context_id)}"),))
        state = answer.status.state
        said = [_texts(artifact.parts) for artifact in answer.artifacts]
        why = _texts(answer.status.message.parts)
        if state == TaskState.TASK_STATE_INPUT_REQUIRED:
            self._asking[answer.context_id] = answer.id
            said.append(f"It asks a question, and continues when you answer in this conversation: {why}")
        elif state != TaskState.TASK_STATE_COMPLETED:
            word = TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", " ")
            said.append(f"Its task ended as {word}. {why}".strip())
        elif not any(said):
            said.append(why or "It gave no answer.")
        fine = state in (TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_INPUT_REQUIRED)
        text = "\n\n".join(filter(None, said))
        return ToolOutput((Text(f"{text}{_note(answer.context_id)}"),), is_error=not fine)


_UNKNOWN = "What it did is unknown: find out before you call it again."


def _note(conversation: str) -> str:
    note = f"conversation {printable(conversation)}, " if conversation else ""
    return f"\n({note}cost unknown)"


def _texts(parts: Iterable[Part]) -> str:
    """Return the texts; other parts are only named."""
    return "".join(part.text or f"[{part.filename or part.media_type or 'data'}]" for part in parts)


def _reason(error: BaseException) -> str:
    return one_line(printable(str(error)), 300) or type(error).__name__
