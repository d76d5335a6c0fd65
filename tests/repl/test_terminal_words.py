"""What is asked in plain words, and what the model needs to answer it: told end to end, the model scripted."""

import json
import os
import re
import signal
import time

import pytest
from console import Console

from sagent.testing.server import Call, Received, Turn
from tests.depth import later
from tests.waiting import stop, wait_until

pytestmark = pytest.mark.needs("tmux")


def flat(request: Received) -> str:
    """All of a request, whatever its family."""
    return json.dumps(request.json, ensure_ascii=False)


def newest(request: Received) -> str:
    """Its last message, or input item."""
    for name in ("messages", "input"):
        found = request.json.get(name)
        if isinstance(found, list) and found:
            return json.dumps(found[-1], ensure_ascii=False)
    return ""


def offered(request: Received) -> set[str]:
    """The names of the tools it offers."""
    found = request.json.get("tools")
    assert isinstance(found, list)
    return {str(one["name"]) for one in found if isinstance(one, dict)}


@later
def test_switch_to_another_provider_then_back(console: Console) -> None:
    def step(request: Received) -> Turn:
        last = newest(request)
        if "tool_result" in last or "function_call_output" in last:
            assert "from the next step on" in last or "anthropic" in last or "openai" in last
            return Turn(text=f"Now {request.json['model']}.")
        if "switch to OpenAI" in last:
            return Turn(calls=(Call("AgentSelf", {"switch": {"model": "openai/gpt-5.5"}}, id="call_1"),))
        if "and back" in last:
            return Turn(calls=(Call("AgentSelf", {"switch": {"model": "anthropic/claude-sonnet-4-6"}}, id="call_2"),))
        return Turn(text="?")

    server = console.serve(step)
    console.start()
    console.type("switch to OpenAI")
    console.until("Now gpt-5.5.", "gpt-5.5")
    console.type("and back please")
    console.until("Now claude-sonnet-4-6.")
    assert [request.family for request in server.requests] == ["anthropic", "responses", "responses", "anthropic"]
    assert all({"find_tools", "BackgroundTask", "AskUser"} <= offered(request) for request in server.requests)


def test_models_are_told_with_prices(console: Console) -> None:
    def step(request: Received) -> Turn:
        if "tool_result" not in newest(request):
            return Turn(calls=(Call("AgentSelf", {"catalog": True}),))
        found = re.search(r"openai/gpt-5[\w.-]*: window [^\\]*", newest(request))
        return Turn(text=found[0] if found else "nothing of use")

    console.serve(step)
    console.start()
    console.type("what could I switch to?")
    console.until("openai/gpt-5", " in and ")


@later
def test_how_many_tokens_are_held(console: Console) -> None:
    def step(request: Received) -> Turn:
        if "tool_result" not in newest(request):
            return Turn(calls=(Call("AgentSelf", {"status": True}),))
        found = re.search(r"context: about ([\d,]+) of ([\d,]+) tokens", newest(request))
        return Turn(text=f"I hold {found[1]} of {found[2]} tokens." if found else "I cannot tell.")

    console.serve(step)
    console.start()
    console.type("how many tokens are you holding?")
    screen = console.until("I hold")
    held = re.search(r"I hold ([\d,]+) of", screen)
    assert held
    assert 1_000 < int(held[1].replace(",", "")) < 50_000


