"""Completion in bash, fish and zsh, and the man page."""

import os
import pty
import re
import select
import shlex
import subprocess

import pytest

from sagent.cli.flags import plugins_of, run_parser
from sagent.plugin import Command
from sagent.testing.server import Turn
from tests.cli.program import Shell
from tests.depth import later
from tests.surroundings import PYTHON


def test_man_page_lists_all_commands(shell: Shell) -> None:
    done = shell.run("completion", "man", model="")
    assert done.code == 0
    plugins = plugins_of(())
    for name in (
        *(name for each in run_parser(plugins).flags for name in each.option_strings),
        *plugins.named(Command),
    ):
        assert name.replace("-", "\\-") in done.out, name
    assert shell.run("completion", "tcsh", model="").code == 2


@pytest.mark.plugin("audit", "setup")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("mode", "models"),
        ("mesh at", "attach"),
        ("--perm", "--permission-mode"),
        ("--effort mi", "minimal"),
        ("--effort=mi", "minimal"),
        ("--output-format=", "text json stream-json"),
        ("--advisor-panel ", "first all"),
        ("sessions lis", "list"),
        ("sessions list --co", "--costs"),
        ("completion ", "bash zsh fish man"),
        ("sessions show --he", "--help"),
        ("sessions rewind x 1 fi", "files"),
        ("--model anthropic/claude-haiku-4", "anthropic/claude-haiku-4-5"),
        ("--model claude-haiku-4", "claude-haiku-4-5"),
        ("--model sonn", "sonnet"),
        ("--model=ollama/x:", ""),
        ("--cwd ", ""),
        ("zz", ""),
    ],
)
def test_bash_completion(typed: str, completed: str, shell: Shell) -> None:
    assert " ".join(complete_in_bash(shell, typed)) == completed


@later
@pytest.mark.plugin("audit")
def test_sessions_complete_by_their_ids(shell: Shell) -> None:
    shell.serve([Turn(text="Yes.")])
    shell.run("is it?")
    (session,) = shell.run("sessions", "list", "--ids", model="").out.split()
    for typed in ("--resume ", "sessions show ", f"sessions delete {session[:10]}", f"--fork={session[:10]}"):
        assert complete_in_bash(shell, typed) == [session]
    assert f"{session}\tis it?\n" in shell.run("completion", "words", "sagent --resume ", model="").out


def complete_in_bash(shell: Shell, typed: str) -> list[str]:
    """What bash's own machinery is given for a line, whose words it splits at spaces, `=` and `:`."""
    script = shell.run("completion", "bash", model="").out
    words = [word for word in re.split(r"([=:])|\s+", typed) if word] + ([""] if typed[-1].isspace() else [])
    setting = (
        f"COMP_WORDS=(sagent {shlex.join(words)}); COMP_CWORD={len(words)}; COMP_LINE={shlex.quote('sagent ' + typed)}"
    )
    program = f'sagent() {{ {PYTHON} -m sagent.bin.cli "$@"; }}\n{script}\n{setting}; COMP_POINT=${{#COMP_LINE}}'
    argv = ["bash", "--norc", "-c", f"{program}; _sagent; printf '%s\\n' \"${{COMPREPLY[@]}}\""]
    said = subprocess.run(argv, env=shell.environment, cwd=shell.cwd, capture_output=True, text=True, check=True)
    assert not said.stderr
    return said.stdout.split()


@later
@pytest.mark.plugin("audit", "setup")
@pytest.mark.needs("fish")
def test_fish_completes_commands_and_flags(shell: Shell) -> None:
    made = shell.run("completion", "fish", model="").out
    program = f"function sagent; {PYTHON} -m sagent.bin.cli $argv; end"
    shell.cwd.joinpath("zebra.toml").touch()
    for typed, offered in (
        ("mode", "models\t"),
        ("--perm", "--permission-mode\t"),
        ("--sandbox o", "off\n"),
        ("--sandbox=o", "--sandbox=off\n"),
        ("sessions pru", "prune\t"),
        ("sessions show zeb", "zebra.toml\n"),
        ("--config=zeb", "--config=zebra.toml\n"),
        ("zz", ""),
    ):
        script = f"{program}\n{made}\ncomplete -C 'sagent {typed}'"
        argv = ["fish", "--no-config", "-c", script]
        said = subprocess.run(argv, env=shell.environment, cwd=shell.cwd, capture_output=True, text=True, check=True)
        assert said.stdout.startswith(offered) and said.stdout.count("\n") == bool(offered), said.stdout
        assert not said.stderr


@later
@pytest.mark.plugin("audit", "setup")
@pytest.mark.needs("zsh")
def test_zsh_completes_commands_and_flags(shell: Shell) -> None:
    shell.cwd.joinpath("_sagent").write_text(shell.run("completion", "zsh", model="").out)
    master, slave = pty.openpty()
    environment = {**shell.environment, "TERM": "dumb", "PS1": "$ "}
    itself = f'{PYTHON} -m sagent.bin.cli "$@"'
    program = f'sagent() {{ if [[ $1 == completion ]]; then {itself}; else echo "<$*>"; fi }}'
    setup = f"fpath=($PWD $fpath); autoload -U compinit; compinit -u; {program}\n"
    shell.cwd.joinpath("setup").write_text(setup)  # typed, a letter that is not ASCII would be a command of the editor
    with subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=slave, stdout=slave, stderr=slave, cwd=shell.cwd, env=environment,
        start_new_session=True,
    ) as zsh:  # fmt: skip
        os.close(slave)
        try:
            seen = b""
            for typed, wanted in (
                (b". ./setup; sagent\n", b"<>"),
                (b"sagent mode\t\n", b"<models>"),
                (b"sagent --perm\t\n", b"<--permission-mode>"),
                (b"sagent --permission-mode pl\t\n", b"<--permission-mode plan>"),
                (b"sagent --permission-mode=pl\t\n", b"<--permission-mode=plan>"),
                (b"sagent sessions pru\t\n", b"<sessions prune>"),
                (b"sagent --model anthropic/claude-haiku-4\t\n", b"<--model anthropic/claude-haiku-4-5>"),
                (b"sagent sessions show _sa\t\n", b"<sessions show _sagent>"),
            ):
                os.write(master, typed)
                while wanted not in seen:
                    assert select.select([master], [], [], 20)[0], seen
                    seen += os.read(master, 1 << 16)
        finally:
            zsh.kill()
            os.close(master)
