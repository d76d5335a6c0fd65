"""Every snippet of README and docs runs: Python, shell, TOML and JSON, against a provider on loopback.

A page's Python blocks share one namespace, in order. A shell block runs under `bash -e`; a line ending in `# exits N`
must exit with N. What cannot run (output, grammar) is fenced as `text`.
"""

import ast
import asyncio
import gc
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sagent.testing.server import FakeProviderServer, Received, Step, Turn

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)  # a tab's are indented
RUNNABLE = {"python", "sh", "toml", "json", "text"}


@dataclass(frozen=True)
class Snippet:
    """A fenced block: its language, its text, and the line of the page it begins at."""

    language: str
    text: str
    line: int


def snippets(page: Path) -> Iterator[Snippet]:
    """The fenced blocks of a page."""
    text = page.read_text("utf-8")
    for match in FENCE.finditer(text):
        yield Snippet(match[2], textwrap.dedent(match[3]), text.count("\n", 0, match.start()) + 1)


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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # snippets leave closing to the exit
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page: Path, place: dict[str, str], tmp_path: Path) -> None:
    namespace: dict[str, object] = {"__name__": "docs"}
    try:
        run_page(page, namespace, place, tmp_path)
    finally:
        namespace.clear()
        gc.collect()  # here, not in another test


def run_page(page: Path, namespace: dict[str, object], place: dict[str, str], tmp_path: Path) -> None:
    """Every block, in order."""
    for snippet in snippets(page):
        where = f"{page.name}:{snippet.line}"
        assert snippet.language in RUNNABLE, f"{where}: fence it as one of {sorted(RUNNABLE)}"
        match snippet.language:
            case "python":
                run_python(snippet.text, where, namespace)
            case "sh":
                for command, code in commands(snippet.text):
                    run_shell(command, code, where, place)
            case "toml":
                check_config(snippet.text, where, tmp_path)
            case "json":
                json.loads(snippet.text)
            case _:
                pass


def run_python(source: str, where: str, namespace: dict[str, object]) -> None:
    """A block, with `await` allowed at its top."""
    code = compile(source, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, namespace))
    else:
        exec(code, namespace)


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


def run_shell(command: str, code: int, where: str, environment: dict[str, str]) -> None:
    """One command. That `make` has its targets is checked; what they run, other tests and CI run."""
    command = re.sub(r"^make ", f"make -n -C '{ROOT}' ", command)
    if re.match(r"(pipx|uv) ", command):
        return  # tests/test_packaging.py builds and installs the wheel
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, f"{where}: {command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def check_config(text: str, where: str, tmp_path: Path) -> None:
    """A TOML block is a user's config file and is accepted without a warning."""
    tomllib.loads(text)
    path = tmp_path / "documented.toml"
    path.write_text(text)
    environment = {**os.environ, "SAGENT_CONFIG": str(path), "ACME_KEY": "k"}
    done = subprocess.run(["sagent", "config", "show"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{where}: {done.stderr}"
    assert "warning" not in done.stderr, f"{where}: {done.stderr}"


@pytest.mark.parametrize("example", sorted((ROOT / "examples").rglob("*.py")), ids=lambda path: path.name)
def test_example(example: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, str(example)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
