"""The trace file: every event a line, added to what is there, and never a reason for a run to fail."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sagent.errors import UsageError
from sagent.events import Notice, TextDelta, ToolProgress
from sagent.plugins.exports.trace_file import TraceFile

ROOT = Path(__file__).parents[2]
AGENTS = ("root", "root/other")


def lines(path: Path) -> list[dict[str, object]]:
    """The JSON lines of a file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_every_event_is_a_timed_line(recorded):
    events = lines(recorded.trace)
    assert events[0]["type"] == "session"
    assert events[-1]["type"] == "result"
    kinds = {event["type"] for event in events}
    assert kinds >= {"received", "text_delta", "reply_finished", "tool_finished", "denied", "retrying"}
    for event in events:
        at = datetime.fromisoformat(str(event["at"]))
        assert at.tzinfo is UTC
        assert event["agent"] == "root"
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)  # pyright: ignore[reportArgumentType]


def test_trace_folder_created(tmp_path):
    path = tmp_path / "traces" / "of" / "run.jsonl"
    trace = TraceFile(path, pytest.fail)
    trace.on_event(Notice("root", "info", "one"))
    trace.close()
    assert len(lines(path)) == 1


def test_trace_private_and_appended(tmp_path):
    path = tmp_path / "t.jsonl"
    for text in ("one", "two"):
        trace = TraceFile(path, pytest.fail)
        trace.on_event(Notice("root", "info", text))
        trace.close()
        trace.close()
        trace.on_event(Notice("root", "info", "after the end"))
    assert [event["text"] for event in lines(path)] == ["one", "two"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_lines_at_once_and_deltas_soon(tmp_path):
    path = tmp_path / "t.jsonl"
    trace = TraceFile(path, pytest.fail)
    for _ in range(3):
        trace.on_event(TextDelta("root", "a\ud800\u2028é"))
    assert path.read_bytes() == b""
    trace.on_event(Notice("root", "info", "whole"))
    assert len(lines(path)) == 4
    for _ in range(1000):
        trace.on_event(TextDelta("root", "x" * 100))
    assert path.stat().st_size > 1 << 16
    trace.close()
    assert len(path.read_text("utf-8").split("\n")) == 1005


def test_another_file_is_not_spoiled(tmp_path):
    notes = tmp_path / "notes.md"
    notes.write_text("# Notes\n")
    with pytest.raises(UsageError, match="is not a trace, so nothing was appended"):
        TraceFile(notes, pytest.fail)
    assert notes.read_text() == "# Notes\n"
    package = tmp_path / "package.json"
    package.write_text('{"name": "demo"}\n')
    with pytest.raises(UsageError, match="is not a trace, so nothing was appended"):
        TraceFile(package, pytest.fail)
    for path in (tmp_path, tmp_path / "notes.md" / "where.jsonl"):
        with pytest.raises(UsageError, match="cannot be written"):
            TraceFile(path, pytest.fail)


def test_torn_line_spares_the_next(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"type":"notice","text":"one"}\n{"type":"not')
    trace = TraceFile(path, pytest.fail)
    trace.on_event(Notice("root", "info", "two"))
    trace.close()
    assert json.loads(path.read_text().splitlines()[-1])["text"] == "two"


@pytest.mark.needs("linux")
def test_full_disk_ends_only_the_trace():
    said: list[str] = []
    before = set(os.listdir("/proc/self/fd"))
    trace = TraceFile(Path("/dev/full"), said.append)
    for _ in range(3):
        trace.on_event(Notice("root", "info", "lost"))
    trace.close()
    assert len(said) == 1
    assert "/dev/full ends here" in said[0]
    assert "No space left" in said[0]
    assert set(os.listdir("/proc/self/fd")) == before


def test_killed_run_leaves_lines(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path; from sagent.events import Notice\n"
        "from sagent.plugins.exports.trace_file import TraceFile\n"
        "trace = TraceFile(Path(sys.argv[1]), print); trace.on_event(Notice('root', 'info', 'kept'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "t.jsonl"
    subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=False)
    assert [event["text"] for event in lines(path)] == ["kept"]


def test_trace_hides_secrets_however_split(tmp_path):
    key = "gh" + "p_" + "k3Jd9Qm2Xr7Lw0Zt5Vb8Ny1Hc4Sf6Ga3Ue9P"
    path = tmp_path / "t.jsonl"
    trace = TraceFile(path, pytest.fail)
    for start in range(0, len(key), 5):
        trace.on_event(TextDelta("root", key[start : start + 5]))
        trace.on_event(ToolProgress("root", "c", key[start : start + 5]))
        trace.on_event(TextDelta("root/other", "said "))
        trace.on_event(Notice("root/other", "info", "in between"))
    trace.on_event(Notice("root", "info", f"the key is {key}"))
    for shift in range(700):
        trace.on_event(TextDelta("root", "words that are written before the end of all. " * 3 + "." * (shift % 41)))
        trace.on_event(TextDelta("root", f" {key[:20]}"))
        trace.on_event(TextDelta("root", f"{key[20:]} "))
    trace.close()
    text = path.read_text()
    assert all(key[start : start + 8] not in text for start in range(4, len(key) - 8))
    said = {agent: "".join(str(each["text"]) for each in lines(path) if each["agent"] == agent) for agent in AGENTS}
    assert said["root/other"] == "said in between" * 8
    assert said["root"].count("[redacted: token]") == 703
    assert said["root"].count("words that are written before") == 2_100
