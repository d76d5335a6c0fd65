"""An MCP server at standard input and output that answers every line: the SDK is silent about those it cannot read."""

from collections.abc import Mapping
from typing import cast

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError


async def serve_stdio(server: MCPServer) -> None:
    """Serve until the end of standard input."""
    lowlevel = server._lowlevel_server  # noqa: SLF001 -- MCPServer gives no streams
    async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as group:
        accept, accepted = create_context_streams[SessionMessage | Exception](0)
        answers = outgoing.clone()

        async def pass_on() -> None:
            async with accept, answers:
                async for each in incoming:
                    if isinstance(each, SessionMessage):
                        await accept.send(each)
                    elif (answer := _refusal(each)) is not None:
                        await answers.send(SessionMessage(answer))

        group.start_soon(pass_on)
        await lowlevel.run(accepted, outgoing, lowlevel.create_initialization_options())


def _refusal(error: Exception) -> JSONRPCError | None:
    """Return the answer to a line that is no message; None to an empty one. JSON-RPC 2.0, 5.1."""
    code, number, text = INVALID_REQUEST, None, "The line is not a message of JSON-RPC 2.0."
    for each in error.errors() if isinstance(error, ValidationError) else ():
        found: object = each["input"]
        if each["type"] == "json_invalid":
            if not str(found).strip():
                return None
            code, text = PARSE_ERROR, f"The line is not JSON: {each['msg']}."
        elif isinstance(found, Mapping):
            given = cast("Mapping[str, object]", found).get("id")
            number = given if isinstance(given, str | int) and not isinstance(given, bool) else number
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=text))
