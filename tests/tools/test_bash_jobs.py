"""Commands in the background: read, interrupted, and let go for good, on real processes."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources, RunLimits
from sagent.lib import process as process_module
from sagent.lib.json import json_freeze_object
from sagent.lib.process import ProcessGroup
from sagent.messages import ToolCall
from sagent.model import Request
from sagent.session.folds import lost_jobs
from sagent.testing import Line, ScriptedModel
from sagent.tool import RunContext, Workspace
from sagent.tools import bash as bash_module
from sagent.tools.background import BackgroundTask
from sagent.tools.bash import Bash
from tests.depth import later, slow
from tests.waiting import until

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("bash")]

ROOT = Path(__file__).parents[2]

AGENT = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from sagent.agent import Agent, Resources
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.testing import ScriptedModel
from sagent.tool import Workspace
from sagent.tools.background import BackgroundTask
from sagent.tools.bash import Bash

work = Path({work!r})

def call(number, tool, **arguments):
    return ToolCall(f"c{{number}}", tool, json_freeze_object(arguments))

async def until(name):
    while not (work / name).exists():
        await asyncio.sleep(0.01)

async def detach(request):
    await until("begun")
    return (call(3, "BackgroundTask", operation="detach", id="job:1"),)

def end(request):
    (work / "answer").write_text(request.messages[-1].results[0].text)
    return "end"

async def main():
    model = ScriptedModel(
        (call(1, "Bash", command={command!r}, background=True), call(2, "Bash", command={other!r})),
        {middle},
        "end",
    )
    agent = Agent(model, tools=[Bash(), BackgroundTask()], resources=Resources(workspace=Workspace(work)))
{body}

asyncio.run(main())
"""


def living(marker: str, program: bytes = b"sleep") -> list[int]:
    """The processes of a program whose arguments hold the marker."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if line.startswith(program) and marker.encode() in line:
            found.append(int(path.parent.name))
    return found


@pytest.fixture
def markers(work: Path) -> Iterator[tuple[str, str]]:
    """Arguments for `sleep` that no other process has; nothing that bears one is left after the test."""
    pair = f"3600.{uuid.uuid4().int % 10**15:015}", f"3600.{uuid.uuid4().int % 10**15:015}"
    yield pair
    for marker in pair:
        for pid in living(marker, b""):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for commands; files of detached jobs go to another one beside it."""
    for name in ("work", "out"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "out"))
    yield tmp_path / "work"
    (tmp_path / "work" / "go").touch()  # what waits for it ends


@pytest.fixture
async def bash() -> AsyncIterator[Bash]:
    tool = Bash()
    yield tool
    await tool.aclose()


def call(number: int, tool: str, **arguments: str | float) -> ToolCall:
    return ToolCall(f"c{number}", tool, json_freeze_object({**arguments}))


def job(number: int, operation: str, **arguments: float) -> ToolCall:
    return call(number, "BackgroundTask", operation=operation, id="job:1", **arguments)


def answers(agent: Agent) -> dict[str, str]:
    """What each call was answered, by its id."""
    return {result.call_id: result.text for message in agent.messages for result in message.results}


def last(request: Request) -> str:
    return request.messages[-1].content


def an_agent(work: Path, bash: Bash, *script: Line) -> Agent:
    return Agent(ScriptedModel(*script), tools=[bash, BackgroundTask()], resources=Resources(workspace=Workspace(work)))


def told_file(answer: str) -> Path:
    found = re.search(r"goes to (\S+) ", answer)
    assert found, answer
    return Path(found[1])


def after(work: Path, name: str, *calls: ToolCall) -> Line:
    """A model that makes the calls when a command has made the file."""

    async def step(request: Request) -> tuple[ToolCall, ...]:
        await until((work / name).exists, f"{name} is not there")
        return calls

    return step


PAUSE = "touch begun; while [ -e begun ] && [ ! -e go ]; do sleep 0.02; done"  # ends also when the directory goes
STEADY = f"echo before; {PAUSE}; echo after; touch done; exec sleep {{}}"


