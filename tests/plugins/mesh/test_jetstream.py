"""What the mesh needs of a JetStream server, seen at a real one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, suppress
from itertools import count
from pathlib import Path

import pytest
from buses import Broker, options

from sagent.errors import UsageError
from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import Fenced, NobodyThere, Refused, TooLarge, Unavailable
from sagent.plugins.mesh.jetstream import JetStream, connected
from sagent.plugins.mesh.server import MAX_PAYLOAD_BYTES, ServerOptions, serving
from tests.depth import later, slow
from tests.plugins.mesh.test_failover import Wire
from tests.waiting import SECONDS

_numbers = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(options(tmp_path_factory.mktemp("bus"))) as found:
        yield found


@pytest.fixture
async def bus(server: Broker) -> AsyncIterator[JetStream]:
    async with connected(server.url) as found:
        assert await found.ensure() == []
        yield found


@pytest.fixture
def name() -> str:
    """Of what one test alone uses."""
    return f"t{next(_numbers)}"


async def _bodies(bus: JetStream, subject: str, after: int = 0) -> list[bytes]:
    return [message.data async for message in bus.read(names.LOG, subject, after)]


async def test_appended_entries_read_in_order(bus: JetStream, name: str) -> None:
    subject, last = names.log_subject(name), 0
    for number in range(20):
        last = await bus.append(subject, b"%d" % number, id=f"{name}.{number}", expected=last)
    assert await _bodies(bus, f"sagent.log.{names.token(name)}.>") == [b"%d" % number for number in range(20)]
    assert await _bodies(bus, subject, after=last) == []
    assert (found := await bus.last_message(names.LOG, subject)) is not None
    assert (found.data, found.sequence) == (b"19", last)


async def test_stale_writer_fenced(bus: JetStream, name: str) -> None:
    subject = names.log_subject(name)
    first = await bus.append(subject, b"one", id=f"{name}.1", expected=0)
    with pytest.raises(Fenced):
        await bus.append(subject, b"two", id=f"{name}.2", expected=0)
    assert await bus.append(subject, b"one", id=f"{name}.1", expected=0) == first  # its answer was lost, say
    assert await _bodies(bus, subject) == [b"one"]


async def test_message_size_limited(bus: JetStream, name: str) -> None:
    subject = names.log_subject(name)
    body = b"x" * (MAX_PAYLOAD_BYTES - 1_000)
    await bus.append(subject, body)
    assert await _bodies(bus, subject) == [body]
    with pytest.raises(TooLarge, match="8,388,608 bytes"):
        await bus.append(subject, b"x" * (MAX_PAYLOAD_BYTES + 1))


async def test_following_reads_past_and_future(bus: JetStream, name: str) -> None:
    subject = names.log_subject(name)
    await bus.append(subject, b"0")
    seen: list[bytes] = []
    async with bus.following(names.LOG, subject) as messages:
        async for message in messages:
            seen.append(message.data)
            if len(seen) == 12:
                break
            await bus.append(subject, b"%d" % len(seen))
    assert seen == [b"%d" % number for number in range(12)]


async def test_read_ends_at_missing_messages(bus: JetStream, name: str) -> None:
    subject = names.log_subject(name)
    for number in range(12):
        await bus.append(subject, b"%d" % number)
    seen: list[bytes] = []
    async with asyncio.timeout(60), bus.following(names.LOG, subject) as messages:
        async for message, _ in messages.until_end():
            if not seen:
                await bus.context.purge_stream(names.LOG, subject=subject)
            seen.append(message.data)
    assert seen == [b"%d" % number for number in range(len(seen))]
    assert len(seen) < 12


async def test_forgotten_reader_reads_on(bus: JetStream, name: str) -> None:
    """The bus forgets a reader whose process does not run for a while."""
    for number in range(3):
        await bus.append(names.log_subject(name), b"%d" % number)
    async with bus.following(names.LOG, names.log_subject(name)) as messages:
        await messages._opened()
        assert messages._pull is not None
        consumer = (await messages._pull.consumer_info()).name
        await bus.context.delete_consumer(names.LOG, consumer)
        assert [message.data async for message, _ in messages.until_end()] == [b"0", b"1", b"2"]


async def test_unacknowledged_message_returns(bus: JetStream, name: str) -> None:
    subject = names.inbox_subject(name)
    for number in range(2):
        await bus.append(subject, b"%d" % number)
    async with bus.taking(names.INBOX, subject, name, ack_wait=0.5) as intake:
        first = await intake.next()
        assert first is not None
        assert (first.message.data, first.deliveries) == (b"0", 1)
        assert await intake.next(0.05) is None  # the second waits for the first
    async with bus.taking(names.INBOX, subject, name, ack_wait=0.5) as intake:
        again = await intake.next()
        assert again is not None
        assert (again.message.data, again.deliveries) == (b"0", 2)
        assert await again.ack()
        second = await intake.next()
        assert second is not None
        assert second.message.data == b"1"


async def test_key_created_once_then_guarded(bus: JetStream, name: str) -> None:
    bucket = bus.bucket(names.SESSIONS)
    revision = await bucket.create(name, b"one")
    with pytest.raises(Fenced):
        await bucket.create(name, b"two")
    newer = await bucket.update(name, b"three", revision)
    with pytest.raises(Fenced):
        await bucket.update(name, b"four", revision)
    found = await bucket.get(name)
    assert found is not None
    assert (found.value, found.revision) == (b"three", newer)
    await bucket.delete(name, newer)
    assert await bucket.get(name) is None
    assert await bucket.create(name, b"again") > newer


async def test_one_of_many_creates_key(bus: JetStream, name: str) -> None:
    bucket = bus.bucket(names.SESSIONS)
    tries = [bucket.create(name, b"%d" % number) for number in range(16)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert [type(result) for result in results if not isinstance(result, int)] == [Fenced] * 15


async def test_watcher_sees_keys_come_and_expire(bus: JetStream, name: str) -> None:
    bucket = bus.bucket(names.LEASES)
    await bucket.create(f"{name}.a", b"1")
    async with bucket.watching(f"{name}.*") as changes, aclosing(changes):
        seen = [await anext(changes) for _ in range(2)]
        assert [entry and entry.value for entry in seen] == [b"1", None]
        await bus.append(f"$KV.{names.LEASES}.{name}.b", b"2", ttl=1)
        assert (entry := await anext(changes)) is not None
        assert entry.value == b"2"
        assert [each.key for each in await bucket.entries(f"{name}.*")] == [f"{name}.a", f"{name}.b"]
        assert (gone := await anext(changes)) is not None
        assert (gone.key, gone.value) == (f"{name}.b", None)
    assert await bucket.get(f"{name}.b") is None
    await bucket.create(f"{name}.b", b"a key that has expired is free")


async def test_large_values_are_kept_by_name(bus: JetStream, name: str) -> None:
    store = bus.store(names.BLOBS)
    assert await store.get(name) is None
    assert not await store.has(name)
    await store.put(name, b"\x00\xff" * 200_000)
    assert await store.has(name)
    assert await store.get(name) == b"\x00\xff" * 200_000
    await store.put(name, b"")
    assert await store.get(name) == b""
    await store.delete(name)
    assert await store.get(name) is None


async def test_request_answered_or_nobody_there(bus: JetStream, name: str) -> None:
    subject = names.control_subject(name)
    with pytest.raises(NobodyThere):
        await bus.request(subject, b"?")

    async def answer() -> None:
        async with bus.listening(subject) as requests:
            ready.set()
            async for request in requests:
                await request.respond(b"answer to " + request.message.data)

    ready = asyncio.Event()
    task = asyncio.create_task(answer())
    await ready.wait()
    assert await bus.request(subject, b"1") == b"answer to 1"
    await bus.publish(subject, b"nobody waits for this")
    assert await bus.request(subject, b"2") == b"answer to 2"
    task.cancel()


async def test_bad_login_and_missing_bus_named(server: Broker, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="does not admit"):
        async with connected(f"nats://127.0.0.1:{server.port}"):
            pass
    with pytest.raises(Unavailable, match="sagent bus"):
        async with connected("nats://127.0.0.1:1", timeout=0.2):
            pass
    for url in ("http://127.0.0.1", "nats://", f"nats://127.0.0.1?key={tmp_path}/none", "nats://h?what=1"):
        with pytest.raises(UsageError):
            async with connected(url):
                pass


@later
async def test_acknowledged_survives_server_kill(tmp_path: Path, name: str) -> None:
    """And who is connected goes on with the server that takes its place, at the same address."""
    subject, folder = names.log_subject(name), tmp_path / "bus"
    async with serving(ServerOptions(folder, port=0)) as server, connected(server.url) as bus:
        await bus.ensure()
        last = 0
        for number in range(5):
            last = await bus.append(subject, b"%d" % number, id=f"{name}.{number}", expected=last)
        async with bus.following(names.LOG, subject) as messages:
            reading = aiter(messages)
            assert [(await anext(reading)).data for _ in range(5)] == [b"%d" % number for number in range(5)]
            server.process.kill()
            await server.ended()
            waiting = asyncio.create_task(bus.append(subject, b"5", id=f"{name}.5", expected=last, timeout=30))
            async with serving(ServerOptions(folder, port=server.port)):
                await waiting
                assert (await anext(reading)).data == b"5"
                assert await _bodies(bus, subject) == [b"%d" % number for number in range(6)]


async def test_directory_held_by_one_server(tmp_path: Path) -> None:
    async with serving(ServerOptions(tmp_path / "bus", port=0)):
        with pytest.raises(UsageError, match="in use by another bus"):
            async with serving(ServerOptions(tmp_path / "bus", port=0)):
                pass


async def test_taken_port_named(server: Broker, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{server.port}.*in use"):
        async with serving(ServerOptions(tmp_path / "bus", port=server.port)):
            pass


@later
@pytest.mark.costly
@pytest.mark.parametrize("folder", ["bü s", 'a "b" \\ $HOME', "it's {x} # y"])
async def test_directory_name_may_be_odd(tmp_path: Path, folder: str) -> None:
    users = tmp_path / folder / "users.conf"
    async with serving(ServerOptions(tmp_path / folder / "bus", port=0)) as server, connected(server.url) as bus:
        await bus.ensure()
    users.write_text("accounts { A { jetstream: enabled, users: [ { user: ann, password: secret } ] } }")
    async with serving(ServerOptions(tmp_path / folder / "bus", port=0, users=users)) as server:
        async with connected(f"nats://ann:secret@127.0.0.1:{server.port}") as bus:
            await bus.ensure()
        with pytest.raises(Refused) as raised:
            async with connected(f"nats://ann:wrong@127.0.0.1:{server.port}"):
                pass
        assert "wrong" not in str(raised.value)


async def test_unusable_path_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line breaks"):
        async with serving(ServerOptions(tmp_path / "a\nb", port=0)):
            pass


async def test_closed_subscription_keeps_connection(tmp_path: Path) -> None:
    async with serving(ServerOptions(tmp_path / "bus", port=0)) as server, connected(server.url) as bus:
        await bus.ensure()

        async def listen() -> None:
            async with bus.listening("sagent.control.x"):
                await asyncio.Event().wait()

        for rounds in range(20):  # cancelled at each moment of it
            task = asyncio.create_task(listen())
            for _ in range(rounds):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        async with asyncio.timeout(SECONDS):
            assert await bus.append(names.work_subject(), b"x") > 0


@slow
async def test_stuck_connection_replaced(tmp_path: Path) -> None:
    """What was written to it never leaves, and another one is made all the same."""
    async with serving(ServerOptions(tmp_path / "bus", port=0)) as server, Wire(server.port) as wire:
        url = server.url.replace(str(server.port), str(wire.port))
        async with connected(url) as bus, asyncio.timeout(60):
            await bus.ensure()
            wire.stall()
            for _ in range(4):
                with suppress(Unavailable):
                    await bus.append(names.log_subject("s"), b"x" * (4 << 20), timeout=0.2)
            await bus.append(names.log_subject("s"), b"there", timeout=40)
