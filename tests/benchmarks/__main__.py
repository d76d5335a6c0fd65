"""`make bench`: every figure the project promises, and what codex, pi and a raw httpx2 loop take in the same run.

Rewrites the tables in docs/performance.md. `python -m tests.benchmarks SECTION...` measures some of it and only prints:
compared, alone, plugins, agents, advisor, sessions, repl, codemap, families. Needs Linux for memory figures.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sagent.testing.server import FakeProviderServer, Received, Step, Turn, Wire
from tests.benchmarks import codemap, plugins, repl, sessions
from tests.benchmarks.clients import (
    FLAGS,
    FREE,
    PYTHON,
    ROOT,
    SAGENT,
    Client,
    attend,
    lean_server,
    peak_memory,
    provider_environment,
    raw,
    sagent,
)  # fmt: skip
from tests.benchmarks.compared import Comparison, compare

RUNS = 5
WHOLE = Wire("whole")

REFERENCE = 116.0
"""Milliseconds that the raw loop took to its first request when the machine was quiet, as the reaches suppose it."""
TIMES = ("ms", "s", "MB/s")


@dataclass(frozen=True)
class Row:
    """A figure: what, how much is to be reached (with `least` at least, else at most), what came out, with what."""

    name: str
    reach: float | None
    value: float
    unit: str
    note: str = ""
    least: bool = False

    def verdict(self, pace: float) -> str:
        """Whether it is reached, on a machine that takes `pace` times as long as the reach supposes."""
        if self.reach is None:
            return ""
        pace = pace if self.unit in TIMES else 1.0
        sign = -1 if self.least else 1
        if sign * self.value <= sign * self.reach:
            return "met"
        return "met at pace" if sign * self.value * pace**-sign <= sign * self.reach else "short"

    def line(self, pace: float) -> str:
        """The row of the table."""
        value = f"{self.value:.0f}" if self.unit in ("", "MB") or self.value >= 100 else f"{self.value:.2f}"
        reach = "" if self.reach is None else f"{'≥' if self.least else '≤'} {self.reach:g} {self.unit}".rstrip()
        told = f"{value} {self.unit}" + (f" ({self.note})" if self.note else "")
        return f"| {self.name} | {reach} | {told} | {self.verdict(pace)} |"


@contextmanager
def served(
    script: Callable[[Received], Step], wire: Wire = WHOLE
) -> Iterator[tuple[FakeProviderServer, dict[str, str]]]:
    """A provider in this process, and the environment that leads a client to it."""
    provider = FakeProviderServer(script, strict=False, wire=wire)
    with tempfile.TemporaryDirectory() as home, provider.in_thread() as server:
        yield server, {**provider_environment(server.url), "HOME": home}


def run(argv: list[str], environment: dict[str, str]) -> float:
    """Wall seconds of a command; it must succeed."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as cwd:
        null = subprocess.DEVNULL
        done = subprocess.run(argv, env=environment, cwd=cwd, stdin=null, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv} failed: {done.stderr.decode()[-2000:]}")
    return time.monotonic() - started


def against_python(flag: str) -> float:
    """Milliseconds over `python3 -c pass`, median of pairs."""
    gaps: list[float] = []
    for _ in range(RUNS * 3):
        base = run([PYTHON, "-c", "pass"], dict(os.environ))
        gaps.append(run([*SAGENT, flag], dict(os.environ)) - base)
    return 1000 * median(gaps)


