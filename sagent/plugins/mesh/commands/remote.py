"""A prompt that a node of a bus works on. The result arrives here although nodes die, in the usual formats."""

import asyncio
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from sagent.cli.headless import Interrupter, Prompt, exit_code, in_order, read_prompt, reporting
from sagent.cli.render import Renderer, binary_safe, renderer_for, report
from sagent.cli.settings import load_or_report
from sagent.errors import UsageError
from sagent.events import Failure, Result
from sagent.lib.dataclass import dataclass
from sagent.lib.json import json_dump
from sagent.messages import user
from sagent.plugins.mesh.commands.kept import bus_url
from sagent.plugins.mesh.commands.remote_files import bring_files, offer_files

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.plugins.mesh.remote import RemotePeer

_ALONE = ("continue", "session", "fork", "ephemeral", "output_schema", "input_format", "trace", "telemetry", "plan")
"""Flags of a session that is here."""
_CLAIM_TIMEOUT_SECONDS = 5.0  # until a report that no node has taken the session
_HERE = ("output_format", "log_level", "cwd", "config", "trust_project", "resume")
"""Flags that are for this side alone."""


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """A request to work elsewhere: the bus's URL, the prompt, the flags for the node, and the transport of files."""

    url: str
    prompt: Prompt
    flags: Mapping[str, object]
    label: str
    files: str | None
    detach: bool
    session: str  # session to continue; "" for a new one


def run_remote(bus: Mapping[str, object], flags: Mapping[str, object], words: list[str] | None) -> int:
    """Have a prompt answered on a bus, and return the exit code. Raises UsageError and MeshError."""
    from sagent.plugins.mesh.records import remote_flags

    if words is None:
        raise UsageError(
            "With --bus, give a prompt; to talk to a session that runs on the bus, see sagent attach --help."
        )
    if "image" in flags:
        raise UsageError("-i attaches files to runs on this machine only.")
    movable = remote_flags()
    for name in flags:
        if name not in (*_HERE, *movable):
            where = "does not go with --bus" if name in _ALONE else "is set by the node: start `sagent node` with it"
            raise UsageError(f"--{name.replace('_', '-')} {where}.")
    if (session := str(flags.get("resume") or "")) and (set(movable) & set(flags) or {"label", "files"} & set(bus)):
        raise UsageError("An existing session keeps its flags, label and files: give only --resume.")
    own = {name: value for name, value in flags.items() if name != "resume"}
    url, settings = bus_url(bus.get("bus")), load_or_report(own)
    renderer = renderer_for(settings, binary_safe(sys.stdout), binary_safe(sys.stderr))
    prompt = read_prompt(words, sys.stdin, sys.stderr)
    chosen = {name: flags[name] for name in movable if name in flags}
    files, label = bus.get("files"), str(bus.get("label") or "")
    asked = RemoteRequest(url, prompt, chosen, label, None if files is None else str(files), "detach" in bus, session)
    with reporting(settings, renderer):
        return asyncio.run(in_order(renderer, partial(_ask, asked, settings, renderer)))


async def _ask(request: RemoteRequest, settings: "Settings", renderer: Renderer, interrupter: Interrupter) -> int:
    from sagent.plugins.mesh.remote import Mesh

    said = user(request.prompt.text, *request.prompt.parts)
    async with Mesh.connect(request.url) as mesh:
        if request.session:
            opening = mesh.agent(request.session)
        else:
            files, base = await offer_files(mesh.bus, request.files, settings.cwd)
            if request.detach:
                session = await mesh.submit(said, label=request.label, files=files, base=base, flags=request.flags)
                shown = {"session_id": session}
                sys.stdout.write(f"{session if settings.output_format == 'text' else json_dump(shown)}\n")
                return 0
            opening = mesh.spawn(said, label=request.label, files=files, base=base, flags=request.flags)
        async with opening as peer:
            if request.session:
                peer.send(said, "next")
            code = await _result(peer, settings, renderer, interrupter)
        await bring_files(mesh.bus, peer.record, settings.cwd, quiet=settings.log_level == "error")
    return code


async def _result(peer: "RemotePeer", settings: "Settings", renderer: Renderer, interrupter: Interrupter) -> int:
    """Show the session's work and result; return the exit code."""
    from sagent.plugins.mesh.errors import MeshError

    interrupter.on_stop = peer.interrupt
    peer.listen(renderer.on_event)
    alone = asyncio.create_task(_say_if_alone(peer, settings))
    try:
        result = await peer.wait()
    except MeshError as error:
        if interrupter.received is None:
            raise
        result = Result("", (), "interrupted", Failure("interrupted", str(error)), session_id=peer.path)
    finally:
        alone.cancel()
    renderer.on_result(result)
    return exit_code(result, interrupter.received)


async def _say_if_alone(peer: "RemotePeer", settings: "Settings") -> None:
    """Report that the session waits for a node, if none takes it for a while."""
    await asyncio.sleep(_CLAIM_TIMEOUT_SECONDS)
    if peer.record.state == "queued" and settings.log_level != "error":
        label = f" with the label {peer.record.label}" if peer.record.label else ""
        text = f"session {peer.record.id} is waiting for a node{label} with a free slot; `sagent nodes` lists the nodes"
        report(text)
