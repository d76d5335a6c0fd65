"""The directories that sessions have for temporary files: whose stay, and whose are removed."""

import fcntl
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from sagent.lib.locklimit import LOCKS
from sagent.sandbox import Sandbox
from sagent.sandbox.profile import Profile
from sagent.sandbox.scratch import ASIDE, PREFIX, Scratch, sweep
from tests.waiting import until


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path.resolve()))
    return tmp_path.resolve()


def directories(place: Path) -> set[str]:
    return {entry for entry in os.listdir(place) if entry.startswith(PREFIX)}


def made(*names: str) -> Scratch:
    """One that was made a while ago, with something in it."""
    scratch = Scratch()
    for name in names:
        (scratch.path / name).mkdir(parents=True)
    os.utime(scratch.path, (0, 0))
    return scratch


def test_killed_scratch_removed_living_kept(temporary: Path) -> None:
    killed, living, young = made("tmp/left"), made("tmp/here"), Scratch()
    for scratch in (killed, young):
        scratch.close()  # as the system does
    sweep()
    assert directories(temporary) == {living.path.name, young.path.name}
    assert (living.path / "tmp/here").is_dir()
    living.remove()


@pytest.mark.needs("linux")
def test_used_unlocked_scratch_stays(temporary: Path) -> None:
    let_go = made("tmp/here")
    let_go.stay()
    let_go.close()
    os.utime(let_go.path, (0, 0))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as running:
        resource.prlimit(running.pid, LOCKS, (let_go.marks[0], let_go.marks[0]))
        sweep()
        assert directories(temporary) == {let_go.path.name}
        running.communicate()
    sweep()
    assert directories(temporary) == set()


def test_new_scratch_has_its_lock(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one it would be taken for a killed session's, and removed while commands run."""
    really, held = tempfile.mkdtemp, list[int]()

    def seen_at_once(prefix: str, **_: object) -> str:
        path = really(prefix=prefix)
        for name in directories(temporary):
            held.append(os.open(temporary / name, os.O_RDONLY))
            fcntl.flock(held[-1], fcntl.LOCK_SH)
        return path

    monkeypatch.setattr(tempfile, "mkdtemp", seen_at_once)
    scratch = Scratch()
    for lock in held:
        os.close(lock)
    assert scratch.lock is not None
    assert directories(temporary) == {scratch.path.name}
    sweep()
    assert scratch.path.is_dir()
    scratch.remove()


@pytest.mark.needs("bwrap")
async def test_detached_box_keeps_scratch_to_its_end(temporary: Path) -> None:
    sandbox, pipe = Sandbox(), subprocess.PIPE
    if sandbox.means.name != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    confined = await sandbox.confine(["sh", "-c", "echo ready; exec cat"], Profile(), Path("/"))
    scratch = sandbox.scratch
    with subprocess.Popen([*confined.wall, *confined.argv], stdin=pipe, stdout=pipe) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        confined.detach()
        confined.finish()
        await sandbox.aclose()
        os.utime(scratch, (0, 0))
        sweep()
        assert directories(temporary) == {scratch.name}
        assert running.communicate(b"goes on")[0] == b"goes on"
    await until(lambda: sweep() or not directories(temporary), "the end of the box", pause=0.1)


def test_files_put_aside_stay_a_month(temporary: Path) -> None:
    scratch = made("tmp", f"{ASIDE}/x.undone-0")
    scratch.remove()
    sweep()
    assert [str(each.relative_to(scratch.path)) for each in sorted(scratch.path.rglob("*"))] == [
        ASIDE,
        f"{ASIDE}/x.undone-0",
    ]
    old = time.time() - 32 * 24 * 3600
    os.utime(scratch.path / ASIDE, (old, old))
    os.utime(scratch.path, (old, old))
    sweep()
    assert directories(temporary) == set()


def test_links_are_left_alone(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    (temporary / f"{PREFIX}file").touch()
    inner = made("tmp")
    (inner.path / "tmp/link").symlink_to(elsewhere)
    inner.close()
    os.utime(elsewhere, (0, 0))
    sweep()
    assert directories(temporary) == {f"{PREFIX}link", f"{PREFIX}file"}
    assert os.listdir(elsewhere) == ["kept"]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away")
@pytest.mark.needs("root-of-machine")
def test_directories_of_others_are_left_alone(temporary: Path) -> None:
    own, theirs = made(), made()
    own.close()
    theirs.close()
    os.chown(theirs.path, 65534, 65534)
    sweep()
    assert directories(temporary) == {theirs.path.name}


def test_deep_and_closed_trees_are_removed() -> None:
    scratch = Scratch()
    below = os.open(scratch.path, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("d", dir_fd=below)
        inner = os.open("d", os.O_RDONLY, dir_fd=below)
        os.close(below)
        below = inner
    os.close(below)
    (scratch.path / "closed/inner").mkdir(parents=True)
    (scratch.path / "closed").chmod(0)
    scratch.remove()
    assert not scratch.path.exists()
