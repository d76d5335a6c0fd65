"""Advisors and agents below, as a person sees them in a terminal."""

import time

import pytest
from console import Console

from sagent.testing.server import Call, Received, Turn
from tests.depth import later

pytestmark = pytest.mark.needs("tmux")


def said(request: Received) -> str:
    """The newest message of a request to Anthropic's family; the whole input of another."""
    messages = request.json.get("messages")
    return str(messages[-1]) if isinstance(messages, list) else str(request.json)


def advised(request: Received) -> Turn:
    """An executor that asks when it is told to, and an advisor that wants a test."""
    if request.family == "responses":
        return Turn(text="VERDICT: adjust\nThere is no test yet.\nNEXT: write one.")
    last = said(request)
    if "please ask" in last and "tool_result" not in last:
        return Turn(text="I ask.", calls=(Call("advisor", {}),))
    return Turn(text="Well then.")


@later
def test_advice_frame_and_status_cost(console: Console) -> None:
    console.serve(advised)
    console.start("--advisor", "openai/gpt-5.2", width=100, ready="◆ gpt-5.2 │")
    console.type("please ask")
    screen = console.until("╭─ advisor · ", "adjust", "There is no test yet.", "╰─", "Well then.")
    frame = next(line for line in screen.splitlines() if "╭─ advisor" in line)
    assert "asked" in frame
    assert "$0.0" in frame
    status = [line for line in screen.splitlines() if "◆ gpt-5.2 │" in line][-1]
    assert "advisor $0.0" in status or "$0.0" in status


def test_advisor_switched_and_asked(console: Console) -> None:
    server = console.serve(advised)
    console.start("--advisor", "openai/gpt-5.2", width=100, ready="◆ gpt-5.2 │")
    console.type("hello")
    console.until("Well then.")
    console.type("/advisor off")
    console.until("◆ gpt-5.2 off │")
    console.type("/ask-advisor is it good?")
    console.until("╭─ advisor · person withheld", "it is muted")
    console.type("/advisor on")
    console.until("◆ gpt-5.2 │", gone="gpt-5.2 off │")
    console.type("/ask-advisor and now?")
    console.until("There is no test yet.")
    asked = [said(request) for request in server.requests if request.family == "responses"]
    assert len(asked) == 1 and "and now?" in asked[0]


def family(request: Received) -> Turn:
    """A root with two children, one of which has a child and wants to run a command."""
    first, last = str(request.json["messages"]), said(request)
    if "go on, both" in first and "have answered" not in last and "tool_result" not in first:
        return Turn(
            calls=(
                Call("AgentSpawn", {"name": "fast", "prompt": "be quick"}, id="a"),
                Call("AgentSpawn", {"name": "slow", "prompt": "touch a file"}, id="b"),
            )
        )
    if "be quick" in first and "go on, both" not in first:
        return Turn(text="I was quick.")
    if "touch a file" in first and "go on, both" not in first:
        if "tool_result" in first:
            return Turn(text="It is touched.")
        return Turn(calls=(Call("Bash", {"command": "touch made.txt"}),))
    return Turn(text="Both are at work.")


@later
@pytest.mark.plugin("tree")
def test_agent_tree_and_named_questions(console: Console) -> None:
    console.serve(family)
    console.start("--sandbox", "off", width=100)
    console.type("go on, both")
    console.until("? root/slow: Run this command?", "touch made.txt", "y once", "? slow  asks")
    console.keys("x", "BSpace", "Down")  # it lists no agents for when the question is answered
    console.until("when you have stopped typing")
    console.until("y once")
    console.keys("y")
    screen = console.until("● root/fast", "● root/slow", "It is touched.", "Both are at work.")
    assert (console.cwd / "made.txt").exists()
    console.until("agents $0.0")
    assert "I was quick." in screen
    assert "Follow" not in screen
    console.type("/agents")
    console.until("root  idle")


@later
def test_precedents_of_all_agents(console: Console) -> None:
    def step(request: Received) -> Turn:
        first = str(request.json["messages"])
        if "begin here" in first:
            spawn = Call("AgentSpawn", {"name": "worker", "prompt": "make it"}, id="a")
            return Turn(text="It works.") if "tool_result" in first else Turn(calls=(spawn,))
        name = "b" if "tool_result" in first else "c"
        return Turn(calls=(Call("Bash", {"command": f"git x {name}"}, id=name),))

    console.serve(step)
    console.start("--sandbox", "off", width=100)
    console.type("begin here")
    console.until("? root/worker: Run this command?", "$ git x c", "y once")
    console.keys("y")
    console.until("$ git x b", "Bash(git x:*) · also matches git x c of")


@later
@pytest.mark.plugin("plain")
def test_print_only_line_answers_seen_question(console: Console) -> None:
    """The first agent's question is open when the second one asks, and the root waits for a message by then."""
    names = ("one", "two")

    def step(request: Received) -> Turn:
        first = str(request.json["messages"])
        if "begin here" in first:
            spawns = [{"name": name, "prompt": f"touch {name}", "background": True} for name in names]
            calls = tuple(Call("AgentSpawn", given, id=str(given["name"])) for given in spawns)
            return Turn(text="At work.") if "tool_result" in first else Turn(calls=calls)
        name = next(name for name in names if f"touch {name}" in first)
        if "tool_result" in first:
            return Turn(text=f"Over with {name}.")
        return Turn(calls=(Call("Bash", {"command": f"touch {name}"}),))

    server = console.serve(step)
    console.environment["TERM"] = "dumb"
    console.start("--sandbox", "off", width=100, ready=">")
    console.type("begin here")
    console.until("At work.", "s and a allow: Bash(touch ", "or why not: ")
    assert console.screen.count("Run this command?") == 1
    seen = next(name for name in names if f"root/{name}: Run this command?" in console.screen)
    console.type("y")
    console.until(f"Over with {seen}.", *(f"root/{name}: Run this command?" for name in names))
    while console.screen.count("or why not: ") < 2:  # a moment after the question
        time.sleep(0.05)
    console.type("not that")
    console.until("The person said no: not that", *(f"Over with {name}." for name in names))
    assert [name for name in names if (console.cwd / name).exists()] == [seen]
    assert not any("'text': 'y'" in said(request) for request in server.requests)


