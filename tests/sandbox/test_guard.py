"""What is put back when commands have ended, and which of them is told."""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.lib.json import json_freeze_object
from sagent.sandbox import Sandbox
from sagent.sandbox import guard as guard_module
from sagent.sandbox.guard import Guard, can_guard
from sagent.sandbox.probe import Confinement
from sagent.sandbox.profile import Profile
from sagent.sandbox.scratch import Scratch
from sagent.session.blobs import BlobDirectory
from sagent.tool import RunContext, Workspace
from sagent.tools import Write
from tests.waiting import until


def watching(place: Path, *paths: str, held: str = "") -> Guard:
    guard = Guard(place / "aside")
    guard.begin(paths, {held})
    return guard


def test_protected_paths_are_restored(tmp_path: Path) -> None:
    tree, aside = tmp_path / "tree", tmp_path / "aside"
    (tree / "hooks").mkdir(parents=True)
    (tree / "hooks/a").write_text("a")
    (tree / "config").write_text("old")
    (tree / "link").symlink_to("config")
    names = ["hooks", "config", "link", "missing", "none/missing"]
    guard = Guard(aside)
    watch = guard.begin([str(tree / name) for name in names])
    assert guard.put_back() == []
    (tree / "hooks/b").write_text("planted")
    (tree / "config").write_text("planted")
    (tree / "link").unlink()
    (tree / "link").write_text("planted")
    (tree / "missing").mkdir()
    assert guard.put_back() == [str(tree / name) for name in names[:4]]
    assert sorted(os.listdir(tree / "hooks")) == ["a"]
    assert (tree / "config").read_text() == "old"
    assert (tree / "link").is_symlink()
    assert not (tree / "missing").exists()
    assert guard.end(watch) == [str(tree / name) for name in names[:4]]
    assert sum(1 for file in aside.rglob("*") if file.is_file() and file.read_text() == "planted") == 3
    guard.close()
    assert all(".undone-" in name for name in os.listdir(aside))  # the copies are gone


def test_copy_is_reused_until_change(tmp_path: Path) -> None:
    config, aside = tmp_path / "config", tmp_path / "aside"
    config.write_text("old")
    guard, copies = Guard(aside), list[list[str]]()
    for text in ("", "", "new", ""):
        if text:
            config.write_text(text)  # by the person, while nothing runs
        watch = guard.begin([str(config)])
        copies.append(os.listdir(aside))
        guard.end(watch)
    assert copies[0] == copies[1] != copies[2] == copies[3]
    watch = guard.begin([str(config)])
    config.write_text("planted")
    assert guard.end(watch) == [str(config)]
    assert config.read_text() == "new"


def test_restoring_writes_nowhere_else(tmp_path: Path) -> None:
    other, own = tmp_path / "other/.git", tmp_path / "tree/.git"
    (other / "hooks").mkdir(parents=True)
    (other / "config").write_text("other")
    own.mkdir(parents=True)
    (own / "hooks").symlink_to(tmp_path / "tree/evil")
    guard = watching(tmp_path, f"{own}/hooks", f"{own}/config")
    own.rename(tmp_path / "tree/renamed")
    own.symlink_to(other)
    assert guard.put_back()
    assert (other / "hooks").is_dir()
    assert not (other / "hooks").is_symlink()
    assert (other / "config").read_text() == "other"
    assert not own.exists()


def test_link_on_protected_path_is_restored(tmp_path: Path) -> None:
    for name in ("real", "evil"):
        (tmp_path / name / "hooks").mkdir(parents=True)
    (tmp_path / ".git").symlink_to("real")
    guard = watching(tmp_path, f"{tmp_path}/.git/hooks", held=f"{tmp_path}/real/hooks")
    (tmp_path / ".git").unlink()
    (tmp_path / ".git").symlink_to("evil")
    assert guard.put_back() == [f"{tmp_path}/.git"]
    assert os.readlink(tmp_path / ".git") == "real"


