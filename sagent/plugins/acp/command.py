"""`sagent acp`: an agent for editors that speak the Agent Client Protocol, over stdio."""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser, add_agent_flags, add_flag, add_setting, plugins_of
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array
from sagent.lib.signals import on_first_signal
from sagent.plugin import Setting, Table

if TYPE_CHECKING:
    from sagent.agent import Agent
    from sagent.config import Settings
    from sagent.plugins.acp.session import Place, Surroundings
    from sagent.policy.permissions import PermissionPolicy
    from sagent.repl.opening import OpenedHere
    from sagent.session.retention import Glance

_ELSEWHERE = frozenset(
    "bug copy detach doctor earlier enter exit fork login quit reopen resume sessions theme tree vim".split()  # noqa: SIM905 -- words
)
"""Commands that a terminal is needed for, or that the editor has itself."""


def run_acp(argv: Sequence[str]) -> int:
    about = (
        "An agent for editors that speak the Agent Client Protocol (Zed, JetBrains, neovim and others), which start it."
    )
    parser = Parser("acp", about, argument_default=argparse.SUPPRESS)
    group = parser.add_argument_group("session")
    group.add_argument("--login", action="store_true", help="enter a provider's key on this terminal, then exit")
    add_setting(group, "ephemeral", "do not save sessions to disk")
    if trace := plugins_of(argv).named(Setting).get("trace"):  # of the plugin exports
        add_flag(group, trace)
    add_setting(group, "add_dirs", "another directory for every session (repeatable)")
    add_setting(group, "log_level")
    draft = "also speak version 2 of the protocol, which is a draft"
    group.add_argument("--draft", action="store_true", help=draft)
    parser.add_cwd()
    parser.add_config()
    for name in ("--acp", "--experimental-acp"):  # clients add these to a command
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    add_agent_flags(parser)
    flags = vars(parser.parse_args(argv))
    for name in ("acp", "experimental_acp"):
        flags.pop(name, None)
    if flags.pop("login", False):
        from sagent.plugins.setup.login import log_in

        return log_in(flags)
    latest = 2 if flags.pop("draft", False) else 1
    return asyncio.run(_serve(AcpHost(flags, latest)))


async def _serve(host: "AcpHost") -> int:
    """Answer a client until it ends our standard input or reads no more, or until SIGINT, SIGTERM or SIGHUP."""
    from sagent.lib.input import read_lines
    from sagent.plugins.acp.server import Server
    from sagent.plugins.acp.stdio import Writer, claim_stdout

    if sys.stdin.isatty():
        sys.stderr.write(
            "sagent: this command is meant to be started by an editor, which sends it JSON. Ctrl-D ends it.\n"
        )
    gone: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def leave(code: int = 0) -> None:
        if not gone.done():
            gone.set_result(code)
        elif code:
            os._exit(code)

    on_first_signal(lambda number: leave(128 + number))
    writer = Writer(claim_stdout(), leave)
    server = Server(host, writer.send)
    read_lines(sys.stdin.fileno(), server.connection.receive, leave)
    code = await gone
    await server.aclose()
    writer.close(0.2)
    sys.stderr.flush()
    os._exit(code)  # a thread may still wait for stdin, or for a model's listing; commands end with this process


@dataclass(frozen=True, slots=True)
class AcpSession:
    """A session as seen by the editor's commands."""

    opened: "OpenedHere"
    settings: "Settings"
    commands: Sequence[tuple[str, str, str]]

    @property
    def agent(self) -> "Agent":
        return self.opened.agent

    @property
    def policy(self) -> "PermissionPolicy":
        return self.opened.policy

    def selected(self) -> str:
        return self.opened.surface.selected()

    async def carry_out(self, text: str, write: Callable[[str], object]) -> str:
        from sagent.repl.headless_command import run_headless_command

        return await run_headless_command(text, self.settings, self.opened, write)


class AcpHost:
    """Opens sessions by the flags, and lists saved ones."""

    def __init__(self, flags: Mapping[str, object], latest: int = 1) -> None:
        self._flags, self.latest = flags, latest

    @asynccontextmanager
    async def opening(self, place: "Place", surroundings: "Surroundings") -> "AsyncGenerator[AcpSession]":
        from sagent.cli.interactive import open_session
        from sagent.surface import Surface

        settings = self._settings(place)
        commands = await asyncio.to_thread(_commands, settings)
        surface = Surface("editor", place.servers)
        opening = open_session(
            settings, surroundings.listener, surroundings.ask, surroundings.answer, surroundings.adapt, surface=surface
        )
        async with opening as opened:
            yield AcpSession(opened, settings, commands)

    def _settings(self, place: "Place") -> "Settings":
        from sagent.plugins.hosting.live import ClientOptions
        from sagent.plugins.hosting.opening import settings_for

        directories = [*as_array(self._flags.get("add_dir")), *place.directories]
        flags = {**self._flags, **({"add_dir": directories} if directories else {})}
        settings = settings_for(flags, ClientOptions(place.session, place.cwd))
        if place.servers and "mcp" not in settings.plugins.named(Table):
            left = f"The editor's MCP servers are left out: the plugin mcp is not there: {', '.join(place.servers)}."
            settings = replace(settings, warnings=(*settings.warnings, left))
        return settings

    async def check_login(self) -> None:
        from sagent.app import choose_model
        from sagent.cli.settings import load_settings

        choice = await choose_model(load_settings(self._flags), "")
        await choice.aclose()

    def sessions(self, cwd: str | None) -> "Sequence[Glance]":
        from pathlib import Path

        from sagent.cli.settings import load_settings
        from sagent.session.retention import glances

        return glances(load_settings(self._flags).state_dir, None if cwd is None else Path(cwd))

    def delete(self, session: str) -> None:
        from sagent.cli.settings import load_settings
        from sagent.errors import SessionNotFound
        from sagent.session.store import delete, sessions

        found = next((path for path in sessions(load_settings(self._flags).state_dir) if path.name == session), None)
        if found is None:
            raise SessionNotFound(f"no session {session}")
        delete(found)

    def warm_up(self) -> None:
        from sagent import app
        from sagent.plugins.acp import session
        from sagent.repl.commands import registry

        del app, session, registry  # it is enough that they are loaded


def _commands(settings: "Settings") -> Sequence[tuple[str, str, str]]:
    """Return slash commands that are useful in an editor: name, description, arguments."""
    from sagent.repl.commands.registry import all_commands

    return [
        (name, one.summary, one.usage.partition(" ")[2])
        for name, one in sorted(all_commands(settings).items())
        if name not in _ELSEWHERE
    ]
