"""A session that was written when the format had version 1, kept as it was: it opens, goes on and is exported.

Two runs of a tree with a job, an advisor, a picture and a long output; then it was named, taken up at an earlier
request and compacted.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sagent.codec import VERSION
from sagent.messages import Image
from sagent.session.contents import Opened
from sagent.session.folds import history, points, spend, title
from sagent.session.log import read_contents, read_log
from sagent.session.store import Session, log_files
from sagent.session.summary import summarize
from sagent.session.view import branch
from sagent.testing.server import FakeProviderServer, Turn
from tests.intact import faults

HERE = Path(__file__).parent / "session"
HEAD = "09ebc6a6f36317a937753b4cfb62e3acacc15f2b14afe968f5394a0ade76af73"
CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE, tmp_path / "session"))


def run(cwd: Path, *argv: str, url: str = "") -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": str(CHECKOUT),
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "sagent.bin.cli", *argv], cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_format_1_verifies() -> None:
    assert faults(HERE, HEAD) == []


def test_format_1_reads_the_same(session: Path) -> None:
    contents = read_contents(session / "root.jsonl")
    said = [(message.role, message.content) for message in history(contents, lambda _: b"")]
    assert said == [
        ("user", "Look at everything."),
        ("user", "What was done: a.txt was read."),
        ("user", "Another way, then."),
        ("assistant", "Good."),
    ]
    with Session.open(session) as again:
        tip = points(contents)[1].tip
        every = [*read_log(session / "root.jsonl")]
        end = next(place for place, entry in enumerate(every, 1) if entry.id == tip)
        before = history(branch(every[:end]), again.log().blobs.get)
    assert [len(message.calls) for message in before if message.role == "assistant"] == [3, 2, 2, 0, 0, 0]
    pictures = [part for message in before for result in message.results for part in result.content]
    assert any(isinstance(part, Image) and part.data.startswith(b"\x89PNG") for part in pictures)
    assert [point.text for point in points(contents)] == ["Look at everything.", "and more?", "Another way, then."]
    assert title(contents) == "a session of format 1"
    every = [entry for file in log_files(session) for entry in read_log(file)]
    assert set(spend(every).cost().by_agent) == {"root", "root/review"}
    assert summarize(session).usd == spend(every).cost().total > 0


def test_format_1_session_continues(session: Path, tmp_path: Path) -> None:
    with FakeProviderServer([Turn(text="Still here.")]).in_thread() as server:
        done = run(tmp_path, "--session", str(session), "--model", "claude-sonnet-4-6", "and now?", url=server.url)
        assert (done.returncode, done.stdout) == (0, "Still here.\n"), done.stderr
        asked = json.dumps(server.requests[0].json["messages"])
    assert "Another way, then." in asked
    assert "What was done: a.txt was read." in asked
    assert (session / "root.jsonl").read_bytes().startswith((HERE / "root.jsonl").read_bytes())
    assert faults(session, HEAD) == []


def test_newer_format_is_refused_and_kept(tmp_path: Path) -> None:
    with Session.create_at(tmp_path / "newer") as made:
        made.log().append(Opened(made.id, "root", "/work", {}, VERSION + 1))
    before = (tmp_path / "newer" / "root.jsonl").read_bytes()
    with FakeProviderServer([]).in_thread() as server:
        done = run(tmp_path, "--session", str(tmp_path / "newer"), "--model", "claude-sonnet-4-6", "go", url=server.url)
        assert server.requests == []
    assert (done.returncode, done.stdout) == (2, "")
    assert f"(format {VERSION + 1}, this one reads up to {VERSION})" in done.stderr
    assert "update sagent" in done.stderr
    assert (tmp_path / "newer" / "root.jsonl").read_bytes() == before
