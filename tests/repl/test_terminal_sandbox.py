"""Commands in a sandbox, in a real terminal: what one wants beyond it is put to the person, whole."""

import contextlib
import time
from pathlib import Path

import pytest
from console import Console, last_text

from sagent.session.contents import Environment
from sagent.session.log import read_log
from sagent.testing.server import Call, Turn
from tests.depth import later, slow
from tests.walls import has_bubblewrap

pytestmark = pytest.mark.needs("tmux", "bwrap")
REASON = "the tests want \x1b[31mit\u202e"


def needing(command: str, *needs: str) -> Turn:
    return Turn(calls=(Call("Bash", {"command": command, "needs": list(needs), "reason": REASON}),))


def test_sandboxed_command_is_not_asked_for(console: Console) -> None:
    console.serve([Turn(calls=(Call("Bash", {"command": "echo held > made.txt"}),)), Turn(text="Done.")])
    console.start()
    console.until("edit · sandboxed")
    console.type("go")
    console.until("Done.")
    assert (console.cwd / "made.txt").read_text() == "held\n"


def test_wanted_rules_allowed_for_session(console: Console, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    file = tmp_path / "other" / "made"
    turns = [needing(f"echo {word} >> {file}", f"write:{tmp_path}/other") for word in ("one", "two")]
    server = console.serve([*turns, Turn(text="Done.")])
    console.start(width=120)
    console.type("go")
    screen = console.until(
        "y once", f"wants: to write {tmp_path}/other", "the model says: the tests want ⟨U+001B⟩[31mit⟨U+202E⟩"
    )
    assert f"s and a allow: Edit({tmp_path}/other)" in screen
    assert not file.exists()
    console.keys("s")
    console.until("Done.")  # the second one was not asked about
    assert file.read_text() == "one\ntwo\n"
    assert len(server.requests) == 3


@slow
def test_small_terminal_shows_all_wants_above(console: Console, tmp_path: Path) -> None:
    lines = "\n".join(f"echo line {number}" for number in range(30))
    console.serve([needing(f"{lines}\ntouch {tmp_path}/made", f"write:{tmp_path}"), Turn(text="Understood.")])
    console.start(width=40, height=10)
    console.type("go")
    screen = console.until(
        "? Run this command?", "$ echo line 0", "  ↓", "s and a allow:", "y once s session a always e ? n no"
    )
    console.keys("C-o")
    screen = console.until("the model says:")
    flat = "".join(line.strip() for line in screen.splitlines())
    shown = (
        "echo line 0echo line 1",
        "echo line 29",
        "wants: to write",
        "the model says:",
        f"s and a allow: Edit({tmp_path})",
    )
    for told in (*shown, f"Edit({tmp_path})"):
        assert told.replace(" ", "") in flat.replace(" ", "")
    console.keys("n")
    console.until("Why not?")
    console.type("no")
    console.until("Understood.")
    assert not (tmp_path / "made").exists()


@later
def test_unnameable_want_is_allowed_once(console: Console, tmp_path: Path) -> None:
    console.serve([needing(f"echo free > {tmp_path}/made", "all"), Turn(text="Done.")])
    console.start()
    console.type("go")
    screen = console.until("wants: to run without the sandbox", "y once", "n no, because …")
    assert "only once: no rule" in screen
    assert "s this session" not in screen
    console.keys("y")
    console.until("Done.")
    assert (tmp_path / "made").read_text() == "free\n"


@pytest.mark.parametrize("width", [30, *(pytest.param(width, marks=slow) for width in (40, 60))])
def test_status_line_says_no_sandbox(console: Console, width: int) -> None:
    console.serve([Turn(text="Hello.")])
    console.start("--sandbox", "off", width=width, height=10, ready="edit · no sandbox")


@later
@pytest.mark.plugin("overview")
def test_sandbox_switch_is_logged(console: Console) -> None:
    script = [Turn(calls=(Call("Bash", {"command": "echo held > ../outside"}),)), Turn(text="One."), Turn(text="Two.")]
    console.serve(script)
    console.start()
    console.type("go")
    console.until("One.", "edit · sandboxed")
    console.type("/sandbox off")
    console.until("? Switch the sandbox off for this session?", "❯ No, keep it")
    console.keys("Down", "Enter")
    console.until("edit · no sandbox", "Sandbox off: from now on commands run without a sandbox")
    console.type("go on")
    console.until("Two.")
    console.type("/quit")
    console.until("ended 0")
    (root,) = Path(console.environment["HOME"]).rglob("root.jsonl")
    logged = [entry.content.sandbox for entry in read_log(root) if isinstance(entry.content, Environment)]
    assert list(filter(None, logged)) == ["bubblewrap" if has_bubblewrap() else "landlock", "off"]
    assert not (console.cwd.parent / "outside").exists()


@later
@pytest.mark.plugin("plain")
@pytest.mark.parametrize(("letter", "kept"), [("a", True), pytest.param("s", False, marks=slow)])
def test_print_only_offers_same_rules(console: Console, tmp_path: Path, letter: str, kept: bool) -> None:
    (tmp_path / "other").mkdir()
    file = tmp_path / "other" / "made"
    turns = [needing(f"echo {word} >> {file}", f"write:{tmp_path}/other") for word in ("one", "two")]
    console.serve([*turns, Turn(text="Done.")])
    console.environment["TERM"] = "dumb"
    console.start(ready=">", width=120)
    console.type("go")
    screen = console.until("y, s, a, e, ?, n, or why not:", "wants: to write", f" {tmp_path}/other\n")
    assert f"s: this session, Edit({tmp_path}/other)" in screen
    assert f"a: always, adds Edit({tmp_path}/other) to your settings" in screen
    console.type(letter)
    console.until("Done.")  # the second one was not asked about
    assert file.read_text() == "one\ntwo\n"
    settings = Path(console.environment["HOME"], ".config", "sagent", "config.toml")
    assert (settings.exists() and f'"Edit({tmp_path}/other)"' in settings.read_text()) == kept


@later
@pytest.mark.parametrize("word", ["s", pytest.param("always", marks=slow)])
@pytest.mark.plugin("plain")
def test_print_only_lines_are_reason_for_no(console: Console, tmp_path: Path, word: str) -> None:
    turns = [needing(f"echo free > {tmp_path}/{name}", "all") for name in "ab"]
    server = console.serve([*turns, Turn(text="Done.")])
    console.environment["TERM"] = "dumb"
    console.start(ready=">", width=120)
    console.type("go")
    assert "a: always" not in console.until("y, e, ?, n, or why not:")
    console.type(word)  # was not offered
    console.until(f"echo free > {tmp_path}/b")
    while console.screen.count("y, e, ?, n, or why not:") < 2:  # a moment after the question
        time.sleep(0.05)
    console.type("n")
    console.until("Done.")
    assert f"The person said no: {word}" in last_text(server.requests[1])
    assert "The person said no." in last_text(server.requests[2])
    assert not (tmp_path / "a").exists()


@later
def test_escape_kills_sandboxed_children(console: Console) -> None:
    command = "touch begun; (setsid sleep 297 &) ; sleep 297 & sleep 297"
    console.serve([Turn(calls=(Call("Bash", {"command": command}),)), Turn(text="Fine.")])
    console.start()
    console.type("go")
    console.until("◌ Bash", "sandboxed")
    while not (console.cwd / "begun").exists():
        time.sleep(0.05)
    console.keys("Escape")
    console.until("Interrupted.")
    console.type("go on")
    console.until("Fine.")
    assert running(b"sleep\x00297\x00") == []


@later
def test_background_sandboxed_ends_with_session(console: Console) -> None:
    command = "touch begun; sleep 296; echo slept"
    console.serve([Turn(calls=(Call("Bash", {"command": command}),)), Turn(text="Ok.")])
    console.start()
    console.type("go")
    console.until("◌ Bash", "sandboxed")
    while not (console.cwd / "begun").exists():
        time.sleep(0.05)
    console.keys("C-b")
    console.until("goes on as job", "Ok.")
    assert len(running(b"sleep\x00296\x00")) == 1
    console.type("/quit")
    console.until("ended 0")
    assert running(b"sleep\x00296\x00") == []


def running(words: bytes) -> list[str]:
    """The processes with this command line."""
    found: list[str] = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (place / "cmdline").read_bytes() == words:
                found.append(place.name)
    return found
