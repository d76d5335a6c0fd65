"""One conversation, eleven switches between five providers, some in the middle of a tool loop, one after an interrupt.

A real agent, real HTTP, strict servers; and what the servers received is held against the official SDKs' own types.
"""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false, reportReturnType=false

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.events import Event, ReplyFinished, Switched, TextDelta
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import Document, Image, Message, Text, Thinking, user
from sagent.model import Model
from sagent.peer import Switch
from sagent.providers import provider_named
from sagent.session.entries import read_body
from sagent.session.folds import history, spend
from sagent.session.store import Session
from sagent.testing import check_pairing
from sagent.testing.script import Call, Received, Stall, Step, Turn
from sagent.testing.server import FakeProviderServer
from sagent.tool import Answer, Effect, RunContext, ToolOutput, Workspace
from sagent.usage import Usage
from tests.depth import later
from tests.intact import faults
from tests.providers.sdk_types import sdk_adapters

CLAUDE, GPT = "anthropic/claude-sonnet-4-6", "openai/gpt-5.6-terra"
KIMI, GEMINI, LARGE = "moonshot/kimi-k2.6", "google/gemini-3.1-pro-preview", "mistral/mistral-large-4"
PATHS = {CLAUDE: "", GPT: "/v1", KIMI: "/v1", GEMINI: "", LARGE: "/v1"}
PRICES = {model: {"input": 3, "cache_read": 1, "output": 15} for model in PATHS}
PIXEL = Image("image/png", b"\x89PNG\r\n")
PAPER = Document("application/pdf", b"%PDF-1.4 /Type /Page ", "a.pdf")


class Tool:
    """A tool that a test gives its deed."""

    description = "A test's tool."
    parameters = json_freeze_object({"type": "object", "properties": {"to": {"type": "string"}}})

    def __init__(self, name: str, act: Callable[[JsonObject], object]) -> None:
        self.name = name
        self._act = act

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return Effect("none")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> Answer:
        outcome = self._act(arguments)
        return await outcome if asyncio.iscoroutine(outcome) else outcome


@dataclass
class Stage:
    """The servers, each a provider; they share one script, whoever is asked."""

    script: Iterator[Step]
    servers: dict[str, FakeProviderServer] = field(default_factory=dict)
    providers: dict[str, object] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    bodies: dict[str, list[Received]] = field(default_factory=dict)

    def answer(self, model: str, received: Received) -> Step:
        self.asked.append(model)
        self.bodies.setdefault(model, []).append(received)
        return next(self.script)

    def resolve(self, name: str) -> Model:
        return self.providers[name].model(name.partition("/")[2])


@contextlib.asynccontextmanager
async def staged(*steps: Step) -> AsyncIterator[Stage]:
    stage = Stage(iter(steps))
    async with contextlib.AsyncExitStack() as stack:
        for name, path in PATHS.items():
            server = FakeProviderServer(lambda received, name=name: stage.answer(name, received))
            stage.servers[name] = await stack.enter_async_context(server)
            base = server.url + path
            provider = provider_named(name.partition("/")[0], key="key-for-tests", base_url=base)
            stage.providers[name] = provider
            stack.push_async_callback(provider.aclose)
        yield stage


def moves(*places: str, **more: object) -> Turn:
    """A turn that thinks, talks, looks at a picture and moves on in the middle of its loop, all in parallel."""
    calls = (Call("look"), *(Call("move", {"to": place}) for place in places), Call("look", '{"broken'))
    return Turn(f"On to {places[-1]}.", thinking="Where to?", calls=calls, **more)


