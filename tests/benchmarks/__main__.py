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


@dataclass(frozen=True)
class Row:
    """A figure: what, how much we want, what came out, and the raw loop's."""

    name: str
    reach: str
    value: float
    unit: str
    met: bool
    raw: str = ""


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
            process = subprocess.Popen(argv(url), env=environment, cwd=cwd, stdin=null, stdout=null)
            peak = 0.0
            while process.poll() is None:
                peak = max(peak, tree_pss(process.pid))
                time.sleep(0.005)
            server.communicate()
            peaks.append(peak)
    return median(peaks)


def tree_pss(root: int) -> float:
    """MB of proportional set size of a process and all below it."""
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
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
        value = against_python(flag)
        yield Row(f"`{flag}` over `python3 -c pass`", f"≤ {most} ms", value, "ms", value <= most)
    value, other = first_request(ours), first_request(raw)
    yield Row("process start to first request", "≤ 160 ms", value, "ms", value <= 160, f"{other:.0f} ms")
    value, other = per_turn(ours), per_turn(raw)
    yield Row("tool turn, mean over 20 turns", "≤ 4 ms", value, "ms", value <= 4, f"{other:.1f} ms")
    ratio, other = growth(ours), growth(raw)
    yield Row("the same at turn 1,000, ratio to turn 20", "≤ 1.5", ratio, "×", ratio <= 1.5, f"{other:.1f} ×")
    value, other = peak_memory(ours), peak_memory(raw)
    yield Row("peak memory of the process tree, 20 turns", "≤ 50 MB", value, "MB", value <= 50, f"{other:.0f} MB")
    value = first_body()
    yield Row("first request body, full coding tools", "≤ 9 kB", value, "kB", value <= 9)
    value = open_log()
    yield Row("opening a log of 10,000 messages", "≤ 0.5 s", value, "s", value <= 0.5)
    value = delta_cpu()
    yield Row("30,000 text deltas: extra CPU", "≤ 0.7 s", value, "s", value <= 0.7)
    swarms = [agents("swarm", 1000) for _ in range(RUNS)]
    words = "1,000 agents of one root, 32 alive at a time, two turns each"
    value, other = median(swarm["cpu"] for swarm in swarms), median(swarm["wall"] for swarm in swarms)
    yield Row(f"{words}: our CPU for each ({other:.1f} ms wall)", "≤ 6 ms", value, "ms", value <= 6)
    value = median(swarm["memory"] for swarm in swarms)
    yield Row("the same: peak memory in all", "≤ 150 MB", value, "MB", value <= 150)
    value = 1000 * median(told["came"] - told["sent"] for told in (agents("preempt") for _ in range(RUNS)))
    yield Row("a message to an agent in a 60 s `Bash`: until its next request", "≤ 50 ms", value, "ms", value <= 50)
    for pair in (("anthropic", "responses"), ("responses", "anthropic")):
        told = [consultations(*pair) for _ in range(RUNS)]
        value, first = median(run["mean"] for run in told), median(run["first"] for run in told)
        words = f"a consultation at 200 turns, {pair[0]} asks {pair[1]}: our CPU, mean of 21"
        yield Row(f"{words} ({first:.0f} ms for the first, which quotes all)", "≤ 8 ms", value, "ms", value <= 8)
    yield from measure_sessions()
    for figure in repl.measure(quick=False):
        reach = f"≤ {figure.reach:g} {figure.unit}".rstrip() if figure.reach < 10_000 else ""  # the plain prompt's
        yield Row(f"REPL: {figure.name}", reach, figure.value, figure.unit, figure.met)
    count = modules(*FLAGS, "hello")
    yield Row("modules imported before the first request", "≤ 330", count, "", count <= 330)
    count = modules("--version")
    yield Row("modules imported for `--version`", "≤ 60", count, "", count <= 60)


def measure_sessions() -> Iterator[Row]:
    """What reading sessions back takes."""
    speeds = sessions.measure()
    yield Row("`sagent verify`", "≥ 200 MB/s", speeds.verify, "MB/s", speeds.verify >= 200)
    yield Row("`export --format html` of 2,000 turns", "≤ 2 s", speeds.page, "s", speeds.page <= 2)
    yield Row("the page's size", "≤ 10 MB", speeds.page_size, "MB", speeds.page_size <= 10)
    yield Row("`sagent sessions list`, 100 sessions", "", speeds.listing, "s", met=True)


FAMILIES = {
    "anthropic": ("Messages", "anthropic/claude-sonnet-4-6"),
    "responses": ("Responses", "openai/gpt-5.2"),
    "chat": ("Chat Completions", "moonshot/kimi-k2.6"),
    "google": ("generateContent", "google/gemini-3.8-flash"),
}


def measure_families() -> Iterator[str]:
    """A line for the raw loop, and for each family and transport: first request, a turn at 20 and at 200, memory."""

    def raw(url: str) -> list[str]:
        return [*RAW, url, "hello"]

    runs = [timed(200, raw) for _ in range(RUNS)]
    first = median(run.first for run in runs)
    early, late = (median(median(run.gaps[at : at + 20]) for run in runs) for at in (10, 180))
    yield f"| raw httpx2 loop | | {first:.0f} ms | {early:.1f} ms | {late:.1f} ms | {peak_memory(raw):.0f} MB | |"
    for transport, most in (("direct", (160, 4, 50)), ("sdk", (None, 5, None))):
        for family, (name, model) in FAMILIES.items():
            flags = ["--model", model, "--permission-mode", "full", "--transport", transport]

            def argv(_url: str, flags: list[str] = flags) -> list[str]:
                return [*SAGENT, *flags, "hello"]

            runs = [timed(200, argv, family) for _ in range(RUNS)]
            first = median(run.first for run in runs)
            early, late = (median(median(run.gaps[at : at + 20]) for run in runs) for at in (10, 180))
            memory = peak_memory(argv, family)
            values = (first, max(early, late), memory)
            met = all(limit is None or value <= limit for value, limit in zip(values, most, strict=True))
            figures = f"{first:.0f} ms | {early:.1f} ms | {late:.1f} ms | {memory:.0f} MB"
            yield f"| {name} | {transport} | {figures} | {'met' if met else 'short'} |"


def main() -> None:
    """Print the tables and put them into docs/performance.md."""
    lines = ["| figure | reach | measured | raw httpx2 loop | |", "|---|---|---|---|---|"]
    for row in measure():
        value = f"{row.value:.0f}" if row.unit in ("", "MB") or row.value >= 100 else f"{row.value:.2f}"
        line = f"| {row.name} | {row.reach} | {value} {row.unit} | {row.raw} | {'met' if row.met else 'short'} |"
        print(line, flush=True)
        lines.append(line)
    lines += [
        "",
        "| family | transport | first request | a turn at 20 | at 200 | peak memory | |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in measure_families():
        print(line, flush=True)
        lines.append(line)
    day = time.strftime("%Y-%m-%d")
    stamp = f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores, {day}"
    page = ROOT / "docs" / "performance.md"
    before, _, rest = page.read_text("utf-8").partition("<!-- table -->")
    _, _, after = rest.partition("<!-- end -->")
    table = "\n".join(lines)
    page.write_text(f"{before}<!-- table -->\n{stamp}; medians of {RUNS}.\n\n{table}\n<!-- end -->{after}", "utf-8")


if __name__ == "__main__":
    main()
