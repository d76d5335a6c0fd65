"""`make bench`: every figure the project promises, medians of five, ratios in one run against a raw httpx2 loop.

Rewrites the table in docs/performance.md. Needs Linux for memory figures.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sagent.testing.server import Call, FakeProviderServer, Received, Step, Turn, Wire
from tests.benchmarks import repl, sessions

ROOT = Path(__file__).parents[2]
RUNS = 5
PYTHON = sys.executable
SAGENT = [str(Path(PYTHON).with_name("sagent"))]
RAW = [PYTHON, str(Path(__file__).with_name("raw_loop.py"))]
WHOLE = Wire("whole")
FLAGS = ["--model", "anthropic/claude-sonnet-4-6", "--permission-mode", "full"]


REFERENCE = 116.0
"""Milliseconds that the raw loop took to its first request when the machine was quiet, as the reaches suppose it."""
TIMES = ("ms", "s", "MB/s")


@dataclass(frozen=True)
class Row:
    """A figure: what, how much is to be reached (with `least` at least, else at most), what came out, the raw loop."""

    name: str
    reach: float | None
    value: float
    unit: str
    raw: str = ""
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
        return f"| {self.name} | {reach} | {value} {self.unit} | {self.raw} | {self.verdict(pace)} |"


def turns(count: int, command: str = "echo hello") -> Callable[[Received], Step]:
    """A script of so many tool turns and an answer, made as it is asked for."""

    def step(request: Received) -> Step:
        messages = request.json.get("messages")
        done = (len(messages) - 1) // 2 if isinstance(messages, list) else 0
        if done >= count:
            return Turn(text="done")
        return Turn(text="next", calls=(Call("Bash", {"command": command}, id=f"toolu_{done:06d}"),))

    return step


@contextmanager
def served(
    script: Callable[[Received], Step], wire: Wire = WHOLE
) -> Iterator[tuple[FakeProviderServer, dict[str, str]]]:
    """A provider in this process, and the environment that leads a client to it."""
    provider = FakeProviderServer(script, strict=False, wire=wire)
    with tempfile.TemporaryDirectory() as home, provider.in_thread() as server:
        yield server, {**provider_environment(server.url), "HOME": home}


def provider_environment(url: str) -> dict[str, str]:
    """What leads a client to a provider, and nothing else."""
    keys = {f"{name}_API_KEY": "k" for name in ("ANTHROPIC", "OPENAI", "MOONSHOT", "GEMINI")}
    urls = {f"{name}_BASE_URL": url for name in ("ANTHROPIC", "OPENAI", "MOONSHOT", "GEMINI")}
    return {"PATH": os.environ["PATH"], **keys, **urls}


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


def first_request(argv: Callable[[str], list[str]]) -> float:
    """Milliseconds from starting the process to its first request."""
    times: list[float] = []
    for _ in range(RUNS + 1):
        with served(turns(0)) as (server, environment):
            started = time.monotonic()
            run(argv(server.url), environment)
            times.append(server.requests[0].at - started)
    return 1000 * median(times[1:])


@dataclass(frozen=True)
class Timing:
    """What the lean server saw: ms from the process's start to its first request, and ms between turns."""

    first: float
    gaps: list[float]


