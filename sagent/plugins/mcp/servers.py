"""The MCP servers of a session (modelcontextprotocol.io): their offers, and changes of these. Needs sagent[mcp].

All are started together; each has its own task during the session, and the next call restarts one that has ended.
Programs run in the sandbox.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sagent import surface
from sagent.lib.json import json_dump
from sagent.lib.process import ProcessGroup
from sagent.lib.renamed import warn_renamed
from sagent.lib.text import one_line
from sagent.plugins.mcp.catalog import Prompt, every_page, fill_prompt, list_prompts, list_resources, read_resource
from sagent.plugins.mcp.changes import Admitted, Offer
from sagent.plugins.mcp.elicitation import Elicitor
from sagent.plugins.mcp.host import Confine, Host, unconfined
from sagent.plugins.mcp.link import Kind, Link
from sagent.plugins.mcp.pins import Pins
from sagent.plugins.mcp.server import McpServer
from sagent.plugins.mcp.tool import McpTool, plain
from sagent.sandbox import Confined, Sandbox
from sagent.tool import Media

if TYPE_CHECKING:
    from mcp.types import Tool as McpToolInfo

    from sagent.app.arrivals import Intake
    from sagent.sandbox.profile import Profile

T = TypeVar("T")
LOGINS = "mcp"
"""The directory of logins and approvals in the state directory."""

MAX_TOOLS = 128  # of one server
MAX_SCHEMA_CHARS = 200_000  # of descriptions and schemas of one server, which every request carries
MAX_DESCRIBED_CHARS = 20_000  # of them, for added tools, in one message that describes them
CONTINUES = " This session continues without its tools."
_MIN_RELIST_INTERVAL_SECONDS = 1.0  # minimum seconds between two checks for changes


class ServerTools(tuple[McpTool, ...]):  # noqa: SLOT001 -- tuples have no slots, and it has notices
    """The tools of open servers. `notices` say which servers could not be reached, and what of others was left out."""

    notices: tuple[str, ...] = ()

    @classmethod
    def of(cls, tools: Iterable[McpTool], notices: Iterable[str]) -> "ServerTools":
        made = cls(tools)
        made.notices = tuple(notices)
        return made


class Servers:
    """All servers of a session. `tools` are those at the start, and those added since."""

    def __init__(self) -> None:
        self.tools: tuple[McpTool, ...] = ()
        self.configured: Mapping[str, McpServer] = {}
        self.links: dict[str, Link] = {}
        self._announce: Callable[[str], None] = lambda _: None
        self._attended = asyncio.Event()  # a receiver for announcements is there
        self._intake: Intake | None = None  # of added tools; without it they wait for the next session
        self._pins = Pins(None)
        self._looking: dict[str, asyncio.Task[None]] = {}  # by server
        self._again: set[str] = set()  # servers that have changed while they were looked at
        self._on_prompts: Callable[[], object] = lambda: None  # called when prompts change
        self._prompts: dict[str, Sequence[Prompt]] = {}  # by server, as they were last listed
        self._resources: dict[str, Sequence[str]] = {}

    @asynccontextmanager
    async def opened(self, servers: Mapping[str, McpServer], notices: list[str], host: Host) -> AsyncGenerator[None]:
        """Start the servers, and stop them at the end. Notices name unreachable ones."""
        self.configured = servers
        if not servers or not await _has_package(servers, notices):
            yield
            return
        self._pins = Pins(host.state)
        processes, elicitor = ProcessGroup(), Elicitor(host.answer)
        for name, server in servers.items():
            self.links[name] = Link(name, server, processes, host, elicitor)
        with _quiet("mcp", "client"):
            try:
                found = await asyncio.gather(*(self._tools_of(link, notices) for link in self.links.values()))
                self.tools = tuple(tool for tools in found for tool in sorted(tools, key=lambda tool: tool.own))
                _number(self.tools, notices, set())
                yield
            finally:
                for task in self._looking.values():
                    task.cancel()
                await asyncio.gather(*(link.aclose() for link in self.links.values()), return_exceptions=True)
                await processes.aclose()

    def announce_to(self, agent: Callable[[str], None]) -> None:
        """Send a function the changes since the servers were opened, as text for the model."""
        self._announce = agent
        self._attended.set()

    def stop_announcing(self) -> None:
        """Stop announcing, because the agent has ended."""
        self._announce = lambda _: None

    def by_name(self) -> Mapping[str, McpTool]:
        """Return the tools by the names that the model calls them by."""
        return {tool.name: tool for tool in self.tools}

    @property
    def adds(self) -> bool:
        """True if a server may add tools while the session lasts."""
        return any(link.adds for link in self.links.values())

    def take_in(self, intake: "Intake") -> None:
        """Give tools that servers add to the session from now on."""
        self._intake = intake

    def follow(self, changed: Callable[[], object]) -> None:
        """Call a function whenever the prompts of a server change."""
        self._on_prompts = changed

    async def offered(self) -> Sequence[surface.Prompt]:
        """Return the prompts of all servers, each as a person may use it."""
        found = await self.prompts()
        return [surface.Prompt(one.name, one.shown, partial(self.fill, one)) for one in found]

    async def prompts(self) -> Sequence[Prompt]:
        """Return the prompts of all present servers."""
        return await self._listed(self._prompts, list_prompts)

    async def resources(self) -> Sequence[str]:
        """Return the resources that can be mentioned, as "server:address"."""
        await self._listed(self._resources, list_resources)
        return [f"{name}:{uri}" for name, uris in self._resources.items() for uri in uris]

    async def _listed(
        self, known: dict[str, Sequence[T]], read: Callable[[Link], Awaitable[Sequence[T]]]
    ) -> Sequence[T]:
        """Return the lists of all servers, asking those with a missing or changed one; a failed one has nothing for
        now."""

        async def look(link: Link) -> None:
            with suppress(Exception):  # nobody waits for this one list
                async with asyncio.timeout(link.server.start_timeout):
                    known[link.name] = await read(link)

        there = [link for link in self.links.values() if link.name not in known and link.state == "connected"]
        await asyncio.gather(*map(look, there))
        return [one for name in self.links for one in known.get(name, ())]

    async def fill(self, prompt: Prompt, typed: str) -> str:
        """Return the text of a prompt, given its typed arguments. Raises UsageError."""
        return await fill_prompt(self.links[prompt.server], prompt, typed)

    def has(self, mention: str) -> bool:
        """Return True if "server:address" names a server of this session."""
        server, colon, uri = mention.partition(":")
        return bool(colon and uri) and server in self.links

    async def read(self, mention: str) -> Sequence[Media]:
        """Read a mentioned resource. Raises UsageError."""
        server, _, uri = mention.partition(":")
        return await read_resource(self.links[server], uri)

    async def _tools_of(self, link: Link, notices: list[str]) -> Sequence[McpTool]:
        """Return the tools of a server, in time and in bounds."""
        patience = link.server.start_timeout
        waited = asyncio.timeout(patience)
        try:
            async with waited:
                listed = await list_tools(link)
            tools = [McpTool(link, info, self._pins) for info in listed]
        except Exception as error:
            link.lost()
            late = f"has not listed its tools within {patience:g} s (its start_timeout)"
            said = late if waited.expired() else f"is not available: {(await link.reason(error)).rstrip('.')}"
            hint = link.hint().replace("it ran", "It ran", 1)
            notices.append(f"The MCP server {link.name} {said}.{CONTINUES} {hint}".rstrip())
            return ()
        if unread := "; ".join(f"{name} ({why})" for name, why in link.unread.items()):
            notices.append(f"The MCP server {link.name} lists what cannot be used: {one_line(unread, 1_000)}")
        kept = _bounded(link.name, tools, notices)
        offer = Offer(link.name, kept, (info.name for info in listed), lambda added: self._admit(link, added))
        self._watch(link, offer)
        return kept

    def _admit(self, link: Link, added: "Sequence[McpToolInfo]") -> Admitted:
        """Add a server's new tools to the session, within the limits for tools at the start."""
        if self._intake is None:
            return (), ()
        own = [tool for tool in self.tools if tool.server == link.name]
        new = [McpTool(link, info, self._pins) for info in added]
        kept = [tool for tool in _bounded(link.name, [*own, *new], []) if tool not in own]
        if not self._intake.found:
            kept = _fitting(kept, MAX_DESCRIBED_CHARS)
        _number(kept, [], {*self.by_name()})
        self.tools += tuple(kept)
        for tool in kept:
            tool.deferrable = True  # always_load is of what requests begin with
            self._intake.take(tool)
        return (kept, ()) if self._intake.found else ((), kept)

    def _watch(self, link: Link, offer: Offer) -> None:
        """Follow the changes of a server's lists."""

        def on_changed(kind: Kind) -> None:
            if kind == "resources":
                self._resources.pop(link.name, None)
            elif kind == "prompts":
                self._prompts.pop(link.name, None)
                self._on_prompts()
            elif (task := self._looking.get(link.name)) is None or task.done():
                self._looking[link.name] = asyncio.create_task(self._look_again(link, offer))
            else:
                self._again.add(link.name)

        link.on_changed = on_changed

    async def _look_again(self, link: Link, offer: Offer) -> None:
        """List a server's tools again, and announce changes. On failure the last list stays."""
        await self._attended.wait()
        while True:
            self._again.discard(link.name)
            with suppress(Exception):  # the next call of a tool reports the error
                async with asyncio.timeout(link.server.start_timeout):
                    listed = await list_tools(link)
                if text := offer.update({info.name: info for info in listed}):
                    self._announce(text)
            await asyncio.sleep(_MIN_RELIST_INTERVAL_SECONDS)
            if link.name not in self._again:
                return


