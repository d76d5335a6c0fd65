"""Waiting for a session on a bus, and interrupting it, for the commands that do so on this machine."""

import asyncio
import sys
from collections.abc import Mapping

from sagent.cli.headless import exit_code
from sagent.cli.render import binary_safe, report
from sagent.errors import UsageError
from sagent.lib.json import json_dump
from sagent.plugins.mesh.commands.kept import bus_url

TIMED_OUT = 124  # exit code, as of timeout(1)


def wait(session: str, options: Mapping[str, object]) -> int | None:
    """Wait for the result of a session on the bus that is named, if any; print it, and return its exit code. Raises
    UsageError, SessionNotFound and MeshError."""
    if not options.get("bus"):
        return None
    seconds = options.get("timeout")
    limit = float(seconds) if isinstance(seconds, int | float) else None
    return asyncio.run(_wait(_named(session), options, limit))


async def _wait(session: str, options: Mapping[str, object], seconds: float | None) -> int:
    from sagent.plugins.mesh.remote import Mesh
    from sagent.transcript.event_json import encode_result

    async with Mesh.connect(bus_url(options["bus"])) as mesh, mesh.agent(session) as peer:
        try:
            async with asyncio.timeout(seconds):
                result = await peer.wait()
        except TimeoutError:
            report(f"{peer.path} is still at work")
            return TIMED_OUT
    out = binary_safe(sys.stdout)
    if options.get("output_format") == "json":
        out.write(json_dump(encode_result(result)) + "\n")
    elif result.content:
        out.write(f"{result.content}\n")
    out.flush()
    if result.error is not None:
        report(result.error.message)
    return exit_code(result)


def stop(session: str, options: Mapping[str, object]) -> int | None:
    """Interrupt a session on the bus that is named, if any; return once it rests. Raises UsageError, SessionNotFound
    and MeshError."""
    return asyncio.run(_stop(_named(session), options)) if options.get("bus") else None


async def _stop(session: str, options: Mapping[str, object]) -> int:
    from sagent.plugins.mesh.remote import Mesh

    async with Mesh.connect(bus_url(options["bus"])) as mesh, mesh.agent(session) as peer:
        if not peer.rests:
            peer.interrupt()
            await peer.wait()
        sys.stdout.write(f"{peer.path}\n")
    return 0


def _named(session: str) -> str:
    if not session:
        raise UsageError("With --bus, give the id of a session, or its beginning: sagent ps --bus URL lists them.")
    return session
