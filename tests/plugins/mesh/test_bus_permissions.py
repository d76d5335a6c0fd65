"""What each user of a bus may do is held by the server: whoever tries more is refused there."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from buses import Broker, options

from sagent.errors import UsageError
from sagent.plugins.mesh import names
from sagent.plugins.mesh.bus import Address, Delivery, Envelope, Frame, encode_frame, message, request
from sagent.plugins.mesh.bus_suite import answering
from sagent.plugins.mesh.buses.nats import NatsBus, nats_bus
from sagent.plugins.mesh.cards import Card
from sagent.plugins.mesh.errors import Fenced, Full, Refused, Unavailable
from sagent.plugins.mesh.jetstream import JetStream, connected
from sagent.plugins.mesh.security import Role, Users, configuration, permissions
from sagent.plugins.mesh.server import Tls
from sagent.plugins.mesh.team_money import TeamMoney
from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.certificates import write_certificate
from tests.depth import later
from tests.plugins.mesh.places import PROGRAM, Place, by_results


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Users:
    found = Users(tmp_path_factory.mktemp("users"))
    agents: list[tuple[Role, str, tuple[str, ...]]]
    agents = [("agent", "reviewer", ("team.review", "team.help")), ("agent", "other", ("team.other",))]
    users: list[tuple[Role, str, tuple[str, ...]]]
    users = [("node", "n", ()), ("person", "ann", ()), ("observer", "wall", ()), *agents]
    found.change("acme", users, [])
    found.change("rival", [("node", "n", ()), ("person", "ann", ())], [])
    return found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, users: Users) -> Iterator[Broker]:
    with Broker(replace(options(tmp_path_factory.mktemp("bus")), users=users.configuration)) as found:
        yield found


def _url(broker: Broker, users: Users, name: str, tenant: str = "acme") -> str:
    return f"{broker.url}?key={users.folder / f'{tenant}.{name}.nk'}"


@pytest.fixture
async def buses(broker: Broker, users: Users) -> AsyncIterator[dict[str, NatsBus]]:
    """Of each user of acme, after a node has made the streams."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(nats_bus(_url(broker, users, name)))
            for name in ("n", "ann", "reviewer", "other")
        }


@pytest.fixture
async def wall(buses: dict[str, NatsBus], broker: Broker, users: Users) -> AsyncIterator[JetStream]:
    async with connected(_url(broker, users, "wall")) as found:
        yield found


async def test_agent_answers_own_addresses(buses: dict[str, NatsBus]) -> None:
    to = Address("team.review")
    body = "x" * (1 << 20)
    for asker in ("ann", "n", "other"):
        async with answering(buses["reviewer"], to, lambda delivery: delivery.reply(delivery.envelope.body)):
            assert await request(buses[asker], Envelope(to, body), timeout=30) == body


async def test_agent_cannot_read_others(buses: dict[str, NatsBus]) -> None:
    sent = await buses["ann"].send(message("team.review", "a secret"))
    with pytest.raises(Refused, match="does not allow"):
        async with buses["other"].receiving("team.review") as deliveries:
            await anext(deliveries)
    jetstream = buses["other"].jetstream
    for subject in ("sagent.inbox.>", names.inbox_subject("team.review")):
        with pytest.raises(Refused):
            async with jetstream.listening(subject):
                pass
    with pytest.raises(Refused):
        await anext(aiter(jetstream.read(names.INBOX, names.inbox_subject("team.review"))))
    async with buses["reviewer"].receiving("team.review") as deliveries:
        delivery = await anext(deliveries)
        assert delivery.envelope.id == sent.id
        await delivery.ack()


async def test_agent_publishes_only_its_card(buses: dict[str, NatsBus]) -> None:
    await buses["reviewer"].put_card(card := Card("team.review"))
    with pytest.raises(Refused):
        await buses["other"].put_card(card)
    assert [each for each in await buses["other"].cards() if each.kind == "agent"] == [card]  # nodes may have been
    await buses["reviewer"].remove_card("team.review")