def test_plant_goes_without_room_aside(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    guard, planted = Guard(tmp_path / "file" / "aside"), tmp_path / "tree/.mcp.json"
    planted.parent.mkdir()
    watch = guard.begin([str(planted)])
    planted.write_text("{}")
    assert guard.end(watch) == [str(planted)]
    assert [name.split("-")[0] for name in os.listdir(planted.parent)] == [".mcp.json.undone"]


def test_uncopied_plant_is_removed(tmp_path: Path) -> None:
    guard = watching(tmp_path, f"{tmp_path}/.vscode")
    (tmp_path / ".vscode").mkdir(0o000)
    os.mkfifo(tmp_path / ".vscode/pipe") if os.geteuid() == 0 else None
    assert guard.put_back() == [f"{tmp_path}/.vscode"]
    assert not (tmp_path / ".vscode").exists()
    os.mkfifo(tmp_path / "pipe")
    assert not can_guard(str(tmp_path / "pipe"))


def test_mounts_and_large_files_not_guarded(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("old")
    (tmp_path / "large").write_bytes(bytes(5 << 20))
    guard = watching(tmp_path, f"{tmp_path}/config", held=f"{tmp_path}/config")
    (tmp_path / "config").write_text("new")
    assert guard.put_back() == []
    assert can_guard(str(tmp_path / "config"))
    assert not can_guard(str(tmp_path / "large"))


@pytest.mark.costly
@pytest.mark.parametrize("first", ["early", "late"])
def test_change_of_one_of_several_told_once(tmp_path: Path, first: str) -> None:
    """The second begins when the first has planted something already: that is not what was there before."""
    config, hook = tmp_path / "config", tmp_path / "hook"
    config.write_text("old")
    guard = Guard(tmp_path / "aside")
    paths = [str(config), str(hook)]
    early = guard.begin(paths)
    config.write_text("planted")
    hook.write_text("planted")
    late = guard.begin(paths)
    ends = [early, late] if first == "early" else [late, early]
    assert [guard.end(watch) for watch in ends] == [paths, []]
    assert (config.read_text(), hook.exists()) == ("old", False)
    last = guard.begin(paths)  # what was put back is what was there
    assert guard.end(last) == []
    assert sorted(file.read_text() for file in (tmp_path / "aside").glob("*.undone-*")) == ["planted", "planted"]


def test_running_command_is_looked_at_again(tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    guard = Guard(tmp_path / "aside")
    long, short = guard.begin([str(hook)]), guard.begin([str(hook)])
    assert guard.end(short) == []
    hook.write_text("planted")
    assert guard.end(long) == [str(hook)]
    hook.write_text("by the person")
    assert guard.end(guard.begin([str(hook)])) == []
    assert hook.read_text() == "by the person"


@pytest.mark.costly
@pytest.mark.parametrize("held", [False, True])
def test_foreign_plant_was_not_there_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (work := tmp_path / "work").mkdir()
    planted, own = work / ".envrc", work / ".mcp.json"
    own.touch()
    paths, sessions = [str(planted), str(own)], [Scratch(), Scratch()]
    one, other = (Guard(scratch.path / "put-back") for scratch in sessions)
    try:
        first = one.begin(paths)
        planted.write_text("planted")
        second = other.begin(paths, held={str(planted)} if held else ())
        assert one.end(first) == [str(planted)]
        assert other.put_back() == []
        assert os.listdir(work) == [own.name]
        planted.write_text("planted again")
        assert other.end(second) == [str(planted)]
        assert os.listdir(work) == [own.name]
        planted.write_text("by the person")  # while nothing runs
        assert other.end(other.begin(paths)) == []
        first = one.begin([str(work / ".vscode")])
        (work / ".vscode").mkdir()
        sessions[0].close()  # as when it is killed
        assert other.end(other.begin([str(work / ".vscode")])) == []
        assert (work / ".vscode").is_dir()
    finally:
        sessions[1].remove()


@pytest.mark.costly
@pytest.mark.parametrize("way", ["write", "rename", "mode", "link", "directory", "gone", "link above"])
def test_foreign_change_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Whichever of both ends first, and however often the other looks meanwhile."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (git := tmp_path / "work/.git").mkdir(parents=True)
    (evil := tmp_path / "work/evil").mkdir()
    (evil / "config").write_text("old")  # the same as yet
    config = git / "config"
    lines = {
        "write": "echo evil > .git/config",
        "rename": "echo evil > x; mv x .git/config",
        "mode": "chmod 777 .git/config",
        "link": "ln -sf ../evil/config .git/config",
        "directory": "rm .git/config; mkdir .git/config",
        "gone": "rm .git/config",
        "link above": "mv .git away; ln -s evil .git",
    }
    sessions = [Scratch(), Scratch()]
    one, other = (Guard(scratch.path / "put-back") for scratch in sessions)
    try:
        for first_ends in (True, False):
            config.write_text("old")
            config.chmod(0o644)
            first = one.begin([str(config)])
            subprocess.run(["bash", "-c", lines[way]], cwd=tmp_path / "work", check=True)
            second = other.begin([str(config)])
            told = [one.end(first)] if first_ends else []
            told += [other.put_back(), other.end(second)]
            told += [] if first_ends else [one.end(first)]
            assert any(told), told
            if way == "link above":
                assert not git.is_symlink()
                (tmp_path / "work/away").rename(git)
            assert config.read_text() == "old"
            assert config.stat().st_mode & 0o777 == 0o644
            assert other.end(other.begin([str(config)])) == []
        config.write_text("by the person")  # while nothing runs
        assert other.end(other.begin([str(config)])) == []
        assert config.read_text() == "by the person"
    finally:
        for scratch in sessions:
            scratch.remove()


async def test_copies_in_writable_tmp_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the workspace holds the temporary files a command makes a session up, and locks it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))
    config, made_up, cache = tmp_path / ".envrc", tmp_path / "sagent-tmp-made-up", tmp_path / "state"
    config.write_text("old")
    (made_up / "put-back/x").mkdir(parents=True)
    (made_up / "put-back/x/copy").write_text("planted")
    (made_up / "before").write_text(f"{config}\0\0x")
    lock = os.open(made_up, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    sandbox = Sandbox(cache=cache)
    try:
        for _ in range(2):
            confined = await sandbox.confine(["true"], Profile((str(tmp_path),), (str(config),)), tmp_path)
            assert confined.finish() == []
            assert list(cache.rglob("copy"))
    finally:
        os.close(lock)
        await sandbox.aclose()
    assert config.read_text() == "old"
    assert [*(cache / "before").iterdir()] == []


@pytest.mark.parametrize("cached", [False, True])
async def test_killed_sessions_changes_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, cached: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))
    work = tmp_path.resolve() / "work"
    work.mkdir()
    for name in (".envrc", "unchanged", ".exrc"):
        (work / name).write_text("old")
    register = tmp_path / "state/before"
    register.mkdir(parents=True)
    scratch = Scratch(register if cached else None)
    paths = tuple(f"{work}/{name}" for name in (".envrc", "unchanged", ".exrc", ".mcp.json", "missing"))
    Guard(scratch.path / "put-back").begin(paths)
    (work / ".envrc").write_text("planted")
    (work / ".exrc").unlink()
    (work / ".mcp.json").write_text("planted")
    scratch.close()  # as when it is killed
    warned: list[str] = []
    sandbox = Sandbox(cache=tmp_path / "state" if cached else None)
    sandbox.warn = warned.append
    try:
        (await sandbox.confine(["true"], Profile(writable=(str(work),)), work)).finish()
        await until(lambda: warned)
    finally:
        await sandbox.aclose()
    assert [name in warned[0] for name in paths] == [True, False, True, True, False]
    assert not scratch.path.exists()


