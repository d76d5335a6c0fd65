"""Every snippet of README and docs runs: Python, shell, TOML and JSON, against a provider on loopback.

A Python block is a file of its own, as an example is; `tests/snippets.py` checks their types. A shell block runs under
`bash -e`; a line ending in `# exits N` must exit with N. What cannot run (output, grammar) is fenced as `text`.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagent.testing.server import FakeProviderServer, Received, Step, Turn
from tests.deleted import deleted, lacking
from tests.depth import slow
from tests.forks import Forks
from tests.snippets import EXAMPLES, PAGES, ROOT, Snippet, snippets
from tests.warm import STATE, warm

GONE = re.compile(r"the plugin (\w+), which is not loaded")
SHELLS = re.compile(r"[][|&;<>$`*?\\(){}~!]")  # what means something to a shell
RUNNABLE = {"python", "sh", "toml", "json", "text"}


def answer(request: Received) -> Step:
    """Whatever is asked, a short answer."""
    return Turn(text="It is a small project with a README.")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A project to work in, and an environment in which every provider is the one on loopback."""
    (tmp_path / "README.md").write_text("# Example\n\nA small project.\n")
    (tmp_path / "app.py").write_text("def main() -> None:\n    print('hello')\n")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "sagent").symlink_to(ROOT / "sagent")
    warm(tmp_path / "home" / STATE)
    with FakeProviderServer(answer).in_thread() as server:
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path / "home"),
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.url,
        }
        for name in ("OPENAI", "MOONSHOT", "DASHSCOPE", "MINIMAX", "OPENAI_COMPATIBLE"):
            environment |= {f"{name}_API_KEY": "k", f"{name}_BASE_URL": f"{server.url}/v1"}
        environment["EXAMPLE_URL"] = f"{server.url}/v1"
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        yield environment


@pytest.mark.costly
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page: Path, place: dict[str, str], tmp_path: Path, forks: Forks) -> None:
    """Every block, in order; where one needs a plugin that was deleted, the page is skipped in the end."""
    gone = [""]
    for snippet in snippets(page):
        where = f"{page.name}:{snippet.line}"
        assert snippet.language in RUNNABLE, f"{where}: fence it as one of {sorted(RUNNABLE)}"
        match snippet.language:
            case "python" if name := lacking(snippet.text):
                gone.append(name)
            case "python":
                run_python(snippet, where, place, tmp_path, forks)
            case "sh":
                gone += [run_shell(command, code, where, place, forks) for command, code in commands(snippet.text)]
            case "toml":
                gone.append(check_config(snippet.text, where, place, tmp_path, forks))
            case "json":
                json.loads(snippet.text)
            case _:
                pass
    if name := next(filter(None, gone), ""):
        pytest.skip(f"the plugin {name} was deleted")


def run_python(snippet: Snippet, where: str, environment: dict[str, str], tmp_path: Path, forks: Forks) -> None:
    """A block as a file of its own."""
    program = tmp_path / "program.py"
    program.write_text(snippet.as_file, "utf-8")
    done = forks.run(cwd=tmp_path, environment={**environment, "PYTHONPATH": str(ROOT)}, file=program)
    program.unlink()
    said = f"{done.stdout.decode()[-2000:]}\n{done.stderr.decode()[-4000:]}"
    assert (done.returncode, done.stderr) == (0, b""), f"{where}\n{said}"


def commands(block: str) -> Iterator[tuple[str, int]]:
    """The commands of a block and the exit codes they promise; what a backslash or heredoc joins stays together."""
    waiting, end = "", ""
    for line in block.splitlines():
        waiting += line + "\n"
        if not end and (heredoc := re.search(r"<<'?(\w+)'?", line)):
            end = heredoc[1]
        if line.endswith("\\") or (end and line != end) or not waiting.strip() or waiting.lstrip().startswith("#"):
            waiting = "" if waiting.lstrip().startswith("#") else waiting
            continue
        promised = re.search(r"# exits (\d+)$", line)
        yield waiting, int(promised[1]) if promised else 0
        waiting, end = "", ""


def without(said: str) -> str:
    """Return the name of the deleted plugin that the program says it needs, "" for none."""
    return next((name for name in GONE.findall(said) if deleted(name)), "")


def run_shell(command: str, code: int, where: str, environment: dict[str, str], forks: Forks) -> str:
    """Run one command; return the name of a deleted plugin that it needs. That `make` has its targets is checked; what
    they run, other tests and CI run. What a shell would only start is run without one."""
    command = re.sub(r"^make ", f"make -n -C '{ROOT}' ", command)
    if re.match(r"(pipx|uv) ", command):
        return ""  # tests/test_packaging.py builds and installs the wheel
    if command.startswith("sagent ") and not SHELLS.search(command):
        words = shlex.split(command, comments=True)[1:]
        done = forks.run(*words, cwd=Path.cwd(), environment={**environment, "PYTHONPATH": str(ROOT)})
    else:
        line = ["bash", "-e", "-c", command]
        done = subprocess.run(line, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    said = f"{done.stdout.decode()[-2000:]}\n{done.stderr.decode()[-2000:]}"
    name = without(said)
    assert name or done.returncode == code, f"{where}: {command}\n{said}"
    return name


def check_config(text: str, where: str, environment: dict[str, str], tmp_path: Path, forks: Forks) -> str:
    """Check that a TOML block is accepted without a warning as a user's config file; return the name of a deleted
    plugin that it needs."""
    tomllib.loads(text)
    path = tmp_path / "documented.toml"
    path.write_text(text)
    environment = {**environment, "SAGENT_CONFIG": str(path), "ACME_KEY": "k", "PYTHONPATH": str(ROOT)}
    done = forks.run("config", "show", cwd=tmp_path, environment=environment)
    name = without(done.stderr.decode())
    assert name or (done.returncode == 0 and b"warning" not in done.stderr), f"{where}: {done.stderr}"
    return name


@pytest.mark.costly
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, id=path.name, marks=[slow] if path.name == "failover.py" else [])
        for path in EXAMPLES
        if path.parent.name not in ("plugins", "stack")  # tests/plugins and tests/test_stack_examples.py run those
    ],
)
def test_example(example: Path, tmp_path: Path, forks: Forks) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = forks.run(cwd=tmp_path, environment=environment, file=example)
    if done.returncode and (name := without(done.stderr.decode())):
        pytest.skip(f"the plugin {name} was deleted")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.strip()


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs/decisions"
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "index.md").read_text("utf-8")))
    assert linked == {page.name for page in folder.glob("*.md")} - {"index.md"}
    assert len(linked) > 50


def test_extras_are_added_as_the_reader_installed() -> None:
    """A page that says that it needs an extra leads to the tabs that add one."""
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text("utf-8")
        alone = [line for line in text.splitlines() if re.search(r"pip install -e '?\.\[", line) and line[:1] != " "]
        assert not alone, page
        if page.name != "install.md" and re.search(r"needs\sthe\sextra `\w+`", text):
            assert "install.md#add-an-extra" in text, page
