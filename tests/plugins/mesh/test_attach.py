"""What a person elsewhere sees of a session, says to it and answers."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from sagent.events import Event, Notice, ToolStarted
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.peer import Peer, Switch
from sagent.plugins.mesh import control, names
from sagent.plugins.mesh.broadcast import Broadcast
from sagent.plugins.mesh.control import Asking, Question
from sagent.plugins.mesh.records import Records, SessionRecord
from sagent.plugins.mesh.remote import Mesh
from sagent.policy import Ask
from sagent.testing.server import Call, Turn
from sagent.tools.ask import Question as Inquiry
from sagent.tools.plan import PlanDecision
from tests.depth import later, slow
from tests.plugins.mesh.places import Place, by_results, place
from tests.waiting import stop, until

ODD = Path(__file__).parents[1] / "mcp" / "odd_server.py"


@later
async def test_first_attached_answer_counts(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("before", "node", "times"), [("", "n1", 1), ("gone", "n1", 1), ("gone", "gone", 2)])
async def test_question_outlives_news_of_its_node(tmp_path: Path, before: str, node: str, times: int) -> None:
    """It may come before the record that names its node; only what another node asked is withdrawn."""
    begun, ended, sent = list[str](), list[str](), list[bytes]()

    async def think(question: Question) -> str | None:
        begun.append(question.id)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(question.id)

    async with place(tmp_path, by_results([])) as here, here.bus.listening(names.asking_subject("s")) as copies:
        records, asking = Records(here.bus), Asking(here.bus, "s", node)
        await records.create(SessionRecord("s", node=before))
        async with Mesh(here.bus).agent("s", think) as peer:
            question = asyncio.create_task(asking.ask(ToolCall("c1", "Bash", json_freeze_object({})), Ask("Why?")))
            await until(lambda: len(begun) == 1)
            record, revision = await records.get("s")
            await records.change(record, revision, node="n1")
            await until(lambda: peer.place == "n1")
            asking.put_again()
            while len(sent) < 2:
                sent.append((await anext(copies)).message.data)
            question.cancel()
            await asyncio.wait([question])
            await until(lambda: len(ended) == len(begun) == times)


@later
async def test_settled_question_withdrawn(tmp_path: Path) -> None:
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

    async with place(tmp_path, by_results(turns)) as here, asyncio.timeout(60):
        await here.node("n1", "--permission-mode", "ask")
        mesh = Mesh(here.bus)
        async with mesh.spawn("work", reply=allow) as peer, mesh.agent(peer.path, think):
            assert (await peer.wait()).content == "Done."
            await taken_back.wait()


@later
async def test_unattended_question_denied(tmp_path: Path) -> None:
    turns = [Turn("One.", calls=(Call("Bash", {"command": f"echo >{tmp_path}/done"}),)), Turn("Done.")]
    async with place(tmp_path, by_results(turns)) as here:
        await here.node("n1", "--permission-mode", "ask")
        code, out, err = await here.ask("--json", "work")
        assert (code, json.loads(out)["result"]) == (0, "Done."), err
        assert "Nobody is attached" in json.loads(out)["permission_denials"][0]["reason"]
        assert not (tmp_path / "done").exists()


async def test_message_and_interrupt_reach_session(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    turns = [Turn("One.", calls=(Call("Bash", {"command": f"echo >>{begun}; sleep 30"}),)), Turn("Two.")]
    async with place(tmp_path, by_results(turns)) as here, asyncio.timeout(30):
        await here.node("n1")
        async with Mesh(here.bus).spawn("work") as peer:
            anybody: Peer = peer  # knows nothing of a bus
            while not begun.exists():
                await asyncio.sleep(0.05)
            assert (await peer.fetch_figures()).agents[0].state == "working"
            anybody.interrupt()
            result = await anybody.wait()
            assert result.error is not None
            assert result.error.kind == "interrupted"
            peer.send("go on")
            assert (await peer.wait()).content == "Two."
            code, out, _ = await here.ask_plain("attach", peer.path[:-2], "--bus", here.url)
            assert code == 0
            assert peer.path in out


async def test_events_of_former_node_ignored(tmp_path: Path) -> None:
    async with place(tmp_path, []) as here, asyncio.timeout(60):
        mesh = Mesh(here.bus)
        async with mesh.agent(await mesh.submit("work")) as peer:
            seen: list[Event] = []
            peer.listen(seen.append)
            for lease, text in ((7, "one"), (9, "two"), (7, "stopped"), (None, "full"), (9, "three")):
                says = Broadcast(here.bus, peer.path, lease)
                says.on_event(Notice("root", "info", text))
                await says.flush()
            while len(seen) < 4:
                await asyncio.sleep(0.05)
            assert [event.text for event in seen if isinstance(event, Notice)] == ["one", "two", "full", "three"]


@slow
async def test_stale_node_ignored_on_wake(tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    turns = [
        Turn("One.", calls=(Call("Bash", {"command": f"echo >{begun}; sleep 60"}),)),
        Turn("Two.", calls=(Call("Bash", {"command": f"until [ -e {gate} ]; do sleep 0.1; done"}),)),
        Turn("Done."),
    ]
    async with place(tmp_path, by_results(turns)) as here, asyncio.timeout(60):
        first = await here.node("n1")
        async with Mesh(here.bus).spawn("work") as peer:
            seen: list[Event] = []
            while not begun.exists():
                await asyncio.sleep(0.05)
            stop(first.process.pid)
            await here.node("n2")
            peer.listen(seen.append)
            while peer.record.node != "n2" or not any(isinstance(event, ToolStarted) for event in seen):
                await asyncio.sleep(0.05)
            before = len(seen)
            first.kill(signal.SIGCONT)
            while "n1" in {session for _, session in await _sessions(here)}:
                await asyncio.sleep(0.1)
            assert seen[before:] == []  # it goes on: no call of it was interrupted, and it has not ended
            gate.touch()
            assert (await peer.wait()).content == "Done."


async def _sessions(here: Place) -> list[tuple[str, str]]:
    """Which sessions are at work on which nodes, by the nodes' cards."""
    _, out, _ = await here.ask_plain("nodes", "--bus", here.url, "--json")
    return [(session, node["name"]) for node in json.loads(out) for session in node["sessions"]]


