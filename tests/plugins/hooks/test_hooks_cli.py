"""Hooks in the program: behind the wall, with the person's trust, and at no cost where there are none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sagent.testing.server import Call, Turn
from tests.cli.program import Shell
from tests.depth import later

RUNS = Turn(text="Running.", calls=(Call("Bash", {"command": "touch made"}),))


def person(shell: Shell, text: str) -> None:
    file = Path(shell.environment["HOME"]) / ".config" / "sagent" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def project(shell: Shell, text: str) -> Path:
    file = shell.cwd / ".sagent" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.needs("bwrap")
def test_hook_sandboxed_without_keys(shell: Shell) -> None:
    shell.serve([Turn(text="Hi.")])
    home = Path(shell.environment["HOME"])
    outside = home / "outside"
    person(shell, f'[[hooks.SessionStart]]\ncommand = "env > inside; {{ echo x > {outside}; }} || exit 7"\n')
    done = shell.run("hello")
    assert done.out == "Hi.\n", done.err
    inside = (shell.cwd / "inside").read_text()
    assert f"CLAUDE_PROJECT_DIR={shell.cwd}" in inside and "ANTHROPIC_API_KEY" not in inside
    assert not outside.exists() and "exit code 7" in done.err


def test_project_hook_needs_trust(shell: Shell) -> None:
    shell.serve([RUNS, Turn(text="One."), RUNS, Turn(text="Two.")])
    project(shell, '[[hooks.PreToolUse]]\nmatcher = "Bash"\ncommand = "echo not so >&2; exit 2"\n')
    done = shell.run("go")
    assert done.out == "One.\n" and (shell.cwd / "made").exists()
    assert "PreToolUse Bash: echo not so" in done.err and "--trust-project" in done.err
    (shell.cwd / "made").unlink()
    done = shell.run("--trust-project", "go")
    assert done.out == "Two.\n" and not (shell.cwd / "made").exists() and "not so" in done.err


@later
def test_project_hook_asks_allowed_hosts(shell: Shell) -> None:
    hooks = shell.serve([RUNS, Turn(text="One.")])
    project(shell, f'[[hooks.PreToolUse]]\nurl = "{hooks.url}/v1/messages"\n')
    done = shell.run("--trust-project", "go")
    assert "hook_hosts" in done.err
    assert len(hooks.requests) == 2
    shell.serve([RUNS, Turn(text="Two.")])
    person(shell, f'hook_hosts = ["{hooks.url.removeprefix("http://")}"]\n')
    done = shell.run("--trust-project", "go")
    assert done.out == "Two.\n" and len(hooks.requests) == 3


def test_refused_prompt_not_sent(shell: Shell) -> None:
    server = shell.serve([Turn(text="Fine.")])
    person(shell, "[[hooks.UserPromptSubmit]]\ncommand = 'grep -q secret && { echo it is secret >&2; exit 2; }; :'\n")
    done = shell.run("--output-format", "json", "the secret")
    assert (done.code, server.requests) == (1, [])
    assert done.json["error"] == {"kind": "hook", "message": "A hook refused the prompt: it is secret"}
    assert shell.run("hello").out == "Fine.\n"


def test_hooks_are_listed(shell: Shell) -> None:
    person(shell, '[[hooks.Stop]]\ncommand = "make test"\n')
    shown = shell.run("config", "show", model="")
    assert "Stop: make test" in shown.out and "person: " in shown.out
    shell.serve([])
    assert "Stop: make test" in shell.run("/hooks").out


@later
def test_no_hooks_load_nothing(shell: Shell) -> None:
    server = shell.serve([Turn(text="Hi."), Turn(text="Hi.")])
    code = (
        "import sys; from sagent.cli.main import run\n"
        "run(['--ephemeral', '--model', 'anthropic/claude-sonnet-4-6', 'hi'])\n"
        "sys.stderr.write(str(sorted(name for name in sys.modules if name.startswith('sagent.plugins.hooks.'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=shell.cwd, env=shell.environment, capture_output=True, text=True, check=True
    )
    assert done.stderr.endswith("[]"), done.stderr
    person(shell, '[[hooks.PreToolUse]]\ncommand = "exit 2"\n')
    shell.run("--ephemeral", "hi")
    first, second = (json.dumps(request.json, sort_keys=True) for request in server.requests)
    assert first == second


@later
def test_output_style_in_first_prompt(shell: Shell) -> None:
    server = shell.serve([Turn(text="1"), Turn(text="2"), Turn(text="3")])
    for name, head in (("short", ""), ("teach", "keep-coding-instructions: true\n")):
        file = shell.cwd / ".claude" / "output-styles" / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"---\nname: {name}\n{head}---\nWrite as {name} does.")
    shell.run("--ephemeral", "hi")
    shell.run("--ephemeral", "--output-style", "short", "hi")
    shell.run("--ephemeral", "--output-style", "teach", "hi")
    plain, short, teach = (json.dumps(request.json["system"]) for request in server.requests)
    begins = plain[60:200]
    assert "Write as" not in plain
    assert "Write as short does." in short and begins not in short
    assert "Write as teach does." in teach and begins in teach
    assert shell.run("--output-style", "none", "hi").code == 2


@later
@pytest.mark.needs("bwrap")
def test_model_processes_cannot_kill_hook(shell: Shell) -> None:
    """Or it would end the hook that is to refuse its next call."""
    calls = [Turn(text="", calls=(Call("Bash", {"command": each}),)) for each in ("sleep 34567 &", "true")]
    shell.serve([*calls, Turn(text="Done.")])
    look = "cat /proc/[0-9]*/cmdline > seen; :"
    person(shell, f'[[hooks.PreToolUse]]\ncommand = "{look}"\n')
    done = shell.run("go")
    assert done.out == "Done.\n", done.err
    seen = (shell.cwd / "seen").read_bytes()
    assert b"seen" in seen and b"34567" not in seen
