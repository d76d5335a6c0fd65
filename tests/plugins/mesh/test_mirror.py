"""A session's log on the bus: who holds the session writes, and nobody else; what was acknowledged is there."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.errors import SessionCorrupt
from sagent.plugins.mesh import mirror as mirrors
from sagent.plugins.mesh.errors import Unavailable
from sagent.plugins.mesh.mirror import HOLDER, LogMessage, Mirror, take_over
from sagent.plugins.mesh.rebuild import rebuild
from sagent.session.contents import Label
from sagent.session.log import read_log
from sagent.session.store import Session
from tests.depth import deep
from tests.plugins.mesh.simulated import SimulatedStream


@asynccontextmanager
async def mirrored(stream: SimulatedStream, directory: Path, name: str) -> AsyncIterator[tuple[Session, Mirror]]:
    """A session that somebody has just taken over, and its mirror at work."""
    while True:
        with suppress(Unavailable):
            after = await take_over(stream, name)
            break
    await rebuild(stream, directory, after)
    mirror = Mirror(stream, after)
    running = asyncio.create_task(mirror.run())
    with Session(directory) as session:
        mirror.follow(session)
        try:
            yield session, mirror
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def said(directory: Path, agent: str = "root") -> list[str]:
    file = (directory / agent).with_suffix(".jsonl")
    return [entry.content.text for entry in read_log(file) if isinstance(entry.content, Label)]


async def test_mirror_restores_exact_bytes(tmp_path: Path) -> None:
    stream = SimulatedStream()
    async with mirrored(stream, tmp_path / "a" / "s", "a") as (session, mirror):
        session.begin(tmp_path)
        session.log().append(Label("ä\u2028one"))
        session.log("root/child").append(Label("two"))
        blob = session.log().blobs.put(b"large").name
        session.log().append(Label(blob))
        await mirror.settled()
        found = await rebuild(stream, tmp_path / "b" / "s")
        assert found.lines == 4
        for name in ("root.jsonl", "root/child.jsonl", f"blobs/{blob}"):
            assert (tmp_path / "b" / "s" / name).read_bytes() == (tmp_path / "a" / "s" / name).read_bytes()


async def test_begun_calls_known(tmp_path: Path) -> None:
    stream = SimulatedStream()
    async with mirrored(stream, tmp_path / "a" / "s", "a") as (session, mirror):
        session.begin(tmp_path)
        for call in ("1, 2\n☂", "call_0", "call_0"):  # servers use ids again
            mirror.begin("root", call)
            await mirror.settled()
        session.log().append(Label("after"))
        await mirror.settled()
    found = await rebuild(stream, tmp_path / "b" / "s")
    assert found.lines == 2
    calls = (("root", "1, 2\n☂"), ("root", "call_0"), ("root", "call_1"), ("root/child", "call_0"))
    assert [found.may_have_run(*call) for call in calls] == [True, True, False, False]
    await stream.append(b"", {HOLDER: "an earlier version"}, name="holder", after=len(stream.pieces))
    await take_over(stream, "c")
    found = await rebuild(stream, tmp_path / "c" / "s")
    assert all(found.may_have_run(*call) for call in calls)


async def test_burst_sent_in_few_messages(tmp_path: Path) -> None:
    stream = SimulatedStream(random.Random(1))
    async with mirrored(stream, tmp_path / "s", "a") as (session, mirror):
        for number in range(200):
            session.log().append(Label(str(number)))
        await mirror.settled()
    assert len(stream.pieces) < 10


async def test_oversized_line_sent_by_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "MAX_MESSAGE_BYTES", 1000)
    stream = SimulatedStream()
    async with mirrored(stream, tmp_path / "a" / "s", "a") as (session, mirror):
        session.log().append(Label("x" * 5000))
        session.log().append(Label("short"))
        await mirror.settled()
    assert max(len(piece.body) for piece in stream.pieces) < 1000
    await rebuild(stream, tmp_path / "b" / "s")
    assert said(tmp_path / "b" / "s") == ["x" * 5000, "short"]


async def test_former_holder_never_writes(tmp_path: Path) -> None:
    stream = SimulatedStream()
    async with mirrored(stream, tmp_path / "a" / "s", "a") as (old, lost):
        old.log().append(Label("first"))
        await lost.settled()
        async with mirrored(stream, tmp_path / "b" / "s", "b") as (new, mirror):
            old.log().append(Label("too late"))
            waiting = asyncio.create_task(lost.settled())
            await lost.fenced.wait()
            new.log().append(Label("second"))
            await mirror.settled()
            assert not waiting.done()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await lost.settled()  # whatever was acknowledged before
            waiting.cancel()
    await rebuild(stream, tmp_path / "c" / "s")
    assert said(tmp_path / "c" / "s") == ["first", "second"]


async def test_stale_directory_set_aside(tmp_path: Path) -> None:
    stream = SimulatedStream()
    async with mirrored(stream, tmp_path / "s", "a") as (session, mirror):
        session.log().append(Label("first"))
        await mirror.settled()
        mirror.fence()
        session.log().append(Label("never sent"))
    await rebuild(stream, tmp_path / "s")
    assert said(tmp_path / "s") == ["first"]
    (stale,) = tmp_path.glob("s.stale-*")
    assert said(stale) == ["first", "never sent"]


@pytest.mark.parametrize("body", [b"root\t{}\n", b"../root\t{}\n", b"\xff\t{}\n", b"root\n", b"root\t@00\n"])
async def test_non_log_refused(tmp_path: Path, body: bytes) -> None:
    stream = SimulatedStream()
    stream.pieces.append(LogMessage(1, "x", {}, body))
    with pytest.raises((SessionCorrupt, KeyError)):
        await rebuild(stream, tmp_path / "s")


@settings(max_examples=deep(40, 1000), deadline=None)
@given(seed=st.integers(0, 1 << 32), steps=st.lists(st.sampled_from("abcwt"), max_size=40))
def test_only_holder_writes_nothing_lost(tmp_path_factory: pytest.TempPathFactory, seed: int, steps: list[str]) -> None:
    """Writers append, wait for acknowledgements and take each other's session away, in any order, on a bus that loses
    answers. A step "a", "b" or "c" appends, "w" waits, "t" is a takeover by another writer."""
    directory = tmp_path_factory.mktemp("race")
    asyncio.run(race(directory, random.Random(seed), steps))


async def race(directory: Path, chance: random.Random, steps: list[str]) -> None:
    stream, acknowledged, tasks = SimulatedStream(chance), list[str](), list[asyncio.Task[None]]()
    turn = asyncio.Event()

    async def write(name: str, mine: list[str]) -> None:
        async with mirrored(stream, directory / name / "s", name) as (session, mirror):
            turn.set()
            if not session.log().head:
                session.log().append(Label(f"{name}.opened"))
            for number, step in enumerate(mine):
                text = f"{name}.{number}"
                session.log("root" if step == "a" else f"root/{step}").append(Label(text))
                if chance.random() < 0.5:
                    await asyncio.sleep(0)
                if chance.random() < 0.5:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(2):
                            waiting = asyncio.create_task(mirror.settled())
                            fenced = asyncio.create_task(mirror.fenced.wait())
                            await asyncio.wait([waiting, fenced], return_when=asyncio.FIRST_COMPLETED)
                            if not waiting.done():
                                waiting.cancel()
                                return
                            acknowledged.append(text)
                            fenced.cancel()

    for number, part in enumerate("".join(steps).split("t")):
        turn.clear()
        tasks.append(asyncio.create_task(write(f"w{number}", [step for step in part if step != "w"])))
        begun = asyncio.create_task(turn.wait())
        await asyncio.wait([begun, tasks[-1]], return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
    await asyncio.gather(*tasks)

    await rebuild(stream, directory / "end" / "s", len(stream.pieces))
    logs = (directory / "end" / "s").rglob("*.jsonl")
    found = {entry.content.text for file in logs for entry in read_log(file) if isinstance(entry.content, Label)}
    assert found >= set(acknowledged)
    holder = ""
    for piece in stream.pieces:
        holder = piece.headers.get(HOLDER, holder)
        assert piece.body.count(b'"text":"') == piece.body.count(f'"text":"{holder}.'.encode())
