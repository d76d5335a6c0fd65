"""The odd server as a fixture would have it, and one call after another of a tool of it."""

import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

from sagent.errors import ToolError
from sagent.lib.json import json_freeze_object
from sagent.messages import Text
from sagent.plugins.mcp import Host, McpTool, Servers
from sagent.plugins.mcp.server import McpServer
from sagent.tool import RunContext, Workspace
from sagent.tools.ask import Question

PATIENCE = 60.0  # seconds that a server may take to start on a busy machine
SERVER = Path(__file__).with_name("odd_server.py")


class Odd:
    """A server whose offer is a file, and the person who is asked: `answers` are taken one after the other, `asked` is
    what was put to them."""

    def __init__(self, folder: Path, **offer: object) -> None:
        self.file = folder / "offer.json"
        self.state = folder / "state"
        self.asked: list[Question] = []
        self.answers: list[str | None] = []
        self.announced: list[str] = []
        self.notices: list[str] = []
        self.shown: list[str] = []
        self.offer(**{"tools": [tool("do")], **offer})

    def offer(self, **offer: object) -> None:
        self.file.write_text(json.dumps(offer))

    @property
    def log(self) -> str:
        return self.file.with_suffix(".log").read_text()

    @property
    def config(self) -> McpServer:
        return McpServer(sys.executable, (str(SERVER), str(self.file)), start_timeout=PATIENCE)

    @asynccontextmanager
    async def opened(self, *, person: bool = True, config: McpServer | None = None) -> AsyncGenerator[Servers]:
        async def answer(question: Question) -> str | None:
            self.asked.append(question)
            return self.answers.pop(0)

        servers = Servers()
        servers.announce_to(self.announced.append)
        host = Host(state=self.state, roots=(Path("/work"),), answer=answer if person else None)
        async with servers.opened({"odd": config or self.config}, self.notices, host):
            yield servers


def tool(name: str, about: str = "Does it.", **schema: object) -> dict[str, object]:
    return {"name": name, "description": about, "inputSchema": {"type": "object", **schema}}


async def do(
    servers: Servers, code: str = "", *, own: str = "do", progress: Callable[[str], None] = lambda _: None
) -> str:
    """What the tool `do` answers when it runs the code; the words of an error where there is one."""
    found: McpTool = next(tool for tool in servers.tools if tool.own == own)
    run = RunContext("root", "c", Workspace(Path.cwd()), SimpleNamespace(), progress)  # pyright: ignore[reportArgumentType] -- no blobs
    try:
        output = await found(json_freeze_object({"code": code}), run)
    except ToolError as error:
        return f"error: {error}"
    return "".join(part.text for part in output.content if isinstance(part, Text))