@later
def test_stuck_task_is_read_and_stopped(console: Console) -> None:
    def step(request: Received) -> Turn:
        whole, last = flat(request), newest(request)
        if "the task is stuck" in last:
            return Turn(calls=(Call("BackgroundTask", {"operation": "list"}, id="call_list"),))
        if "running" in last and "job:1" in last and "tool_result" in last and "the task is stuck" in whole:
            return Turn(calls=(Call("BackgroundTask", {"operation": "output", "id": "job:1"}, id="call_out"),))
        if "waiting for the lock" in last and "call_out" in last:
            return Turn(calls=(Call("BackgroundTask", {"operation": "cancel", "id": "job:1"}, id="call_cancel"),))
        if "call_cancel" in last:
            assert "cancelled" in last
            return Turn(text="It waited for a lock; I stopped it.")
        if "start it" in last:
            command = "echo waiting for the lock; sleep 48.13"
            return Turn(calls=(Call("Bash", {"command": command, "background": True}, id="call_bash"),))
        return Turn(text="It runs.")

    console.serve(step)
    console.start("--permission-mode", "full")
    console.type("start it")
    console.until("It runs.", "◌ job:1 Bash", "│ waiting for the lock")
    console.type("the task is stuck")
    console.until("It waited for a lock; I stopped it.")
    console.until("claude-sonnet", gone="◌ job:1")


@later
def test_released_task_outlives_session(console: Console) -> None:
    may, mark = console.cwd / "may", console.cwd / "outlived"

    def step(request: Received) -> Turn:
        last = newest(request)
        if "detach" in last and "tool_result" not in last:
            return Turn(calls=(Call("BackgroundTask", {"operation": "detach", "id": "job:1"}, id="call_detach"),))
        if "call_detach" in last:
            place = re.search(r"(/\S+?)(?:[\s\"\\,]|\.(?:\s|\"|\\))", last.partition("content")[2])
            return Turn(text=f"It is on its own; output: {'a file' if place else 'nowhere'}.")
        if "start it" in last:
            command = f"for _ in $(seq 600); do test -e {may} && break; sleep 0.1; done; echo $$ > {mark}"
            return Turn(calls=(Call("Bash", {"command": command, "background": True}, id="call_bash"),))
        return Turn(text="It runs.")

    console.serve(step)
    console.start("--permission-mode", "full")
    console.type("start it")
    console.until("It runs.", "◌ job:1 Bash")
    console.type("detach job:1 and let it keep running")
    console.until("It is on its own; output: a file.")
    console.type("/quit")
    console.until("ended 0")
    assert not mark.exists()
    may.touch()
    wait_until(mark.exists, "the job goes on after the session")


@later
def test_model_and_child_questions_in_turn(console: Console) -> None:
    def step(request: Received) -> Turn:
        first, last = json.dumps(request.json["messages"]), newest(request)
        if "you are the child" in first and "begin both" not in first:
            if "tool_result" in last:
                return Turn(text=f"The child heard: {'blue' if 'blue' in last else 'something else'}.")
            return Turn(calls=(Call("AskUser", {"question": "Which sea?", "options": ["red", "blue"]}, id="call_c"),))
        if "begin both" in last:
            return Turn(
                calls=(
                    Call("AgentSpawn", {"name": "sailor", "prompt": "you are the child"}, id="call_a"),
                    Call("AskUser", {"question": "Which flag?", "options": ["white", "black"]}, id="call_b"),
                )
            )
        return Turn(text=f"Heard {'plaid' if 'plaid' in last else '?'}; {'blue' if 'blue' in last else '?'}.")

    console.serve(step)
    console.start()
    console.type("begin both")
    console.until("? The model asks", "Which flag?", "1 white")
    console.keys("plaid", "Enter")
    console.until("? root/sailor asks", "Which sea?", "2 blue", gone="Which flag?\n")
    console.keys("Down", "Down", "Enter")
    console.until("Heard plaid; blue.")


@later
def test_stopped_process_goes_on(console: Console) -> None:
    text = "".join(f"Paragraph {number} has some words in it.\n\n" for number in range(60))
    console.serve([Turn(text=text, pieces=20, gap=0.01), Turn(text="Here.")])
    console.start()
    console.type("hello")
    console.until("Paragraph 3 has")
    stop(console.process)
    time.sleep(0.5)
    os.kill(console.process, signal.SIGCONT)
    screen = console.until("Paragraph 59 has", gone="Writing")
    assert [screen.count(f"Paragraph {number} has") for number in range(60)] == [1] * 60
    console.type("still there?")
    console.until("Here.")
