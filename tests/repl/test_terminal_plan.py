"""Plan mode in a terminal: the model proposes, the person changes or accepts, and says in which mode to go on."""

from decimal import Decimal
from pathlib import Path

import pytest
from console import Console, last_text

from sagent.messages import user
from sagent.session.contents import ChargeEntry, MessageEntry, StoredMessage
from sagent.session.store import Session
from sagent.testing.server import Call, Turn
from sagent.usage import Charge, Usage
from tests.depth import later

pytestmark = pytest.mark.needs("tmux")


def test_plan_proposed_changed_and_done(console: Console, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/first/second/ "$1"\n')
    editor.chmod(0o755)
    console.environment["EDITOR"] = str(editor)
    write = Call("Write", {"file_path": "made.txt", "content": "x"})
    server = console.serve(
        [
            Turn(text="Which one?"),
            Turn(text="I looked.\n\n## Plan\n\n1. Write the first file."),
            Turn(text="Now.", calls=(write,)),
            Turn(text="All is done."),
        ]
    )
    console.start("--permission-mode", "plan", "--sandbox", "off")
    console.type("a file, please")
    console.until("Which one?", gone="Esc interrupts")
    console.keys("x", "BSpace")
    assert "Carry out" not in console.screen
    console.type("any")
    console.until("Carry out this plan?", "y Yes, and ask")
    console.keys("c")
    console.until("Carry out the changed plan?", "y Yes, and ask")
    console.keys("e")
    console.until("All is done.", "edit · no sandbox")
    assert "Write the second file." in last_text(server.requests[2])
    told = [str(request.json["messages"]) for request in server.requests]
    assert "Plan mode is on" in told[0]
    assert told[3].count("Plan mode is on") == told[3].count("Plan mode is off") == 1
    assert (console.cwd / "made.txt").exists()


def proposal(text: str) -> Call:
    return Call("ExitPlan", {"plan": text})


@later
def test_exit_plan_refused_changed_accepted(console: Console) -> None:
    long = "## The plan\n\n" + "\n".join(f"{number}. Write file number {number}." for number in range(1, 9))
    write = Call("Write", {"file_path": "made.txt", "content": "x"})
    server = console.serve(
        [
            Turn(text="I looked.", calls=(proposal(long),)),
            Turn(calls=(proposal("Write one file."),)),
            Turn(text="Now.", calls=(write,)),
            Turn(text="All is done."),
            Turn(text="Ready."),
        ]
    )
    console.start("--plan", "--sandbox", "off", width=40, height=10)
    console.type("a file, please")
    console.until("I looked.\n\nThe plan\n", "8. Write file number 8.", "◌ ExitPlan ", "Carry out this plan?", "n no")
    console.until("◌ Waiting for you")
    assert "ExitPlan  " not in console.screen
    console.keys("n")
    console.until("Why not?")
    console.type("one file is enough")
    console.until("Write one file.", "Carry out this plan?", "n no")
    console.keys("i")
    console.until("plan › Write one file.")
    console.type(" Then read it.")
    console.until("Carry out the changed", "Then read it.", "n no")
    console.keys("e")
    console.until("All is done.", "edit · no sandbox", gone="Esc interrupts")
    assert (console.cwd / "made.txt").read_text() == "x"
    console.type("thanks")
    console.until("Ready.")
    requests = [str(request.json["messages"]) for request in server.requests]
    assert "rejected the plan: one file is enough" in requests[1]
    assert "Write one file. Then read it." in requests[2]
    assert "Plan mode is off: you may change" not in requests[-1]  # it was told with the answer
    assert len({str(request.json["tools"]) for request in server.requests}) == 1


def test_plan_mode_keeps_tools(console: Console) -> None:
    server = console.serve([Turn(text="One."), Turn(text="## Plan\n\n1. Wait."), Turn(text="Three.")])
    console.start("--sandbox", "off", width=80, height=24)
    console.type("first")
    console.until("One.", gone="Esc interrupts")
    console.type("/permissions plan")
    console.until("plan ·")
    console.type("second")
    console.until("Carry out this plan?", "n No, and say why")
    console.keys("n")
    console.until("Why not?")
    console.type("not yet")
    console.until("Three.")
    assert len({str(request.json["tools"]) for request in server.requests}) == 1
    assert "ExitPlan" not in str(server.requests[0].json)
    assert "not yet" in last_text(server.requests[2])


@later
def test_left_plan_edit_is_resumed(console: Console) -> None:
    server = console.serve([Turn(calls=(proposal("Write one file."),)), Turn(text="All is done.")])
    console.start("--plan", "--sandbox", "off")
    console.type("a file, please")
    console.until("Carry out this plan?", "Change it here")
    console.keys("i")
    console.until("plan › Write one file.")
    console.tmux("send-keys", "-l", " Then read it.")
    console.until("Then read it.")
    console.keys("Escape")
    console.until("Carry out this plan?", "continues with your changes", gone="Then read it.")
    console.keys("i")
    console.until("plan › Write one file. Then read it.")
    console.keys("Escape")
    console.until("y Yes, and ask")
    console.keys("y")
    console.until("All is done.", "› Write one file. Then read it.")
    assert "Then read it." not in str(server.requests[1].json["messages"])


@later
def test_plan_left_open_is_no_failure(console: Console) -> None:
    server = console.serve([Turn(calls=(proposal("Write one file."),)), Turn(text="I wait.")])
    console.start("--plan", "--sandbox", "off", width=80, height=24)
    console.type("a file, please")
    console.until("Carry out this plan?", "Esc leaves it")
    console.keys("Escape")
    screen = console.until("● ExitPlan · left open, plan mode is still on", "I wait.", "plan · no sandbox")
    assert "✗" not in screen
    assert "has not decided on the plan" in last_text(server.requests[1])
    console.type("/exit")
    console.until("sagent --resume ")
    console.leave()
    console.start("--continue", "--sandbox", "off", width=80, height=24, ready="Session resumed.")
    screen = console.until("› a file, please\n\nWrite one file.\n\n● ExitPlan ·", "I wait.")
    assert "Plan mode is on" not in screen
    console.until("plan · no sandbox")  # as it was left
    console.type("/exit")
    console.until("sagent --resume ")
    console.leave()
    console.start("--continue", "--permission-mode", "ask", "--sandbox", "off", ready="ask · no sandbox")


@later
def test_cut_plan_is_not_proposed(console: Console) -> None:
    cut = Call("ExitPlan", '{"plan": "## Plan: wipe', cut=True)
    console.serve(
        [
            Turn(text="First.", calls=(cut,), stop="max_tokens"),
            Turn(text="Well.\n\n## Plan\n\n1. Write the", stop="max_tokens"),
            Turn(text="Done."),
        ]
    )
    console.start("--permission-mode", "plan", "--sandbox", "off")
    console.type("a file, please")
    console.until("Write the", "not run", gone="Esc interrupts")
    assert "Carry out" not in console.screen
    console.type("and now?")
    console.until("Done.", gone="Esc interrupts")
    assert "Carry out" not in console.screen


@later
def test_cleared_conversation_is_told_of_plan_mode(console: Console) -> None:
    server = console.serve([Turn(text="One."), Turn(text="Two."), Turn(text="Three.")])
    console.start("--permission-mode", "plan", "--sandbox", "off")
    console.type("first")
    console.until("One.", gone="Esc interrupts")
    console.type("/clear")
    console.until("is empty now")
    console.type("second")
    console.until("Two.", gone="Esc interrupts")
    console.type("third")
    console.until("Three.")
    assert [str(request.json["messages"]).count("Plan mode is on") for request in server.requests] == [1, 1, 1]


@later
@pytest.mark.plugin("spending")
def test_plan_command_quotes_what_tasks_cost(console: Console) -> None:
    state = Path(console.environment["HOME"]) / ".local/state/sagent"
    with Session.create(state, console.cwd) as session:
        session.begin(console.cwd)
        for number in range(20):
            session.log().append(MessageEntry(StoredMessage.of(user(f"Task {number}."), None)))
            usd = Decimal("0.02") + Decimal(number) / 100
            session.log().append(
                ChargeEntry(Charge("m", Usage(input=10), usd=usd, role="executor", provider="p", agent="root"))
            )
    console.serve([Turn(text="Hello."), Turn(text="## Plan\n\n1. Write a file."), Turn(text="All is done.")])
    console.start("--sandbox", "off")
    console.type("hello")
    console.until("Hello.", gone="Esc interrupts")
    console.type("/plan a file, please")
    console.until("Nine of ten tasks in this project have cost $0.0200 to $0.2100", "y Yes, and ask")
    console.keys("e")
    console.until("All is done.")