@later
async def test_detached_session_found_again(tmp_path: Path) -> None:
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


ASK = Call("AskUser", {"question": "Which flag?", "options": ["white", "black"]})


@later
async def test_first_inquiry_answer_counts(tmp_path: Path) -> None:
    put, taken_back = asyncio.Event(), asyncio.Event()
    asked: list[Inquiry] = []

    async def say(inquiry: Inquiry) -> str:
        asked.append(inquiry)
        await put.wait()
        return "black ☂"

    async def think(_: Inquiry) -> str:
        put.set()
        try:
            await asyncio.Event().wait()
        finally:
            taken_back.set()
        raise AssertionError

    async with place(tmp_path, by_results([Turn("One.", calls=(ASK,)), Turn("Done.")])) as here, asyncio.timeout(60):
        await here.node("n1", "--tools", "default,AskUser")
        mesh = Mesh(here.bus)
        async with mesh.spawn("work", answer=say) as peer, mesh.agent(peer.path, answer=think):
            assert (await peer.wait()).content == "Done."
            await taken_back.wait()
        assert asked == [Inquiry("root", "Which flag?", ("white", "black"))]
        assert "black ☂" in said_last(here)


@later
async def test_unattended_inquiry_unanswered(tmp_path: Path) -> None:
    approved: list[Question] = []

    async def allow(question: Question) -> str | None:
        approved.append(question)
        return None

    async with place(tmp_path, by_results([Turn("One.", calls=(ASK,)), Turn("Done.")])) as here, asyncio.timeout(60):
        await here.node("n1", "--tools", "default,AskUser")
        async with Mesh(here.bus).spawn("work", reply=allow) as peer:  # approves calls, and answers nothing else
            assert (await peer.wait()).content == "Done."
        assert "left the question unanswered" in said_last(here)
        assert approved == []