def test_replaced_file_is_guarded_by_looks(tmp_path: Path) -> None:
    (config := tmp_path / "config").write_text("old")
    guard = Guard(tmp_path / "aside")
    watch = guard.begin([str(config)], held={str(config)})
    config.write_text("by the mount's file itself")
    assert (guard.put_back(), guard.take_replaced()) == ([], [])
    (tmp_path / "new").write_text("the person's")
    (tmp_path / "new").rename(config)
    second = guard.begin([str(config)], held={str(config)})  # in a box that holds the new one
    assert guard.take_replaced() == [str(config)]
    config.write_text("planted")
    assert guard.end(second) == [str(config)]
    assert config.read_text() == "the person's"
    with guard.changing(str(config)):
        config.unlink()
    assert (guard.end(watch), guard.take_replaced()) == ([], [])
    assert not config.exists()


def test_grant_of_one_is_not_undone_by_other(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("old")
    guard = Guard(tmp_path / "aside")
    other, granted = guard.begin([str(config)]), guard.begin([], granted=[str(config)])
    config.write_text("granted")
    assert guard.end(guard.begin([str(config)])) == []
    assert guard.end(granted) == []
    config.write_text("planted")
    assert guard.end(other) == [str(config)]
    assert config.read_text() == "granted"


@pytest.mark.needs("root-of-machine")
@pytest.mark.parametrize("mode", [0o500, 0o600, 0])
def test_plant_in_closed_directory_is_undone(mode: int) -> None:
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory(prefix="sagent-test-") as base:
        work = Path(base, "work")
        persons = work / "closed by the person"
        persons.mkdir(parents=True)
        try:
            if root:  # which no mode keeps out
                for place in (Path(base), work, persons):
                    os.chown(place, 65534, 65534)
                os.seteuid(65534)
            persons.chmod(0)
            guard = Guard(Path(base, "aside"))
            watch = guard.begin([f"{work}/.vscode", f"{persons}/.envrc"])
            (work / ".vscode").mkdir()
            work.chmod(mode)
            assert guard.end(watch) == [f"{work}/.vscode"]
            assert not (work / ".vscode").exists()
            assert persons.stat().st_mode & 0o777 == 0
        finally:
            if root:
                os.seteuid(0)
                if sys.platform == "linux":
                    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE, else root of a container sees no /proc/PID/fd


@pytest.mark.needs("bwrap")
async def test_parallel_commands_are_told_once(tmp_path: Path) -> None:
    work = tmp_path.resolve() / "work"
    work.mkdir()
    profile = Profile(writable=(str(work),), protected=(f"{work}/.vscode",))
    sandbox = Sandbox()
    try:
        first = await sandbox.confine(["mkdir", ".vscode"], profile, work)
        assert subprocess.run([*first.wall, *first.argv], cwd=work, check=False).returncode == 0
        second = await sandbox.confine(["true"], profile, work)  # in a box of its own, which finds it there
        assert ["undid" in text for text in second.finish()] == [True]
        assert not (work / ".vscode").exists()
        assert first.finish() == []
        assert first.finish() == ()
    finally:
        await sandbox.aclose()


class Session:
    """Commands in a sandbox of their own, whose shells we wait for and no more."""

    def __init__(self, sandbox: Sandbox, work: Path) -> None:
        self.sandbox, self.work = sandbox, work
        self.warned: list[str] = []
        sandbox.warn = self.warned.append
        self.profile = Profile(writable=(str(work),), protected=(f"{work}/.vscode", f"{work}/.envrc"))

    async def run(self, command: str) -> Sequence[str]:
        confined = await self.sandbox.confine(["bash", "-c", command], self.profile, self.work)
        argv, environment = confined.launched(os.environ)
        null = subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *argv, env=environment, cwd=self.work, stdin=null, stdout=null, start_new_session=True
        )
        await process.wait()
        return confined.finish()


