"""What a person elsewhere sees of a session, says to it and answers."""

import asyncio
import json
from pathlib import Path

from sagent.events import ToolStarted
from sagent.mesh.control import Question
from sagent.mesh.remote import Mesh
from sagent.peer import Peer
from sagent.testing.server import Call, Turn
from tests.mesh.places import by_results, place


async def test_a_question_goes_to_whoever_is_attached_and_the_first_answer_counts(tmp_path: Path) -> None:
    turns = [Turn("One.", calls=(Call("Bash", {"command": f"echo >{tmp_path}/done"}),)), Turn("Done.")]
    asked: list[Question] = []

    async def allow(question: Question) -> str | None:
        asked.append(question)
        return None

    async def think(question: Question) -> str | None:
        asked.append(question)
        await asyncio.sleep(60)
        return "too late"

    async with place(tmp_path, by_results(turns)) as here, asyncio.timeout(30):
        await here.node("n1", "--permission-mode", "ask")
        mesh = Mesh(here.bus)
        async with mesh.spawn("work", reply=think) as peer, mesh.agent(peer.path, allow) as other:
            seen: list[str] = []
            other.listen(lambda event: seen.append(type(event).__name__) if isinstance(event, ToolStarted) else None)
            assert (await peer.wait()).content == "Done."
            assert (await other.wait()).content == "Done."
        assert (tmp_path / "done").exists()
        assert [question.tool for question in asked] == ["Bash", "Bash"]
        assert f"{tmp_path}/done" in asked[0].what
        assert seen == ["ToolStarted"]


async def test_a_question_that_needs_no_answer_any_more_is_taken_back(tmp_path: Path) -> None:
    turns = [Turn("One.", calls=(Call("Bash", {"command": f"echo >{tmp_path}/done"}),)), Turn("Done.")]
    put, taken_back = asyncio.Event(), asyncio.Event()

    async def allow(_: Question) -> str | None:
        await put.wait()
        return None

    async def think(_: Question) -> str | None:
        put.set()
        try:
            await asyncio.Event().wait()
        finally:
            taken_back.set()

    async with place(tmp_path, by_results(turns)) as here, asyncio.timeout(30):
        await here.node("n1", "--permission-mode", "ask")
        mesh = Mesh(here.bus)
        async with mesh.spawn("work", reply=allow) as peer, mesh.agent(peer.path, think):
            assert (await peer.wait()).content == "Done."
            await taken_back.wait()


async def test_where_nobody_is_attached_the_answer_is_no(tmp_path: Path) -> None:
    turns = [Turn("One.", calls=(Call("Bash", {"command": f"echo >{tmp_path}/done"}),)), Turn("Done.")]
    async with place(tmp_path, by_results(turns)) as here:
        await here.node("n1", "--permission-mode", "ask")
        code, out, err = await here.ask("--json", "work")
        assert (code, json.loads(out)["result"]) == (0, "Done."), err
        assert "Nobody is attached" in json.loads(out)["permission_denials"][0]["reason"]
        assert not (tmp_path / "done").exists()


async def test_a_message_and_an_interrupt_reach_the_session_where_it_is(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    turns = [Turn("One.", calls=(Call("Bash", {"command": f"echo >>{begun}; sleep 30"}),)), Turn("Two.")]
    async with place(tmp_path, by_results(turns)) as here, asyncio.timeout(30):
        await here.node("n1")
        async with Mesh(here.bus).spawn("work") as peer:
            anybody: Peer = peer  # knows nothing of a bus
            while not begun.exists():
                await asyncio.sleep(0.05)
            assert (await peer.ask(op="status"))["state"] == "working"
            anybody.interrupt()
            result = await anybody.wait()
            assert result.error is not None
            assert result.error.kind == "interrupted"
            peer.send("go on")
            assert (await peer.wait()).content == "Two."
            code, out, _ = await here.ask_plain("attach", peer.path[:-2], "--bus", here.url)
            assert code == 0
            assert peer.path in out


async def test_a_detached_session_is_found_again(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Done.")])) as here:
        code, out, err = await here.ask("--detach", "work")
        assert code == 0, err
        await here.node("n1")
        code, shown, err = await here.ask_plain("attach", out.strip(), "--bus", here.url)
        assert (code, err) == (0, "")
        assert "work" in shown
        code, shown, err = await here.ask_plain("attach", out.strip(), "--bus", here.url)
        assert (code, shown.splitlines()[1:]) == (0, ["Done."]), err  # what it came to is said to who comes later
        code, listed, _ = await here.ask_plain("nodes", "--bus", here.url, "--json")
        (node,) = json.loads(listed)
        assert {"name", "host", "pid", "slots", "labels", "sessions"} <= node.keys()
        assert (node["name"], node["slots"]) == ("n1", 8)