@later
def test_child_line_shows_its_figures(console: Console) -> None:
    def step(request: Received) -> Turn:
        first = str(request.json["messages"])
        if "begin here" in first and "tool_result" not in first:
            return Turn(calls=(Call("AgentSpawn", {"name": "worker", "prompt": "sleep a little"}, id="a"),))
        if "sleep a little" in first and "begin here" not in first:
            if "tool_result" in first:
                return Turn(text="Slept.")
            return Turn(calls=(Call("Bash", {"command": "echo half; sleep 2; echo whole"}),))
        return Turn(text="It works.")

    console.serve(step)
    console.start("--permission-mode", "full", width=100)
    console.type("begin here")
    screen = console.until("◌ worker  working", " tok  $0.0", "Bash echo half")
    line = next(line for line in screen.splitlines() if "◌ worker" in line)
    assert line.startswith("  ◌")
    assert "AgentSpawn" not in screen  # which the line of the agent stands for
    screen = console.until("● root/worker", "Slept.", gone="◌ worker")
    assert "AgentSpawn" not in screen


def test_down_lists_agents_to_stop_or_follow(console: Console) -> None:
    def step(request: Received) -> Turn:
        whole = str(request.json["messages"])
        if "begin here" in whole:
            spawned = tuple(Call("AgentSpawn", {"name": name, "prompt": "wait"}, id=name) for name in ("one", "two"))
            return Turn(text="Over.") if "tool_result" in whole else Turn(calls=spawned)
        return Turn(calls=(Call("Bash", {"command": "sleep 60"}),))

    console.serve(step)
    console.start("--permission-mode", "full", width=100)
    console.type("begin here")
    console.until("◌ one  working", "◌ two  working", "Bash sleep 60", "Esc interrupts all · ↓ agents")
    console.keys("Down")
    screen = console.until("Follow which agent?", "Ctrl-X stops it", "Esc closes the list")
    assert "interrupts" not in screen
    console.keys("Down")
    console.until("❯ root/one")  # a key that was pressed before the list was drawn stops nobody
    console.keys("C-x")
    console.until("✗ one  stopped", "◌ two  working", "2 of 2")
    console.keys("Enter")
    console.until("Following root/two", "Esc interrupts two")
    console.keys("Down")
    console.until("Follow which agent?")
    console.keys("C-x")  # the root, and with it all
    console.until("! Interrupted.", "? Follow which agent?", gone="◌")
    console.keys("Escape")
    console.until("! Interrupted.", gone="? Follow")
    console.keys("Escape")
    console.until("Back with root.", "✗ root/two · interrupted", gone="root/two ›")


@later
@pytest.mark.plugin("branches", "tree")
def test_follow_an_agent_and_go_back(console: Console) -> None:
    def step(request: Received) -> Turn:
        whole = str(request.json["messages"])
        if "begin here" in whole:
            if "tool_result" in whole:
                return Turn(text="It works below.")
            return Turn(calls=(Call("AgentSpawn", {"name": "worker", "prompt": "wait a little"}, id="a"),))
        if "and for me" in whole:
            return Turn(text="I do it for you.")
        if "tool_result" in whole:
            return Turn(text="I waited.")
        return Turn(text="I wait.", calls=(Call("Bash", {"command": "sleep 60"}),))

    server = console.serve(step)
    console.start("--permission-mode", "full", width=100)
    console.type("begin here")
    console.until("◌ worker  working", "Bash sleep 60")
    console.type("/enter root/worker")
    screen = console.until("Following root/worker", "Esc interrupts it", "root/worker › ")
    assert "wait a little" in screen[screen.index("Following") :]
    console.until("· Esc interrupts worker")
    console.type("and for me")
    console.until("› and for me", "I do it for you.")
    assert sum("and for me" in said(request) for request in server.requests) == 1
    console.type("/enter root")
    console.until("Back with root.", gone="root/worker ›")
    console.type("/enter root/worker")
    console.until("root/worker ›", "· Esc interrupts worker")
    console.keys("C-c")
    console.until("! Interrupted.", gone="◌ Running")
    console.type("/fork")  # where there is no such agent
    console.until("a copy of this session.", gone="root/worker ›")


@later
@pytest.mark.plugin("tree")
def test_unread_words_for_agent_come_back(console: Console) -> None:
    def step(request: Received) -> Turn:
        whole = str(request.json["messages"])
        if "begin here" in whole:
            if "tool_result" in whole:
                return Turn(text="Over.")
            return Turn(calls=(Call("AgentSpawn", {"name": "worker", "prompt": "write on"}, id="a"),))
        return Turn(text="word " * 2_000, pieces=10, gap=0.1)

    console.serve(step)
    console.start(width=100)
    console.type("begin here")
    console.until("◌ worker  working")
    console.type("/enter root/worker")
    console.until("root/worker › ")
    console.type("faster please")
    console.until("▸ faster please  sent to worker, not read yet")
    console.keys("Escape")
    console.until("! Interrupted.", "root/worker › faster please", gone="not read yet")