def timed(count: int, argv: Callable[[str], list[str]], family: str = "anthropic") -> Timing:
    """Run a client for so many tool turns: the gaps are its work and the command `echo`."""
    command = [PYTHON, str(Path(__file__).with_name("lean_server.py")), family, str(count)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with server, tempfile.TemporaryDirectory() as home:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        started = time.monotonic()
        run(argv(url), {**provider_environment(url), "HOME": home})
        seen = json.loads(server.communicate()[0])
        return Timing(1000 * (seen["first"] - started), seen["gaps"])


def per_turn(argv: Callable[[str], list[str]]) -> float:
    """Mean milliseconds per tool turn over 20 turns, median of the runs."""
    return median(sum(gaps) / len(gaps) for gaps in (timed(20, argv).gaps for _ in range(RUNS)))


def growth(argv: Callable[[str], list[str]]) -> float:
    """How much longer a tool turn takes at turn 1,000 of a session than at turn 20."""
    gaps = timed(1000, argv).gaps
    return median(gaps[950:]) / median(gaps[10:60])


def peak_memory(argv: Callable[[str], list[str]], family: str = "anthropic") -> float:
    """Peak of the summed PSS of the process tree, MB, over 20 tool turns."""
    peaks: list[float] = []
    lean = [PYTHON, str(Path(__file__).with_name("lean_server.py")), family, "20"]
    for _ in range(RUNS):
        server = subprocess.Popen(lean, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with server, tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as cwd:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            environment = {**provider_environment(url), "HOME": home}
            null = subprocess.DEVNULL
            process = subprocess.Popen(argv(url), env=environment, cwd=cwd, stdin=null, stdout=null, stderr=null)
            peak = 0.0
            while process.poll() is None:
                peak = max(peak, tree_pss(process.pid))
                time.sleep(0.005)
            server.communicate()
            peaks.append(peak)
    return median(peaks)


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


def first_body() -> float:
    """Kilobytes of the first request's body, all tools offered."""
    with served(turns(0)) as (server, environment):
        run([*SAGENT, *FLAGS, "hello"], environment)
        return len(server.requests[0].body) / 1000


def open_log() -> float:
    """Seconds to open a log of 10,000 messages."""
    code = (
        "import sys,time,tempfile,pathlib\n"
        "from sagent.session.store import Session\n"
        "from sagent.codec import encode_message\n"
        "from sagent.messages import user\n"
        "from sagent.session.folds import history\n"
        "d=pathlib.Path(tempfile.mkdtemp())/'s'\n"
        "session=Session.create(d, d); log=session.log()\n"
        "for i in range(10000): log.append('message', encode_message(user('word '*100+str(i)), None))\n"
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


def agents(mode: str, count: int = 1) -> dict[str, float]:
    """What agents.py says it took, and when the last request `came`."""
    lean = [PYTHON, str(Path(__file__).with_name("lean_server.py")), "agents", "0"]
    server = subprocess.Popen(lean, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with server, tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as cwd:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        environment = {**provider_environment(url), "HOME": home, "PYTHONPATH": str(ROOT)}
        argv = [PYTHON, str(Path(__file__).with_name("agents.py")), mode, str(count)]
        told = subprocess.check_output(argv, env=environment, cwd=cwd, text=True)
        return {**json.loads(told), "came": json.loads(server.communicate()[0])["last"]}


def consultations(executor: str, advisor: str) -> dict[str, float]:
    """What advisor.py says a consultation took of our CPU, in milliseconds."""
    argv = [PYTHON, str(Path(__file__).with_name("advisor.py")), executor, advisor]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    return json.loads(subprocess.check_output(argv, env=environment, text=True))


def modules(*argv: str) -> int:
    """Modules imported before the first request, or in all where there is none."""
    with served(turns(0)) as (_, environment), tempfile.NamedTemporaryFile() as file:
        run([PYTHON, str(Path(__file__).with_name("modules.py")), file.name, *argv], environment)
        return int(Path(file.name).read_text())


def measure() -> Iterator[Row]:
    """Every figure."""

    def ours(_url: str) -> list[str]:
        return [*SAGENT, *FLAGS, "hello"]

    def raw(url: str) -> list[str]:
        return [*RAW, url, "hello"]

    for flag, most in (("--version", 15), ("--help", 40)):
        yield Row(f"`{flag}` over `python3 -c pass`", most, against_python(flag), "ms")
    yield Row("process start to first request", 160, first_request(ours), "ms", f"{first_request(raw):.0f} ms")
    yield Row("tool turn, mean over 20 turns", 4, per_turn(ours), "ms", f"{per_turn(raw):.1f} ms")
    yield Row("the same at turn 1,000, ratio to turn 20", 1.5, growth(ours), "×", f"{growth(raw):.1f} ×")
    yield Row("peak memory of the process tree, 20 turns", 50, peak_memory(ours), "MB", f"{peak_memory(raw):.0f} MB")
    yield Row("first request body, full coding tools", 9, first_body(), "kB")
    yield Row("opening a log of 10,000 messages", 0.5, open_log(), "s")
    yield Row("30,000 text deltas: extra CPU", 0.7, delta_cpu(), "s")
    swarms = [agents("swarm", 1000) for _ in range(RUNS)]
    wall = median(swarm["wall"] for swarm in swarms)
    words = f"1,000 agents of one root, 32 alive at a time, two turns each: our CPU for each ({wall:.1f} ms wall)"
    yield Row(words, 6, median(swarm["cpu"] for swarm in swarms), "ms")
    yield Row("the same: peak memory in all", 150, median(swarm["memory"] for swarm in swarms), "MB")
    value = 1000 * median(seen["came"] - seen["sent"] for seen in (agents("preempt") for _ in range(RUNS)))
    yield Row("a message to an agent in a 60 s `Bash`: until its next request", 50, value, "ms")
    for pair in (("anthropic", "responses"), ("responses", "anthropic")):
        seen = [consultations(*pair) for _ in range(RUNS)]
        first = median(run["first"] for run in seen)
        words = f"a consultation at 200 turns, {pair[0]} asks {pair[1]}: our CPU, mean of 21"
        name = f"{words} ({first:.0f} ms for the first, which quotes all)"
        yield Row(name, 8, median(run["mean"] for run in seen), "ms")
    yield from measure_sessions()
    for figure in repl.measure(quick=False):
        reach = figure.reach if figure.reach < 10_000 else None  # the plain prompt's
        yield Row(f"REPL: {figure.name}", reach, figure.value, figure.unit)
    yield Row("modules imported before the first request", 330, modules(*FLAGS, "hello"), "")
    yield Row("modules imported for `--version`", 60, modules("--version"), "")


def measure_sessions() -> Iterator[Row]:
    """What reading sessions back takes."""
    speeds = sessions.measure()
    yield Row("`sagent verify`", 200, speeds.verify, "MB/s", least=True)
    yield Row("`export --format html` of 2,000 turns", 2, speeds.page, "s")
    yield Row("the page's size", 10, speeds.page_size, "MB")
    yield Row("`sagent sessions list`, 100 sessions", None, speeds.listing, "s")
    yield Row("the same, 1,000 sessions", None, speeds.listing_thousand, "s")
    yield Row("compaction of a session of 500,000 tokens: CPU", 1, speeds.compaction, "s")
    raw = f"json.loads {speeds.million_loads:.1f} s, sha256 {speeds.million_sha256:.1f} s"
    words = f"going on with a log of a million entries, {speeds.million_size:.0f} MB: the whole run"
    yield Row(words, None, speeds.million, "s", raw)
    yield Row("the same: peak memory", 150, speeds.million_memory, "MB")


FAMILIES = {
    "anthropic": ("Messages", "anthropic/claude-sonnet-4-6"),
    "responses": ("Responses", "openai/gpt-5.2"),
    "chat": ("Chat Completions", "moonshot/kimi-k2.6"),
    "google": ("generateContent", "google/gemini-3.8-flash"),
}


@dataclass(frozen=True)
class Session:
    """Milliseconds to the first request, of a turn at 20 and at 200, and MB at most."""

    first: float
    early: float
    late: float
    memory: float

    def __str__(self) -> str:
        """As columns of the table."""
        return f"{self.first:.0f} ms | {self.early:.1f} ms | {self.late:.1f} ms | {self.memory:.0f} MB"


def session(argv: Callable[[str], list[str]], family: str = "anthropic") -> Session:
    """Sessions of 200 turns, medians."""
    runs = [timed(200, argv, family) for _ in range(RUNS)]
    early, late = (median(median(run.gaps[at : at + 20]) for run in runs) for at in (10, 180))
    return Session(median(run.first for run in runs), early, late, peak_memory(argv, family))


def measure_families(raw: Session) -> Iterator[str]:
    """A line for the raw loop, and for each family and transport."""
    pace = max(1.0, raw.first / REFERENCE)
    yield f"| raw httpx2 loop | | {raw} | |"
    for transport, reach in (("direct", (160, 4, 50)), ("sdk", (None, 5, None))):
        for family, (name, model) in FAMILIES.items():
            flags = ["--model", model, "--permission-mode", "full", "--transport", transport]

            def argv(_url: str, flags: list[str] = flags) -> list[str]:
                return [*SAGENT, *flags, "hello"]

            seen = session(argv, family)
            values = zip((seen.first, max(seen.early, seen.late), seen.memory), reach, ("ms", "ms", "MB"), strict=True)
            verdicts = [Row("", most, value, unit).verdict(pace) for value, most, unit in values]
            worst = next(word for word in ("short", "met at pace", "met") if word in verdicts)
            yield f"| {name} | {transport} | {seen} | {worst} |"


def main() -> None:
    """Print the tables and put them into docs/performance.md."""
    raw = session(lambda url: [*RAW, url, "hello"])
    pace = max(1.0, raw.first / REFERENCE)
    lines = ["| figure | reach | measured | raw httpx2 loop | |", "|---|---|---|---|---|"]
    for row in measure():
        lines.append(row.line(pace))
        print(lines[-1], flush=True)
    lines += [
        "",
        "| family | transport | first request | a turn at 20 | at 200 | peak memory | |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in measure_families(raw):
        lines.append(line)
        print(line, flush=True)
    day = time.strftime("%Y-%m-%d")
    stamp = f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores, {day}"
    page = ROOT / "docs" / "performance.md"
    before, _, rest = page.read_text("utf-8").partition("<!-- table -->")
    _, _, after = rest.partition("<!-- end -->")
    table = "\n".join(lines)
    medians = f"medians of {RUNS}; pace {pace:.2f}"
    page.write_text(f"{before}<!-- table -->\n{stamp}; {medians}.\n\n{table}\n<!-- end -->{after}", "utf-8")


if __name__ == "__main__":
    main()
