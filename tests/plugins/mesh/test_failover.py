"""A session goes on though the node at work is killed, stopped or drained."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import pytest

from sagent.agent import Agent
from sagent.errors import UsageError
from sagent.messages import user
from sagent.plugins.mesh import names
from sagent.plugins.mesh.logstream import SessionStream
from sagent.plugins.mesh.node import Node
from sagent.plugins.mesh.rebuild import rebuild
from sagent.plugins.mesh.records import InboxMessage, Records
from sagent.plugins.mesh.remote import Mesh
from sagent.plugins.mesh.session_worker import NodeOptions, Opening
from sagent.testing.server import Call, Received, Step, Turn
from tests.depth import later, slow
from tests.intact import faults
from tests.plugins.mesh.places import Place, by_results, place
from tests.waiting import SECONDS, stop


@pytest.mark.plugin("audit")
async def test_prompt_answered_by_node(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Hello from afar.")])) as here:
        await here.node("n1")
        code, out, err = await here.ask("--json", "hello")
        assert code == 0, err + out
        assert json.loads(out)["result"] == "Hello from afar."
        code, out, err = await here.ask("hello")
        assert (code, out) == (0, "Hello from afar.\n")
        session = err.split("session ")[1].split(",")[0]
        code, out, err = await here.ask("--resume", session, "more")
        assert (code, out) == (0, "Hello from afar.\n"), err
        assert len(json.loads(here.server.requests[-1].body)["messages"]) == 3
        code, out, err = await here.ask_plain("verify", session, "--bus", here.url)
        assert code == 0, err
        checking = await here.start("verify", session, name="me", within=("env", f"SAGENT_BUS={here.url}"))
        assert await checking.process.wait() == 0
        assert session in out


@later
async def test_finished_work_leaves_queue(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Done.")])) as here:
        await here.node("n1")
        for _ in range(3):
            assert (await here.ask("--json", "hello"))[0] == 0
        async with asyncio.timeout(SECONDS):
            while await here.bus.last_message(names.WORK, names.work_subject()) is not None:
                await asyncio.sleep(0.1)


@later
async def test_labelled_node_takes_all_work(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Done.")])) as here:
        await here.node("n1", "--slots", "1", *(word for name in "abc" for word in ("--label", name)))
        for label in ((), ("--label", "c"), ()):
            code, _, err = await here.ask("--json", *label, "hello")
            assert (code, "is waiting for a node" in err) == (0, False)


async def test_node_kill_still_answers(tmp_path: Path) -> None:
    turns = [
        Turn("One.", calls=(Call("Write", {"file_path": "a.txt", "content": "one\n"}),)),
        Turn("Two.", calls=(Call("Bash", {"command": f"echo run >>{tmp_path}/runs; sleep 60"}),)),
        Turn("Done."),
    ]
    async with place(tmp_path, by_results(turns)) as here:
        repository = tmp_path / "repository"
        repository.mkdir()
        for command in ("git init -q", "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first"):
            process = await asyncio.create_subprocess_shell(command, cwd=repository)
            assert await process.wait() == 0
        nodes = [await here.node("n1")]
        asking = asyncio.create_task(here.ask("--json", "work", cwd=repository))
        while not (tmp_path / "runs").exists():
            await asyncio.sleep(0.05)
        nodes.append(await here.node("n2"))
        nodes[0].kill(signal.SIGKILL)
        code, out, err = await asking
        result = json.loads(out)
        assert (code, result["result"]) == (0, "Done."), err
        assert (tmp_path / "runs").read_text() == "run\n"  # and not again
        assert "outcome is unknown" in here.server.requests[-1].body.decode()
        reference = f"refs/sagent/{result['session_id']}:a.txt"
        shown = await asyncio.create_subprocess_exec(
            "git", "show", reference, cwd=repository, stdout=asyncio.subprocess.PIPE
        )
        assert (await shown.communicate())[0] == b"one\n"


async def until(here: Place, path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.05)


@slow
async def test_woken_node_writes_nothing(tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    turns = [
        Turn("One.", calls=(Call("Bash", {"command": f"echo >>{begun}; sleep 1; echo >>{ended}"}),)),
        Turn("Done."),
    ]
    async with place(tmp_path, by_results(turns)) as here:
        first = await here.node("n1")
        asking = asyncio.create_task(here.ask("--json", "work"))
        await until(here, begun)
        stop(first.process.pid)
        second = await here.node("n2")
        code, out, err = await asking
        assert (code, json.loads(out)["result"]) == (0, "Done."), err
        session = json.loads(out)["session_id"]
        before = await rebuilt(here, session, tmp_path / "before")
        assert begun.read_text() == "\n"
        first.kill(signal.SIGCONT)
        second.kill(signal.SIGTERM)
        await second.process.wait()
        code, out, err = await here.ask("--json", "hello")  # it works again
        assert (code, json.loads(out)["result"]) == (0, "Done."), err
        assert await rebuilt(here, session, tmp_path / "after") == before


async def test_other_version_named_not_listed(tmp_path: Path) -> None:
    async with place(tmp_path, [Turn("Done.")]) as here:
        card = json.dumps({"version": 9, "address": "node.late", "details": {"name": "late"}}).encode()
        await here.bus.bucket(names.CARDS).put("node.late", card)
        code, out, err = await here.ask_plain("nodes", "--json", "--bus", here.url)
        assert (code, out) == (0, "[]\n")
        assert "node.late" in err and "version 9" in err and "knows 1" in err and err.count("\n") == 1


@later
async def test_drained_node_loses_nothing(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    turns = [Turn("One.", calls=(Call("Bash", {"command": f"echo >>{begun}; sleep 1; echo finished"}),)), Turn("Done.")]
    async with place(tmp_path, by_results(turns)) as here:
        first = await here.node("n1")
        asking = asyncio.create_task(here.ask("--json", "work"))
        await until(here, begun)
        await here.node("n2")
        code, out, _ = await here.ask_plain("nodes", "drain", "n1", "--bus", here.url)
        assert (code, out) == (0, "Node n1 was drained.\n")
        async with asyncio.timeout(60):
            assert await first.process.wait() == 0
        code, out, err = await asking
        assert (code, json.loads(out)["result"]) == (0, "Done."), err
        assert "unknown" not in here.server.requests[-1].body.decode()
        assert "finished" in here.server.requests[-1].body.decode()


@slow
async def test_work_survives_bus_restart(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    turns = [Turn("One.", calls=(Call("Bash", {"command": f"echo >>{begun}; sleep 1"}),)), Turn("Done.")]
    async with place(tmp_path, by_results(turns)) as here:
        await here.node("n1")
        asking = asyncio.create_task(here.ask("--json", "work"))
        await until(here, begun)
        await here.restart_bus()
        code, out, err = await asking
        assert (code, json.loads(out)["result"]) == (0, "Done."), err
        assert begun.read_text() == "\n"


async def rebuilt(here: Place, session: str, directory: Path) -> dict[str, bytes]:
    """A session's files as the bus has them, which verify."""
    await rebuild(SessionStream(here.bus, session), directory)
    assert faults(directory) == []
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


