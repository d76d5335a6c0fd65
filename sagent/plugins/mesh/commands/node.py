"""`sagent node`: this process takes sessions from a bus and works on them."""

import asyncio
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser, add_agent_flags, add_setting
from sagent.cli.render import report
from sagent.cli.settings import load_settings, with_chosen_model
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, json_dump
from sagent.lib.names import path_of
from sagent.lib.signals import on_first_signal
from sagent.plugins.hosting.opening import session_settings
from sagent.plugins.mesh.commands.kept import BUS, bus_url

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sagent.agent import Agent, Asker
    from sagent.config import Settings
    from sagent.events import Event
    from sagent.plugins.mesh.barrier import Barrier
    from sagent.plugins.mesh.control import Answer
    from sagent.plugins.mesh.jetstream import JetStream
    from sagent.plugins.mesh.journal import Note
    from sagent.plugins.mesh.node import Node
    from sagent.plugins.mesh.session_worker import NodeOptions, OpenAgent, Opening
    from sagent.policy.permissions import PermissionPolicy
    from sagent.tools.ask import Answerer, Question

_LEVELS = ("debug", "info", "warning", "error")
_MAX_PAUSE_SECONDS = 30.0  # seconds between two tries to reach a bus that is not there

DESCRIPTION = """Run sessions from a bus, with this machine's keys and under this node's policy. SIGTERM drains the
node: its sessions move to other nodes after the model call in progress. A second signal ends it at once."""


def run_node(argv: Sequence[str]) -> int:
    """Work until drained; 0 then. Raises UsageError and MeshError."""
    import argparse

    parser = Parser("node", DESCRIPTION, argument_default=argparse.SUPPRESS)
    parser.add_argument("--bus", metavar="URL", help=f"the bus, as `sagent bus` prints it (or {BUS})")
    parser.add_argument("--name", metavar="N", help="the node's name (default: the host name and a number)")
    parser.add_argument("--slots", metavar="N", type=int, help="run at most N sessions at a time (8)")
    label = "also take sessions for this label (repeatable)"
    parser.add_argument("--label", metavar="L", action="append", help=label)
    parser.add_argument("--dir", metavar="DIR", help="the directory for sessions and their files")
    shared = "a directory at the same path on all nodes, where sessions may work (repeatable)"
    parser.add_argument("--shared", metavar="DIR", action="append", help=shared)
    parser.add_argument(
        "--metrics", metavar="PORT", type=int, help="show figures for Prometheus at this port of loopback"
    )
    logs = "write what it takes, finishes, loses and leaves, and why, as text (the default) or lines of JSON"
    parser.add_argument("--log-format", choices=("text", "json"), help=logs)
    add_setting(parser, "log_level", "info: also sessions that it takes and finishes")
    parser.add_config()
    add_agent_flags(parser)
    flags = vars(parser.parse_args(argv))
    members = ("bus", "name", "slots", "label", "dir", "shared", "metrics", "log_format")
    own = {name: flags.pop(name, None) for name in members}
    settings = with_chosen_model(load_settings(flags))  # reports their errors now, not to the first client
    told = _Told(settings.log_level, own["log_format"] == "json")
    metrics = own["metrics"] if isinstance(own["metrics"], int) else None
    if metrics is not None and not 0 <= metrics < 1 << 16:
        raise UsageError(f"--metrics {metrics}: give a port, or 0 for any that is free.")
    return asyncio.run(_work(bus_url(own["bus"]), _options(own, settings), opener(flags), told, metrics))


@dataclass(frozen=True, slots=True)
class _Told:
    """The log of a node, on standard error."""

    level: str
    as_json: bool

    def follow(self, node: "Node") -> None:
        name, lowest = node.options.name, _LEVELS.index(self.level)

        def write(note: "Note") -> None:
            if self.as_json and _LEVELS.index(note.level) >= lowest:
                sys.stderr.write(note.line(name) + "\n")
                sys.stderr.flush()
            elif not self.as_json and _LEVELS.index(note.level) >= lowest:
                report(note.text)

        node.journal.on_note = write

    def warn(self, text: str) -> None:
        """Report a problem that is not of one session."""
        if self.as_json:
            sys.stderr.write(json_dump({"at": round(time.time(), 3), "level": "warning", "text": text}) + "\n")
            sys.stderr.flush()
        else:
            report(text)


