"""A look that relies on what the system tells of changes finds what a look at everything finds."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.rewind.diff import Difference, compare
from sagent.rewind.snapshot import SETTLED_NS, Stop, TreeSnapshot, take_snapshot
from sagent.rewind.watch import Watch
from tests.depth import deep, later

QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
MAX_EVENTS = int(QUEUE.read_text()) // 2 + 1 if QUEUE.exists() else 0
"""Files to be made and removed, which are two events each, for more than the system keeps."""
pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("git")]

NAMES = ("a", "b", "d/a", "d/e/a", "d/e/b", "new/a", "x.log", "d/x.log", "out/a", ".gitignore")
DIRECTORIES = ("d", "d/e", "new", "out")
STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(["1", "2", "*.log\n", "longer"])),
    st.tuples(st.just("replace"), st.sampled_from(NAMES), st.sampled_from(["1", "2"])),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("mode"), st.sampled_from(NAMES), st.sampled_from(["644", "600", "755"])),
    st.tuples(st.just("link"), st.sampled_from(NAMES), st.sampled_from(["a", "d"])),
    st.tuples(st.just("remove"), st.sampled_from(DIRECTORIES), st.just("")),
    st.tuples(st.just("move"), st.sampled_from(DIRECTORIES), st.sampled_from(["moved", "d/moved", "new"])),
    st.tuples(st.just("git"), st.sampled_from(["add -A", "commit -qm x", "reset -q --hard", "stash -q"]), st.just("")),
    st.tuples(st.just("look"), st.just(""), st.just("")),
)


def git(root: Path, *words: str) -> None:
    given_name = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *given_name, *words], cwd=root, check=False, capture_output=True)


def apply(root: Path, what: str, name: str, more: str) -> None:
    path = root / name
    try:
        match what:
            case "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(more)
            case "replace":
                fresh = root / ".draft"
                fresh.write_text(more)
                fresh.replace(path)
            case "delete":
                path.unlink()
            case "mode":
                path.chmod(int(more, 8))
            case "link":
                path.symlink_to(more)
            case "remove":
                subprocess.run(["rm", "-rf", str(path)], check=True)
            case "move":
                path.rename(root / more)
            case _:
                git(root, *name.split(" "))
    except OSError:
        pass  # there is no such thing there now


def stands(root: Path, tree: TreeSnapshot) -> Mapping[bytes, object]:
    """What a look says of each file: its content, where it has it, or where git has it."""
    found: dict[bytes, object] = {}
    for path, state in tree.files.items():
        data = state.data
        if data is None:
            argv = ["git", "cat-file", "blob", state.oid]
            data = subprocess.run(argv, cwd=root, capture_output=True, check=True).stdout
        found[path] = (data, state.mode, state.size)
    return found


class Looks:
    """Looks at a directory one after the other, as calls do: in turn without and with asking git."""

    def __init__(self, root: Path) -> None:
        self.root = os.fsencode(root)
        self.watch = Watch(self.root)
        self.last: TreeSnapshot | None = None
        self.known = 0

    def look(self, *, relist: bool) -> TreeSnapshot:
        changed = self.watch.changed()
        self.known += changed is not None
        self.last = take_snapshot(self.root, self.last, (), Stop(), relist=relist, changed=changed, watched=True)
        self.watch.follow(self.last.listings)
        return self.last


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    def made() -> Iterator[Path]:
        while True:
            root = tmp_path_factory.mktemp("tree")
            (root / "d" / "e").mkdir(parents=True)
            for name in ("a", "b", "d/a", "d/e/a"):
                (root / name).write_text(name)
            yield root

    return made()


@pytest.mark.costly
@pytest.mark.parametrize("is_repository", [True, False])
@settings(max_examples=deep(12, 80), deadline=None)
@given(steps=st.lists(STEPS, max_size=14), pause=st.booleans())
def test_watch_finds_what_a_full_look_finds(
    places: Iterator[Path], steps: list[tuple[str, str, str]], is_repository: bool, pause: bool
) -> None:
    root = next(places)
    if is_repository:
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "x")
    if pause:
        time.sleep(2 * SETTLED_NS / 1e9)
    looks = Looks(root)
    for relist in (False, True, False):
        looks.look(relist=relist)
    assert looks.known or not looks.watch.works
    before = looks.look(relist=False)
    expected = take_snapshot(os.fsencode(root), None, (), Stop())
    for step in (*steps, ("look", "", "")):
        if step[0] != "look":
            apply(root, *step)
            continue
        after, whole = looks.look(relist=True), take_snapshot(os.fsencode(root), None, (), Stop())
        assert stands(root, after) == stands(root, whole)
        told, wanted = (
            compare(*pair, frozenset(), lambda data: data.hex(), Stop())
            for pair in ((before, after), (expected, whole))
        )
        assert summary(told) == summary(wanted)
        before, expected = looks.look(relist=False), whole


def contents(looks: Looks) -> dict[str, bytes | None]:
    files = looks.look(relist=True).files
    return {os.path.relpath(os.fsdecode(path), os.fsdecode(looks.root)): state.data for path, state in files.items()}


@pytest.fixture
def looks(tmp_path: Path) -> Looks:
    """Looks that rely on what the system tells, at a directory where a file was for a while."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("1")
    made = Looks(tmp_path)
    if not made.watch.works:
        pytest.skip("this file system is not one of this machine alone")
    time.sleep(2 * SETTLED_NS / 1e9)
    made.look(relist=True)
    made.look(relist=True)
    return made


