"""The examples of docs/stack.md, beside the packages that they are for."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.depth import slow
from tests.pypi import modules
from tests.snippets import ROOT
from tests.waiting import wait_until

pytestmark = [slow, pytest.mark.plugin("functions", "frontends")]
FOLDER = ROOT / "examples/stack"
LOGFIRE, LANGFUSE = "logfire==5.4.0", "langfuse==5.2.0"
DBOS, TEMPORAL, INSPECT = "dbos==3.4.0", "temporalio==1.35.0", "inspect-ai==0.3.285"
EVALS, FASTAPI = "pydantic-evals==2.62.0", "fastapi==0.165.0"
LOST = """
import asyncio, os, signal, sys
sys.path.insert(0, {folder!r})
import temporal_host
from temporalio.testing import ActivityEnvironment

booked = temporal_host.book

def book() -> str:
    "Book a room."
    booked()
    os.kill(os.getpid(), signal.SIGKILL)
    return ""

temporal_host.book = book
print(asyncio.run(ActivityEnvironment().run(temporal_host.answer, "sessions/booking-1")))
"""


def environment(home: Path, packages: Path) -> dict[str, str]:
    path = os.pathsep.join((str(packages), str(ROOT)))
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": path, "NO_COLOR": "1"}


def run(place: Path, packages: Path, *words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    variables = {**environment(place, packages), **more}
    argv = [sys.executable, *words]
    return subprocess.run(argv, cwd=place, env=variables, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60


@pytest.mark.skipif(
    sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42),
    reason="DBOS asks SQLite for parts of a second, which 3.42 knows",
)
def test_dbos_goes_on_after_a_kill(tmp_path: Path) -> None:
    packages, program = modules(DBOS), FOLDER / "dbos_host.py"
    child = subprocess.Popen([sys.executable, program], cwd=tmp_path, env=environment(tmp_path, packages))
    bookings = tmp_path / "bookings.txt"
    try:
        wait_until(lambda: bookings.exists() and bookings.read_text(), "the booking", child=child, seconds=120)
    finally:
        child.kill()  # SIGKILL, in the middle of the call
        child.wait()
    for _ in range(2):  # the second time it has the answer already
        done = run(tmp_path, packages, program)
        assert "Done: room 7, 0.009450 USD" in done.stdout, done.stderr
    assert bookings.read_text() == "room 7\n"


def test_temporal_activity_goes_on_after_a_kill(tmp_path: Path) -> None:
    """The activity alone: a server is not to be had from a package registry."""
    packages = modules(TEMPORAL)
    killed = LOST.format(folder=str(FOLDER))
    assert run(tmp_path, packages, "-c", killed).returncode == -9
    for _ in range(2):
        done = run(tmp_path, packages, "-c", killed)  # it books no more
        assert done.stdout == "Done: room 7\n\n", done.stderr
    assert (tmp_path / "bookings.txt").read_text() == "room 7\n"


def test_evaluations_by_pydantic_evals(tmp_path: Path) -> None:
    done = run(tmp_path, modules(EVALS), FOLDER / "evals_dataset.py")
    france, peru = done.stdout.splitlines()
    assert "'EqualsExpected': True" in france and "'EqualsExpected': False" in peru, done.stderr


def test_evaluations_by_inspect(tmp_path: Path) -> None:
    done = run(tmp_path, modules(INSPECT), FOLDER / "inspect_task.py")
    france, peru = done.stdout.splitlines()
    assert "'match': 'C'" in france and "'match': 'I'" in peru and "'turns': 1" in peru, done.stderr
    assert list((tmp_path / "logs").iterdir())


def test_fastapi_chat(tmp_path: Path) -> None:
    done = run(tmp_path, modules(FASTAPI), FOLDER / "fastapi_chat.py")
    assert '"delta":"It is open from nine to five."' in done.stdout and "data: [DONE]" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "{'detail': 'the request has no \"id\"'}"


@pytest.mark.plugin("telemetry")
@pytest.mark.parametrize("vendor", ["logfire", "langfuse"])
def test_spans_through_the_vendors_own_package(vendor: str, tmp_path: Path) -> None:
    from tests.plugins.telemetry.otlp_receiver import collector, values_of

    with collector() as collected:
        keys = {"LANGFUSE_BASE_URL": collected.url, "LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk"}
        where = {"OTEL_EXPORTER_OTLP_ENDPOINT": collected.url} if vendor == "logfire" else keys
        done = run(
            tmp_path, modules(LOGFIRE if vendor == "logfire" else LANGFUSE), FOLDER / f"{vendor}_spans.py", **where
        )
    assert done.stdout == "20 square metres.\n", done.stderr
    agent, tool = collected.one("invoke_agent root"), collected.one("execute_tool area")
    calls = [values_of(span.attributes) for span in collected.spans if span.name == "chat scripted"]
    assert [call["gen_ai.operation.name"] for call in calls] == ["chat", "chat"]
    assert all(call["gen_ai.usage.input_tokens"] for call in calls) and "20 square" in str(calls[1])
    assert tool.parent_span_id == agent.span_id and values_of(tool.attributes)["gen_ai.tool.call.result"] == "20.0"
    if vendor == "logfire":
        assert agent.parent_span_id == collected.one("order {number}").span_id
    else:
        assert values_of(agent.attributes)["user.id"] == "ann"