def greeting() -> tuple[float, float]:
    """How long an editor waits for the answer to its first request: milliseconds over `python3 -c pass`, and how often
    that goes into it; medians of pairs."""
    line = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
    rounds: list[tuple[float, float]] = []
    for _ in range(RUNS * 3):
        base = run([PYTHON, "-c", "pass"], dict(os.environ))
        started = time.monotonic()
        with subprocess.Popen([*SAGENT, "acp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(f"{line}\n")
            child.stdin.flush()
            assert '"protocolVersion":1' in child.stdout.readline()
            took = time.monotonic() - started
            child.stdin.close()
        rounds.append((1000 * (took - base), took / base))
    return median(over for over, _ in rounds), median(ratio for _, ratio in rounds)


def open_log() -> float:
    """Seconds to open a log of 10,000 messages."""
    code = (
        "import sys,time,tempfile,pathlib\n"
        "from sagent.session.store import Session\n"
        "from sagent.session.contents import MessageEntry\n"
        "from sagent.session.contents import StoredMessage\n"
        "from sagent.messages import user\n"
        "from sagent.session.folds import history\n"
        "d=pathlib.Path(tempfile.mkdtemp())/'s'\n"
        "session=Session.create(d, d); log=session.log()\n"
        "for i in range(10000): log.append(MessageEntry(StoredMessage.of(user('word '*100+str(i)), None)))\n"
        "session.close()\n"
        "t=time.perf_counter(); log=Session.open(session.path).log(); n=len(history(log.entries(), log.blobs.get))\n"
        "s=time.perf_counter()-t\n"
        "assert n==10000; print(s)\n"
    )
    return median(float(subprocess.check_output([PYTHON, "-c", code])) for _ in range(RUNS))


def delta_cpu() -> float:
    """CPU seconds that 30,000 text deltas of four characters cost the headless CLI."""

    def cpu(count: int) -> float:
        with served(lambda _: Turn(text="abcd" * count, pieces=4), Wire("event")) as (_, environment):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run([*SAGENT, *FLAGS, "--output-format", "stream-json", "hello"], environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return median(cpu(30_000) - cpu(1) for _ in range(RUNS))


def agents(mode: str, count: int, alive: int) -> dict[str, float]:
    """What agents.py says it took, and when the last request `came`."""
    with lean_server("agents", "0") as (url, seen), tempfile.TemporaryDirectory() as home:
        environment = {**provider_environment(url), "HOME": home, "PYTHONPATH": str(ROOT)}
        argv = [PYTHON, str(Path(__file__).with_name("agents.py")), mode, str(count), str(alive)]
        with tempfile.TemporaryDirectory() as cwd:
            told = subprocess.check_output(argv, env=environment, cwd=cwd, text=True)
        came = seen()["last"]
        assert isinstance(came, float)
        return {**json.loads(told), "came": came}


def consultations(executor: str, advisor: str) -> dict[str, float]:
    """What advisor.py says a consultation took of our CPU, in milliseconds."""
    argv = [PYTHON, str(Path(__file__).with_name("advisor.py")), executor, advisor]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    return json.loads(subprocess.check_output(argv, env=environment, text=True))


def checkpoints() -> Iterator[Row]:
    """What watching over the files of a large work tree adds to a command."""
    for files, reach in ((15_000, 50.0), (60_000, None)):
        argv = [PYTHON, str(Path(__file__).with_name("checkpoints.py")), str(files)]
        found = json.loads(subprocess.check_output(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True))
        note = f"{found['first']:.0f} ms the first time"
        yield Row(f"what a command costs beside itself among {files:,} files in git", reach, found["next"], "ms", note)


def boxed() -> Iterator[Row]:
    """What the sandbox adds to a command: bare and boxed ones in turn."""

    def took(mode: str) -> dict[str, float]:
        argv = [PYTHON, str(Path(__file__).with_name("boxed.py")), mode]
        return json.loads(subprocess.check_output(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True))

    rounds = [(took("off"), took("bubblewrap"), took("landlock")) for _ in range(RUNS * 2 + 1)]
    for which, words in (("first", "the first of a session"), ("next", "those that follow")):
        bare = median(off[which] for off, *_ in rounds)
        for index, means in enumerate(("bubblewrap", "Landlock"), 1):
            gap = median(each[index][which] - each[0][which] for each in rounds)
            yield Row(
                f"`true` by Bash in the sandbox ({means}) over a bare one ({bare:.1f} ms), {words}", 15, gap, "ms"
            )


def telemetry() -> Iterator[Row]:
    """What spans and metrics add to a turn; without them there is nothing that could."""
    argv = [PYTHON, str(Path(__file__).with_name("telemetry.py")), str(RUNS * 4)]
    took = json.loads(subprocess.check_output(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True))
    for mode, words in (("on", "without content"), ("content", "with content")):
        gap = took[mode]
        note = f"{gap / 10:.2f} % of a turn of which the model takes 1 s"
        yield Row(f"`--telemetry`, {words}: CPU of a tool turn more", 1, gap, "ms", note)


def modules(*argv: str) -> int:
    """Modules imported before the first request, or in all where there is none."""
    with served(lambda _: Turn(text="done")) as (_, environment), tempfile.NamedTemporaryFile() as file:
        run([PYTHON, str(Path(__file__).with_name("modules.py")), file.name, *argv], environment)
        return int(Path(file.name).read_text())


def measure_alone() -> Iterator[Row]:
    """What there is nothing to compare with."""
    for flag, most in (("--version", 15), ("--help", 40)):
        yield Row(f"`{flag}` over `python3 -c pass`", most, against_python(flag), "ms")
    yield from boxed()
    yield from checkpoints()
    yield from telemetry()
    yield Row("opening a log of 10,000 messages", 0.5, open_log(), "s")
    yield Row("30,000 text deltas: extra CPU", 0.7, delta_cpu(), "s")
    over, ratio = greeting()
    yield Row("`sagent acp` to its answer of `initialize`, over `python3 -c pass`", 130, over, "ms", f"{ratio:.1f} ×")
    yield Row("modules imported before the first request", 330, modules(*FLAGS, "hello"), "")
    yield Row("modules imported for `--version`", 60, modules("--version"), "")


def measure_plugins() -> Iterator[Row]:
    """What foreign plugins that nobody asks for cost a start."""
    took = plugins.measure()
    words = f"process start to first connection with {plugins.COUNT} foreign plugins over none, {plugins.ROUNDS} rounds"
    counted = f"; {took.millions:+.1f} million instructions, {took.files:+} calls that look at files"
    for name, gap, more in ((words, took.wall, ""), ("the same: CPU time", took.cpu, counted)):
        note = f"lower quartile; of two that are alike {gap.doubt:.2f}; the least {gap.least:+.2f}{more}"
        yield Row(name, 2, gap.quarter, "ms", note)


def measure_agents() -> Iterator[Row]:
    """Many agents in one process."""
    for count, alive, most in ((1000, 32, 6), (200, 200, 5)):
        swarms = [agents("swarm", count, alive) for _ in range(3)]
        wall, cpu, memory = (median(swarm[what] for swarm in swarms) for what in ("wall", "cpu", "memory"))
        words = f"{count:,} agents of one root, {alive} alive at a time, two turns each: our CPU for each"
        each = 1000 / count
        yield Row(f"{words} ({each * wall:.1f} ms wall)", most, each * cpu, "ms")
        yield Row("the same: peak memory in all", 150, memory, "MB")
    value = 1000 * median(seen["came"] - seen["sent"] for seen in (agents("preempt", 1, 1) for _ in range(RUNS)))
    yield Row("a message to an agent in a 60 s `Bash`: until its next request", 50, value, "ms")
    seen = [agents("library", 100, 100) for _ in range(RUNS)]
    yield Row("`Agent(model)` in a program, the 2nd to the 100th: CPU", 1, median(one["made"] for one in seen), "ms")
    words = "100 of them at a prompt each, in one event loop: the longest gap, at the best of 5"
    yield Row(words, 20, min(one["gap"] for one in seen), "ms")


def measure_advisor() -> Iterator[Row]:
    """What a consultation takes."""
    for pair in (("anthropic", "responses"), ("responses", "anthropic")):
        seen = [consultations(*pair) for _ in range(3)]
        first = median(run["first"] for run in seen)
        words = f"a consultation at 200 turns, {pair[0]} asks {pair[1]}: our CPU, mean of 21"
        name = f"{words} ({first:.0f} ms for the first, which quotes all)"
        yield Row(name, 8, median(run["mean"] for run in seen), "ms")


def measure_repl() -> Iterator[Row]:
    """What a person at the terminal waits for."""
    for figure in repl.measure(quick=False):
        reach = figure.reach if figure.reach < 10_000 else None  # the plain prompt's
        yield Row(f"REPL: {figure.name}", reach, figure.value, figure.unit)


def measure_codemap() -> Iterator[Row]:
    """What a map of a large project takes."""
    speeds = codemap.measure()
    yield Row(f"`RepoMap` of 10,000 files, {speeds.size:.0f} MB, the first time", 10, speeds.first, "s")
    yield Row("the same again", 0.5, speeds.again, "s")
    yield Row("the same with one file changed", 1, speeds.changed, "s")


def measure_sessions() -> Iterator[Row]:
    """What reading sessions back takes."""
    speeds = sessions.measure()
    beside = f"sha256 alone {speeds.verify_sha256:.0f} MB/s"
    yield Row("`sagent verify` of a log with results of 5 kB", 200, speeds.verify, "MB/s", beside, least=True)
    yield Row("the same, with blobs", 200, speeds.verify_blobs, "MB/s", least=True)
    yield Row("`export --format html` of 2,000 turns", 2, speeds.page, "s")
    yield Row("the page's size", 10, speeds.page_size, "MB")
    yield Row("`sagent sessions list`, 100 sessions", None, speeds.listing, "s")
    yield Row("the same, 1,000 sessions", None, speeds.listing_thousand, "s")
    yield Row("compaction of a session of 500,000 tokens: CPU", 1, speeds.compaction, "s")
    alone = f"json.loads {speeds.million_loads:.1f} s, sha256 {speeds.million_sha256:.1f} s"
    words = f"going on with a log of a million entries, {speeds.million_size:.0f} MB: the whole run"
    yield Row(words, None, speeds.million, "s", alone)
    yield Row("the same: peak memory", 150, speeds.million_memory, "MB")


FAMILIES = {
    "anthropic": ("Messages", "anthropic/claude-sonnet-4-6"),
    "responses": ("Responses", "openai/gpt-5.2"),
    "chat": ("Chat Completions", "moonshot/kimi-k2.6"),
    "google": ("generateContent", "google/gemini-3.8-flash"),
}


@dataclass(frozen=True)
class Session:
    """Milliseconds to the first request, of a turn at 20 and at 100, and MB at most."""

    first: float
    early: float
    late: float
    memory: float

    def __str__(self) -> str:
        """As columns of the table."""
        return f"{self.first:.0f} ms | {self.early:.1f} ms | {self.late:.1f} ms | {self.memory:.0f} MB"


def session(client: Client) -> Session:
    """Sessions of 120 turns, medians."""
    runs = [attend(client, 120) for _ in range(3)]
    early, late = (median(median(run.gaps[at : at + 20]) for run in runs) for at in (10, 100))
    return Session(median(run.first for run in runs), early, late, peak_memory(client))


def measure_families() -> Iterator[str]:
    """A line for the raw loop, and for each family and transport."""
    yield "| family | transport | first request | a turn at 20 | at 100 | peak memory |"
    yield "|---|---|---|---|---|---|"
    yield f"| raw httpx2 loop | | {session(raw())} |"
    for transport in ("direct", "sdk"):
        for family, (name, model) in FAMILIES.items():
            flags = ["--model", model, *FREE[2:], "--transport", transport]
            yield f"| {name} | {transport} | {session(sagent(*flags, family=family))} |"


def measure_compared() -> Iterator[str]:
    """The table of the comparison."""
    yield "| figure | sagent | raw loop | codex | pi | reach | |"
    yield "|---|---|---|---|---|---|---|"
    yield from map(Comparison.line, compare())


SECTIONS: Mapping[str, Callable[[], Iterator[Row] | Iterator[str]]] = {
    "compared": measure_compared,
    "alone": measure_alone,
    "plugins": measure_plugins,
    "agents": measure_agents,
    "advisor": measure_advisor,
    "sessions": measure_sessions,
    "repl": measure_repl,
    "codemap": measure_codemap,
    "families": measure_families,
}


def tables(sections: list[str]) -> Iterator[str]:
    """The lines of the tables, as they are measured."""
    pace = max(1.0, median(attend(raw(), 0).first for _ in range(RUNS)) / REFERENCE)
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    machine = f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores"
    yield f"{machine}, {time.strftime('%Y-%m-%d')}; {load}, pace {pace:.2f}."
    rows = False
    for section in sections:
        for line in SECTIONS[section]():
            if isinstance(line, Row) and not rows:
                yield from ("", "| figure | reach | measured | |", "|---|---|---|---|")
            elif not isinstance(line, Row) and line.startswith(("| figure", "| family")):
                yield ""
            rows = isinstance(line, Row)
            yield line.line(pace) if isinstance(line, Row) else line


def main() -> None:
    """Print the tables; all of them are put into docs/performance.md."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=main.__doc__)
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], metavar="SECTION", help=", ".join(SECTIONS))
    asked: list[str] = parser.parse_args().sections
    lines: list[str] = []
    for line in tables(asked or list(SECTIONS)):
        lines.append(line)
        print(line, flush=True)
    if asked:
        return
    page = ROOT / "docs" / "performance.md"
    before, _, rest = page.read_text("utf-8").partition("<!-- table -->")
    _, _, after = rest.partition("<!-- end -->")
    table = "\n".join(lines)
    page.write_text(f"{before}<!-- table -->\n{table}\n<!-- end -->{after}", "utf-8")


if __name__ == "__main__":
    main()