@pytest.fixture(params=["bubblewrap", "landlock"])
async def session(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Session]:
    means = Confinement(request.param)
    if means.name == "bubblewrap" and Sandbox().means.name != "bubblewrap":
        pytest.skip("no bubblewrap here")
    monkeypatch.setattr("sagent.sandbox._CHECK_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: means)
    work = tmp_path.resolve() / "work"
    work.mkdir()
    sandbox = Sandbox()
    try:
        yield Session(sandbox, work)
    finally:
        await sandbox.aclose()


async def test_plant_between_commands_is_undone(session: Session) -> None:
    left = "(until [ -e go ]; do sleep 0.05; done; mkdir .vscode; touch gone; until [ -e end ]; do sleep 0.05; done) &"
    try:
        assert not await session.run(left)
        (session.work / "go").touch()
        await until(lambda: (session.work / "gone").exists() and not (session.work / ".vscode").exists())
        assert [".vscode" in text for text in session.warned] == [True]
        assert [".vscode" in text for text in await session.run("true")] == [True]
    finally:
        (session.work / "end").touch()


async def test_own_tool_write_stays(session: Session, tmp_path: Path) -> None:
    left = "(until [ -e go ]; do sleep 0.05; done; touch .envrc gone; until [ -e end ]; do sleep 0.05; done) &"
    workspace = Workspace(session.work, changing=session.sandbox.changing)
    context = RunContext("root", "call", workspace, BlobDirectory(tmp_path / "blobs"), lambda text: None)
    settings = session.work / ".vscode/settings.json"
    try:
        assert not await session.run(left)
        await Write()(json_freeze_object({"file_path": str(settings), "content": "allowed"}), context)
        (session.work / "go").touch()
        await until(lambda: (session.work / "gone").exists() and not (session.work / ".envrc").exists())
        assert settings.read_text() == "allowed"
        assert [".envrc" in text for text in await session.run("true")] == [True]
        assert settings.read_text() == "allowed"
    finally:
        (session.work / "end").touch()


@pytest.mark.parametrize("domains", [(), ("example.org",)])
async def test_nobody_looks_without_left_process(session: Session, domains: tuple[str, ...]) -> None:
    session.profile = replace(session.profile, domains=domains)
    assert not await session.run("true")  # a proxy is there from now on, and what leads to it
    await until(lambda: not any("Sandbox._look" in repr(task) for task in asyncio.all_tasks()))
    before = asyncio.all_tasks()
    assert not await session.run("(until [ -e end ]; do sleep 0.05; done) &")
    (session.work / "end").touch()
    await until(lambda: asyncio.all_tasks() <= before)
    (session.work / ".envrc").write_text("by the person")
    assert not await session.run("true")
    assert (session.work / ".envrc").read_text() == "by the person"


async def test_own_server_is_looked_at_in_answers(
    session: Session,
) -> None:
    line = ["bash", "-c", "until [ -e end ]; do sleep 0.05; done; touch ended"]
    server = await session.sandbox.confine(line, session.profile, session.work, lasting=True)
    argv, environment = server.launched(os.environ)
    before = asyncio.all_tasks()
    running = subprocess.Popen(argv, env=environment, cwd=session.work, stdin=subprocess.DEVNULL)
    try:
        assert not await session.run("true")
        await until(lambda: asyncio.all_tasks() <= before)
        (session.work / ".envrc").write_text("by the person")
        finish = server.attend()
        (session.work / ".vscode").mkdir()
        assert [".vscode" in text and ".envrc" not in text for text in finish()] == [True]
        assert not (session.work / ".vscode").exists()
        assert (session.work / ".envrc").exists()
    finally:
        (session.work / "end").touch()
        running.wait()
        server.finish()


async def test_plant_at_session_end_is_undone(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.sandbox._CHECK_INTERVAL_SECONDS", 60)
    try:
        await session.run("(mkfifo go; . ./go; mkdir .vscode; touch gone; until [ -e end ]; do sleep 0.02; done) &")
        await until((session.work / "go").exists)
        (session.work / "go").write_text("true\n")
        await until((session.work / "gone").exists)
        await session.sandbox.aclose()
        assert not (session.work / ".vscode").exists()
    finally:
        (session.work / "end").touch()


@pytest.mark.parametrize("where", ["itself", "in a directory"])
def test_restoring_follows_no_quick_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    place, outside = tmp_path / "tree", tmp_path / "outside"
    (tmp_path / "elsewhere").mkdir()
    outside.write_text("mine")
    protected = place / ".envrc"
    protected.mkdir(parents=True) if where == "in a directory" else place.mkdir()
    file = protected / "a" if where == "in a directory" else protected
    file.write_text("from the repository")
    guard = watching(tmp_path, str(protected))
    file.write_text("planted")
    mkdir, rename = os.mkdir, Path.rename

    def quick(*_: object, **__: object) -> None:
        with contextlib.suppress(OSError):
            file.symlink_to(outside)

    monkeypatch.setattr(Path, "rename", lambda own, to: (rename(own, to), quick())[0])
    monkeypatch.setattr(os, "mkdir", lambda *given, **more: (mkdir(*given, **more), quick())[0])
    assert guard.put_back() == [str(protected)]
    monkeypatch.undo()
    assert outside.read_text() == "mine"
    assert guard.put_back() == [str(protected)]
    assert file.read_text() == "from the repository"


def test_aside_follows_no_quick_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, home = tmp_path / "tree", tmp_path / "home"
    for directory in (place / "sub", home / ".claude"):
        directory.mkdir(parents=True)
    (home / ".claude" / "key").write_text("secret")
    real, protected = place / "real", str(place / "sub" / ".claude")
    links = guard_module._link_above

    def late(path: str, known: dict[str, bool]) -> str:
        found = links(path, known)
        (place / "sub").rename(real)  # once it was looked at
        (place / "sub").symlink_to(home)
        return found

    monkeypatch.setattr(guard_module, "_link_above", late)
    guard = watching(tmp_path, protected)
    monkeypatch.undo()
    (place / "sub").unlink()
    real.rename(place / "sub")
    guard.put_back()
    assert os.listdir(place / "sub") == []
    assert not [file for file in (tmp_path / "aside").rglob("*") if file.is_file()]