@slow
async def test_cut_off_node_stops_commands_first(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    turns = [Turn("One.", calls=(Call("Bash", {"command": f"while true; do echo >>{ticks}; sleep 0.1; done"}),))]
    async with place(tmp_path, by_results([*turns, Turn("Done.")])) as here, Wire(port_of(here.url)) as wire:
        await here.node("n1", bus=here.url.replace(str(port_of(here.url)), str(wire.port)))
        asking = asyncio.create_task(here.ask("--json", "work"))
        await until(here, ticks)
        await here.node("n2")
        wire.cut()
        code, out, err = await asking
        assert (code, json.loads(out)["result"]) == (0, "Done."), err
        began = time.time() - (time.monotonic() - here.server.requests[-1].at)
        assert ticks.stat().st_mtime < began
        size = ticks.stat().st_size
        await asyncio.sleep(0.5)
        assert ticks.stat().st_size == size


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


class Wire:
    """A way to the bus that can be cut: what is sent from then on arrives nowhere, and nobody is told. When it is
    healed that arrives after all, as what TCP sends again."""

    def __init__(self, port: int) -> None:
        self._to, self.port, self._whole = port, 0, asyncio.Event()
        self._whole.set()

    def cut(self) -> None:
        self._whole.clear()

    def heal(self) -> None:
        self._whole.set()

    def stall(self) -> None:
        """What is sent from then on is not even taken; by new connections it is."""
        for task in self._tasks:
            task.cancel()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends: list[asyncio.StreamWriter] = []
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for end in self._ends:
            end.close()
        await asyncio.gather(*(end.wait_closed() for end in self._ends), return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._ends += (writer, back)
        for source, target in ((reader, back), (there, writer)):
            self._tasks.add(asyncio.create_task(self._copy(source, target)))

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            await self._whole.wait()
            with suppress(ConnectionError):
                target.write(data)
                await target.drain()
        target.close()


async def asked_then_interrupted(
    here: Place, when: Callable[[], Awaitable[bool]]
) -> Callable[[], Coroutine[None, None, int]]:
    """A prompt on the bus, once something is true: what is returned interrupts it, and returns its exit code."""
    pipe = asyncio.subprocess.PIPE
    asked = await here.start("--bus", here.url, "--json", "not wanted", name="me", stdout=pipe, stderr=pipe)
    async with asyncio.timeout(60):
        while not await when():
            await asyncio.sleep(0.05)

    async def end() -> int:
        asked.kill(signal.SIGINT)
        async with asyncio.timeout(60):
            out, err = await asked.process.communicate()
        assert json.loads(out)["error"]["kind"] == "interrupted", err
        return asked.process.returncode or 0

    return end


@later
async def test_interrupt_before_take_is_final(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Done.")])) as here:

        async def waits() -> bool:
            return bool(await Mesh(here.bus).sessions())

        end = await asked_then_interrupted(here, waits)
        assert await end() == 130
        (interrupted,) = await Mesh(here.bus).sessions()
        await here.node("n1", "--slots", "1")
        code, out, err = await here.ask("--json", "hello")
        assert (code, json.loads(out)["result"]) == (0, "Done."), err
        inbox = names.inbox_subject(f"session.{interrupted.id}")
        async with asyncio.timeout(60):
            while await here.bus.last_message(names.INBOX, inbox) is not None:
                await asyncio.sleep(0.05)
            while await here.bus.last_message(names.WORK, names.work_subject()) is not None:
                await asyncio.sleep(0.05)
        (result,) = [each.result for each in await Mesh(here.bus).sessions() if each.id == interrupted.id]
        assert (result and result.error and result.error.kind) == "interrupted"
        assert ["not wanted" in request.body.decode() for request in here.server.requests] == [False]


async def test_cancel_while_sending_is_final(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Done.")])) as here:
        posted = asyncio.Event()

        async def spawn() -> None:
            async with Mesh(here.bus).spawn("not wanted"):
                posted.set()

        async with here.bus.bucket(names.SESSIONS).watching() as changes:
            spawning = asyncio.create_task(spawn())
            async for entry in changes:
                if entry is not None:
                    break
            spawning.cancel()
            await asyncio.wait([spawning])
        (record,) = await Mesh(here.bus).sessions()
        assert posted.is_set() or (record.result and record.result.error and record.result.error.kind) == "interrupted"


@slow
async def test_interrupt_between_nodes_works(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    turns = [Turn("One.", calls=(Call("Bash", {"command": f"echo >>{begun}; sleep 30"}),)), Turn("Done.", delay=8)]
    async with place(tmp_path, by_results(turns)) as here:

        async def works() -> bool:
            return begun.exists()

        first = await here.node("n1")
        end = await asked_then_interrupted(here, works)
        first.kill(signal.SIGKILL)
        await first.process.wait()
        ending = asyncio.create_task(end())
        await here.node("n2")
        assert await ending == 130


@slow
async def test_node_retakes_session_after_cleanup(tmp_path: Path) -> None:
    """It has lost the lease, as after it was stopped, and takes its time: until then there is no second agent here."""
    warned: list[str] = []
    at_work, begun, leave = list[str](), asyncio.Event(), asyncio.Event()
    most = 0

    @asynccontextmanager
    async def opened(opening: Opening, *_: object) -> AsyncGenerator[Agent]:
        nonlocal most
        at_work.append(str(opening.session))
        most = max(most, len(at_work))
        begun.set()
        while not leave.is_set():
            with suppress(asyncio.CancelledError):
                await leave.wait()
        at_work.pop()
        raise UsageError("that is all")
        yield

    async with place(tmp_path, ()) as here, asyncio.timeout(60):
        node = Node(here.bus, NodeOptions("n1", 2, (), tmp_path / "node"), opened, warned.append)
        working = asyncio.create_task(node.run())
        async with Mesh(here.bus).spawn("work") as peer:
            await Records(here.bus).send(peer.record, InboxMessage(user("more")))  # and so it is on the queue twice
            await begun.wait()
            leases, key = here.bus.bucket(names.LEASES), names.token(peer.path)
            await leases.delete(key)
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while await leases.get(key) is None:
                        await asyncio.sleep(0.1)
            leave.set()
            assert (await peer.wait()).error is not None
        while not warned:  # once the agent that had lost its lease is gone
            await asyncio.sleep(0.05)
        assert (most, len(warned)) == (1, 1)
        assert f"session {peer.path} is lost to other nodes" in warned[0]
        node.drain()
        await working


@slow
async def test_advisors_and_cost_move_along(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    ask = Call("advisor", {"question": "How?"})
    turns = [
        Turn("One.", calls=(ask,)),
        Turn("Two.", calls=(Call("Bash", {"command": f"echo >>{begun}; sleep 60"}),)),
        Turn("Three.", calls=(ask,)),
        Turn("Done."),
    ]

    def choose(received: Received) -> Step:
        return Turn("Like this.") if "opus" in str(received.json["model"]) else by_results(turns)(received)

    async with place(tmp_path, choose) as here:
        first = await here.node("n1", "--advisor", "anthropic/claude-opus-4-6", "--advisor-mode", "client")
        asking = asyncio.create_task(here.ask("--json", "work"))
        await until(here, begun)
        await here.node("n2")  # knows of no advisor but by the session's log
        first.kill(signal.SIGKILL)
        code, out, err = await asking
        found = json.loads(out)
        assert (code, found["result"]) == (0, "Done."), err
        asked = [received for received in here.server.requests if "opus" in str(received.json["model"])]
        assert (found["advisors"]["advisor"]["calls"], len(asked)) == (2, 2)
        assert found["cost_usd"]["advisor"] == found["cost_usd"]["by_model"]["anthropic/claude-opus-4-6"] > 0
        assert found["advisors"]["advisor"]["usd"] == found["cost_usd"]["advisor"]
