"""What the program says of the sandbox: in its result, in the log, and where there is none."""

# Parts of JSON are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportIndexIssue=false

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Shell

from sagent.sandbox.probe import Confinement, keep
from sagent.session.contents import Environment
from sagent.session.log import read_log
from sagent.testing.server import Call, Turn

MAKES = Turn(calls=(Call("Bash", {"command": "echo made > made.txt; echo out > ../outside.txt"}),))


@pytest.fixture
def nothing(shell: Shell) -> Callable[[], None]:
    """Make this a machine on which nothing can hold commands."""

    def find_nothing() -> None:
        state = Path(shell.environment["HOME"]) / ".local" / "state" / "sagent"
        state.mkdir(parents=True, exist_ok=True)
        keep(state, Confinement("none", "bwrap is not installed"))

    return find_nothing


def logged(shell: Shell) -> list[str]:
    (root,) = Path(shell.environment["HOME"]).rglob("root.jsonl")
    found = [entry.content for entry in read_log(root) if isinstance(entry.content, Environment)]
    return [content.sandbox for content in found if content.sandbox]


@pytest.mark.needs("bwrap")
def test_result_and_log_name_the_sandbox(shell: Shell) -> None:
    shell.serve([MAKES, Turn(text="one"), Turn(text="two"), Turn(text="three")])
    done = shell.run("--output-format", "json", "go")
    assert done.json["sandbox"] == "bubblewrap"
    assert (shell.cwd / "made.txt").read_text() == "made\n"
    assert not (shell.cwd.parent / "outside.txt").exists()
    assert done.err == ""
    assert shell.run("--output-format", "stream-json", "--continue", "on").lines[-1]["sandbox"] == "bubblewrap"
    assert logged(shell) == ["bubblewrap"]
    shell.run("--continue", "--sandbox", "off", "on")
    assert logged(shell) == ["bubblewrap", "off"]


def test_sandbox_off_warns_nobody(shell: Shell) -> None:
    shell.serve([MAKES, Turn(text="done")])
    done = shell.run("--sandbox", "off", "--output-format", "json", "go")
    assert done.json["sandbox"] == "off"
    assert done.err == ""
    assert [denial["tool"] for denial in done.json["permission_denials"]] == ["Bash"]


def test_missing_sandbox_told_once_commands_asked(shell: Shell, nothing: Callable[[], None]) -> None:
    nothing()
    shell.serve([MAKES, Turn(text="one"), Turn(text="two"), Turn(text="alone")])
    told = (
        "Commands run without a sandbox, because bwrap is not installed: you are asked about them. "
        "Install bubblewrap (apt install bubblewrap, or the equivalent of this system)."
    )
    prompts = "\n".join(json.dumps(text) for text in ("go", "on"))
    done = shell.run("--output-format", "stream-json", "--input-format", "stream-json", stdin=prompts)
    notices = [event["text"] for event in done.lines if event["type"] == "notice"]
    assert [text for text in notices if "sandbox" in str(text)] == [told]
    first, second = (event for event in done.lines if event["type"] == "result")
    assert (first["sandbox"], second["sandbox"]) == ("none", "none")
    assert [denial["tool"] for denial in first["permission_denials"]] == ["Bash"]
    assert not (shell.cwd / "made.txt").exists()
    assert "sandbox" not in shell.run("--tools", "Read", "--ephemeral", "hi").err


def test_required_missing_sandbox_begins_nothing(shell: Shell, nothing: Callable[[], None]) -> None:
    nothing()
    server = shell.serve([Turn(text="never")])
    done = shell.run("--sandbox", "required", "go")
    assert (done.code, done.out, server.requests) == (2, "", [])
    (line,) = done.err.splitlines()
    assert all(part in line for part in ("--sandbox required", "bwrap is not installed"))
    assert "--sandbox" in shell.run("--help").out


def test_older_log_names_no_sandbox() -> None:
    assert Environment({"git_commit": "abc", "git_dirty": False}).sandbox == ""