def test_remade_directory_followed_after_overflow(looks: Looks, tmp_path: Path) -> None:
    for each in range(MAX_EVENTS):
        (tmp_path / f"n{each % 7}").touch()
        (tmp_path / f"n{each % 7}").unlink()
    shutil.rmtree(tmp_path / "d")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("2")
    assert contents(looks) == {"d/a": b"2"}
    looks.look(relist=True)
    (tmp_path / "d" / "a").write_text("3")
    assert contents(looks) == {"d/a": b"3"}


def test_vanished_directory_may_return(tmp_path: Path, looks: Looks) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a").write_text("1")
    last = looks.last = take_snapshot(looks.root, looks.last, (), Stop(), changed=looks.watch.changed(), watched=True)
    shutil.rmtree(tmp_path / "new")
    looks.watch.follow(last.listings)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a").write_text("2")
    assert contents(looks) == {"d/a": b"1", "new/a": b"2"}


def test_file_is_seen_by_its_other_name(looks: Looks, tmp_path: Path) -> None:
    (tmp_path / "b").hardlink_to(tmp_path / "d" / "a")
    assert contents(looks) == {"b": b"1", "d/a": b"1"}
    (tmp_path / "b").write_text("2")
    assert contents(looks) == {"b": b"2", "d/a": b"2"}


@later
def test_mount_over_directory_is_seen(tmp_path: Path) -> None:
    script = """
import subprocess, sys, time
from pathlib import Path
from tests.rewind.test_watch import Looks, contents
root, other = Path(sys.argv[1]) / "root", Path(sys.argv[1]) / "other"
looks = Looks(root)
for _ in range(2):
    contents(looks)
subprocess.run(["mount", "--bind", other, root / "d"], check=True)
print(looks.watch.works, contents(looks))
"""
    for name, text in (("root/d", "1"), ("other", "2")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a").write_text(text)
    argv = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode and not done.stdout:
        pytest.skip(f"no mounts of one's own here: {done.stderr[-200:]}")
    assert done.stdout in ("True {'d/a': b'2'}\n", "False {'d/a': b'2'}\n")


def summary(found: Difference) -> object:
    return sorted((touch.path, touch.before, touch.after) for touch in found.files), found.made, found.gone


def test_watch_does_not_guess(tmp_path: Path) -> None:
    root, file = os.fsencode(tmp_path), os.fsencode(tmp_path / "a")
    watch = Watch(root)
    if not watch.works:
        pytest.skip("this file system is not one of this machine alone")
    assert watch.changed() is None  # nothing was followed yet
    watch.follow([root])
    (tmp_path / "a").write_text("x")
    assert watch.changed() == ({file}, {root}, {root, file})
    assert watch.changed() == (set(), set(), set())
    watch.missed()
    assert watch.changed() is None
    watch.follow([root])
    for each in range(MAX_EVENTS):
        (tmp_path / f"n{each % 7}").touch()
        (tmp_path / f"n{each % 7}").unlink()
    assert watch.changed() is None
    watch.follow([root])
    (tmp_path / "a").chmod(0o600)
    assert watch.changed() == ({file}, {root}, {root, file})
    tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    tmp_path.mkdir()
    assert watch.changed() is None
