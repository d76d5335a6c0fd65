"""`sagent sweep --batch`: turn by turn, at half the price, and gone on with after a kill."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagent.testing.script import Call, Turn
from sagent.usage import Usage
from tests.cli.program import Shell
from tests.depth import later
from tests.plugins.batches.batch_server import BatchServer, Step
from tests.waiting import wait_until

pytestmark = pytest.mark.plugin("lab")

SPEC = """
max_total_usd = 40
max_budget_usd = 2
repeats = 2
[grid]
model = ["anthropic/claude-haiku-4-5", "anthropic/claude-sonnet-4-6"]
permission_mode = "full"
[[task]]
name = "write"
prompt = "Write a.txt."
check = "grep -q done a.txt"
"""
USAGE = Usage(input=1_000, output=100)
USD = 2 * ((1_000 * 1 + 100 * 5) + (1_000 * 3 + 100 * 15)) * 2 / 1e6 / 2  # repeats, both models, two turns, half


def write_then_end(given: dict[str, Any]) -> Step:
    if '"tool_result"' in json.dumps(given["messages"]):
        return Turn("Done.", usage=USAGE)
    return Turn("So.", calls=(Call("Write", {"file_path": "a.txt", "content": "done"}),), usage=USAGE)


@pytest.fixture
def server(shell: Shell, tmp_path: Path) -> Iterator[BatchServer]:
    with BatchServer(write_then_end).running() as running:
        (tmp_path / "tmp").mkdir()
        shell.environment |= {
            "ANTHROPIC_BASE_URL": running.url,
            "ANTHROPIC_API_KEY": "k",
            "TMPDIR": str(tmp_path / "tmp"),
        }
        (shell.cwd / "spec.toml").write_text(SPEC)
        yield running


def result(shell: Shell) -> dict[str, Any]:
    return json.loads((shell.cwd / "out" / "result.json").read_text())


def bought(server: BatchServer) -> list[int]:
    return [len(batch.requests) for batch in server.batches.values()]


def test_all_runs_batched_at_half_price(shell: Shell, server: BatchServer) -> None:
    done = shell.run("sweep", "spec.toml", "--batch", "--output", "out", model="")
    assert done.code == 0, done.err
    assert bought(server) == [2, 2, 2, 2]  # two models, two turns
    found = result(shell)
    assert found["spent_usd"] == pytest.approx(USD)
    assert [cell["passed"] for cell in found["cells"]] == [2, 2]
    assert "batch msgbatch_0: 2 requests sent" in done.err
    again = shell.run("sweep", "spec.toml", "--output", "out", model="")
    assert again.code == 2
    assert "batch" in again.err


@later
@pytest.mark.costly
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_killed_sweep_buys_nothing_twice(shell: Shell, server: BatchServer, end: signal.Signals) -> None:
    """The second turn's batches are in progress when the process ends, however that is."""
    server.ended = lambda batch: '"tool_result"' not in json.dumps(batch.requests)
    child = shell.start("sweep", "spec.toml", "--batch", "--output", "out", model="")
    wait_until(lambda: len(server.batches) == 4)
    wait_until(lambda: len((shell.cwd / "out" / "batches.jsonl").read_text().splitlines()) == 8)
    child.send_signal(end)
    _, said = child.communicate(timeout=60)
    if end == signal.SIGINT:
        assert child.returncode == 130, said
        assert b"sweep spec.toml --output out --batch" in said
        assert b"2 batches in progress: the provider continues" in said
        assert USD / 2 <= result(shell)["spent_at_most_usd"] < 4  # not the whole budgets, which are 8
        lines = (shell.cwd / "out" / "runs.jsonl").read_text().splitlines()
        assert [json.loads(line)["outcome"] for line in lines] == ["interrupted"] * 4
    server.ended = lambda _: True
    done = shell.run("sweep", "spec.toml", "--batch", "--output", "out", model="")
    assert done.code == 0, done.err
    assert bought(server) == [2, 2, 2, 2]
    found = result(shell)
    assert [cell["passed"] for cell in found["cells"]] == [2, 2]
    assert found["missing"] == 0


@later
def test_expired_requests_repeated(shell: Shell, server: BatchServer) -> None:
    server.script = lambda given: "expired" if len(server.batches) <= 2 else write_then_end(given)
    done = shell.run("sweep", "spec.toml", "--batch", "--output", "out", model="")
    assert done.code == 0, done.err
    assert result(shell)["spent_usd"] == pytest.approx(USD)


@later
def test_refused_request_fails_own_run(shell: Shell, server: BatchServer) -> None:
    server.script = lambda given: "errored" if "sonnet" in given["model"] else write_then_end(given)
    done = shell.run("sweep", "spec.toml", "--batch", "--output", "out", model="")
    assert done.code == 1
    by_cell = {cell["model"]: cell for cell in result(shell)["cells"]}
    assert by_cell["anthropic/claude-haiku-4-5"]["passed"] == 2
    assert "HTTP 400" in done.err


def test_provider_without_batch_named(shell: Shell, server: BatchServer) -> None:
    text = SPEC.replace("anthropic/claude-haiku-4-5", "deepseek/deepseek-v4-flash")
    (shell.cwd / "spec.toml").write_text(text)
    shell.environment["DEEPSEEK_API_KEY"] = "k"
    done = shell.run("sweep", "spec.toml", "--batch", "--dry-run", model="")
    assert done.code == 2
    assert "deepseek has no batch API" in done.err
