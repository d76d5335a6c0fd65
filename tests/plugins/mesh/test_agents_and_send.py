"""`sagent agents` and `sagent send`, with agents that answer in this process."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sagent.lib.json import JsonObject
from sagent.plugins.mesh.bus import Address, Delivery
from sagent.plugins.mesh.bus_suite import answering
from sagent.plugins.mesh.buses.nats import NatsBus, nats_bus
from sagent.plugins.mesh.cards import Card
from sagent.plugins.mesh.discovery import announced
from sagent.testing.server import Turn
from tests.cli.program import PROGRAM, Outcome, Shell
from tests.depth import later
from tests.plugins.mesh.buses import Broker, options
from tests.plugins.mesh.places import by_results, place
from tests.waiting import started


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(options(tmp_path_factory.mktemp("bus"))) as found:
        yield found


@pytest.fixture
async def bus(broker: Broker) -> AsyncIterator[NatsBus]:
    async with nats_bus(broker.url) as found:
        yield found


@pytest.fixture
def bus_shell(shell: Shell, broker: Broker) -> Shell:
    shell.environment["SAGENT_BUS"] = broker.url
    return shell


async def _run(shell: Shell, *argv: str, stdin: str = "") -> Outcome:
    return await asyncio.to_thread(shell.run, *argv, stdin=stdin, model="")


async def _echo(delivery: Delivery) -> None:
    """Answers in the way that it is asked for."""
    match delivery.envelope.body:
        case "stream":
            await delivery.emit("one")
            await delivery.emit({"text": "two"})
            await delivery.reply({"text": "three"})
        case "fail":
            await delivery.fail("There is no such paper.", "not_found")
        case JsonObject():
            await delivery.reply(delivery.envelope.body)
        case body:
            await delivery.reply(f"You said: {body}")


async def test_message_answered(bus: NatsBus, bus_shell: Shell) -> None:
    async with answering(bus, Address("team.echo"), _echo):
        done = await _run(bus_shell, "send", "team.echo", "Grüße")
        assert (done.code, done.out, done.err) == (0, "You said: Grüße\n", "")
        assert (await _run(bus_shell, "send", "team.echo", stdin="piped\n")).out == "You said: piped\n"
        assert (await _run(bus_shell, "send", "team.echo", "--json", "x")).out == '"You said: x"\n'
        assert (await _run(bus_shell, "send", "team.echo", "--data", '{"n": 1}')).out == '{"n":1}\n'
        assert (await _run(bus_shell, "send", "team.echo", "--stream", "stream")).out == "one\ntwo\nthree\n"
        assert (await _run(bus_shell, "send", "team.echo", "stream")).out == "three\n"
        done = await _run(bus_shell, "send", "team.echo", "fail")
        assert (done.code, done.out, done.err) == (1, "", "sagent: team.echo: There is no such paper.\n")


@later
async def test_message_without_reply_kept(bus: NatsBus, bus_shell: Shell) -> None:
    assert (await _run(bus_shell, "send", "team.later", "--no-reply", "kept")).code == 0
    async with bus.receiving("team.later") as deliveries:
        delivery = await anext(deliveries)
        assert (delivery.envelope.body, delivery.envelope.sender) == ("kept", "cli")
        await delivery.ack()
    done = await _run(bus_shell, "send", "team.nobody", "--no-reply", "--keep", "0.5", "lost")
    assert (done.code, done.out) == (1, "")
    assert "No agent receives at team.nobody" in done.err


async def test_present_agents_listed(bus: NatsBus, bus_shell: Shell) -> None:
    schema = JsonObject({"type": "object"})
    review = Card("team.review", "Reviews\x1b[31m code.", takes=schema, labels=("gpu",), load=0.5)
    async with announced(bus, review), announced(bus, Card("teamwork")):
        done = await _run(bus_shell, "agents", "team")
        assert done.code == 0, done.err
        assert "team.review" in done.out and "50%" in done.out and "teamwork" not in done.out
        assert "\x1b" not in done.out
        found = json.loads((await _run(bus_shell, "agents", "--json", "--label", "gpu")).out)
        assert [card["address"] for card in found] == ["team.review"]
        assert found[0]["takes"] == {"type": "object"}
        assert (await _run(bus_shell, "agents", "nobody")).out == "No agents, nodes or sessions in nobody.\n"


@later
async def test_watch_shows_arrivals(bus: NatsBus, bus_shell: Shell) -> None:
    watch = (*PROGRAM, "agents", "seen", "--watch")
    async with started(*watch, env=bus_shell.environment, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        async with (
            announced(bus, Card("unseen")),
            announced(bus, Card("seen.a", "first")),
        ):
            assert json.loads(await child.stdout.readline())["card"]["description"] == "first"
        assert json.loads(await child.stdout.readline()) == {"address": "seen.a", "card": None}


@later
async def test_session_is_also_agent(tmp_path: Path, shell: Shell) -> None:
    async with place(tmp_path, by_results([Turn("Hello."), Turn("Once more.")])) as here:
        shell.environment["SAGENT_BUS"] = here.url
        await here.node("n1", "--label", "big")
        code, out, err = await here.ask("--json", "hello")
        assert code == 0, err
        address = f"session.{json.loads(out)['session_id']}"
        cards = {card["address"]: card for card in json.loads((await _run(shell, "agents", "--json")).out)}
        assert cards[address]["details"]["state"] == "idle"
        assert (cards["node.n1"]["kind"], cards["node.n1"]["labels"]) == ("node", ["big"])
        for space, shown in ((address, [address]), ("session", [address]), ("node", ["node.n1"]), ("session.x", [])):
            found = json.loads((await _run(shell, "agents", space, "--json")).out)
            assert [card["address"] for card in found] == shown
        done = await _run(shell, "send", address, "and again")
        assert (done.code, done.out) == (0, "Once more.\n"), done.err


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["send", "a b", "x"], 2, "not an address"),
        (["send", "a", "x", "--data", "{}"], 2, "not both"),
        (["send", "a", "--data", "{"], 2, "not JSON"),
        (["send", "a", "x", "--timeout", "0"], 2, "above 0"),
        (["send", "a", "x", "--keep", "5"], 2, "--no-reply"),
        (["send", "session.none", "x"], 2, "No session"),
        (["send", "team.void", "x", "--timeout", "0.3"], 1, "No agent receives at team.void"),
        (
            ["send", "team.void", "x", "--timeout", "3"],
            1,
            "there is no agent at team.void yet; waiting up to 3 s for one",
        ),
        (["agents", "*"], 2, "not an address"),
        (["agents", "--bus", "nats://127.0.0.1:1"], 1, "There is no bus at"),
    ],
)
def test_impossible_request_explained(bus_shell: Shell, argv: list[str], code: int, said: str) -> None:
    done = bus_shell.run(*argv, model="")
    assert (done.code, done.out) == (code, "")
    assert said in done.err


@later
def test_missing_bus_named(shell: Shell) -> None:
    for argv in (["send", "a", "x"], ["agents"]):
        done = shell.run(*argv, model="")
        assert done.code == 2
        assert "SAGENT_BUS" in done.err