def _options(options: Mapping[str, object], settings: "Settings") -> "NodeOptions":
    from sagent.plugins.mesh.records import check_label
    from sagent.plugins.mesh.session_worker import NodeOptions

    host = re.sub(r"[^A-Za-z0-9_-]+", "-", os.uname().nodename).strip("-") or "node"
    name, slots = str(options["name"] or f"{host}-{os.getpid()}"), options["slots"]
    slots = 8 if slots is None else slots
    if not isinstance(slots, int) or not 0 < slots <= 10_000:
        raise UsageError(f"--slots {slots}: give a number from 1 to 10000.")
    texts = [str(label) for label in as_array(options["label"])]
    for text in (name, *texts):
        check_label(text)
    # outside the private state directory, because agents work there
    place = (
        path_of(str(options["dir"])).absolute()
        if options["dir"]
        else settings.state_dir.with_name("sagent-nodes") / name
    )
    shared = tuple(path_of(str(each)).absolute() for each in as_array(options["shared"]))
    return NodeOptions(name, slots, tuple(texts), place, shared)


async def _work(url: str, options: "NodeOptions", open_agent: "OpenAgent", notices: _Told, metrics: int | None) -> int:
    from sagent.plugins.mesh.journal import shown
    from sagent.plugins.mesh.node import Node

    async with AsyncExitStack() as stack:
        bus = await _reached(stack, url, f"sagent node {options.name}")
        node = Node(bus, options, open_agent, notices.warn)
        notices.follow(node)
        if metrics is not None:
            try:
                port = await stack.enter_async_context(shown("127.0.0.1", metrics, node.figures))
            except OSError as error:
                raise UsageError(f"--metrics {metrics}: {error.strerror or error}.") from None
            report(f"figures for Prometheus: http://127.0.0.1:{port}/metrics")
        on_first_signal(lambda _: node.drain())
        await node.run(lambda: report(f"node {options.name} takes work"))
    return 0


async def _reached(stack: AsyncExitStack, url: str, name: str) -> "JetStream":
    """Return a connection to the bus once it is there, with growing pauses between tries. Raises Refused."""
    from sagent.plugins.mesh.errors import Unavailable
    from sagent.plugins.mesh.jetstream import connected
    from sagent.plugins.mesh.lease import spread

    pause = 1.0
    while True:
        try:
            async with AsyncExitStack() as trying:
                bus = await trying.enter_async_context(connected(url, name=name))
                report(*await bus.ensure())
                stack.push_async_exit(trying.pop_all())
                return bus
        except Unavailable as error:
            report(f"{error} This node tries again in {pause:.0f} s.")
            await asyncio.sleep(spread(pause))
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)


def opener(flags: Mapping[str, object]) -> "OpenAgent":
    """Return a function that opens agents by the flags and a session's own choices, never above the flags' budget."""

    def opened(
        opening: "Opening", listener: "Callable[[Event], None]", ask: "Asker", answer: "Answer", barrier: "Barrier"
    ) -> "AbstractAsyncContextManager[Agent]":
        from sagent.app import open_agent, policy_of
        from sagent.plugins.hosting.figures import Judgement
        from sagent.surface import Surface

        settings = settings_of(flags, opening)
        policy = policy_of(settings, (opening.session.parent,))
        only_looks = settings.permission_mode == "plan" and not settings.plan  # whatever anybody elsewhere says
        answerer = None if only_looks else _answerer(answer, policy)
        freest = "edit" if settings.plan and policy.mode == "plan" else policy.mode
        barrier.judgement = Judgement(policy, freest)
        surface, on_waiting = Surface("node"), opening.on_waiting
        return open_agent(
            settings, listener, ask, policy, answer=answerer, keeper=barrier, on_waiting=on_waiting, surface=surface
        )

    return opened


def _answerer(answer: "Answer", policy: "PermissionPolicy") -> "Answerer":
    """Return a function that asks the attached people; an accepted plan ends plan mode."""
    from sagent.tools.plan import PlanDecision

    async def answered(question: "Question") -> str | None:
        said = await answer(question)
        if not isinstance(said, PlanDecision):
            return said
        policy.mode = said.mode or policy.mode
        return said.answer()

    return answered


def settings_of(flags: Mapping[str, object], opening: "Opening") -> "Settings":
    """Return the settings of a session on a node: the requester's permitted choices, over the node's flags."""
    given = {**flags, **opening.flags, "cwd": str(opening.cwd), "session": str(opening.session)}
    chosen = session_settings(load_settings(given))
    own = load_settings(flags).max_budget_usd
    caps = [cap for cap in (own, chosen.max_budget_usd) if cap is not None]
    return replace(chosen, max_budget_usd=min(caps, default=None))
