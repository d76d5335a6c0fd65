"""Sessions with everything in them that a replay has to follow, made by real agents over HTTP."""

import contextlib
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sagent.advisor.advisory import Setup
from sagent.advisor.extension import advise
from sagent.advisor.rules import Rules
from sagent.agent import Agent, Resources, RunLimits
from sagent.context.compaction import HEADINGS
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.events import Event, TextDelta, ToolStarted
from sagent.messages import Image, Text, user
from sagent.model import Model, Provider
from sagent.peer import Compact, Switch
from sagent.policy import Allow, Deny
from sagent.providers import provider_named
from sagent.session.contents import Opened
from sagent.session.log import FileLog
from sagent.session.store import Session
from sagent.testing.script import Call, Stall, Step, Turn
from sagent.testing.server import FakeProviderServer
from sagent.tool import RunContext, Tool, Workspace
from sagent.tools import Read, agent_tools, tool

FAMILIES = {
    "anthropic": "anthropic/claude-sonnet-4-6",
    "responses": "openai/gpt-5.6-terra",
    "chat": "moonshot/kimi-k2.6",
    "google": "google/gemini-3.1-pro-preview",
}
PATHS = {"openai": "/v1", "moonshot": "/v1"}
SUMMARY = "\n".join(f"## {heading}\nsomething that matters here" for heading in HEADINGS)
PRICES = {
    name: {"input": "3", "cache_read": "0.3", "cache_write": "3.75", "output": "15"} for name in FAMILIES.values()
}


@tool(effect="none")
async def wait(run: RunContext, seconds: float = 0.0, what: str = "it") -> str:
    """Wait for something.

    seconds: how long
    what: for what
    """
    import asyncio

    run.progress(f"waiting for {what}")
    await asyncio.sleep(seconds)
    return f"{what} is there"


@tool(effect="write")
def delete(path: str) -> str:
    """Delete something."""
    return f"{path} is gone"


class NoDeleting:
    """A policy: what is called delete is denied."""

    async def before_tool(self, call, effect, workspace):
        return Deny("deleting is not wanted") if call.name == "delete" else Allow()

    async def after_turn(self, turn):
        return ()


def png() -> bytes:
    """A small picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head, rows = struct.pack(">IIBBBBB", 2, 1, 8, 2, 0, 0, 0), b"\0" + b"\x50\x78\xc8" * 2
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@dataclass
class Stage:
    """Servers, one for each provider, which speak from one script."""

    script: Iterator[Step]
    providers: dict[str, Provider] = field(default_factory=dict)

    def resolve(self, name: str) -> Model:
        return self.providers[name.partition("/")[0]].model(name.partition("/")[2])


@contextlib.asynccontextmanager
async def staged(steps: Sequence[Step]) -> AsyncIterator[Stage]:
    """The providers of all families."""
    stage = Stage(iter(steps))
    async with contextlib.AsyncExitStack() as stack:
        for model in FAMILIES.values():
            name = model.partition("/")[0]
            server = await stack.enter_async_context(FakeProviderServer(lambda _: next(stage.script)))
            provider = provider_named(name, key="key-for-tests", base_url=server.url + PATHS.get(name, ""))
            stage.providers[name] = provider
            stack.push_async_callback(provider.aclose)
        yield stage


def agent_for(stage: Stage, log: FileLog, cwd: Path, model: str, **more: object) -> Agent:
    """An agent with tools of all kinds and an advisor."""
    advisory = advise([f"critic={FAMILIES['chat']}"], Setup(rules=Rules(triggers=()), mode="client"))
    resources = Resources(
        log=log,
        ledger=Ledger(None, PriceBook(PRICES)),
        workspace=Workspace(cwd),
        resolve=stage.resolve,
        advisory=advisory if more.pop("advised", True) else None,
    )
    tools: tuple[Tool, ...] = (Read(), *agent_tools(), wait, delete)
    given = {"system": "Be brief.", "tools": tools, "policy": NoDeleting(), "resources": resources, **more}
    return Agent(stage.resolve(model), limits=RunLimits(max_retries=0), **given)


def once(agent: Agent, when: Callable[[Event], bool]) -> None:
    """Interrupt it when something has happened."""
    done: list[Event] = []

    def listen(event: Event) -> None:
        if not done and event.agent == agent.path and when(event):
            done.append(event)
            agent.interrupt()

    agent.listen(listen)


def script() -> list[Step]:
    """Parallel calls with thinking, a picture read, a denial, bad arguments; advice; a child; a switch and back; a
    summary; two interruptions."""
    good = (Call("Read", {"file_path": "a.png"}), Call("wait", {"what": "this"}), Call("delete", {"path": "b"}))
    bad = (Call("Read", {"path": 7}), Call("nope", {}))
    both = (Call("wait", {"what": "quick"}), Call("wait", {"seconds": 60, "what": "slow"}))
    return [
        Turn(text="Let me look.", thinking="Hm, what is it?", calls=(*good, *bad)),
        Turn(text="I ask.", calls=(Call("advisor", {"question": "Is it fine?"}),)),
        Turn(text="VERDICT: proceed\nNEXT: go on with what you have"),
        Turn(calls=(Call("AgentSpawn", {"prompt": "look again", "name": "review"}),)),
        Turn(text="Looking.", calls=(Call("wait", {"what": "child"}),)),
        Turn(text="It is fine."),
        Turn(text="All is fine.", thinking="Done."),
        Turn(text="From another one.", calls=(Call("wait", {"what": "that"}),)),
        Turn(text="Still from another one."),
        Turn(text="Back again."),
        Turn(text=SUMMARY),
        Turn(text="After the summary."),
        Stall(Turn(text="I was about to say something long, and then it stops here.", pieces=4), after_events=9),
        Turn(text="What was I saying?", calls=both),
        Turn(text="The end."),
    ]  # fmt: skip


async def tell(state: Path, cwd: Path, model: str, other: str) -> Path:
    """Have it all happen; where the session is."""
    (cwd / "a.png").write_bytes(png())
    async with staged(script()) as stage:
        with Session.create(state, cwd) as session:
            log = session.log()
            log.append(Opened(session.id, "root", str(cwd), {"sagent": "0.1.0"}))
            agent = agent_for(stage, log, cwd, model, effort="low")
            await agent.run(user("", Text("Look at this."), Image("image/png", png())))
            agent.apply(Switch(model=other, effort="high"))
            await agent.run("And you?")
            agent.apply(Switch(model=model))
            await agent.run("And you again?")
            agent.apply(Compact())
            await agent.run("Go on.")
            once(agent, lambda event: isinstance(event, TextDelta) and len(event.text) > 3)
            assert (await agent.run("Say something long.")).stop_reason == "interrupted"
            once(agent, lambda event: isinstance(event, ToolStarted) and "slow" in str(event.call.arguments))
            assert (await agent.run("Wait for both.")).stop_reason == "interrupted"
            assert (await agent.run("What now?")).content == "The end."
            await agent.aclose()
    return session.path
