"""Commands of the lab at the doors of the program: help, errors, sandboxes, text protocols, older sessions."""

import json
from pathlib import Path

import pytest

from sagent.cli.main import run
from sagent.testing.script import Turn
from sagent.testing.server import Call
from tests.cli.program import Shell
from tests.cli.test_json_errors import check_error
from tests.cli.test_sandbox_cli import MAKES
from tests.depth import later
from tests.plugins.exports.test_odd_bodies import BODIES, RECORDED, check_told
from tests.plugins.textcalls.test_enclosed_files import DONE, Run
from tests.plugins.textcalls.test_enclosed_files import run as small
from tests.plugins.textcalls.test_text_protocol_doors import _bodies

__all__ = ["small"]  # a fixture
ERRORS = [
    ["replay", "no-such-session", "--output-format", "json"],
    ["compare", "a", "b", "--output-format=json"],
    ["gate", "--output-format", "json", "--nonsense"],
    ["sweep", "no-such-file.toml", "--output-format", "json"],
]


@pytest.mark.parametrize("name", ["replay", "compare", "bench-advisor", "sweep", "gate"])
def test_commands_listed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "all"]) == 0
    assert f"  lab {name} " in capsys.readouterr().out
    assert run([name, "--help"]) == 0
    assert f"usage: sagent {name}" in capsys.readouterr().out


@pytest.mark.parametrize("argv", ERRORS, ids=" ".join)
def test_errors_are_one_object(shell: Shell, argv: list[str]) -> None:
    check_error(shell, argv)


@pytest.mark.parametrize("argv", [("gate", "~no-user/x", "--min-pass", "1"), ("sweep", "~no-user/x")])
def test_unknown_user_path_refused(shell: Shell, argv: tuple[str, ...]) -> None:
    done = shell.run(*argv, model="")
    assert done.code in (1, 2)
    assert "no-user" in done.err and "Traceback" not in done.err


@pytest.mark.parametrize("command", [["replay"], ["compare", str(RECORDED)]], ids=" ".join)
@pytest.mark.parametrize("what", BODIES)
def test_unusable_body_reported(
    what: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    check_told(what, command, tmp_path, monkeypatch, capfd)


@later
def test_switched_model_session_replayed(shell: Shell) -> None:
    shell.serve([Turn(text="one"), Turn(text="two"), Turn(text="three"), Turn(text="four")])
    path = str(shell.cwd / "session")
    models = ("anthropic/claude-sonnet-4-6", "anthropic/claude-haiku-4-5", "", "anthropic/claude-sonnet-4-6")
    for prompt, model in zip("abcd", models, strict=True):
        assert shell.run("--session", path, prompt, model=model).code == 0
    replayed = shell.run("replay", path, model="")
    assert replayed.code == 0, replayed.err


@later
@pytest.mark.needs("bwrap")
def test_sandboxes_are_compared(shell: Shell) -> None:
    shell.serve([MAKES, Turn(text="one"), Turn(text="two")])
    assert shell.run("go").code == shell.run("--continue", "--sandbox", "off", "on").code == 0
    (session,) = {path.parent for path in Path(shell.environment["HOME"]).rglob("root.jsonl")}
    assert "sandbox" in shell.run("compare", str(session), str(session), model="").out
    compared = json.loads(shell.run("compare", "--output-format", "json", str(session), str(session), model="").out)
    assert compared["a"]["sandbox"] == "off"


@later
def test_rerun_sends_prompt_not_enclosures(small: Run) -> None:
    small.sent("Shorten notes.txt")
    again = small.shell.serve([DONE])
    assert small.shell.run("replay", "--model", "anthropic/claude-sonnet-4-6", model="").code == 0
    sent = json.dumps([request.json for request in again.requests if request.method == "POST"])
    assert "Shorten notes.txt" in sent and "opensesame" not in sent


@later
def test_native_session_rerun_as_text(shell: Shell) -> None:
    shell.serve([Turn(calls=(Call("Bash", {"command": "echo $((6 * 7))"}),)), DONE])
    assert shell.run("--permission-mode", "full", "Look").code == 0
    server = shell.serve([Turn(text="```bash\necho $((6 * 7))\n```"), Turn(text="42.")])
    done = shell.run("replay", "--model", "anthropic/claude-haiku-4-5", "--tool-calls", "text", model="")
    assert done.code == 0, done.err
    first, second = _bodies(server)
    assert "tools" not in first and "The output of the command:\n42" in second["messages"][-1]["content"][0]["text"]
