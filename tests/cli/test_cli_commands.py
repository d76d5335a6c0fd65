"""The commands beside a run: demo, models, sessions, config, version and help."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from program import CHECKOUT, Shell

from sagent import __version__
from sagent.cli.main import run
from sagent.config.plugins import find_plugins
from sagent.plugin import Command
from sagent.testing.server import Turn


@pytest.mark.plugin("audit")
def test_unusable_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions", "show", "n" * 300]) == 2
    # by the system's error, or from Python 3.14 on as one that is not there
    assert re.match(r"sagent: (n{300}/root.jsonl: File name too long|no session 'n{300}': )", capsys.readouterr().err)


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(shell: Shell, flag: str) -> None:
    assert shell.run(flag, model="").out == f"sagent {__version__}\n"
    assert shell.run("hi", flag, model="").out == f"sagent {__version__}\n"


@pytest.mark.plugin("audit", "exports", "setup")
def test_help_tells_commands_of_plugins(shell: Shell) -> None:
    said = shell.run("--help", model="").out
    names = ["models", "sessions", "demo", "verify", "export", "trace", "advice"]
    assert [name for name in names if f"\n  {name} " not in said] == []


def test_help_has_everyday_half_and_groups(shell: Shell) -> None:
    done = shell.run("help", model="")
    assert done.code == 0
    assert done.out == shell.run("--help", model="").out
    assert len(done.out.splitlines()) <= 0.6 * len(shell.run("help", "all", model="").out.splitlines())
    words = done.out.split()
    assert {"--model", "--advisor", "--max-budget-usd", "--continue", "run", "config"} <= {*words}
    assert "sagent help all" in done.out
    assert not {"--max-request-tokens", "--append-system", "--transport"} & {*words}


def test_no_command_is_only_named_elsewhere(tmp_path: Path) -> None:
    """What has become a command needs no advice; one of a family, as `replay`, is told the family's name."""
    elsewhere = json.loads((CHECKOUT / "sagent/cli/elsewhere.json").read_text("utf-8"))["commands"]
    commands = find_plugins(tmp_path, tmp_path).every(Command)
    assert not elsewhere.keys() & {command.name for command in commands if not command.under}


def test_help_of_command_equals_its_flag(shell: Shell) -> None:
    done = shell.run("help", "config", model="")
    assert (done.code, done.out) == (0, shell.run("config", "--help", model="").out)


@pytest.mark.plugin("mesh")
def test_command_family_lists_its_operations(shell: Shell) -> None:
    listed = shell.run("mesh", "--help", model="")
    assert listed.code == 0
    assert {"bus", "node", "attach"} <= {*listed.out.split()}
    done = shell.run("mesh", "bus", "--help", model="")
    assert (done.code, done.out) == (0, shell.run("bus", "--help", model="").out)
    assert shell.run("mesh", model="").out == listed.out
    done = shell.run("mesh", "boat", model="")
    assert (done.code, "bus" in done.err) == (2, True)


def test_help_all_has_every_flag_and_command(shell: Shell) -> None:
    done = shell.run("help", "all", model="")
    assert done.code == 0
    flags = (
        "--model --provider --base-url --auth --effort --system --append-system --tools --max-response-tokens "
        "--max-request-tokens --max-turns --max-tool-call-rounds --max-budget-usd --allow-providers --transport "
        "--fallback --add-dir --cwd --no-wait --background-after "
        "--permission-mode --log-level --version --continue --session --ephemeral --output-format --input-format "
        "config run --advisor --fork"
    )
    for word in flags.split():
        assert word in done.out


def test_runs_from_checkout_as_a_file(shell: Shell) -> None:
    del shell.environment["PYTHONPATH"]
    program = CHECKOUT / "sagent" / "bin" / "cli.py"
    done = subprocess.run(
        [sys.executable, str(program), "--help"], cwd=shell.cwd, env=shell.environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"--max-budget-usd" in done.stdout
    relative = subprocess.run(
        [sys.executable, "cli.py", "--version"],
        cwd=program.parent, env=shell.environment, capture_output=True, check=False,
    )  # fmt: skip
    assert relative.returncode == 0, relative.stderr


def test_missing_package_names_the_install(shell: Shell) -> None:
    """That of the system, from a checkout."""
    argv = [sys.executable, "-S", str(CHECKOUT / "sagent" / "bin" / "cli.py"), "hello"]
    environment = {**shell.environment, "ANTHROPIC_API_KEY": "k"}
    done = subprocess.run(argv, cwd=shell.cwd, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"sagent: .+, which runs sagent, has no package \w+\. Install what it needs: .+\n", done.stderr)


@pytest.mark.plugin("audit")
def test_sessions_list_show_delete(shell: Shell) -> None:
    shell.serve([Turn(text="Fine, thanks.")])
    path = str(shell.run("--output-format", "json", "how are you?").json["session_path"])
    name = Path(path).name
    assert shell.run("sessions", "list", "--ids", model="").out == name + "\n"
    assert "how are you?" in shell.run("sessions", "list", model="").out
    shown = shell.run("sessions", "show", name[:12], model="").out
    for words in ("> how are you?", "Fine, thanks.", "cost     $0.0", path):
        assert words in shown
    assert shell.run("sessions", "delete", name, model="").code == 0
    assert not Path(path).exists()
    assert shell.run("sessions", "show", name, model="").code == 2


def test_config_shows_values_and_origins(shell: Shell) -> None:
    (shell.cwd / ".git").mkdir()
    (shell.cwd / ".sagent").mkdir()
    (shell.cwd / ".sagent" / "config.toml").write_text('permission_mode = "full"\nmax_turns = 7\n')
    shell.environment["SAGENT_MODEL"] = "openai/gpt-5.5"
    done = shell.run("config", "show", model="")
    assert re.search(r"^model +openai/gpt-5.5 +\(.*SAGENT_MODEL.*\)$", done.out, re.MULTILINE)
    assert re.search(r"^max_turns +7 +\(.*config.toml.*\)$", done.out, re.MULTILINE)
    assert re.search(r"^permission_mode +edit +\(default\)$", done.out, re.MULTILINE)
    assert "config.toml" in done.err
    assert "permission_mode" in done.err


def test_instructions_reach_the_model(shell: Shell) -> None:
    (shell.cwd / "AGENTS.md").write_text("Always answer in Esperanto.\n")
    server = shell.serve([Turn(text="Saluton.")])
    shell.run("--append-system", "Be brief.", "hello")
    system = str(server.requests[0].json["system"])
    assert "Esperanto" in system
    assert "Be brief." in system
    assert str(shell.cwd) in system