@later
async def test_eleven_switches(tmp_path: Path) -> None:
    repeated = Turn("Twice.", thinking="Hm.", calls=(Call("look", id="same"), Call("look", id="same")))
    steps: list[Step] = [
        moves(GPT, usage=Usage(input=100, cache_read=20, output=30, reasoning=5)),  # anthropic, switched in its loop
        moves(KIMI),
        moves(GEMINI),
        moves(LARGE, CLAUDE),  # two switches while the same tools run
        Turn("There and back.", thinking="All read."),  # anthropic
        repeated,  # mistral
        moves(GPT),
        Turn("Done.", thinking="Finished."),
        Stall(Turn("Half of what I wanted to say was", thinking="Long."), after_events=8),  # moonshot, interrupted
        Turn("", calls=(Call("hang"), Call("look"))),  # google: its tool never ends
        Turn("Fine.", thinking="So."),  # openai
        Turn("Home.", thinking="Again."),  # anthropic
    ]
    events: list[Event] = []
    hanging = asyncio.Event()

    async def hang(_: JsonObject) -> str:
        hanging.set()
        await asyncio.Event().wait()
        raise AssertionError

    with Session.create(tmp_path, tmp_path) as session:
        async with staged(*steps) as stage:
            log = session.log()
            ledger = Ledger(None, PriceBook(PRICES))
            tools = [
                Tool("look", lambda _: ToolOutput((Text("seen"), PIXEL))),
                Tool("move", lambda given: switch(str(given["to"]))),
                Tool("hang", hang),
            ]
            resources = Resources(log, ledger, Workspace(tmp_path), resolve=stage.resolve)
            agent = Agent(stage.resolve(CLAUDE), system="Be terse.", tools=tools, effort="low", resources=resources)
            agent.listen(events.append)

            def switch(place: str) -> str:
                agent.apply(Switch(model=place))
                return f"moved to {place}"

            await agent.run(user("Look around.", PIXEL, PAPER))
            switch(LARGE)
            await agent.run("Again, twice.")
            switch(KIMI)
            await interrupted(agent, "Talk.", until=lambda event: isinstance(event, TextDelta))
            switch(GEMINI)
            task = asyncio.create_task(agent.run("Wait for ever."))
            await hanging.wait()
            switch(GPT)
            agent.interrupt()
            assert (await task).stop_reason == "interrupted"
            await agent.run("And?")
            switch(CLAUDE)
            result = await agent.run("Home?")

            assert result.content == "Home."
            kinds = [CLAUDE, GPT, KIMI, GEMINI, CLAUDE, LARGE, LARGE, GPT, KIMI, GEMINI, GPT, CLAUDE]
            assert stage.asked == kinds  # and nobody refused anything, or more would have been asked
            assert sum(isinstance(event, Switched) for event in events) == 11
            check_pairing(agent.messages)
            check_own_data_comes_back(stage)
            check_only_new_things_are_said(stage)
            check_money(stage, ledger, log.entries(), events)
            kept = list(agent.messages)
            await agent.aclose()
    assert faults(session.path, result.head) == []
    with Session.open(session.path) as again:
        log = again.log()
        entries = list(log.entries())
        assert history(entries, log.blobs.get) == tuple(kept)
        assert spend(entries).cost() == ledger.cost()
    check_types(stage)


async def interrupted(agent: Agent, prompt: str, until: Callable[[Event], bool]) -> None:
    """Run until an event, and stop there; the partial reply stays."""
    forget = agent.listen(lambda event: agent.interrupt() if until(event) else None)
    result = await agent.run(prompt)
    forget()
    assert result.stop_reason == "interrupted"
    assert (agent.messages[-1].stop, agent.messages[-1].role) == ("interrupted", "assistant")
    assert agent.messages[-1].content


