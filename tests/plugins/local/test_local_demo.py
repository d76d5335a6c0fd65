"""`sagent demo --local`: with a stand-in for llama-server, and with the real model where it is."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.program import CHECKOUT, Shell
from tests.depth import later, slow
from tests.waiting import wait_until

pytestmark = pytest.mark.plugin("setup")

STAND_IN = CHECKOUT / "tests" / "providers" / "llama_server.py"
BUG = (CHECKOUT / "sagent/plugins/local/demo_local/intervals.py").read_text("utf-8")
REPAIR = BUG.replace("(merged[-1][0], end)", "(merged[-1][0], max(merged[-1][1], end))")
NAME = "qwen2.5-coder-1.5b-instruct-q4_k_m"


def written(path: str, text: str) -> dict[str, str]:
    """A reply that writes a file."""
    return {"text": f"{path}\n```\n{text}```\n"}


def set_up(shell: Shell, *script: dict[str, str], **conduct: object) -> None:
    """Have llama-server be the stand-in, which answers so."""
    folder = shell.cwd.parent
    program, weights = folder / "llama-server", folder / f"{NAME}.gguf"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
    program.chmod(0o755)
    weights.write_bytes(b"GGUF")
    (folder / "t").mkdir()
    shell.environment |= {
        "LLAMA_CPP_SERVER": str(program),
        "LLAMA_CPP_MODEL": str(weights),
        "STAND_IN": json.dumps({"script": script, "starts": str(folder / "starts"), **conduct}),
        "TMPDIR": str(folder / "t"),
        "SAGENT_MODEL": "anthropic/of-the-person",
    }


def servers(shell: Shell) -> list[int]:
    """The servers that were started."""
    found = shell.cwd.parent / "starts"
    return [json.loads(line)["pid"] for line in found.read_text().splitlines()] if found.exists() else []


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_demo_repairs_test_and_cleans_up(shell: Shell) -> None:
    home = shell.cwd.parent / "another"  # where no run was before
    shell.environment["HOME"] = str(home)
    set_up(shell, written("intervals.py", REPAIR), {"text": "Fixed."})
    done = shell.run("demo", "--local", model="")
    assert done.code == 0, done.out + done.err
    before, _, after = done.out.partition("$ sagent ")
    assert "FAILED" in before
    assert "FAILED" not in after
    assert "+             merged[-1] = (merged[-1][0], max(merged[-1][1], end))" in after
    assert f"sagent --model llamacpp/{NAME}\n" in after
    assert "export" not in after, "the person has named the files"
    assert all(map(is_gone, servers(shell)))
    assert not home.exists(), "nothing of it is kept with the person's own"
    assert not list(shell.cwd.iterdir())


EMPTIED = """import unittest


class MergeTest(unittest.TestCase):
    def test_overlapping(self):
        pass

    def test_contained(self):
        pass
"""


@later
@pytest.mark.costly
@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("intervals.py", BUG + "\n# done\n", "the test still fails"),
        ("test_intervals.py", EMPTIED, "it changed the test"),
        ("intervals.py", "def merge(:\n", "the test still fails"),
    ],
    ids=["unrepaired", "test changed", "broken"],
)
def test_demo_reports_model_failure(shell: Shell, path: str, text: str, words: str) -> None:
    set_up(shell, written(path, text), {"text": "All tests pass now."})
    done = shell.run("demo", "--local", model="")
    assert done.code == 1
    assert words in done.out


@later
def test_demo_notices_deleted_test(shell: Shell) -> None:
    set_up(shell, {"text": "```bash\nrm test_intervals.py\n```\n"}, {"text": "Done."})
    done = shell.run("demo", "--local", model="")
    assert done.code == 1, done.out + done.err
    assert "it changed the test" in done.out


@later
def test_demo_without_server_explains(shell: Shell) -> None:
    set_up(shell, deaths=99, last_words="ggml: cannot allocate memory")
    done = shell.run("demo", "--local", model="")
    assert done.code == 1
    assert "cannot allocate memory" in done.out + done.err
    assert "did not manage" not in done.out, "the model was never asked"
    for name, value in (("LLAMA_CPP_SERVER", "/nowhere/llama-server"), ("LLAMA_CPP_MODEL", str(shell.cwd))):
        right, shell.environment[name] = shell.environment[name], value
        done = shell.run("demo", "--local", model="")
        assert (done.code, name in done.err) == (2, True)
        shell.environment[name] = right
    assert shell.run("demo", "--local", "--model", "x", model="").code == 2


@later
@pytest.mark.costly
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=slow), signal.SIGKILL])
def test_interrupted_demo_leaves_no_process(shell: Shell, number: signal.Signals) -> None:
    set_up(shell, written("intervals.py", REPAIR), reading={"steps": 1000, "seconds": 0.1})
    child = shell.start("demo", "--local", model="", stderr=subprocess.STDOUT)
    wait_until(lambda: servers(shell), "the server starts", child=child)
    child.send_signal(number)
    assert child.wait() == (-signal.SIGKILL if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: all(map(is_gone, servers(shell))), "the end of the server")
    temporary = shell.cwd.parent / "t"
    left = {path.name for path in temporary.iterdir()}
    assert bool(left) == (number == signal.SIGKILL)
    (temporary / "sagent-demo-kept").mkdir()
    again = shell.start("demo", "--local", model="", stderr=subprocess.STDOUT)
    wait_until(lambda: len(servers(shell)) > 1, "it starts once more", child=again)
    demos = {path.name for path in temporary.glob("sagent-demo-*")}
    assert "sagent-demo-kept" in demos
    assert not demos & left
    again.send_signal(signal.SIGTERM)
    assert again.wait() == 128 + signal.SIGTERM


@later
def test_narrow_terminal_shows_progress(shell: Shell) -> None:
    set_up(shell, written("intervals.py", REPAIR), {"text": "Fixed."}, loading=2, reading={"steps": 3, "seconds": 0.1})
    said = shell.on_terminal("demo", "--local", columns=40)
    assert "Loading qwen2.5" in said
    assert "Reading the prompt" in said
    assert "the test passes" in said
    shown = [line for line in re.split(r"[\r\n]+", said) if line.startswith(("Loading", "Reading"))]
    assert max(map(len, shown)) < 40


def test_start_loads_nothing_of_it(shell: Shell) -> None:
    code = (
        "import sys; from sagent.cli.main import run; run(['demo', '--help'])\n"
        "own = ('sagent.plugins.local.', 'sagent.providers.wire', 'sagent.plugins.local.progress')\n"
        "print([name for name in sys.modules if name.startswith(own)])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


@slow
@pytest.mark.skipif(
    not (Path.home() / f".cache/sagent/models/{NAME}.gguf").is_file(),
    reason="needs the model in ~/.cache/sagent/models: sagent demo --local fetches it",
)
def test_real_model_repairs_test(shell: Shell, processes: Callable[[str], list[int]]) -> None:
    shell.environment["XDG_CACHE_HOME"] = str(Path.home() / ".cache")
    child = shell.start("demo", "--local", model="")
    out, err = child.communicate()  # a model on a busy machine takes its time
    assert child.returncode == 0, out + err
    assert b"the test passes" in out
    assert f"sagent --model llamacpp/{NAME}\n".encode() in out
    assert not processes(f"{NAME}.gguf")
