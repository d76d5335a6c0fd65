"""`sagent a2a serve` in this process, and the SDK's clients of it."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types.a2a_pb2 import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
)

from sagent.cli.settings import load_settings
from sagent.plugins.a2a.app import make_app, make_caller
from sagent.plugins.a2a.card import Described, make_card
from sagent.plugins.hosting.opening import opening_of, state_of
from tests.listening import app_at

TOKEN = "token-of-the-caller"
MODEL = "anthropic/claude-sonnet-4-6"


def said(text: str = "", *parts: Part, **more: str) -> Message:
    """A message of a client, with an id of its own where it is given none."""
    texts = [Part(text=text)] if text else []
    return Message(**{"message_id": uuid4().hex, "role": Role.ROLE_USER, "parts": [*texts, *parts], **more})


def state(task: Task) -> str:
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()


def text_of(task: Task) -> str:
    """The answer."""
    return "".join(part.text for each in task.artifacts if each.artifact_id == "answer" for part in each.parts)


def why(task: Task) -> str:
    return "".join(part.text for part in task.status.message.parts)


@dataclass
class Peer:
    """A caller: the SDK's client, over one transport or the other."""

    url: str
    http: httpx.AsyncClient

    async def client(self, transport: str = "JSONRPC", *, streaming: bool = True, version: str = "") -> Client:
        card = await A2ACardResolver(self.http, self.url).get_agent_card()
        if version:
            others = [each for each in card.supported_interfaces if each.protocol_version == version]
            del card.supported_interfaces[:]
            card.supported_interfaces.extend(others)
        config = ClientConfig(streaming=streaming, httpx_client=self.http, supported_protocol_bindings=[transport])
        return ClientFactory(config).create(card)

    async def send(self, message: Message, transport: str = "JSONRPC", *, at_once: bool = False) -> Task:
        """The task once it has ended or asks something, or as soon as it is taken."""
        client = await self.client(transport, streaming=False)
        request = SendMessageRequest(
            message=message, configuration=SendMessageConfiguration(return_immediately=at_once)
        )
        responses = [response async for response in client.send_message(request)]
        return responses[-1].task

    async def stream(self, message: Message, transport: str = "JSONRPC") -> list[StreamResponse]:
        client = await self.client(transport)
        return [response async for response in client.send_message(SendMessageRequest(message=message))]

    async def get(self, task: str) -> Task:
        return await (await self.client()).get_task(GetTaskRequest(id=task))

    async def until(self, task: str, *states: str) -> Task:
        async with asyncio.timeout(60):
            while state(found := await self.get(task)) not in states:
                await asyncio.sleep(0.05)
        return found


@asynccontextmanager
async def a2a_served(
    cwd: Path, users: Sequence[str] = ("",), push_to: Sequence[str] = (), **flags: object
) -> AsyncGenerator[list[Peer]]:
    """A server for a directory, and a peer for each user."""
    given = {"model": MODEL, "cwd": str(cwd), **flags}
    settings = load_settings(given)
    bound = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    callers = {
        f"{name}{TOKEN}": make_caller(opening_of(given, name), state_of(settings, name), settings.cwd, push_to)
        for name in users
    }
    app = make_app(make_card(Described(), url), callers, "127.0.0.1")
    async with app_at(bound, app, list(callers.values())), AsyncExitStack() as stack:
        clients = [httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=30) for token in callers]
        yield [Peer(url, await stack.enter_async_context(client)) for client in clients]
