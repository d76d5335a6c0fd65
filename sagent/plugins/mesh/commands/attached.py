"""The REPL on a session that runs on a bus."""

import shlex
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.plugins.hosting.attaching import opening_of
from sagent.plugins.mesh.commands.remote_files import bring_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sagent.cli.interactive import Talk
    from sagent.config import Settings
    from sagent.plugins.hosting.questions import Answer, Reply
    from sagent.plugins.mesh.attached import RemoteAgent
    from sagent.repl.opening import Listener


async def run_attached(url: str, session: str, talk: "Talk", *, watch: bool) -> int:
    """Talk to a session until the person leaves; return the exit code. With `watch` they answer no questions. Raises
    SessionNotFound, UsageError and MeshError."""
    from sagent.plugins.mesh.attached import RemoteAgent
    from sagent.plugins.mesh.errors import MeshError
    from sagent.plugins.mesh.records import Records
    from sagent.plugins.mesh.remote import Mesh

    async with Mesh.connect(url) as mesh:
        record = await Records(mesh.bus).find(session)
        again = f"sagent attach {record.id} --bus {shlex.quote(url)}"

        @asynccontextmanager
        async def follow(
            listener: "Listener", reply: "Reply | None", answer: "Answer | None"
        ) -> "AsyncGenerator[RemoteAgent]":
            async with (
                mesh.agent(record.id, reply, answer) as peer,
                RemoteAgent.followed(mesh.bus, peer, listener) as agent,
            ):
                yield agent

        code = await talk(load, opening_of(follow, "a node of the bus", again, watch=watch))
        if mesh.bus.is_up:  # otherwise do not wait: the outage was reported
            with suppress(MeshError):
                await bring_files(mesh.bus, await Records(mesh.bus).find(record.id), Path.cwd())
        return code


def load() -> "Settings":
    """Load the settings of the person's terminal. Those of the session come from its node."""
    from sagent.cli.settings import load_settings

    settings = load_settings({})
    own = settings.without("mcp", "hooks")
    return replace(own, advisors=(), wish=None, session=None, fork=None, continue_session=False)
