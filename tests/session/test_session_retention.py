"""A listing reads two pieces of a log, however long it is."""

import subprocess
import sys
from pathlib import Path

import pytest

from sagent.session.contents import Label, Unknown
from sagent.session.retention import HEAD_BYTES, glance, glances
from sagent.session.store import Session
from sagent.session.summary import summarize
from tests.session_place import aged_session

DAY = 86_400.0


def test_glance_agrees_with_the_whole(state: Path, tmp_path: Path):
    path = aged_session(state, tmp_path, prompt="fix\n the   tests")
    assert glance(path).title == "fix the tests"
    with Session.open(path) as session:
        for content in (Label("a"), Label("b"), Label("c"), Unknown("notice", {})):
            session.log().append(content)
    whole, seen = summarize(path), glance(path)
    assert (seen.id, seen.cwd, seen.title, seen.last, seen.size) == (
        whole.id, whole.cwd, whole.title, whole.last, whole.size,
    )  # fmt: skip


@pytest.mark.needs("linux")
def test_glance_reads_little_of_a_long_log(state: Path, tmp_path: Path):
    path = aged_session(state, tmp_path)
    with Session.open(path) as session:
        for _ in range(40):
            session.log().append(Unknown("notice", {"text": "x" * HEAD_BYTES}))
        last = session.log().append(Label("a name"))
    code = (
        "import sys; from pathlib import Path; from sagent.session.retention import glance\n"
        "read = lambda: int(Path('/proc/self/io').read_text().split()[1])\n"
        "before = read(); seen = glance(Path(sys.argv[1]))\n"
        "print(seen.title, seen.last, read() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"a name {last.at} ")
    assert int(done.stdout.split()[-1]) < 2 * HEAD_BYTES  # of 40 times that
    assert glance(path).size > 40 * HEAD_BYTES


def test_damaged_or_empty_session_is_listed(state: Path, tmp_path: Path):
    path = aged_session(state, tmp_path)
    (path / "root.jsonl").write_bytes(b"\xff\n{}\n")
    assert [(seen.path, seen.title, seen.last) for seen in glances(state)] == [(path, "", "")]
    (path / "root.jsonl").write_bytes(b"")
    assert glances(state)[0].size == (path / "lock").stat().st_size
