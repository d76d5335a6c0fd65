"""The REPL in plain lines, in a terminal: not one control sequence, and every key has a word."""

import time
from pathlib import Path

import pytest

from sagent.testing.script import Call, Fail, Received, Turn
from tests.repl.console import CHECKOUT, Console, last_text
from tests.snippets import snippets

SHOP = "def total(items):\n    return sum(items)\n"
EDIT = Call("Edit", {"file_path": "shop.py", "old_string": "sum(items)", "new_string": "round(sum(items), 2)"})


@pytest.fixture
def raw(console: Console, tmp_path: Path) -> Path:
    """Return the file with all bytes that the program sends."""
    console.program = [
        "script",
        "-qefc",
        f'exec "{console.program[0]}" -m sagent.bin.cli --plain',
        str(tmp_path / "raw"),
    ]
    (console.cwd / "shop.py").write_text(SHOP)
    return tmp_path / "raw"


def test_whole_turn_has_no_control_sequence(console: Console, raw: Path) -> None:
    read, remove = Call("Read", {"file_path": "shop.py"}), Call("Bash", {"command": "rm -rf build"})
    limit = Fail(429, headers=(("retry-after", "0"),))
    console.serve([
        Turn(text="I *read* it.", thinking="Hm.", calls=(read,)), Turn(calls=(EDIT,)), Turn(calls=(remove,)),
        limit, Turn(text="# All done"), Fail(401),
    ])  # fmt: skip
    console.environment |= {"SAGENT_PERMISSION_MODE": "ask", "SAGENT_SANDBOX": "off"}
    console.start(ready="You> ", width=40, height=10)
    console.type("please")
    console.until("2 removed:     return sum(items)", "or why not: ")
    console.type("y")
    console.until("Edit shop.py: 1 line added, 1 removed", "$ rm -rf build")
    while console.screen.count("or why not: ") < 2:  # a moment after the question
        time.sleep(0.05)
    console.type("keep it")
    screen = console.until("# All done", "End of turn", "1 file changed")
    example = next(snippets(CHECKOUT / "docs/plain.md")).text.strip().split("\n")
    assert all(line in screen for line in example[1:])
    for line in ("I *read* it.", "Read shop.py: 2 of 2 lines", "Bash rm -rf build was denied:", "Trying again in 0 s"):
        assert line in screen
    console.type("more")
    console.until("To go on: /login anthropic, /model, /retry.")
    console.type("/model")
    console.until("which is current", "Enter for")
    console.type("opus 4-1")
    console.until("claude-opus-4-1", "Number, or words to find: ")
    console.keys("C-c")
    console.type("/quit")
    console.until("To continue:", "ended 0")
    sent = raw.read_bytes().replace(b"\r\n", b"\n").partition(b"\n")[2].rpartition(b"\nScript done")[0]
    assert b"You> " in sent
    assert not {*sent} & ({*range(32)} - {7, 10})  # the bell rings for questions


def test_command_changed_and_note_written(console: Console, raw: Path) -> None:
    console.serve([Turn(calls=(Call("Bash", {"command": "echo one > a.txt"}),)), Turn(text="Done.")])
    console.environment |= {"SAGENT_PERMISSION_MODE": "ask", "SAGENT_SANDBOX": "off"}
    console.start(ready="You> ", width=80, height=24)
    console.type("please")
    console.until("e: edit the command", "or why not: ")
    console.type("e")
    console.until("The command: echo one > a.txt", "New command, or Enter to leave it: ")
    console.type("echo two > a.txt")
    while console.until("or why not: ").count("or why not: ") < 2:  # the changed one is judged anew
        time.sleep(0.05)
    console.type("y")
    console.until("End of turn")
    assert (console.cwd / "a.txt").read_text() == "two\n"
    console.type("# tabs, no spaces")
    console.until("Write into AGENTS.md, for every session to come: tabs, no spaces", "Number, or words to find: ")
    console.type("1")
    console.until("The note is in")
    assert "- tabs, no spaces" in (console.cwd / "AGENTS.md").read_text()
    console.type("/quit")
    console.until("ended 0")


def test_words_typed_in_turn_are_queued(console: Console, raw: Path) -> None:
    wait = Call("Bash", {"command": "touch begun; while [ ! -e go ]; do sleep 0.05; done; echo over"})
    server = console.serve([Turn(calls=(wait,)), Turn(text="Goes on."), Turn(text="It is over."), Turn(text="Last.")])
    console.environment |= {"SAGENT_PERMISSION_MODE": "full", "SAGENT_SANDBOX": "off"}
    console.start(ready="You> ")
    console.type("start")
    while not (console.cwd / "begun").exists():
        time.sleep(0.05)
    console.type("then this")
    console.until("Queued for the end of the turn.")
    console.type("/background")
    console.until("goes on as job:1", "Goes on.")
    (console.cwd / "go").touch()
    console.until("exit 0", "over", "You: then this", "Last.")
    console.type("/show")
    console.until("job:1: exit 0")
    assert "then this" in str(server.requests[-1].json["messages"])
    assert b"\x1b" not in raw.read_bytes()


def test_stopped_turn_gives_words_back(console: Console, raw: Path) -> None:
    server = console.serve([Turn(text="slow " * 50, gap=30.0, pieces=50), Turn(text="After.")])
    console.start(ready="You> ")
    console.type("go")
    while not server.requests:
        time.sleep(0.05)
    console.type("and this")
    console.until("Queued for the end")
    console.keys("C-c")
    console.until("Not sent, type it again if it still holds: and this", "Warning: Interrupted.", "You> ")
    console.raw(b"one\ntwo\n")
    console.until("After.")
    console.leave()
    console.program[2] += " --continue"
    console.start(ready="Session resumed.")
    console.until("You: one\ntwo", "After.", "You> ")
    assert b"\x1b" not in raw.read_bytes()


def test_agent_is_followed_and_answer_copied(console: Console, raw: Path) -> None:
    def script(request: Received) -> Turn:
        text = last_text(request)
        if "begin" in text:
            return Turn(calls=(Call("AgentSpawn", {"name": "scout", "prompt": "look", "persistent": True}),))
        return Turn(text="I see you." if "hello scout" in text else "Here." if "look" in text else "All done.")

    server = console.serve(script)
    console.start(ready="You> ")
    console.type("begin")
    console.until("All done.", "End of turn")
    console.type("/copy")
    console.until("Copied 9 characters")
    console.type("/enter scout")
    console.until("Following root/scout", "You to root/scout> ")
    console.type("hello scout")
    console.until("I see you.")
    console.type("/enter root")
    console.until("Back with root.")
    console.type("more")
    console.until("All done.", "End of turn")
    assert not any("/copy" in last_text(sent) or "/enter" in last_text(sent) for sent in server.requests)
    assert raw.read_bytes().count(b"\x1b") == raw.read_bytes().count(b"\x1b]52;c;") == 1


@pytest.mark.parametrize("way", ["flag", "variable", "file", "off"])
def test_setting_chooses_plain_lines(console: Console, way: str) -> None:
    console.serve([])
    file = Path(console.environment["HOME"], ".config/sagent/config.toml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"plain = {'true' if way == 'file' else 'false'}\n")
    console.environment |= {"SAGENT_PLAIN": "1"} if way == "variable" else {}
    console.start(*["--plain"][: way == "flag"], ready="›" if way == "off" else "You> ")
