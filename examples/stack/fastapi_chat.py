"""A chat behind FastAPI, for `useChat` of the AI SDK. Needs `pip install fastapi`; see docs/stack.md.

python examples/stack/fastapi_chat.py           (asks itself once; `uvicorn fastapi_chat:app` serves it)
"""

import asyncio
from pathlib import Path

import httpx2
from fastapi import FastAPI, HTTPException, Request

from sagent import Agent, UsageError
from sagent.errors import SessionBusy
from sagent.plugins.frontends import RunResponse, UIRequest, respond
from sagent.testing import ScriptedModel

app = FastAPI()


@app.post("/api/chat")
async def chat(request: Request) -> RunResponse:
    try:
        asked = UIRequest.read(await request.body())
        agent = Agent(ScriptedModel("It is open from nine to five."), session=Path("chats") / asked.folder)
        return respond(agent, asked)
    except SessionBusy as error:
        raise HTTPException(409, "this conversation is being answered") from error
    except UsageError as error:
        raise HTTPException(400, str(error)) from error


async def ask_itself() -> None:
    said = {"id": "c1", "messages": [{"role": "user", "parts": [{"type": "text", "text": "When are you open?"}]}]}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
        print((await client.post("/api/chat", json=said)).text.strip())
        print((await client.post("/api/chat", json={})).json())


if __name__ == "__main__":
    asyncio.run(ask_itself())