@asynccontextmanager
async def open_servers(
    servers: Mapping[str, McpServer],
    notices: list[str] | None = None,
    confine: Confine | None = None,
    logins: Path | None = None,
) -> AsyncGenerator[ServerTools]:
    """Yield the tools of all reachable servers; their `notices` name the others.

    All servers are started together, and stopped at the end. Without `confine` their programs run in no sandbox.
    `logins` is the directory of the logins at servers. The argument `notices` is an old way to be told of them.
    """
    if notices is not None:
        warn_renamed("open_servers(notices)", "notices of the tools that open_servers yields", "0.3")
    opened, said = Servers(), [] if notices is None else notices
    async with opened.opened(servers, said, Host(confine or unconfined, logins)):
        yield ServerTools.of(opened.tools, said)


async def list_tools(link: Link) -> "list[McpToolInfo]":
    """List the server's tools that can be called without its extension for tasks, each name once."""
    client = await link.client()
    if client.server_capabilities.tools is None:
        return []
    link.adds = bool(client.server_capabilities.tools.list_changed)
    pages = await every_page(lambda cursor: client.list_tools(cursor=cursor, cache_mode="refresh"))
    found: dict[str, McpToolInfo] = {}
    for page in pages:
        for info in page.tools:
            if info.execution is not None and info.execution.task_support == "required":
                link.unread[info.name] = "it can only be called as a task"
            elif found.setdefault(info.name, info) != info:
                link.unread[info.name] = "an earlier tool has this name"
    return list(found.values())


