"""Commands in a sandbox, in a real terminal: what one wants beyond it is put to the person, whole."""

from pathlib import Path

import pytest
from console import Console

from sagent.testing.server import Call, Turn

pytestmark = pytest.mark.needs("tmux", "bwrap")
REASON = "the tests want \x1b[31mit\u202e"


def needing(command: str, *needs: str) -> Turn:
    return Turn(calls=(Call("Bash", {"command": command, "needs": list(needs), "reason": REASON}),))


def test_a_command_that_runs_inside_is_not_asked_about_and_the_status_says_so(console: Console) -> None:
    console.serve([Turn(calls=(Call("Bash", {"command": "echo held > made.txt"}),)), Turn(text="Done.")])
    console.start()
    console.until("edit · sandboxed")
    console.type("go")
    console.until("Done.")
    assert (console.cwd / "made.txt").read_text() == "held\n"


def test_what_a_command_wants_is_shown_and_allowed_for_the_session_by_its_rules(
    console: Console, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    file = tmp_path / "other" / "made"
    turns = [needing(f"echo {word} >> {file}", f"write:{tmp_path}/other") for word in ("one", "two")]
    server = console.serve([*turns, Turn(text="Done.")])
    console.start(width=120)
    console.type("go")
    screen = console.until("Yes, once", f"wants: to write {tmp_path}/other", "the model says: the tests want �[31mit�")
    assert f"s Yes, for this session  Edit({tmp_path}/other)" in screen
    assert not file.exists()
    console.keys("s")
    console.until("Done.")  # the second one was not asked about
    assert file.read_text() == "one\ntwo\n"
    assert len(server.requests) == 3


def test_in_a_small_terminal_all_of_it_is_above_the_question(console: Console, tmp_path: Path) -> None:
    lines = "\n".join(f"echo line {number}" for number in range(30))
    console.serve([needing(f"{lines}\ntouch {tmp_path}/made", f"write:{tmp_path}"), Turn(text="Understood.")])
    console.start(width=40, height=10)
    console.type("go")
    screen = console.until("? Bash, as it is shown above?", "❯ y Yes, once", "s Yes, for this session")
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


def test_what_no_rule_can_name_is_allowed_once_or_not_at_all(console: Console, tmp_path: Path) -> None:
    console.serve([needing(f"echo free > {tmp_path}/made", "all"), Turn(text="Done.")])
    console.start()
    console.type("go")
    screen = console.until("wants: to run without the sandbox", "y Yes, once", "n No, and say why")
    assert "Yes, for this session" not in screen
    assert "Yes, always" not in screen
    console.keys("y")
    console.until("Done.")
    assert (tmp_path / "made").read_text() == "free\n"


def test_where_there_is_no_sandbox_the_status_line_says_so(console: Console) -> None:
    console.serve([Turn(text="Hello.")])
    console.start("--sandbox", "off", width=60, height=10, ready="edit · no sandbox")
