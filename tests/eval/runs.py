"""One task with one harness: laid, worked on within the limits, judged, and kept for reading."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tests.eval.advising import Form, advising
from tests.eval.checks import Work, contents
from tests.eval.harnesses import Harness, Job
from tests.eval.recorder import Exchange, Limits, Recorder, recording
from tests.eval.suites import AnyTask

REFUSED_GRACE_SECONDS = 5.0  # for an agent to end by itself after the refusal of a request too many
KILL_GRACE_SECONDS = 5.0
OFFLINE = {"PIP_NO_INDEX": "1", "UV_OFFLINE": "1", "npm_config_offline": "true"}
"""Variables against packages that a small model makes up and wants to install."""


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one run. `ended` is the limit that ended it, "" if it ended by itself; tokens are sums over its
    requests, of which `cached` were not read anew; `first_prompt` are those of its first request. `consultations` of
    its advisor are "TRIGGER STATUS VERDICT OUTCOME", and `advisor_tokens` what these read and wrote."""

    suite: str
    model: str
    harness: str
    version: str
    task: str
    success: bool
    reason: str
    ended: str
    exit: int
    requests: int
    prompt: int
    cached: int
    written: int
    first_prompt: int
    seconds: float
    changed: tuple[str, ...]
    date: str
    consultations: tuple[str, ...] = ()
    advisor_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Bench:
    """The server and its model, the limits, and the folder that runs are kept in; the form of a scripted advisor's
    advice, if there is one, and variables for sagent."""

    upstream: str
    model: str
    suite: str
    limits: Limits
    out: Path
    advice: Form | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


def measure(bench: Bench, harness: Harness, task: AnyTask) -> Row:
    """Run a task, keep what was said and done under OUT/MODEL/SUITE/HARNESS/TASK, and return its figures."""
    home = bench.out / bench.model / bench.suite / harness.name
    kept, project = home / task.name, home / "project"  # one path for all tasks: it stands in prompts, which are cached
    for folder in (kept, project):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    task.lay(project)
    before = contents(project)
    with ExitStack() as stack:
        recorder = stack.enter_context(recording(bench.upstream, bench.limits))
        if bench.advice is not None:

            def now() -> Work:
                return Work(project, before, words_of(recorder.exchanges), answer_of(recorder.exchanges))

            led = stack.enter_context(advising(task, now, bench.advice))
            bench = replace(bench, variables={**led, **bench.variables})
        job = Job(f"{recorder.url}/v1", bench.model, task.prompt, bench.limits.requests)
        started = time.monotonic()
        code, ended = _work(harness, job, bench, recorder, project, kept)
        seconds = time.monotonic() - started
    exchanges = recorder.exchanges
    words = words_of(exchanges)
    work = Work(project, before, words, answer_of(exchanges))
    reason = task.judge(work)
    _keep(kept, exchanges, words)
    changed = tuple(sorted(work.changed()))
    asked: tuple[tuple[str, ...], int] = consulted(bench, project) if bench.advice else ((), 0)
    project.rename(kept / "files")
    return Row(
        bench.suite,
        bench.model,
        harness.name,
        harness.version,
        task.name,
        reason is None,
        reason or "",
        ended,
        code,
        len(exchanges),
        sum(exchange.prompt for exchange in exchanges),
        sum(exchange.cached for exchange in exchanges),
        sum(exchange.written for exchange in exchanges),
        exchanges[0].prompt if exchanges else 0,
        round(seconds, 1),
        changed,
        time.strftime("%Y-%m-%d"),
        *asked,
    )


def words_of(exchanges: Sequence[Exchange]) -> str:
    """Return the texts of all replies, and the arguments of their calls."""
    return "\n".join(
        part for each in exchanges for part in (each.text, *(call["arguments"] for call in each.calls)) if part
    )


def answer_of(exchanges: Sequence[Exchange]) -> str:
    """Return the text of the last reply that has one."""
    return next((each.text for each in reversed(exchanges) if each.text.strip()), "")


def consulted(bench: Bench, project: Path) -> tuple[tuple[str, ...], int]:
    """Return the consultations of sagent's last session in a project, and the tokens that they took."""
    argv = [str(Path(sys.executable).with_name("sagent")), "advice", "--json"]
    done = subprocess.run(argv, cwd=project, env=_environment(bench, project), capture_output=True, check=False)
    if done.returncode:
        return (), 0
    found = json.loads(done.stdout)
    lines = (" ".join(filter(None, map(one.get, ("trigger", "status", "verdict", "outcome")))) for one in found["list"])
    tokens = (sum(one["usage"].values()) for one in found["advisors"].values())
    return tuple(lines), sum(tokens)


def _environment(bench: Bench, project: Path) -> dict[str, str]:
    home = project.parent / "home"
    home.mkdir(exist_ok=True)
    plain = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1"}
    git = {f"GIT_{role}_{what}": "eval" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return {**plain, **OFFLINE, **git, **bench.variables}


def _work(harness: Harness, job: Job, bench: Bench, recorder: Recorder, project: Path, kept: Path) -> tuple[int, str]:
    """Run a harness until it ends or a limit is reached; return its exit code, and the limit."""
    home = project.parent / "home"
    for name, text in harness.files(job).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, "utf-8")
    environment = {**_environment(bench, project), **harness.variables}
    ended = ""
    with (kept / "stdout.txt").open("wb") as out, (kept / "stderr.txt").open("wb") as err:
        process = subprocess.Popen(
            harness.argv(job), cwd=project, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True,
        )  # fmt: skip
        try:
            end = time.monotonic() + bench.limits.seconds
            while process.poll() is None and not ended:
                if recorder.exhausted.wait(0.05):
                    ended = "requests"
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(REFUSED_GRACE_SECONDS)
                elif time.monotonic() > end:
                    ended = "seconds"
        finally:
            _end(process)
    return process.returncode, ended


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a harness and what it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_GRACE_SECONDS)


def _keep(kept: Path, exchanges: Sequence[Exchange], words: str) -> None:
    with (kept / "exchanges.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(exchange)) + "\n" for exchange in exchanges)
    (kept / "words.txt").write_text(words, "utf-8")
