"""Runs that a plugin carries out, sessions that it keeps, flags that are no settings, and what it adds to serve."""

import json
from pathlib import Path

import pytest

from sagent.config.plugins import find_plugins
from sagent.testing.server import Turn
from tests.cli.program import Shell
from tests.depth import later

FAR = """
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

from sagent.errors import SessionNotFound
from sagent.plugin import Extra, Flag, Plugin, Runner, Store, Suite

def run(own, flags, words):
    print("far", sorted(own.items()), sorted(flags.items()), words)
    return 7

async def rows(address):
    return [(path.name, "kept") for path in sorted(Path(address).iterdir())]

async def fetch(address, session, directory):
    for path in Path(address).iterdir():
        if path.name.startswith(session):
            return Path(shutil.copytree(path, directory / path.name))
    raise SessionNotFound(f"There is no session {session} in {address}.")

plugin = Plugin(
    "far",
    "runs elsewhere",
    flags=(
        Flag("far", "run it far away", "HOW", choices=("north", "south")),
        Flag("far-off", "further"),
        Flag("moat", "around the server", "M", of="serve"),
    ),
    runners=(Runner(":run", ("SAGENT_FAR",)),),
    stores=(Store("attic", "read it there", ":fetch", ":rows", "SAGENT_ATTIC", "DIR", "what lies there", "ask it"),),
    suites=(Suite("far", "far places", ":FarSuite"),),
)
"""


@pytest.fixture
def far(shell: Shell) -> Path:
    file = Path(shell.environment["HOME"]) / ".config/sagent/plugins/far.py"
    file.parent.mkdir(parents=True)
    file.write_text(FAR)
    return file


@pytest.fixture
def attic(shell: Shell, far: Path, tmp_path: Path) -> Path:
    """A place outside of sagent's own, with the one session that there was on this machine."""
    shell.serve([Turn(text="Bonjour."), Turn(text="Kept here.")])
    session = json.loads(shell.run("--json", "Say hello in French.").out)["session_id"]
    (tmp_path / "attic").mkdir()
    path = next(Path(shell.environment["HOME"]).rglob(session))
    path.rename(tmp_path / "attic" / session)
    return tmp_path / "attic"


@pytest.mark.plugin("completion")
@pytest.mark.plugin("serve")
def test_own_flag_runs_in_plugin(shell: Shell, far: Path) -> None:
    done = shell.run("--far", "north", "--far-off", "--effort", "low", "hello", model="")
    assert (done.code, done.out) == (7, "far [('far', 'north'), ('far_off', True)] [('effort', 'low')] ['hello']\n")
    shown = shell.run("help", "all", model="").out
    assert "run it far away" in shown
    assert "moat" not in shown
    assert "around the server" in shell.run("serve", "--help", model="").out
    assert shell.run("--far", "west", "hello", model="").code == 2
    assert "--far\trun it far away" in shell.run("completion", "words", "sagent --fa", model="").out
    assert "south" in shell.run("completion", "words", "sagent --far s", model="").out


def test_variable_runs_in_plugin(shell: Shell, far: Path) -> None:
    shell.environment["SAGENT_FAR"] = "yes"
    done = shell.run("hello", model="")
    assert (done.code, done.out) == (7, "far [] [] ['hello']\n")


def test_two_runners_refused(shell: Shell, far: Path) -> None:
    names = (('"far"', '"near"'), ("attic", "cellar"), ('"far-off"', '"near-by"'))
    text = FAR
    for old, new in names:
        text = text.replace(old, new)
    far.with_name("near.py").write_text(text)
    done = shell.run("--far", "north", "--near-by", "hello", model="")
    assert done.code == 2
    assert "--far and --near-by" in done.err


def test_unloadable_runner_names_plugin(shell: Shell, far: Path) -> None:
    far.write_text(FAR.replace('":run"', '"nowhere.at.all:run"'))
    done = shell.run("--far", "north", "hello", model="")
    assert done.code == 2
    assert "plugin far" in done.err


def test_run_flag_and_setting_name_clash(shell: Shell, far: Path) -> None:
    setting = 'plugin = Plugin("late", settings=(Setting("far_off", str, help="x"),))'
    far.with_name("late.py").write_text(f"from sagent.plugin import Plugin, Setting\n{setting}")
    config = Path(shell.environment["HOME"]) / ".config/sagent"
    notices = find_plugins(config, config).notices
    assert any("setting far_off of the plugin late" in each and "far has one" in each for each in notices)


@later
@pytest.mark.plugin("audit", "exports")
def test_stored_sessions_listed_and_read(shell: Shell, attic: Path) -> None:
    session = next(attic.iterdir()).name
    assert session in shell.run("sessions", "list", "--attic", str(attic), model="").out
    assert shell.run("sessions", "list", "--ids", "--attic", str(attic), model="").out == f"{session}\n"
    assert "ask it" in shell.run("sessions", "list", "--costs", "--attic", str(attic), model="").err
    assert "Bonjour." in shell.run("sessions", "show", session, "--attic", str(attic), model="").out
    assert (
        "Bonjour." in shell.run("export", session, "--format", "md", "--out", "-", "--attic", str(attic), model="").out
    )
    assert "on the attic" in shell.run("verify", session, "--attic", str(attic), model="").out
    assert shell.run("trace", session, model="").code == 2


@later
@pytest.mark.plugin("exports")
def test_variable_names_store(shell: Shell, attic: Path) -> None:
    session = next(attic.iterdir()).name
    shell.environment["SAGENT_ATTIC"] = str(attic)
    assert "Bonjour." in shell.run("trace", session[:12], model="").out
    here = json.loads(shell.run("--json", "hello").out)["session_id"]
    assert "Kept here." in shell.run("trace", here, model="").out
    assert "There is no session nothing" in shell.run("trace", "nothing", model="").err


@pytest.mark.plugin("authoring")
def test_plugin_lists_additions(shell: Shell, far: Path) -> None:
    row = next(line for line in shell.run("plugin", "list", model="").out.splitlines() if line.startswith("far "))
    for each in ("far-off", "attic", "suites: far"):
        assert each in row