async def test_session_streams_need_node_role(buses: dict[str, NatsBus]) -> None:
    subject = names.log_subject("s1")
    await buses["n"].jetstream.append(subject, b"{}", expected=0)
    for name in ("ann", "reviewer"):
        jetstream = buses[name].jetstream
        with pytest.raises(Refused):
            await jetstream.append(subject, b"forged")
        with pytest.raises(Refused):
            await jetstream.bucket(names.LEASES).put("s1", b"mine")
        with pytest.raises(Refused):
            async with jetstream.taking(names.WORK, names.work_subject(), "x", ack_wait=5) as intake:
                await intake.next()
    assert [found.data async for found in buses["ann"].jetstream.read(names.LOG, subject)] == [b"{}"]
    with pytest.raises(Refused):
        await anext(aiter(buses["reviewer"].jetstream.read(names.LOG, subject)))


async def test_people_and_nodes_spend_the_teams_money(buses: dict[str, NatsBus], wall: JetStream) -> None:
    for name in ("n", "ann"):
        money = TeamMoney(buses[name].jetstream)
        await money.begin()
        assert isinstance(await money.reserve({"day": 100}, 40), str)
    assert await money.left("day") == (0, 80)
    for other in (wall, buses["reviewer"].jetstream):
        with pytest.raises((Refused, Unavailable)):
            await TeamMoney(other).reserve({"day": 100}, 1)


async def test_nobody_rewrites_streams(buses: dict[str, NatsBus]) -> None:
    for bus in buses.values():
        with pytest.raises(Refused):
            await bus.jetstream.request(f"$JS.API.STREAM.DELETE.{names.LOG}", b"")
        with pytest.raises(Refused):
            await bus.jetstream.request(f"$JS.API.STREAM.PURGE.{names.LOG}", b"")
        with pytest.raises(Refused):
            await bus.jetstream.request(f"$JS.API.STREAM.UPDATE.{names.LOG}", b"{}")
        with pytest.raises(Refused):
            await bus.jetstream.request(f"$JS.API.STREAM.MSG.DELETE.{names.LOG}", b'{"seq":1}')


async def test_waiting_message_not_removable(buses: dict[str, NatsBus]) -> None:
    sent = await buses["ann"].send(message("team.review", "wanted"))
    for bus in buses.values():
        for stream in (names.INBOX, names.WORK):
            with pytest.raises(Refused):
                await bus.jetstream.request(f"$JS.API.STREAM.MSG.DELETE.{stream}", b'{"seq":%d}' % sent.sequence)
    async with buses["reviewer"].receiving("team.review") as deliveries:
        delivery = await anext(deliveries)
        assert delivery.envelope.id == sent.id
        await delivery.ack()


async def test_agent_cannot_impersonate(buses: dict[str, NatsBus]) -> None:
    async def reply(delivery: Delivery) -> None:
        forged = encode_frame(Frame("reply", "forged"))
        asked = delivery.envelope
        for name in ("team.review", "*", ">"):
            subject = names.reply_subject(asked.answers_to, name, asked.id)
            with pytest.raises(Refused):
                await buses["other"].jetstream.append(subject, forged)
        own = names.reply_subject(asked.answers_to, "team.other", asked.id)
        await buses["other"].jetstream.append(own, forged)  # which nobody waits for
        await delivery.reply("true")

    to = Address("team.review")
    async with answering(buses["reviewer"], to, reply):
        assert await request(buses["ann"], Envelope(to, "?"), timeout=30) == "true"
    for name in ("other", "ann"):
        get = buses[name].jetstream
        subject = names.reply_subject("*", "team.review").replace("=2A", "*")
        for api, data in (
            (f"$JS.API.STREAM.MSG.GET.{names.REPLIES}", b'{"seq":1}'),
            (f"$JS.API.DIRECT.GET.{names.REPLIES}", b'{"seq":1}'),
            (f"$JS.API.DIRECT.GET.{names.REPLIES}.{subject}", b""),
        ):
            with pytest.raises(Refused):
                await get.request(api, data)


