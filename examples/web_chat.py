"""A chat behind a web page, in the AI SDK's protocol (`useChat`) and in AG-UI; the page is asked before a call is made.

python examples/web_chat.py     (asks itself once; with a port it serves until it is stopped)
"""

import asyncio
import sys
from pathlib import Path

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from sagent import Agent, Resources, model, tool
from sagent.plugins.frontends import AGUIRequest, RunResponse, UIRequest, respond
from sagent.plugins.functions import FunctionModel
from sagent.plugins.pauses import Pauses
from sagent.policy.permissions import PermissionPolicy

CHATS = Path("chats")  # a session for each conversation


def answer(request: model.Request) -> str:
    return f"You asked: {request.messages[-1].content}"


@tool(effect="execute")
def deploy(host: str) -> str:
    """Deploy to a host."""
    return f"deployed to {host}"


async def chat(request: Request) -> RunResponse:
    """Make one run of a request. Hanging up ends it; an answer to a call that waits comes with the next request."""
    read = AGUIRequest.read if request.url.path == "/ag-ui" else UIRequest.read
    asked, pauses = read(await request.body()), Pauses()  # your own check of who may read asked.chat goes here
    agent = Agent(
        FunctionModel("example/echo", answer),  # "anthropic/claude-sonnet-4-6" is the real thing
        tools=[deploy],
        policy=PermissionPolicy("ask"),
        session=CHATS / asked.folder,
        resources=Resources(ask=pauses),
    )
    return respond(agent, asked, pauses=pauses)


app = Starlette(routes=[Route("/api/chat", chat, methods=["POST"]), Route("/ag-ui", chat, methods=["POST"])])


async def ask_itself() -> None:
    said = {"id": "c1", "messages": [{"role": "user", "parts": [{"type": "text", "text": "What now?"}]}]}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
        print((await client.post("/api/chat", json=said)).text.strip())


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1])) if sys.argv[1:] else asyncio.run(ask_itself())
