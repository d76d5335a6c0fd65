"""`sagent a2a`: sagent as an agent for other agents, over the A2A protocol."""

import argparse
import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

from sagent.cli.flags import Parser, add_agent_flags, add_setting, plugins_of
from sagent.cli.settings import load_settings, with_chosen_model
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array
from sagent.plugins.a2a import PACKAGES
from sagent.plugins.hosting.listening import (
    Listener,
    add_listener,
    announced,
    listening,
    require,
    take_listener,
    url_of,
)
from sagent.plugins.hosting.opening import opening_of, state_of

if TYPE_CHECKING:
    from pathlib import Path

    from sagent.agent import Agent
    from sagent.config import Settings
    from sagent.config.plugins import Installed
    from sagent.events import Result
    from sagent.messages import Message
    from sagent.plugins.a2a.card import Described
    from sagent.plugins.a2a.contexts import Answer
    from sagent.plugins.hosting.live import LiveSession, OpenSession

    WorkerOf: TypeAlias = Callable[[Mapping[str, object]], "Worker | None"]

WORKER = "a2a worker"
"""The extension point for another worker in the agent's place: "module:function". It takes the plugins' flags of this
command, and returns a Worker, or None."""
TOKEN = "SAGENT_A2A_TOKEN"  # noqa: S105 -- the name of a variable


class Worker(Protocol):
    """Answers in place of one agent. `prepare` returns the settings of its sessions' agents."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def tags(self) -> Sequence[str]: ...
    def prepare(self, settings: "Settings", /) -> "Settings": ...
    async def answer(self, agent: "Agent", settings: "Settings", prompt: "Message", /) -> "Result": ...


@dataclass(frozen=True, slots=True)
class _Served:
    """The flags of the server."""

    listener: Listener
    url: str  # by which others reach it, "" if that is its listening address
    card: Mapping[str, str]
    push_to: Sequence[str]
    worker: "Worker | None"


def run_a2a(argv: Sequence[str]) -> int:
    parser = Parser("a2a", "Run sagent as an agent for other agents, over the A2A protocol.")
    operations = parser.add_subparsers(dest="operation", required=True, metavar="OPERATION")
    serving = operations.add_parser(
        "serve", help="accept tasks over JSON-RPC and REST", argument_default=argparse.SUPPRESS
    )
    add_listener(serving, f"a user with their own tasks (repeatable); the token is {TOKEN}_NAME, or a new one")
    serving.add_argument("--url", metavar="URL", help="the public URL for the card, behind a proxy")
    serving.add_flags_of("a2a")
    serving.add_argument("--name", metavar="NAME", help="the agent's name in the card (default sagent)")
    serving.add_argument("--description", metavar="TEXT", help="what it does, in the card")
    push = "allow notifications to this address, although it is not public (repeatable)"
    serving.add_argument("--push-to", metavar="HOST:PORT", action="append", help=push)
    add_setting(serving, "cwd", "where sessions work")
    serving.add_config()
    add_agent_flags(serving)
    given = vars(parser.parse_args(argv or ["--help"]))
    del given["operation"]
    plugins = plugins_of(argv)
    own = {flag.keyword: given.pop(flag.keyword) for flag in plugins.flags("a2a") if flag.keyword in given}
    return _run(given, _worker_of(plugins, own))


def _worker_of(plugins: "Installed", options: Mapping[str, object]) -> "Worker | None":
    """Return the worker in place of one agent, chosen by plugins' flags of this command."""
    from sagent.plugin import resolve

    workers = (cast("WorkerOf", resolve(extra.add))(options) for _, extra in plugins.extras(WORKER)) if options else ()
    return next((worker for worker in workers if worker is not None), None)


def _run(options: dict[str, object], worker: "Worker | None") -> int:
    """Serve until SIGINT or SIGTERM; tasks that run then are interrupted, and their sessions can be gone on with."""
    served = _Served(
        take_listener(options, TOKEN),
        url=str(options.pop("url", "")).rstrip("/"),
        card={name: str(options.pop(name)) for name in ("name", "description") if name in options},
        worker=worker,
        push_to=[*map(str, as_array(options.pop("push_to", ())))],
    )
    if served.url and (urlsplit(served.url).scheme not in ("http", "https") or not urlsplit(served.url).hostname):
        raise UsageError(f"--url {served.url}: give the address that begins with https:// or http://.")
    _check_push(served.push_to)
    settings = with_chosen_model(load_settings(options))  # reports their errors now, not to the first client
    require("sagent a2a", "a2a", PACKAGES, "a2a", "starlette", "uvicorn", "sse_starlette")
    with listening(served.listener.host, served.listener.port) as bound:
        return asyncio.run(_serve(options, settings, bound, served))


def _check_push(addresses: Sequence[str]) -> None:
    from sagent.sandbox.hosts import Entry

    for text in addresses:
        try:
            port = Entry.parse(text).port
        except ValueError as error:
            raise UsageError(f"--push-to {text}: {error}.") from error
        if port is None:  # an entry without a port only leads to public addresses, which need no flag
            raise UsageError(f"--push-to {text}: give the port too: HOST:PORT.")


async def _serve(flags: Mapping[str, object], settings: "Settings", bound: socket.socket, served: _Served) -> int:
    from sagent.plugins.a2a.app import make_app, make_caller
    from sagent.plugins.a2a.card import make_card
    from sagent.plugins.hosting.running import serve

    logging.getLogger("a2a").setLevel(logging.CRITICAL)  # errors of a request are in its answer
    prepare, answer, described = _worker(served, settings)
    listener, tokens = served.listener, served.listener.tokens
    callers = {
        token: make_caller(
            opening_of(flags, name, prepare, users=tokens.values()),
            state_of(settings, name),
            settings.cwd,
            served.push_to,
            answer,
        )
        for name, token in tokens.items()
    }
    url = served.url or url_of(bound, listener.host)
    app = make_app(make_card(described, url), callers, urlsplit(url).hostname or listener.host)
    with announced(settings.state_dir / "a2a-serve", listener, bound, _words):
        return await serve(app, bound, list(callers.values()))


def _worker(served: _Served, settings: "Settings") -> "tuple[Callable[[Settings], Settings], Answer, Described]":
    """Return how the worker's sessions are opened, how it is asked, and its description: one agent, or another
    worker."""
    from sagent.plugins.a2a.card import Described
    from sagent.plugins.a2a.contexts import answer_alone

    if (worker := served.worker) is None:
        return lambda settings: settings, answer_alone, Described(**served.card)

    async def answer(live: "LiveSession", opened: "OpenSession", prompt: "Message") -> "Result":
        return await worker.answer(opened.agent, settings, prompt)

    named = {"name": worker.name, "description": worker.description, **served.card}
    return worker.prepare, answer, Described(**named, skill=worker.name, tags=tuple(worker.tags))


def _words(url: str, tokens: Mapping[str, str], file: "Path") -> Sequence[str]:
    opens = [
        f"{f'{name} sends' if name else 'Clients send'} Authorization: Bearer {token}" for name, token in tokens.items()
    ]
    return [f"Card: {url}/.well-known/agent-card.json", *opens, f"The same is in {file}. Ctrl-C ends it."]
