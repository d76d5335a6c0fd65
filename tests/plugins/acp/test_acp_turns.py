"""After any sequence of prompts, cancels and closes each request has one response, and each call has ended."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acp_peer import Peer, agent_for
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.testing.script import Call, Received, Stall, Step, Turn
from tests.depth import deep, later
from tests.waiting import until

REPLIES: Mapping[str, Step] = {
    "say": Turn("hello"),
    "read": Turn("", calls=(Call("List", {}), Call("Read", {"file_path": "none"}))),
    "write": Turn("well", calls=(Call("Write", {"file_path": "a", "content": "x"}), Call("List", {}))),
    "wait": Turn("", calls=(Call("Bash", {"command": "sleep 60"}),)),
    "spawn": Turn("", calls=(Call("AgentSpawn", {"prompt": "go", "name": "child"}),)),
    "later": Turn("", calls=(Call("Bash", {"command": "sleep 60", "background": True}), Call("List", {}))),
    "silent": Stall(Turn("never"), after_events=2),
    "nonsense": Turn("", calls=(Call("None", {}), Call("Edit", "{"))),
}
STEPS = st.one_of(
    st.tuples(st.just("prompt"), st.sampled_from(sorted(REPLIES))),
    st.tuples(st.sampled_from(("cancel", "cancel_request", "close", "load", "new", "command")), st.none()),
    st.tuples(st.just("rounds"), st.integers(1, 400)),
    st.tuples(st.just("rounds"), st.integers(1, 8)),
    st.tuples(st.just("cancelled prompt"), st.integers(0, 12)),  # rounds of the loop between the two
)
ANSWERS = st.lists(
    st.sampled_from(("allow_once", "reject_once", "cancelled", "never", "error")), min_size=1, max_size=4
)


class Person:
    """Answers permission requests, over and over."""

    def __init__(self, answers: list[str]) -> None:
        self._answers, self._asked = answers, 0

    async def __call__(self, params: Mapping[str, Any]) -> Mapping[str, object]:
        answer = self._answers[self._asked % len(self._answers)]
        self._asked += 1
        if answer == "never":
            await asyncio.Event().wait()
        if answer == "error":
            return {"outcome": 7}
        return {
            "outcome": {"outcome": "cancelled"}
            if answer == "cancelled"
            else {"outcome": "selected", "optionId": answer}
        }


async def rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def take(peer: Peer, work: Path, steps: list[tuple[str, Any]], wanted: list[str]) -> None:
    """Do what the steps say, cancel what is left, and leave."""
    session, prompts = await peer.new(work), 0
    sessions = [session]

    def begin(number: str, reply: str) -> None:
        wanted.append(reply)
        peer.send_prompt(number, session, f"{reply} please")

    for step, what in steps:
        match step:
            case "prompt":
                prompts += 1
                begin(f"p{prompts}", what)
            case "cancelled prompt":
                prompts += 1
                begin(f"p{prompts}", "wait")
                await rounds(what)
                peer.notify("session/cancel", sessionId=session)
                await until(lambda number=f"p{prompts}": number in {each["id"] for each in peer.stray}, "its end")
            case "cancel":
                peer.notify("session/cancel", sessionId=session)
            case "cancel_request":
                peer.notify("$/cancel_request", requestId=f"p{prompts}")
            case "close":
                peer.begin("session/close", sessionId=session)
            case "load":
                peer.begin("session/load", sessionId=session, cwd=str(work), mcpServers=[])
            case "command":
                peer.begin_prompt(session, "/context")
            case "new":
                session = await peer.new(work)
                sessions.append(session)
            case _:
                await rounds(what)
    for each in sessions:
        peer.notify("session/cancel", sessionId=each)
    await until(lambda: len(peer.stray) == prompts, "the end of every turn that was cancelled")
    await peer.server.aclose()
    for task in peer.tasks:
        task.cancel()
    answered = sorted(each["id"] for each in peer.stray)
    assert answered == sorted(f"p{number}" for number in range(1, prompts + 1))
    for each in peer.stray:
        reason = each["result"]["stopReason"] if "result" in each else each["error"]["code"]
        assert reason in ("end_turn", "cancelled", -32800, -32002), each


@later
@settings(max_examples=deep(20, 120), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(STEPS, max_size=12), answers=ANSWERS)
def test_requests_answered_and_calls_ended(tmp_path: Path, steps: list[tuple[str, Any]], answers: list[str]) -> None:
    wanted: list[str] = []

    def reply(request: Received) -> Step:
        """What the last prompt in the request asks for; what follows its calls is the end."""
        messages = json.loads(request.body)["messages"]
        last = json.dumps(messages[-1])
        found = next((each for each in reversed(wanted) if f"{each} please" in last), "")
        return REPLIES.get(found, Turn("done")) if "tool_result" not in last else Turn("done")

    async def once() -> None:
        async with agent_for(reply, permission_mode="ask", sandbox="off") as peer:
            peer.handlers["session/request_permission"] = Person(answers)
            await take(peer, tmp_path, steps, wanted)

    asyncio.run(once())