async def _has_package(servers: Mapping[str, McpServer], notices: list[str]) -> bool:
    try:
        await asyncio.to_thread(import_module, "mcp")
    except ImportError:
        from sagent.lib.installed import install_command
        from sagent.plugins.mcp import PACKAGES

        hint = install_command("mcp", PACKAGES)
        notices.append(f"MCP servers need a package that is not installed: {hint}. Left out: {', '.join(servers)}.")
        return False
    return True


def confining(sandbox: Sandbox, profile: "Callable[[], Profile]", cwd: Path) -> Confine:
    """Run programs in a directory and in a sandbox, with the profile at the time of their start."""
    from sagent.sandbox.profile import Need

    async def confine(argv: Sequence[str], needs: Sequence[Need]) -> Confined:
        if not sandbox.stands:
            return Confined(argv, cwd=cwd)
        real = [Need(need.kind, os.path.realpath(need.target)) if need.target[:1] == "/" else need for need in needs]
        return replace(await sandbox.confine(argv, profile(), cwd, real, lasting=True), cwd=cwd)

    return confine


@contextmanager
def _quiet(*loggers: str) -> Generator[None]:
    """Keep the SDK's logs off stderr, where they go without logging configuration; with one, they are logged as
    usual."""
    handler = logging.NullHandler()
    for name in loggers:
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name in loggers:
            logging.getLogger(name).removeHandler(handler)


def _bounded(server: str, tools: Sequence[McpTool], notices: list[str]) -> Sequence[McpTool]:
    """Return the tools that requests can carry."""
    kept = _fitting(tools, MAX_SCHEMA_CHARS)
    if out := [plain(tool.own) for tool in tools if tool not in kept]:
        notices.append(
            f"The MCP server {server} offers {len(tools)} tools; at most {MAX_TOOLS}, with {MAX_SCHEMA_CHARS:,}"
            f" characters of descriptions and schemas, are taken; left out: {one_line(', '.join(out), 300)}"
        )
    return kept


def _fitting(tools: Sequence[McpTool], max_chars: int) -> list[McpTool]:
    """Return the tools that fit into so many characters of descriptions and schemas."""
    kept: list[McpTool] = []
    for tool in tools:
        size = len(tool.description) + len(json_dump(tool.parameters))
        if len(kept) < MAX_TOOLS and size <= max_chars:
            kept.append(tool)
            max_chars -= size
    return kept


def _number(tools: Sequence["McpTool"], notices: list[str], names: set[str]) -> None:
    """Give each tool a unique name that is not in `names`, because some names become equal without unprintable
    characters. A tool with a valid name keeps it, so that a rule that allows it never covers another, whatever its
    server adds."""
    numbered: list[str] = []
    for tool in sorted(tools, key=lambda tool: tool.name != f"mcp__{tool.server}__{tool.own}"):
        first, number = tool.name, 1
        while tool.name in names:
            number += 1
            tool.name = f"{first[: 63 - len(str(number))]}_{number}"
        names.add(tool.name)
        if number > 1:
            numbered.append(f"{tool.server}'s {plain(tool.own)} as {tool.name}")
    if numbered:
        notices.append(
            f"Tools of MCP servers whose names became equal are numbered: {one_line('; '.join(numbered), 500)}"
        )