@later
async def test_detached_command_prints_to_named_file(work: Path, bash: Bash, markers: tuple[str, str]) -> None:
    command = f"setsid sleep {markers[0]} & {STEADY.format(markers[0])}"
    other = f"setsid sleep {markers[1]} >/dev/null 2>&1 &"
    agent = an_agent(
        work,
        bash,
        (call(1, "Bash", command=command, background=True), call(2, "Bash", command=other)),
        after(work, "begun", job(3, "detach")),
        (job(4, "output"), job(5, "detach")),
        "end",
    )
    result = await agent.run("go")
    said = answers(agent)
    assert result.content == "end"
    assert [status.state for status in agent.jobs()] == ["detached"]
    assert said["c4"] == said["c3"]
    assert "cannot outlive" in said["c5"]
    assert not any(message.sender == "job:1" for message in agent.messages)
    await until(lambda: len(living(markers[1])) == 1, "it has become what it is named for")
    await agent.aclose()
    assert living(markers[1]) == []
    (work / "go").touch()
    await until((work / "done").exists, "the command went on")
    file = told_file(said["c3"])
    assert file.parent == work.parent / "out"
    assert file.stat().st_mode & 0o777 == 0o600
    await until(lambda: file.read_text() == "before\nafter\n", "its output is in the file")
    await until(lambda: len(living(markers[0])) == 2, "all of it lives")
    told = re.search(r"kill -- -(\d+)", said["c3"])
    assert told
    os.killpg(int(told[1]), signal.SIGTERM)
    await until(lambda: len(living(markers[0])) == 1, "it is ended as told; what left its group is not in it")


@later
async def test_job_can_be_detached_and_wait_ends(work: Path, bash: Bash, markers: tuple[str, str]) -> None:
    model = ScriptedModel((call(1, "Bash", command=STEADY.format(markers[0])),), "waiting")
    resources, limits = Resources(workspace=Workspace(work)), RunLimits(foreground_seconds=0.05)
    agent = Agent(model, tools=[bash], resources=resources, limits=limits)
    task = asyncio.create_task(agent.run("go"))
    await until(lambda: agent.jobs() and (work / "begun").exists(), "it is a job")
    told = await agent.detach_job("job:1")
    assert (await task).content == "waiting"
    await until(lambda: not lost_jobs(agent.state.log.entries()), "the log tells that it was let go")
    await agent.aclose()
    (work / "go").touch()
    await until(lambda: told_file(told).read_text() == "before\nafter\n", "its output is in the file")


@later
async def test_starting_command_is_detached_once_run(work: Path, bash: Bash) -> None:
    command = call(1, "Bash", command=f"{PAUSE}; echo after", background="true", delay=0.3)
    agent = an_agent(work, bash, (command,), (job(2, "detach"),), "end")
    await asyncio.wait_for(agent.run("go"), 60)
    await agent.aclose()
    (work / "go").touch()
    await until(lambda: told_file(answers(agent)["c2"]).read_text() == "after\n", "its output is in the file")


async def test_output_before_and_after_in_order(work: Path, bash: Bash) -> None:
    command = f"seq 1 100000; {PAUSE}; seq 100001 200000; touch done"
    agent = an_agent(
        work, bash, (call(1, "Bash", command=command, background=True),), after(work, "begun", job(2, "detach")), "end"
    )
    await agent.run("go")
    await agent.aclose()
    (work / "go").touch()
    await until((work / "done").exists, "the command went on")
    file = told_file(answers(agent)["c2"])
    whole = "".join(f"{n}\n" for n in range(1, 200_001))
    await until(lambda: file.stat().st_size == len(whole), "all of it is there")
    assert file.read_text() == whole


@later
async def test_full_file_does_not_end_command(work: Path, bash: Bash, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash_module, "MAX_OUTPUT_BYTES", 1 << 20)
    command = f"{PAUSE}; seq 1 1000000 && touch done"
    agent = an_agent(
        work, bash, (call(1, "Bash", command=command, background=True),), after(work, "begun", job(2, "detach")), "end"
    )
    await agent.run("go")
    await agent.aclose()
    (work / "go").touch()
    await until((work / "done").exists, "the command ended well")
    assert told_file(answers(agent)["c2"]).stat().st_size == 1 << 20


