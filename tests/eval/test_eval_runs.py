"""A run of `make eval`: the proxy's limits and records, how a harness is ended, the tables and the page."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.testing.server import Call, FakeProviderServer, Step, Turn
from tests.depth import later
from tests.eval import harnesses, results
from tests.eval.__main__ import main
from tests.eval.harnesses import Harness
from tests.eval.recorder import Exchange, Limits, recording
from tests.eval.runs import Bench, Row, answer_of, measure, words_of
from tests.eval.suites import Task
from tests.eval.tasks import OPEN, TASKS

NAMED = {task.name: task for task in TASKS}
ROW = Row("s", "m", "sagent", "1", "a", True, "", "", 0, 2, 1000, 600, 40, 500, 3.0, (), "2026-01-02")
POST = """
import json, sys, urllib.error, urllib.request
url, sent = sys.argv[1], {"model": "m", "messages": [{"role": "user", "content": "go"}]}
while True:
    request = urllib.request.Request(url + "/chat/completions", json.dumps(sent).encode())
    try:
        urllib.request.urlopen(request).read()
    except urllib.error.HTTPError as error:
        sys.exit(3 if b"limit of requests" in error.read() else 4)
"""


def measured(server: FakeProviderServer, harness: Harness, task: Task, out: Path, limits: Limits) -> Row:
    return measure(Bench(server.url, "fake-model", "own", limits, out), harness, task)


def ask(url: str, **more: object) -> dict[str, object]:
    """Return the reply to a request for one."""
    sent = {"model": "fake-model", "messages": [{"role": "user", "content": "go"}], **more}
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(sent).encode(), headers)) as reply:
        return json.load(reply)


@later
def test_checkout_does_task_through_recorder(tmp_path: Path) -> None:
    steps: Sequence[Step] = [
        Turn(calls=(Call("Write", {"file_path": "open.txt", "content": f"{OPEN}\n"}),)),
        Turn(text="It is written."),
    ]
    with FakeProviderServer(steps, require_key=False, strict=False, repeat_last=True).in_thread() as server:
        row = measured(server, harnesses.sagent(), NAMED["count-rows"], tmp_path, Limits(seconds=120))
    kept = tmp_path / "fake-model" / "own" / "sagent" / "count-rows"
    assert row.success, (row, (kept / "stderr.txt").read_text())
    assert (row.exit, row.ended, row.changed) == (0, "", ("open.txt",))
    assert row.requests >= 2
    assert row.prompt > row.first_prompt > 0
    assert (kept / "files" / "open.txt").read_text() == f"{OPEN}\n"
    assert "It is written." in (kept / "words.txt").read_text()
    exchanges = [json.loads(line) for line in (kept / "exchanges.jsonl").read_text().splitlines()]
    assert len(exchanges) == row.requests
    assert {(each["request"]["temperature"], each["request"]["max_tokens"]) for each in exchanges} == {(0, 300)}


def test_looping_agent_is_refused_requests(tmp_path: Path) -> None:
    harness = Harness("loop", "1", lambda job: [sys.executable, "-c", POST, job.url])
    script = [Turn(text="again")]
    with FakeProviderServer(script, require_key=False, strict=False, repeat_last=True).in_thread() as server:
        row = measured(server, harness, NAMED["read-log"], tmp_path, Limits(requests=3, seconds=60))
        assert len(server.requests) == 3
    assert (row.requests, row.ended, row.exit, row.success) == (3, "requests", 3, False)


def test_hanging_agent_is_ended_and_judged(tmp_path: Path) -> None:
    code = "import pathlib, time; pathlib.Path('open.txt').write_text('0'); time.sleep(600)"
    harness = Harness("hang", "1", lambda _: [sys.executable, "-c", code])
    with FakeProviderServer([]).in_thread() as server:
        row = measured(server, harness, NAMED["count-rows"], tmp_path, Limits(seconds=3))
    assert (row.ended, row.requests, row.success, row.exit) == ("seconds", 0, False, -15)
    assert row.changed == ("open.txt",)


def test_smaller_output_limit_stays() -> None:
    with (
        FakeProviderServer([Turn(text="a")] * 3, require_key=False).in_thread() as server,
        recording(server.url, Limits()) as recorder,
    ):
        for more in ({"max_tokens": 20}, {"max_completion_tokens": 5000}, {}):
            ask(f"{recorder.url}/v1/chat/completions", **more)
        sent = [json.loads(request.body) for request in server.requests]
    assert [request["max_tokens"] for request in sent] == [20, 300, 300]
    assert sent[1]["max_completion_tokens"] == 300


def test_errors_and_questions_are_passed_on() -> None:
    turn = Turn(text="fine", stop="length")
    with (
        FakeProviderServer([turn], require_key=False).in_thread() as server,
        recording(server.url, Limits()) as recorder,
    ):
        with urllib.request.urlopen(f"{recorder.url}/v1/models") as reply:
            assert json.load(reply)["data"][0]["id"] == "fake-model"
        assert not recorder.exchanges
        with pytest.raises(urllib.error.HTTPError) as failed:
            ask(f"{recorder.url}/v1/chat/completions", messages="no list")
        failed.value.close()
        assert (failed.value.code, recorder.exchanges[0].status) == (400, 400)
        assert recorder.exchanges[0].error
        ask(f"{recorder.url}/v1/chat/completions")
        assert (recorder.exchanges[1].text, recorder.exchanges[1].finish) == ("fine", "length")


def test_streamed_pieces_join_with_counts() -> None:
    exchange = Exchange("/v1/chat/completions", {})
    call = {"index": 0, "function": {"name": "Read", "arguments": '{"a"'}}
    for delta in ({"content": "Let me "}, {"content": "look."}, {"tool_calls": [call]}):
        exchange.read({"choices": [{"delta": delta}]})
    more = {"index": 0, "function": {"arguments": ": 1}"}}
    exchange.read({"choices": [{"delta": {"tool_calls": [more]}, "finish_reason": "tool_calls"}]})
    exchange.read({"timings": {"prompt_n": 40, "cache_n": 960, "predicted_n": 12}, "usage": {"prompt_tokens": 1}})
    assert (exchange.prompt, exchange.cached, exchange.written) == (1000, 960, 12)
    assert exchange.calls == [{"name": "Read", "arguments": '{"a": 1}'}]
    last = Exchange("", {}, text=" ")
    assert words_of([exchange, last]) == 'Let me look.\n{"a": 1}\n '
    assert answer_of([exchange, last]) == "Let me look."


def test_repeated_run_replaces_the_last(tmp_path: Path) -> None:
    for row in (replace(ROW, success=False), replace(ROW, task="b"), ROW):
        results.append(tmp_path, row)
    assert results.read(tmp_path) == [ROW, replace(ROW, task="b")]
    asked = replace(ROW, consultations=("done answered proceed",), advisor_tokens=90)
    results.append(tmp_path, asked)
    assert asked in results.read(tmp_path)
    assert results.read(tmp_path / "none") == []


def test_table_counts_failures_told_as_success() -> None:
    rows = [
        ROW,
        replace(ROW, task="b", success=False, prompt=3000, cached=1000),
        replace(ROW, task="c", success=False, ended="requests", requests=12),
        replace(ROW, task="d", success=False, exit=1),
        replace(ROW, harness="other", success=False),
    ]
    lines = list(results.tables(rows))
    assert "| sagent 1 | **1 of 4** | 1 | 1 | 4.5 | 1,500 (700) | 40 | 3 |" in lines
    assert "| a | done (2) | – (2) |" in lines
    assert "| c | limit of requests (12) |  |" in lines
    assert not any(line.startswith("Consultations") for line in lines)


def test_consultations_counted_by_trigger() -> None:
    rows = [
        replace(ROW, consultations=("done answered adjust", "failures withheld"), advisor_tokens=800),
        replace(ROW, task="b", consultations=("done answered proceed",), advisor_tokens=400),
    ]
    (line,) = [line for line in results.tables(rows) if line.startswith("Consultations")]
    assert line == "Consultations: 1.0 a task (done 2), 600 tokens of the advisor a task."


def test_page_gets_tables_between_marks(tmp_path: Path) -> None:
    page = tmp_path / "eval.md"
    page.write_text(f"# Eval\n\n{results.START}\nold\n{results.END}\n\nMore.\n")
    for _ in range(2):
        results.write_page(page, [ROW])
    text = page.read_text()
    assert text.startswith(f"# Eval\n\n{results.START}\n**m**")
    assert text.endswith(f"{results.END}\n\nMore.\n")
    assert "old" not in text
    assert text.count("**1 of 1**") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tasks", "nothing-like-it"], "no task"),
        (["--page"], "no results"),
        (["--suite", "."], "no task"),
        (["--advise", "block"], "--harness sagent"),
    ],
)
def test_unmeasurable_run_is_refused(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["eval", "--out", str(tmp_path), *arguments])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