def check_own_data_comes_back(stage: Stage) -> None:
    """Back at a family, its own signatures, ids and reasoning are what they were, byte for byte."""
    last = stage.bodies[CLAUDE][-1].body
    blocks = [
        block
        for message in json.loads(last)["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
    ]
    signed = [block for block in blocks if block["type"] == "thinking"]
    assert [block["thinking"] for block in signed] == ["Where to?", "All read."]
    before = stage.bodies[CLAUDE][1].body
    for block in signed[:1]:
        written = json.dumps(block, separators=(",", ":"), ensure_ascii=False).encode()
        assert written in before
        assert written in last
    assert len({block["id"] for block in blocks if block["type"] == "tool_use"}) == 20

    items = json.loads(stage.bodies[GPT][-1].body)["input"]
    reasoning = [item for item in items if item.get("type") == "reasoning"]
    assert [item["summary"][0]["text"] for item in reasoning] == ["Where to?", "Finished."]
    assert all(item["encrypted_content"].startswith("fake-encrypted-") and item["id"] for item in reasoning)
    own = [item for item in items if item.get("type") == "function_call" and "id" in item]
    assert len(own) == 3

    contents = json.loads(stage.bodies[GEMINI][-1].body)["contents"]
    calls = [part for content in contents for part in content["parts"] if "functionCall" in part]
    assert any(part.get("thoughtSignature", "").startswith("ZmFrZ") for part in calls)  # "fake..."
    kimi = json.loads(stage.bodies[KIMI][-1].body)["messages"]
    thought = [message.get("reasoning_content") for message in kimi if message.get("tool_calls")]
    assert "Where to?" in thought
    assert all(thought)  # a filler where the reasoning was another's


def check_only_new_things_are_said(stage: Stage) -> None:
    """Each provider's later requests begin with what its earlier ones said, up to the turn that was still open."""
    lists = {CLAUDE: "messages", GPT: "input", KIMI: "messages", GEMINI: "contents", LARGE: "messages"}
    for name, member in lists.items():
        bodies = [
            json.loads(each.body.replace(b',"cache_control":{"type":"ephemeral"}', b"")) for each in stage.bodies[name]
        ]
        for before, after in pairwise(bodies):
            said = before[member]
            assert after[member][: len(said)] == said, name


def check_money(stage: Stage, ledger: Ledger, entries: object, events: list[Event]) -> None:
    """What is told call by call, what the log says and what the ledger holds are one sum, and the servers' bill."""
    bills = [read_body(entry) for entry in entries if entry.kind == "spent"]
    assert sum(Decimal(str(bill["usd"])) for bill in bills) == ledger.cost().total > 0
    assert set(ledger.cost().by_model) == set(PATHS)
    whole = [bill for bill in bills if not bill["estimated"]]
    estimated = [f"{bill['provider']}/{bill['model']}" for bill in bills if bill["estimated"]]
    assert estimated == [LARGE, LARGE, KIMI]  # whose server tells only who asks, and the interrupted call
    for name, server in stage.servers.items():
        billed: Usage = sum(server.billed, Usage())
        told = [bill["usage"] for bill in whole if f"{bill['provider']}/{bill['model']}" == name]
        if name not in estimated:
            assert sum(each.get("output", 0) for each in told) == billed.output, name
            assert sum(each.get("input", 0) for each in told) == billed.input, name
    assert len([event for event in events if isinstance(event, ReplyFinished)]) == len(bills) - 1


def check_types(stage: Stage) -> None:
    """Every message that went out is of the official SDKs' own types."""
    adapters, checked = sdk_adapters(), 0
    kinds = {
        CLAUDE: ("anthropic", "messages"),
        GPT: ("responses", "input"),
        KIMI: ("chat", "messages"),
        LARGE: ("chat", "messages"),
        GEMINI: ("google", "contents"),
    }
    for name, (family, member) in kinds.items():
        for message in json.loads(stage.bodies[name][-1].body)[member]:
            message.pop("reasoning_content", None)  # Moonshot's own
            adapters[family](message)
            checked += 1
    assert checked > 75


async def test_switch_during_calls_sends_results() -> None:
    steps = [Turn("Moving.", thinking="Hm.", calls=(Call("move", {"to": GEMINI}), Call("look"))), Turn("Here.")]
    async with staged(*steps) as stage:
        agent = Agent(
            stage.resolve(GPT),
            tools=[
                Tool("move", lambda given: agent.apply(Switch(model=str(given["to"]))) or "moved"),
                Tool("look", lambda _: "seen"),
            ],
            resources=Resources(resolve=stage.resolve, ledger=Ledger(None, PriceBook(PRICES))),
        )
        assert (await agent.run("Go.")).content == "Here."
        await agent.aclose()
    contents = json.loads(stage.bodies[GEMINI][0].body)["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    answers = [part["functionResponse"]["response"]["output"] for part in contents[2]["parts"]]
    assert answers == ["moved", "seen"]
    assert [type(part) for part in agent.messages[1].parts] == [
        Thinking,
        Text,
        *[type(call) for call in agent.messages[1].calls],
    ]
    assert isinstance(agent.messages[1], Message)
