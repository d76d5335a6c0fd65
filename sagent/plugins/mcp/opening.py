"""An MCP server that a program opens."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from pathlib import PurePath
from urllib.parse import urlsplit

from sagent.errors import SagentError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.plugins.mcp.host import Host
from sagent.plugins.mcp.server import McpServer as Described
from sagent.plugins.mcp.servers import CONTINUES, Servers, ServerTools


class McpServerError(SagentError):
    """An MCP server could not be started or reached; the message has its own words."""

    kind = "mcp_server"


@dataclass(frozen=True, slots=True)
class McpServer(Described):
    """A server of tools, as settings describe it, and `async with McpServer("shop-mcp") as tools`: starts it in no
    sandbox, or connects to it, for an agent's `tools`. Their names are `mcp__NAME__TOOL`, by `name` or that of the
    command or host; `tools.notices` say what was left out."""

    name: str = ""
    _open: list[AsyncExitStack] = field(default_factory=list["AsyncExitStack"], init=False, repr=False, compare=False)

    @property
    def short_name(self) -> str:
        """The name in those of its tools: the given one, or that of its command or host."""
        own = self.name or (urlsplit(self.url).hostname or "" if self.url else PurePath(self.command).stem)
        return own or "server"

    async def __aenter__(self) -> "ServerTools":
        """Start it or connect to it, and return its tools. Raises McpServerError, and UsageError if it is open."""
        if self._open:
            raise UsageError(f"{self.short_name} is open already: use its tools, or make another McpServer")
        self._open.append(stack := AsyncExitStack())
        try:
            return await stack.enter_async_context(open_server(self, self.short_name))
        except BaseException:
            self._open.clear()
            raise

    async def __aexit__(self, *raised: object) -> None:
        """Stop it."""
        await self._open.pop().aclose()


@asynccontextmanager
async def open_server(server: Described, name: str) -> AsyncGenerator[ServerTools]:
    """Yield the tools of one server. Raises McpServerError if it cannot be reached."""
    opened, notices = Servers(), list[str]()
    async with opened.opened({name: server}, notices, Host()):
        if (link := opened.links.get(name)) is None or link.state != "connected":
            raise McpServerError(" ".join(notices).replace(CONTINUES, ""))
        yield ServerTools.of(opened.tools, notices)