def run_agent(work: Path, markers: tuple[str, str], *, body: str, detached: bool = True) -> "subprocess.Popen[bytes]":
    source = AGENT.format(
        root=str(ROOT),
        work=str(work),
        command=STEADY.format(markers[0]),
        other=f"(setsid sleep {markers[1]} >/dev/null 2>&1 &)",
        middle="detach, end" if detached else '"end"',
        body=textwrap.indent(textwrap.dedent(body), "    "),
    )
    (work / "agent.py").write_text(source)
    environment = {**os.environ, "TMPDIR": str(work.parent / "out")}
    return subprocess.Popen([sys.executable, str(work / "agent.py")], env=environment, start_new_session=True)


ENDS = {
    "as it should": "await agent.run('go')\nawait agent.aclose()",
    "without closing": "await agent.run('go')",
    "at once": "await agent.run('go')\nos._exit(0)",
    "kill -9 of the group": "await agent.run('go')\nos.killpg(0, signal.SIGKILL)",
    "kill -9": "await agent.run('go')\nos.kill(os.getpid(), signal.SIGKILL)",
    "without handles": "def none(pid): raise OSError\nos.pidfd_open = none\nawait agent.run('go')",
}
RARER = {"without closing", "at once", "kill -9", "without handles"}


@later
@pytest.mark.costly
@pytest.mark.parametrize("end", [pytest.param(end, marks=slow) if end in RARER else end for end in ENDS])
async def test_detached_command_outlives_process(work: Path, markers: tuple[str, str], end: str) -> None:
    agent = run_agent(work, markers, body=ENDS[end])
    await asyncio.to_thread(agent.wait, 30)
    await until(lambda: living(markers[1]) == [], "what was not detached is ended")
    (work / "go").touch()
    await until(lambda: living(markers[0]), "the command went on")
    file = told_file((work / "answer").read_text())
    await until(lambda: file.read_text() == "before\nafter\n", "its output is in the file")
    await asyncio.sleep(1)  # longer than a watchdog takes
    assert len(living(markers[0])) == 1


async def test_kept_job_ends_with_process(work: Path, markers: tuple[str, str]) -> None:
    (work / "go").touch()
    agent = run_agent(work, markers, body="await agent.run('go')", detached=False)
    try:
        await until(lambda: living(markers[0]), "it runs")
    finally:
        agent.kill()
        await asyncio.to_thread(agent.wait)
    await until(lambda: living(markers[0]) == [], "it is ended")
    assert list((work.parent / "out").iterdir()) == []


async def test_undetachable_call_goes_on_as_job(
    work: Path, bash: Bash, markers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = process_module.spawn_aside

    def refuse(*_: object) -> None:
        raise OSError("no more processes")

    def go(request: Request) -> str:
        monkeypatch.setattr(process_module, "spawn_aside", real)
        (work / "go").touch()
        return "waiting"

    async def lose(request: Request) -> tuple[ToolCall, ...]:
        await until((work / "begun").exists, "begun")
        monkeypatch.setattr(process_module, "spawn_aside", refuse)
        return (job(2, "detach"),)

    command = f"echo before; {PAUSE}; echo after; sleep {markers[0]} &"
    first = (call(1, "Bash", command=command, background=True),)
    agent = an_agent(work, bash, first, lose, go, last)
    result = await agent.run("go")
    assert answers(agent)["c2"].startswith("job:1 could not be detached")
    assert "no more processes" in answers(agent)["c2"]
    assert "before\nafter\n" in result.content
    await agent.aclose()
    assert living(markers[0]) == []
    assert list((work.parent / "out").iterdir()) == []


@later
async def test_missing_output_place_is_told(work: Path, bash: Bash, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(work / "missing"))
    agent = an_agent(
        work,
        bash,
        (call(1, "Bash", command="touch begun; sleep 3600", background=True),),
        after(work, "begun", job(2, "detach")),
        (job(3, "cancel"),),
        "end",
    )
    await agent.run("go")
    assert all(part in answers(agent)["c2"] for part in ("job:1 could not be detached", "[Errno 2]"))
    assert [status.state for status in agent.jobs()] == ["cancelled"]


async def start(group: ProcessGroup, *argv: str):
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        return group.start(argv, env={"PATH": os.environ["PATH"]}, cwd=Path("/"), output=sink)
    finally:
        os.close(sink)


async def test_watchdogs_spare_released_process(markers: tuple[str, str]) -> None:
    def children() -> set[int]:
        return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))

    before = children()
    group = ProcessGroup()
    processes = [await start(group, "sh", "-c", f"setsid sleep {markers[n]} & sleep {markers[n]}") for n in (0, 1)]
    await until(lambda: len(living(markers[0])) == len(living(markers[1])) == 2, "start")
    [watchdog] = {pid for pid in children() - before if b"process.sh" in Path(f"/proc/{pid}/cmdline").read_bytes()}
    os.kill(watchdog, signal.SIGKILL)
    await until(lambda: Path(f"/proc/{watchdog}/stat").read_text().split()[2] == "Z", "it was killed")
    processes[0].release()
    await processes[0].kill_tree()
    processes[0].kill()
    processes[0].close()
    await group.aclose()
    assert (len(living(markers[0])), living(markers[1])) == (2, [])
    processes[1].close()
    (await start(group, "true")).close()
    group.close()
    del group
    assert len(living(markers[0])) == 2


