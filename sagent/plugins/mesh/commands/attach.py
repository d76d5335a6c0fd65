"""Attaching to a session that runs on a bus."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.plugins.hosting.attach_command import follow, talk_of
from sagent.plugins.mesh.commands.kept import bus_url
from sagent.plugins.mesh.commands.remote_files import bring_files

if TYPE_CHECKING:
    from sagent.plugins.hosting.followed import Followed
    from sagent.plugins.hosting.questions import Answer, Reply


def attach(session: str, options: Mapping[str, object]) -> int | None:
    """Attach to a session on the bus that is named, if any. Raises SessionNotFound and MeshError."""
    named = options.get("bus")
    if not session or not (named or os.environ.get("SAGENT_BUS")):
        return None
    url, watch = bus_url(named), options.get("watch") is True
    from sagent.plugins.mesh.commands.attached import load, run_attached

    if (talk := talk_of(load)) is not None:
        return asyncio.run(run_attached(url, session, talk, watch=watch))
    return asyncio.run(_follow(url, session, watch=watch))


async def _follow(url: str, session: str, *, watch: bool) -> int:
    from sagent.plugins.mesh.records import Records
    from sagent.plugins.mesh.remote import Mesh

    async with Mesh.connect(url) as mesh:
        record = await Records(mesh.bus).find(session)

        @asynccontextmanager
        async def attached(reply: "Reply | None", answer: "Answer | None") -> "AsyncGenerator[Followed]":
            async with mesh.agent(record.id, reply, answer) as peer:
                yield peer

        where = f", on {record.node}" * bool(record.node)
        code = await follow(attached, f"{record.id}  {record.title}  ({record.state}{where})\n", watch=watch)
        await bring_files(mesh.bus, await Records(mesh.bus).find(record.id), Path.cwd())
    return code
