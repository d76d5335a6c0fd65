"""Calls, results and scripted answers that tests of every part are written with."""

import asyncio
from collections.abc import Awaitable, Callable

from sagent.lib.json import json_freeze_object
from sagent.messages import Message, Text, ToolCall, ToolResult, assistant
from sagent.model import Request

Step = str | tuple[ToolCall, ...] | Exception
Player = Callable[[Request], Step | Awaitable[Step]]


def call(call_id: str, tool: str, /, **arguments: object) -> ToolCall:
    """A call of a tool."""
    return ToolCall(call_id, tool, json_freeze_object({**arguments}))


def calls(*parts: ToolCall, text: str = "") -> Message:
    """A reply that asks for calls."""
    return assistant(text, *parts, stop="tool_use")


def result(call_id: str, text: str = "ok", *, failed: bool = False) -> ToolResult:
    """What a call came to."""
    return ToolResult(call_id, (Text(text),), failed)


def last(request: Request) -> str:
    """The text of a request's last message, "-" where it has none."""
    return request.messages[-1].content or "-"


def echo(request: Request) -> str:
    """Answers what was asked, in angle brackets."""
    return f"<{last(request)}>"


async def forever(request: Request) -> str:
    """Answers long after every test is over."""
    del request
    await asyncio.sleep(60)
    return "never"


def in_turn(*steps: Step | Player) -> Player:
    """Answers one request after the other."""
    left = list(steps)

    def play(request: Request) -> Step | Awaitable[Step]:
        step = left.pop(0)
        return step(request) if callable(step) else step

    return play
