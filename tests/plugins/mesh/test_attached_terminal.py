"""The REPL on a session that runs elsewhere, in real terminals."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sagent.plugins.mesh.remote import Mesh
from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.depth import later, slow
from tests.plugins.mesh.places import Place, by_results, place
from tests.providers.llama_server import Front
from tests.repl.console import CHECKOUT, Console
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("tmux")

TODO = Call(
    "TodoWrite", {"todos": [{"content": "Write ☂", "status": "in_progress"}, {"content": "Look", "status": "pending"}]}
)
WRITE = Call("Write", {"file_path": "a.txt", "content": "one\ntwo ☂\n"})
EDIT = Call("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "2"})
TOOLS = ("--tools", "default,TodoWrite,AskUser")


class Terminal:
    """A terminal of a person, looked at from a thread: the provider and the bus live in our loop."""

    def __init__(self, here: Place, name: str) -> None:
        home = here.directory / f"home-{name}"
        home.mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(CHECKOUT)}
        self.console = Console(here.directory / f"tmux-{name}", home, environment)

    async def attach(self, here: Place, session: str, *flags: str, ready: str = "", width: int = 90) -> None:
        argv = ("attach", session, "--bus", here.url, *flags)
        await asyncio.to_thread(self.console.start, *argv, width=width, ready=ready or session)

    async def until(self, *wanted: str, gone: str = "") -> str:
        return await asyncio.to_thread(self.console.until, *wanted, gone=gone)

    async def type(self, text: str) -> None:
        await asyncio.to_thread(self.console.type, text)

    async def keys(self, *keys: str) -> None:
        await asyncio.to_thread(self.console.keys, *keys)


@asynccontextmanager
async def terminals(here: Place, *names: str) -> AsyncGenerator[list[Terminal]]:
    made = [Terminal(here, name) for name in names]
    try:
        yield made
    finally:
        for each in made:
            await asyncio.to_thread(each.console.close)


async def submitted(here: Place, prompt: str = "please work") -> str:
    code, out, err = await here.ask("--detach", prompt)
    assert code == 0, err
    return out.strip()


@later
@pytest.mark.plugin("branches")
async def test_two_people_share_remote_session(tmp_path: Path) -> None:
    turns = [Turn("I plan.", calls=(TODO,)), Turn("I write.", calls=(WRITE,)), Turn("I change.", calls=(EDIT,))]
    turns += [Turn("All is **done**."), Turn("And more.")]
    async with place(tmp_path, by_results(turns)) as here, terminals(here, "one", "two") as (one, two):
        session = await submitted(here)
        await one.attach(here, session)
        await two.attach(here, session, width=40)
        await here.node("n1", "--permission-mode", "ask", *TOOLS)
        shown = await one.until("? Write ", "1 + one", "2 + two ☂", "▸ Write ☂", "on n1", "y once")
        assert "a always" not in shown  # the node's settings are its own
        await two.until("? Write ", "2 + two ☂", "y once")
        await one.keys("y")
        await two.until("? Edit ", gone="? Write")  # and the question there is gone
        await one.until("2 - two ☂", "2 + 2 ☂")  # compared with the file as it is there
        await two.until("n no, because …")
        await two.keys("n")
        await two.until("Why not?")
        await two.type("leave it")
        await one.until("Edit a.txt · was denied", "leave it", "All is done.", gone="? The model")
        await one.type("/diff")
        await one.until("/diff works only where the session runs: a node")
        await one.type("!pwd")
        await one.until("!command works only where the session runs: a node")
        await one.type("/cost")
        await one.until("executor", "root")
        await two.type("go on ☂")
        await one.until("› go on ☂", "And more.")  # what one says the other sees
        await one.keys("C-d")
        await one.until(f"To come back:  sagent attach {session}", "ended 0")
        await two.keys("C-d")
        await two.until("ended 0")


@later
@pytest.mark.plugin("plain")
async def test_remote_session_in_plain_lines(tmp_path: Path) -> None:
    turns = [Turn("I write.", calls=(WRITE,)), Turn("I change.", calls=(EDIT,)), Turn("All is **done**.")]
    async with place(tmp_path, by_results(turns)) as here, terminals(here, "one", "two") as (one, two):
        one.console.environment["SAGENT_PLAIN"] = two.console.environment["SAGENT_PLAIN"] = "1"
        session = await submitted(here)
        await one.attach(here, session)
        await two.attach(here, session)
        await here.node("n1", "--permission-mode", "ask")
        await one.until("Write a.txt?", "2 added: two ☂", "y: once", "or why not: ")
        await two.until("or why not: ")
        await one.keys("C-d")
        await one.until(f"To come back:  sagent attach {session}", "ended 0")
        await two.type("y")  # the question stayed open
        await two.until("2 removed: two ☂", "2 added: 2 ☂")
        await asyncio.to_thread(wait_until, lambda: two.console.screen.count("or why not: ") > 1)
        await two.type("leave it")
        await two.until("Edit a.txt was denied", "All is **done**.", "End of turn")
        await two.type("/quit")
        await two.until("ended 0")


@pytest.mark.plugin("local")
async def test_attached_terminal_shows_progress(tmp_path: Path) -> None:
    reading = {"steps": 12, "seconds": 0.5}
    async with FakeProviderServer([Turn("I have read it.")], repeat_last=True) as server:
        door = Front(server.url, reading=reading)
        url = f"http://127.0.0.1:{await door.open()}/v1"
        async with place(tmp_path, [Turn("unused")]) as here, terminals(here, "one") as (one,):
            session = await submitted(here)
            await one.attach(here, session)
            await here.node("n1", "--base-url", url, "--model", "llamacpp/tiny")
            shown = await one.until("◌ Reading the prompt: ", "tokens a second")
            assert re.search(r"Reading the prompt: \d+ %", shown)
            await one.until("I have read it.", gone="Reading the prompt")
            await one.keys("C-d")
            await one.until("ended 0")
        await door.aclose()


@slow
async def test_detaching_does_not_answer(tmp_path: Path) -> None:
    turns = [Turn("I write.", calls=(WRITE,)), Turn("All is **done**.")]
    async with place(tmp_path, by_results(turns)) as here, terminals(here, "one", "two", "late") as (one, two, late):
        session = await submitted(here)
        await one.attach(here, session)
        await two.attach(here, session)
        await here.node("n1", "--permission-mode", "ask")
        for each in (one, two):
            await each.until("? Write ", "y once")
        await one.keys("C-d")
        await one.until(f"To come back:  sagent attach {session}", "ended 0")
        await two.until("? Write ", "y once")
        await late.attach(here, session)
        shown = await late.until("? Write ", "y once")
        assert "a always" not in shown  # a question that was open before is the node's too
        await two.keys("y")
        await two.until("● Write a.txt", "All is done.", gone="? The model")


@later
async def test_attached_client_survives_node_kill(tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    ask = Call("AskUser", {"question": "Which flag?", "options": ["white", "black"]})
    turns = [
        Turn("I run.", calls=(Call("Bash", {"command": f"echo >>{begun}; sleep 60"}),)),
        Turn("I ask.", calls=(ask,)),
        Turn("I wait.", calls=(Call("Bash", {"command": f"echo waits; until [ -e {gate} ]; do sleep 0.1; done"}),)),
        Turn("Done with it."),
    ]
    async with place(tmp_path, by_results(turns)) as here, terminals(here, "one") as (one,):
        session = await submitted(here)
        node = await here.node("n1", *TOOLS)
        while not begun.exists():
            await asyncio.sleep(0.05)
        await one.attach(here, session[:-2], ready="I run.")  # what was said before is shown, and what runs
        await one.until("› please work", "◌ Bash echo", "◌ Running", "on n1")
        node.kill()
        await one.until("Node n1 no longer answers. The next node with a free slot continues this session.")
        await here.node("n2", *TOOLS)
        await one.until("Node n2 continues this session, which ran on n1 before.", "outcome is unknown", "on n2")
        await one.until("? The model asks", "Which flag?", "white")
        await one.until("Enter answers", "answer ›")
        one.console.leave()  # the terminal is closed: that is no answer, and who comes next is asked
        await one.attach(here, session, ready="? The model asks")
        await one.until("Enter answers", "answer ›")
        await one.keys("Down", "Enter")
        await one.until("◌ Bash echo")
        await one.keys("C-d")
        await one.until("It continues without you.", f"sagent attach {session}", "ended 0")
        gate.touch()
        async with Mesh(here.bus).agent(session) as peer:
            assert (await peer.wait()).content == "Done with it."
        assert "white" in here.server.requests[-1].body.decode()
        one.console.leave()
        await one.attach(here, session, ready="Done with it.")


@slow
async def test_approval_moves_to_next_node(tmp_path: Path) -> None:
    async with (
        place(tmp_path, by_results([Turn("I write.", calls=(WRITE,)), Turn("Done.")])) as here,
        terminals(here, "one") as (one,),
    ):
        session = await submitted(here)
        await one.attach(here, session)
        node = await here.node("n1", "--permission-mode", "ask")
        await one.until("2 + two ☂", "home-n1", "y once")
        await here.node("n2", "--permission-mode", "ask")
        node.kill()
        await one.until("Node n2 continues this session", "home-n2", "y once", gone="home-n1")
        await one.keys("s")
        await one.until("Write a.txt · +2 -0", "Done.", gone="outcome is unknown")
        written = [file.read_text() for file in here.directory.rglob("a.txt")]
        assert written == ["one\ntwo ☂\n"]  # by the second node alone


@later
async def test_late_joiner_reads_whole_reply(tmp_path: Path) -> None:
    words = [f"word{number:02}" for number in range(50)]
    script = [Turn(" ".join(words), pieces=50, gap=0.2), Turn("And that was it.")]
    async with place(tmp_path, by_results(script)) as here, terminals(here, "one", "two") as (one, two):
        session = await submitted(here)
        await one.attach(here, session)
        await here.node("n1")
        await one.until("word03")
        await two.attach(here, session)
        shown = await two.until("word49")
        assert [shown.count(word) for word in words] == [1] * len(words)
        await two.type("and?")
        shown = await two.until("And that was it.")
        assert [shown.count(word) for word in words] == [1] * len(words)