async def test_message_outcome_written_once(buses: dict[str, NatsBus]) -> None:
    key = f"m{os.getpid()}"
    await buses["ann"].jetstream.bucket(names.FATES).create(key, b"taken")
    for bus in buses.values():
        fates = bus.jetstream.bucket(names.FATES)
        for change in (fates.put(key, b"given up"), fates.create(key, b"given up"), fates.delete(key)):
            with pytest.raises((Fenced, Full)):
                await change
        with pytest.raises(Refused):
            await bus.jetstream.append(f"$KV.{names.FATES}.{key}", b"", headers={"Nats-Rollup": "sub"})
        found = await fates.get(key)
        assert (found and found.value) == b"taken"


async def test_agent_cannot_command_nodes(buses: dict[str, NatsBus]) -> None:
    for target in ("s2", "node-n"):
        with pytest.raises(Refused, match="does not allow"):
            await buses["reviewer"].jetstream.request(names.control_subject(target), b"drain")


@later
async def test_refused_node_explained(buses: dict[str, NatsBus], broker: Broker, users: Users, tmp_path: Path) -> None:
    assert buses  # the streams are there
    url = _url(broker, users, "ann")
    done = await asyncio.to_thread(
        subprocess.run,
        [*PROGRAM, "node", "--bus", url, "--name", "evil"],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("sagent: The bus does not allow this user")
    assert "Traceback" not in done.stderr


async def test_observer_only_reads(buses: dict[str, NatsBus], wall: JetStream) -> None:
    subject = names.log_subject("s2")
    await buses["n"].jetstream.append(subject, b"seen")
    assert [found.data async for found in wall.read(names.LOG, subject)] == [b"seen"]
    assert await wall.bucket(names.CARDS).entries() == []
    async with wall.listening(names.events_subject("s2")) as events:
        await buses["n"].jetstream.publish(names.events_subject("s2"), b"said")
        assert (await anext(events)).message.data == b"said"
    with pytest.raises(Refused):
        await wall.append(names.inbox_subject("team.review"), b"no")
    with pytest.raises(Refused):
        await wall.request(names.control_subject("s2"), b"interrupt")


async def test_answers_only_for_asker(buses: dict[str, NatsBus], wall: JetStream) -> None:
    own = buses["ann"].client
    for jetstream in (buses["reviewer"].jetstream, wall):
        for subject in (names.reply_subject(own), "sagent.replies.>", "_INBOX.>", f"_INBOX_{own.partition('.')[0]}.>"):
            with pytest.raises(Refused):
                async with jetstream.listening(subject):
                    pass


async def test_control_request_answered(buses: dict[str, NatsBus]) -> None:
    subject = names.control_subject("s3")
    async with buses["n"].jetstream.listening(subject) as requests:
        asked = asyncio.create_task(buses["ann"].jetstream.request(subject, b"?"))
        await (await anext(requests)).respond(b"!")
        assert await asked == b"!"


async def test_tenants_see_nothing_of_each_other(buses: dict[str, NatsBus], broker: Broker, users: Users) -> None:
    async with nats_bus(_url(broker, users, "n", "rival")) as rival:
        await buses["n"].put_card(card := Card("team.review"))
        await buses["ann"].send(message("team.secret", "for acme"))
        assert await rival.cards() == []
        assert await buses["n"].cards() == [card]
        assert await rival.jetstream.last_message(names.INBOX, names.inbox_subject("team.secret")) is None
        await rival.jetstream.append(names.log_subject("s1"), b"its own", expected=0)
        await buses["n"].remove_card("team.review")


async def test_roles_allow_whole_session(
    buses: dict[str, NatsBus], broker: Broker, users: Users, tmp_path: Path
) -> None:
    """A prompt with its files, worked on, with a call that is asked about, and seen from elsewhere."""
    turns = [Turn("One.", calls=(Call("Write", {"file_path": "a.txt", "content": "one\n"}),)), Turn("Done.")]
    repository = tmp_path / "repository"
    for command in (
        ["git", "init", "-q", str(repository)],
        [
            "git",
            "-C",
            str(repository),
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "m",
        ],
    ):
        subprocess.run(command, check=True)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(FakeProviderServer(by_results(turns)))
        here = Place(tmp_path, _url(broker, users, "n"), buses["n"].jetstream, server, stack)
        await here.node("n1")
        here.url = _url(broker, users, "ann")
        code, out, err = await here.ask("--json", "work", cwd=repository)
        assert (code, json.loads(out)["result"]) == (0, "Done."), err


async def test_removed_key_refused(tmp_path: Path, users: Users) -> None:
    mine = Users(tmp_path / "users")
    mine.change("acme", [("node", "a", ()), ("node", "b", ())], [])
    key = mine.key_file(mine.all()[0]).read_text()
    mine.change("acme", [], ["a"])
    with Broker(replace(options(tmp_path), users=mine.configuration)) as broker:
        (tmp_path / "old.nk").write_text(key)
        with pytest.raises(Refused, match="does not admit"):
            async with connected(f"{broker.url}?key={tmp_path / 'old.nk'}"):
                pass
        async with connected(_url(broker, mine, "b")) as bus:
            await bus.ensure()


async def test_tls_is_checked_on_both_sides(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = trustme.CA()
    server = write_certificate(tmp_path / "bus.pem", "127.0.0.1", authority=authority)
    client = write_certificate(tmp_path / "client.pem", "client", authority=authority)
    stranger = write_certificate(tmp_path / "stranger.pem", "client")
    tls = Tls(server, server, server)
    with Broker(replace(options(tmp_path), tls=tls)) as broker:
        assert broker.url.startswith("tls://127.0.0.1:")
        own = f"&cert={client}&cert_key={client}"
        async with nats_bus(broker.url + own) as bus:
            await bus.send(message("a", "over TLS"))
        assert not caplog.records
        for wrong in ("", f"&cert={stranger}&cert_key={stranger}"):
            with pytest.raises((Refused, Unavailable)):
                async with connected(broker.url + wrong, timeout=1.0):
                    pass
        key = broker.url.partition("key=")[2].partition("&")[0]
        for without in (f"tls://127.0.0.1:{broker.port}?key={key}", f"nats://127.0.0.1:{broker.port}?key={key}"):
            with pytest.raises((Refused, Unavailable)):
                async with connected(without, timeout=1.0):
                    pass


# The list of users


def test_user_seeds_not_stored(tmp_path: Path) -> None:
    users = Users(tmp_path / "users")
    users.change("acme", [("node", "a", ()), ("agent", "b", ("x.y",))], [])
    seeds = [users.key_file(user).read_text().strip() for user in users.all()]
    kept = users.configuration.read_text() + (users.folder / "users.json").read_text()
    assert not [seed for seed in seeds if seed in kept]
    assert all(user.key in kept for user in users.all())
    assert {path.stat().st_mode & 0o777 for path in users.folder.iterdir()} == {0o600}
    with pytest.raises(UsageError, match="There is a user a in acme already"):
        users.change("acme", [("node", "a", ())], [])
    with pytest.raises(UsageError, match=r"There is no user c in acme\. The users are: a, b"):
        users.change("acme", [], ["c"])
    with pytest.raises(UsageError, match="not an address"):
        users.change("acme", [("node", "*", ())], [])
    assert [user.name for user in users.all()] == ["a", "b"]
    (users.folder / "users.json").write_text("[1]")
    with pytest.raises(UsageError, match="cannot be read"):
        users.all()


@later
def test_only_node_has_wildcards(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.change("a", [("person", "p", ()), ("observer", "o", ()), ("agent", "g", ("x",)), ("node", "n", ())], [])
    for user in users.all():
        allowed = permissions(user)
        subjects = [*allowed.publish, *allowed.subscribe]
        assert not {">", "*", "$JS.>", "$JS.API.>", "_INBOX.>", "$SYS.>"} & set(subjects)
        if user.role != "node":
            assert not {"sagent.>", "$KV.>", "$O.>"} & set(subjects)
    assert configuration(users.all()).count("nkey: U") == 4
