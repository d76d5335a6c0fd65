"""A chat for tests of web front ends, served on loopback: its model is a script, its tools are few."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from sagent import Agent, Resources
from sagent.messages import ToolCall
from sagent.plugins.frontends import AGUIRequest, RunResponse, UIRequest, respond
from sagent.plugins.pauses import Pauses
from sagent.policy.permissions import PermissionPolicy
from sagent.testing import Line, ScriptedModel
from sagent.tool import ToolOutput
from sagent.tools import AgentSpawn, tool
from tests.waiting import SECONDS


@tool(effect="execute")
def deploy(host: str) -> str:
    """Deploy to a host."""
    return f"deployed to {host}"


@tool(effect="none")
def measure() -> ToolOutput:
    """Measure."""
    return ToolOutput.of("It is 3.", summary="3", diff="--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n")


@tool(effect="none")
def fail() -> str:
    """Fail."""
    raise LookupError("no such table")


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(f"c-{name}", name, arguments)


class Chat:
    """A server whose n-th request is answered by the n-th script; `agents` are those that it made."""

    def __init__(self, folder: Path, scripts: Sequence[Sequence[Line]]) -> None:
        self.folder, self.scripts, self.agents = folder, iter(scripts), list[Agent[object]]()
        self.url = ""

    async def answer(self, request: Request) -> RunResponse:
        body, pauses = await request.body(), Pauses()
        asked = (
            AGUIRequest.read(body)
            if request.url.path == "/ag-ui"
            else UIRequest.read(body, sdk=6 if request.url.path == "/api/6" else 7)
        )
        agent = Agent(
            ScriptedModel(*next(self.scripts)),
            tools=[deploy, measure, fail, AgentSpawn()],
            policy=PermissionPolicy("ask"),
            session=self.folder / asked.folder,
            resources=Resources(ask=pauses),
        )
        self.agents.append(agent)
        return respond(agent, asked, pauses=pauses)


@asynccontextmanager
async def served(folder: Path, *scripts: Sequence[Line]) -> AsyncGenerator[Chat]:
    """Serve a chat for the block."""
    chat = Chat(folder, scripts)
    app = Starlette(routes=[Route("/{path:path}", chat.answer, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    running = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(SECONDS):
            while not server.started:
                await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        chat.url = f"http://127.0.0.1:{port}"
        yield chat
    finally:
        server.should_exit = True
        await running