async def test_default_time_limit_is_foreground_only(work: Path, bash: Bash, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash_module, "DEFAULT_TIMEOUT_SECONDS", 0.2)
    agent = an_agent(
        work,
        bash,
        (call(1, "Bash", command="sleep 5"),),
        (
            call(2, "Bash", command="sleep 0.6; echo late", background=True),
            call(3, "Bash", command="sleep 5; echo never", background=True, timeout=0.3),
        ),
        "waiting",
        "still",
        "end",
    )
    await agent.run("go")
    said = {message.sender: message.content for message in agent.messages if message.sender}
    assert "timed out after 0.2 s" in answers(agent)["c1"]
    assert said["job:1"].endswith("late")
    assert "timed out after 0.3 s" in said["job:2"]


async def test_running_job_output_is_its_end(work: Path, bash: Bash) -> None:
    whole: list[str] = []

    def look(request: Request) -> tuple[ToolCall, ...]:
        named = re.search(r"all of them in (\S+);", request.messages[-1].results[0].text)
        assert named
        whole.append(Path(named[1]).read_text())
        return (job(4, "cancel"),)

    agent = an_agent(
        work,
        bash,
        (call(1, "Bash", command="seq 1 100000; touch begun; sleep 3600", background=True),),
        after(work, "begun", job(2, "wait", seconds=1.2)),
        (job(3, "output"),),
        look,
        (job(5, "output"),),
        "end",
    )
    await agent.run("go")
    said = answers(agent)
    assert said["c3"].startswith("[588,895 bytes so far, all of them")
    assert said["c3"].endswith("\n99999\n100000\n")
    assert 7_000 < len(said["c3"]) < 8_500
    assert whole == ["".join(f"{n}\n" for n in range(1, 100_001))]
    assert said["c5"].startswith("cancelled\nThe end of what it had shown:\n")
    assert said["c5"].endswith("\n100000\n")
    assert len(said["c5"]) < 4_500


@later
async def test_interrupted_call_keeps_its_output(work: Path, bash: Bash) -> None:
    agent = an_agent(
        work,
        bash,
        (call(1, "Bash", command="echo early; touch begun; sleep 3600"), call(2, "Bash", command="sleep 3600")),
        "end",
    )
    task = asyncio.create_task(agent.run("go"))
    await until((work / "begun").exists, "begun")
    agent.interrupt()
    assert (await task).stop_reason == "interrupted"
    assert answers(agent) == {
        "c1": "interrupted before it ended\nThe end of what it had shown:\nearly\n",
        "c2": "interrupted before it ended",
    }
    assert (await agent.run("and now?")).content == "end"


async def test_ended_command_is_not_detached(work: Path, bash: Bash) -> None:
    offered: list[Callable[[], str]] = []
    blobs = an_agent(work, bash, "x").state.log.blobs
    run = RunContext("root", "1", Workspace(work), blobs, lambda text: None, offer_detach=offered.append)
    await bash(json_freeze_object({"command": "true"}), run)
    with pytest.raises(Exception, match="just ending"):
        offered[0]()
    assert list((work.parent / "out").iterdir()) == []
