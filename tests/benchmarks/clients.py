"""The programs that are compared, each at a lean server of its own: ours, a raw httpx2 loop, and codex and pi from npm.

codex and pi are installed once, with a Node that runs both, into the user's cache directory. They are set up as their
documentation says for an endpoint of one's own, and with their own traffic (updates, analytics) off.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
SAGENT = [str(Path(PYTHON).with_name("sagent"))]
FLAGS = ["--model", "anthropic/claude-sonnet-4-6", "--permission-mode", "full"]
FREE = [*FLAGS, "--sandbox", "off"]
LEAN = [PYTHON, str(Path(__file__).with_name("lean_server.py"))]
PACKAGES = ("@openai/codex@0.169.0", "@earendil-works/pi-coding-agent@0.87.1", "node@22")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sagent-bench"


@dataclass(frozen=True)
class Client:
    """A program: its name, the lean server's family that it speaks, how it is run against an address, and the files it
    needs in its home directory."""

    name: str
    family: str
    argv: Callable[[str], list[str]]
    files: Callable[[str], Mapping[str, str]] = lambda _: {}
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


def raw() -> Client:
    """The least that an agent loop can be."""
    program = str(Path(__file__).with_name("raw_loop.py"))
    return Client("raw loop", "anthropic", lambda url: [PYTHON, program, url, "hello"])


def sagent(*flags: str, family: str = "anthropic") -> Client:
    """Ours."""
    return Client("sagent", family, lambda _: [*SAGENT, *(flags or FLAGS), "hello"])


def peers(*, sandboxed: bool = False) -> list[Client]:
    """codex and pi, without a sandbox; or those that have one of their own, in it. None, and a line that says so, where
    they cannot be installed."""
    programs = CACHE / "node_modules" / ".bin"
    stamp = CACHE / "installed.json"
    if not stamp.exists() or json.loads(stamp.read_text()) != list(PACKAGES):
        if not (npm := shutil.which("npm")):
            print("codex and pi are left out: npm is not installed.", flush=True)
            return []
        CACHE.mkdir(parents=True, exist_ok=True)
        argv = [npm, "install", "--prefix", str(CACHE), "--no-audit", "--no-fund", "--loglevel=error", *PACKAGES]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            print(f"codex and pi are left out: npm could not install them.\n{done.stderr[-1000:]}", flush=True)
            return []
        stamp.write_text(json.dumps(PACKAGES))
    path = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    held = ["--sandbox", "workspace-write"] if sandboxed else ["--dangerously-bypass-approvals-and-sandbox"]

    def codex(url: str) -> list[str]:
        provider = f'{{name="bench",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
        said = ["model=gpt-5.2", "model_provider=bench", f"model_providers.bench={provider}", "analytics.enabled=false"]
        flags = ["--skip-git-repo-check", *held]
        return [str(programs / "codex"), "exec", *flags, *(word for one in said for word in ("-c", one)), "hello"]

    def models(url: str) -> Mapping[str, str]:
        provider = {"baseUrl": url, "api": "anthropic-messages", "apiKey": "k", "models": [{"id": "m"}]}
        return {".pi/agent/models.json": json.dumps({"providers": {"bench": provider}})}

    pi = [str(programs / "pi"), "-p", "--offline", "--provider", "bench", "--model", "m", "hello"]
    found = [Client("codex", "codex", codex, lambda _: {".codex/.keep": ""}, path)]
    return found if sandboxed else [*found, Client("pi", "pi", lambda _: pi, models, path)]


@dataclass(frozen=True)
class Seen:
    """What the lean server saw: ms from the process's start to its first request, ms between turns, the first body's
    bytes; and the whole run's milliseconds."""

    first: float
    gaps: list[float]
    body: int
    whole: float

    @property
    def turn(self) -> float:
        """Mean milliseconds of a turn."""
        return sum(self.gaps) / len(self.gaps)


@contextmanager
def lean_server(*argv: str) -> Generator[tuple[str, Callable[[], dict[str, float | list[float]]]]]:
    """A lean server's address, and what it saw: to be asked when its client is done."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*LEAN, *argv], stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip(), lambda: json.loads(server.communicate()[0])


@contextmanager
def started(client: Client, url: str) -> Generator[subprocess.Popen[bytes]]:
    """The client's process, in an empty home and directory. It must succeed."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as cwd, tempfile.TemporaryFile() as said:
        for name, text in client.files(url).items():
            Path(home, name).parent.mkdir(parents=True)
            Path(home, name).write_text(text)
        environment = {**provider_environment(url), "HOME": home, **client.variables}
        null = subprocess.DEVNULL
        argv = client.argv(url)
        with subprocess.Popen(argv, env=environment, cwd=cwd, stdin=null, stdout=null, stderr=said) as process:
            yield process
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{argv} failed: {said.read().decode()[-2000:]}")


def attend(client: Client, turns: int, command: str = "echo hello") -> Seen:
    """Run a client for so many tool turns: the gaps are its work and the command's."""
    with lean_server(client.family, str(turns), command) as (url, seen):
        before = time.monotonic()
        with started(client, url) as process:
            process.wait()
        whole = time.monotonic() - before
        saw = seen()
        assert isinstance(saw["first"], float)
        assert isinstance(saw["gaps"], list)
        assert isinstance(saw["body"], int)
        return Seen(1000 * (saw["first"] - before), saw["gaps"], saw["body"], 1000 * whole)


def peak_memory(client: Client, turns: int = 20) -> float:
    """Peak of the summed PSS of the process tree, MB, over so many tool turns."""
    peak = 0.0
    with lean_server(client.family, str(turns)) as (url, seen):
        with started(client, url) as process:
            while process.poll() is None:
                peak = max(peak, tree_pss(process.pid))
                time.sleep(0.005)
        seen()
    return peak


def provider_environment(url: str) -> dict[str, str]:
    """What leads a client to a provider, and nothing else."""
    keys = {f"{name}_API_KEY": "k" for name in ("ANTHROPIC", "OPENAI", "MOONSHOT", "GEMINI")}
    urls = {f"{name}_BASE_URL": url for name in ("ANTHROPIC", "OPENAI", "MOONSHOT", "GEMINI")}
    return {"PATH": os.environ["PATH"], **keys, **urls}


def tree_pss(root: int) -> float:
    """MB of proportional set size of a process and all below it.

    A child that does not run a program of its own yet has its parent's memory, and not a second one.
    """
    total, waiting = 0, [(root, b"")]
    while waiting:
        pid, above = waiting.pop()
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if words == above:
                continue
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += ((int(child), words) for child in (task / "children").read_text().split())
        except (OSError, StopIteration):
            continue
    return total / 1024