@later
async def test_asking_tools_need_attachment(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Done.")])) as here:
        await here.node("n1", "--permission-mode", "plan")  # this one only looks, whatever somebody elsewhere says
        assert (await here.ask("work"))[0] == 0
        offered = [tool["name"] for tool in json.loads(here.server.requests[-1].body)["tools"]]
        assert not {"AskUser", "ExitPlan"} & set(offered)


@later
@pytest.mark.costly
@pytest.mark.parametrize("settled", [PlanDecision("edit"), PlanDecision(None, reason="too long"), None])
async def test_attached_client_decides_plan(tmp_path: Path, settled: PlanDecision | None) -> None:
    async def decide(inquiry: Inquiry) -> PlanDecision | None:
        assert inquiry.plan == "1. Write it."
        return settled

    write = Call("Write", {"file_path": "a.txt", "content": "one\n"})
    turns = [Turn("", calls=(Call("ExitPlan", {"plan": "1. Write it."}),)), Turn("", calls=(write,)), Turn("Done.")]
    async with place(tmp_path, by_results(turns)) as here, asyncio.timeout(60):
        await here.node("n1", "--permission-mode", "ask", "--plan")
        async with Mesh(here.bus).spawn("work", answer=decide) as peer:
            result = await peer.wait()
        accepted = settled is not None and settled.mode is not None
        assert (result.content, not result.denials) == ("Done.", accepted)  # it may write its own files, too
        heard = here.server.requests[1].body.decode()
        assert ("too long" if settled and settled.reason else "accepts the plan" if accepted else "not decide") in heard


async def test_slow_answer_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question is put again and again, for those who come later; an answer to any of them is one."""
    monkeypatch.setattr(control, "_REPEAT_INTERVAL_SECONDS", 0.1)
    asked, late = 0, asyncio.Event()

    async def allow(_: Question) -> None:
        nonlocal asked
        asked += 1
        await late.wait()

    async def say(_: Inquiry) -> str:
        await late.wait()
        return "red \ud800"

    async with place(tmp_path, by_results([])) as here, asyncio.timeout(60):
        await Records(here.bus).create(SessionRecord("s"))
        asking = control.Asking(here.bus, "s")
        async with Mesh(here.bus).agent("s", allow, say), here.bus.listening(names.asking_subject("s")) as puts:
            call = ToolCall("c", "Bash", json_freeze_object({"command": "true"}))
            both = asyncio.gather(asking.ask(call, Ask("It asks.")), asking.answer(Inquiry("root", "Which?")))
            for _ in range(3):
                await anext(puts)
            late.set()
            assert await both == [None, "red \ufffd"]
        assert asked == 1


@later
async def test_mcp_question_reaches_attached(tmp_path: Path) -> None:
    form = "{'type': 'object', 'required': ['who'], 'properties': {'who': {'type': 'string', 'title': 'Your name'}}}"
    code = f"text = json.dumps(ask('elicitation/create', message='Who?', requestedSchema={form})['result']['content'])"
    home, offer = tmp_path / "home-n1" / "config" / "sagent", tmp_path / "offer.json"
    home.mkdir(parents=True)
    offer.write_text(json.dumps({"tools": [{"name": "do", "inputSchema": {"type": "object"}}]}))
    command = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([str(ODD), str(offer)])}\n"
    (home / "config.toml").write_text(f'[mcp.odd]\n{command}start_timeout = 30\nneeds = ["all"]\n')

    async def say(inquiry: Inquiry) -> str:
        assert inquiry.agent == "The MCP server odd"
        return "Zoë"

    turns = [Turn("", calls=(Call("mcp__odd__do", {"code": code}),)), Turn("Done.")]
    async with place(tmp_path, by_results(turns)) as here, asyncio.timeout(60):
        await here.node("n1")
        async with Mesh(here.bus).spawn("work", answer=say) as peer:
            assert (await peer.wait()).content == "Done."
        assert "Zo" in said_last(here)


@slow
async def test_open_question_asked_again(tmp_path: Path) -> None:
    first, again = asyncio.Event(), asyncio.Event()

    async def say(_: Inquiry) -> str:
        if not first.is_set():
            first.set()
            await asyncio.Event().wait()
        again.set()
        return "white"

    async with place(tmp_path, by_results([Turn("One.", calls=(ASK,)), Turn("Done.")])) as here, asyncio.timeout(60):
        node = await here.node("n1", "--tools", "default,AskUser")
        async with Mesh(here.bus).spawn("work", answer=say) as peer:
            await first.wait()
            await here.node("n2", "--tools", "default,AskUser")
            node.kill()
            assert (await peer.wait()).content == "Done."
        assert again.is_set()
        assert "white" in said_last(here)
        assert "unknown" not in said_last(here)


@later
async def test_open_approval_asked_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    calls = (Call("Bash", {"command": f"echo >>{first}; sleep 60"}), Call("Bash", {"command": f"echo >>{second}"}))
    put, asked = asyncio.Event(), list[str]()

    async def allow(question: Question) -> str | None:
        asked.append(question.what)
        if str(second) in question.what and not put.is_set():
            put.set()
            await asyncio.Event().wait()
        return None

    async with place(tmp_path, by_results([Turn("One.", calls=calls), Turn("Done.")])) as here, asyncio.timeout(40):
        node = await here.node("n1", "--permission-mode", "ask")
        async with Mesh(here.bus).spawn("work", reply=allow) as peer:
            await put.wait()
            while not first.exists():
                await asyncio.sleep(0.05)
            await here.node("n2", "--permission-mode", "ask")
            node.kill()
            assert (await peer.wait()).content == "Done."
        assert [str(second) in what for what in asked] == [False, True, True]
        assert (first.read_text(), second.read_text()) == ("\n", "\n")  # each once: one had begun, the other had not
        assert said_last(here).count("outcome is unknown") == 1


@later
async def test_switched_model_survives_rest(tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    wait = Call("Bash", {"command": f"echo >{begun}; until [ -e {gate} ]; do sleep 0.1; done"})
    async with place(tmp_path, by_results([Turn("One.", calls=(wait,)), Turn("Done.")])) as here, asyncio.timeout(60):
        await here.node("n1")
        async with Mesh(here.bus).spawn("work", flags={"model": "anthropic/claude-opus-4-5"}) as peer:
            while not begun.exists():
                await asyncio.sleep(0.05)
            await peer.change(Switch(model="anthropic/claude-haiku-4-5"))
            gate.touch()
            await peer.wait()
            peer.send("go on")
            assert (await peer.wait()).model == "anthropic/claude-haiku-4-5"


@pytest.mark.plugin("plain")
async def test_line_answers_shown_question(tmp_path: Path) -> None:
    plan = Call("ExitPlan", {"plan": "1. Look ☂\n2. Write."})
    turns = [Turn("", calls=(ASK,)), Turn("", calls=(plan,)), Turn("Done.")]
    async with place(tmp_path, by_results(turns)) as here, asyncio.timeout(60):
        code, out, _ = await here.ask("--detach", "work")
        main, side = os.openpty()
        attached = await here.start("attach", out.strip(), "--bus", here.url, name="me", stdin=side, stdout=side)
        os.close(side)
        shown = ""

        async def until(text: str) -> None:
            nonlocal shown
            while text not in shown:
                shown += (await asyncio.to_thread(os.read, main, 65_536)).decode()

        await until(out.strip())
        await here.node("n1", "--tools", "default,AskUser", "--plan")
        await until("Answer with a number, or in your words: ")
        assert "  1: white\r\n  2: black\r\n" in shown
        os.write(main, b"2\n")
        await until("y, e, or why not: ")
        assert "1. Look ☂\r\n2. Write.\r\n" in shown
        os.write(main, b"shorter\n")
        await until("Done.")
        os.write(main, b"/quit\n")
        assert (code, await attached.process.wait()) == (0, 0)
        os.close(main)
        assert "black" in here.server.requests[1].body.decode()
        assert "rejected the plan: shorter" in said_last(here)


def said_last(here: Place) -> str:
    """What the model was shown last."""
    last = json.loads(here.server.requests[-1].body)["messages"][-1]
    return json.dumps(last, ensure_ascii=False)
