"""`sagent plugin new` writes a plugin that works, `sagent plugin test` says what is wrong with one."""

import subprocess
import sys
from pathlib import Path

import pytest

from sagent.testing.script import Call
from sagent.testing.server import Turn
from tests.cli.program import CHECKOUT, Shell
from tests.depth import later, slow


def install(shell: Shell, folder: Path, module: str) -> None:
    """Have a plugin there as `pip install -e` does: importable, with its entry point in a place of packages. Nothing is
    imported from the working directory that PYTHONPATH names."""
    site = folder.parent / "site-packages"
    info = site / f"{folder.name}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {folder.name}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[sagent.plugins]\n{folder.name} = {module}:plugin\n")
    shell.environment["PYTHONPATH"] = f"{CHECKOUT}:{folder / 'src'}:{site}"


def sagent(shell: Shell, *words: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "sagent", *words]
    return subprocess.run(run, cwd=shell.cwd, env=shell.environment, capture_output=True, text=True, check=False)


def test_new_plugin_has_all_parts(shell: Shell) -> None:
    made = shell.run("plugin", "new", "my-greeter", model="")
    assert made.code == 0, made.err
    folder = (shell.cwd / "my-greeter").rename(shell.cwd.parent / "my-greeter")
    install(shell, folder, "my_greeter")
    assert "my-greeter 0.1.0" in sagent(shell, "plugin", "list").stdout
    server = shell.serve([Turn(calls=(Call("MyGreeter", {"name": "Ada"}),)), Turn(text="Done.")])
    words = ("--model", "anthropic/claude-sonnet-4-6", "--my-greeter-greeting", "Salut")
    done = sagent(shell, *words, "greet Ada")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "Salut, Ada!" in str(server.requests[1].json["messages"])
    assert "Salut, Ada!" in sagent(shell, *words, "/my-greeter Ada").stdout


@later
def test_new_plugin_passes_its_tests(shell: Shell) -> None:
    assert shell.run("plugin", "new", "my-greeter", model="").code == 0
    folder = (shell.cwd / "my-greeter").rename(shell.cwd.parent / "my-greeter")
    install(shell, folder, "my_greeter")
    assert "good" in sagent(shell, "plugin", "test", "my-greeter").stdout
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    ran = subprocess.run(tests, cwd=folder, env=shell.environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout


@slow
def test_new_plugin_passes_checks(shell: Shell) -> None:
    assert sagent(shell, "plugin", "new", "tide").returncode == 0
    beside = Path(sys.executable).parent
    lint = [str(beside / "ruff"), "check", "--no-cache", "--select", "E,F,I,D1", "tide"]
    assert subprocess.run(lint, cwd=shell.cwd, check=False).returncode == 0
    types = [str(beside / "pyright"), "--pythonpath", sys.executable, "-p", "tide"]
    done = subprocess.run(types, cwd=shell.cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@slow
def test_new_plugin_installs(shell: Shell) -> None:
    assert sagent(shell, "plugin", "new", "tide").returncode == 0
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "own"], cwd=shell.cwd, check=True)
    python = shell.cwd / "own/bin/python"
    site = subprocess.run(
        [python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True, check=True
    ).stdout.strip()
    ours = Path(sys.executable).parents[1].joinpath(*Path(site).parts[-3:])
    Path(site, "ours.pth").write_text(f"{ours}\n{CHECKOUT}\n")
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "-e", "tide"], cwd=shell.cwd, check=True)
    words = [python, "-m", "sagent", "plugin", "list"]
    listed = subprocess.run(words, cwd=shell.cwd, env=shell.environment, capture_output=True, text=True, check=True)
    assert "tide 0.1.0" in listed.stdout


@pytest.mark.parametrize("name", ["Big", "1st", "class", "sagent", "a b", "ä", "-x", "../up/A"])
def test_invalid_name_refused(shell: Shell, name: str) -> None:
    done = shell.run("plugin", "new", "--", name, model="")
    assert done.code == 2
    assert "cannot be the name of a plugin" in done.err
    assert list(shell.cwd.iterdir()) == []


def test_existing_files_not_overwritten(shell: Shell) -> None:
    (shell.cwd / "tide").write_text("mine")
    assert shell.run("plugin", "new", "tide", model="").code == 2
    assert (shell.cwd / "tide").read_text() == "mine"


def test_plugin_test_names_faults(shell: Shell) -> None:
    (shell.cwd / "odd.py").write_text(
        "from sagent.plugin import Command, Part, Plugin, SlashCommand\n"
        "def run(words): return 0\n"
        "plugin = Plugin('odd', commands=(Command('odd', 'odd', ':run'), Command('gone', 'gone', ':none')),\n"
        "    parts=(Part(':run', ('always',)),),\n"
        "    slash_commands=(SlashCommand('odd', ':run'), SlashCommand('model', ':run')))"
    )
    done = shell.run("plugin", "test", "odd.py", model="")
    assert done.code == 1
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines].count("bad") == 3
    assert any("command gone" in line and "AttributeError" in line for line in lines)
    assert any("write async def" in line for line in lines)
    assert any("slash command model" in line and "left out" in line for line in lines)
    assert shell.run("plugin", "test", "odt", model="").code == 2


def test_suites_are_checked_and_named(shell: Shell) -> None:
    """A suite without tests promises nothing; and whoever adds a tool is told which tests it may inherit."""
    (shell.cwd / "suited.py").write_text(
        "from sagent.plugin import Plugin, Suite, ToolEntry\n"
        "class Empty:\n    def checks(self): pass\n"
        "class Full:\n    def test_it(self): pass\n"
        "class Tide:\n    name = description = 'Tide'\n    parameters = {}\n"
        "    async def __call__(self, given, run): pass\n"
        "plugin = Plugin('suited', tools=(ToolEntry('Tide', ':Tide'),), suites=(Suite('empty', 'e', ':Empty'),\n"
        "    Suite('full', 'f', ':Full'), Suite('setting', 's', ':Full')))"
    )
    lines = shell.run("plugin", "test", "suited.py", model="").out.splitlines()
    assert [line for line in lines if line.startswith("bad")] == [line for line in lines if "suite empty" in line]
    assert any("sagent.testing.tool_suite:ToolSuite" in line for line in lines)
    assert not any("tests of s may" in line for line in lines)


@later
def test_ours_pass_their_test(shell: Shell, tmp_path: Path) -> None:
    names = sorted(file.parent.name for file in (CHECKOUT / "sagent/plugins").glob("*/__init__.py"))
    script = "import sys\nfrom sagent.cli.main import run\n"
    script += "sys.exit(any([run(['plugin', 'test', name]) for name in sys.argv[1:]]))\n"
    (tmp_path / "all.py").write_text(script)
    done = shell.forks.run(*names, cwd=shell.cwd, environment=shell.environment, file=tmp_path / "all.py")
    assert (done.returncode, done.stderr) == (0, b""), done.stdout
