"""Files wound back: by what tools and commands did, and never over what somebody else did."""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sagent.rewind.snapshot as snapshot_module
from sagent.agent import Agent, Resources
from sagent.errors import UsageError
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.lib.names import quote_path
from sagent.messages import ToolCall
from sagent.rewind.birth import born
from sagent.rewind.diff import MOVED_HERE
from sagent.rewind.plan import BETWEEN, ELSE
from sagent.rewind.recorder import only_looks
from sagent.rewind.restore import FileChanges
from sagent.rewind.snapshot import SETTLED_NS
from sagent.session.contents import Opened, Unknown
from sagent.session.folds import contents
from sagent.session.log import Log, MemoryLog
from sagent.session.store import Session, copy
from sagent.session.touches import ABSENT, NOT_SEEN, Touched
from sagent.testing import ScriptedModel
from sagent.tool import RunContext, Workspace
from sagent.tools import Bash, Edit, Read, Write
from tests.agent.cast import Cast, root_of
from tests.depth import deep, later
from tests.intact import faults, unnamed_blobs
from tests.messages import call, in_turn
from tests.waiting import until

IDENTITY = ("-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false")


def git(cwd: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", *IDENTITY, *words], cwd=cwd, capture_output=True, check=True, env=environment)
    return os.fsdecode(done.stdout)


def tree(root: Path) -> dict[str, object]:
    """What is in a directory, git's own aside: contents, modes, links."""
    found: dict[str, object] = {}
    for above, directories, names in os.walk(root):
        if ".git" in directories:
            directories.remove(".git")
        for name in (*names, *(each for each in directories if Path(above, each).is_symlink())):
            path = Path(above, name)
            if path.is_symlink():
                found[str(path.relative_to(root))] = os.readlink(path)
            else:
                found[str(path.relative_to(root))] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    return found


@pytest.fixture
def bash() -> Bash:
    return Bash()


@dataclass
class Rig:
    """An agent at work in a directory; what it is told to do it does, call by call."""

    agent: Agent
    cwd: Path
    steps: list[tuple[ToolCall, ...] | str]
    number: int = 0

    async def do(self, *calls: tuple[str, dict[str, object]]) -> str:
        """Make the calls of one turn; the id of the last entry before it."""
        before = self.agent.log.head
        made = []
        for name, arguments in calls:
            self.number += 1
            made.append(call(f"c{self.number}", name, **arguments))
        self.steps += [tuple(made), "done"]
        await self.agent.run("do it")
        return before

    async def run(self, command: str) -> str:
        return await self.do(("Bash", {"command": command}))

    async def write(self, name: str, content: str) -> str:
        return await self.do(("Read", {"file_path": name}), ("Write", {"file_path": name, "content": content}))

    @property
    def said(self) -> str:
        """The results of the last turn."""
        return "\n".join(result.text for message in self.agent.messages[-3:] for result in message.results)


def desk_of(cwd: Path, log: Log, *more: object) -> Rig:
    steps: list[tuple[ToolCall, ...] | str] = []
    model = ScriptedModel(lambda _: steps.pop(0))
    model = Cast(root=lambda _: steps.pop(0))
    tools = (Bash(), Edit(), Read(), Write(), *more)
    agent = Agent(model, tools=tools, resources=Resources(log=log, workspace=Workspace(cwd)))  # pyright: ignore[reportArgumentType]
    return Rig(agent, cwd, steps)


@asynccontextmanager
async def at_work(cwd: Path, *more: object) -> AsyncIterator[Rig]:
    log = MemoryLog()
    log.append(Opened(log.session_id, "root", str(cwd), {}))
    rig = desk_of(cwd, log, *more)
    try:
        yield rig
    finally:
        await rig.agent.aclose()
        log.close()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A directory without git."""
    made = tmp_path / "plain"
    made.mkdir()
    (made / "a.txt").write_text("a\n")
    (made / "below").mkdir()
    (made / "below" / "b.txt").write_text("b\n")
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A directory with git, and something of every kind in it."""
    made = tmp_path / "repository"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    (made / "a.txt").write_text("a\n")
    (made / "below").mkdir()
    (made / "below" / "b.txt").write_text("b\n")
    (made / ".gitignore").write_text("*.log\nbuild/\n")
    git(made, "add", ".")
    git(made, "commit", "-q", "-m", "first")
    (made / "build").mkdir()
    (made / "build" / "out").write_text("built\n")
    (made / "new.txt").write_text("not added\n")
    return made


def paths(changes: FileChanges) -> dict[str, str]:
    return {Path(change.path).name: change.how for change in changes.changed}


@pytest.mark.costly
@pytest.mark.parametrize("where", ["plain", "repository"])
async def test_tools_and_commands_rewind_and_back(where: str, request: pytest.FixtureRequest) -> None:
    cwd: Path = request.getfixturevalue(where)
    states = [tree(cwd)]
    async with at_work(cwd) as rig:
        points = [await rig.write("a.txt", "a\nb\n")]
        states.append(tree(cwd))
        points.append(await rig.write("new/deep/file.txt", "new\n"))
        states.append(tree(cwd))
        points.append(await rig.run("rm below/b.txt; mv a.txt c.txt; echo more >> new/deep/file.txt; chmod +x c.txt"))
        states.append(tree(cwd))
        points.append(await rig.run("rm -r new; mkdir -p x/y; echo x > x/y/z; ln -s ../c.txt x/link"))
        states.append(tree(cwd))
        tip = rig.agent.log.head
        assert await rig.agent.preview(tip) == FileChanges()
        for point, state in [*zip(points, states, strict=False)][::-1]:
            seen = await rig.agent.preview(point)
            done = await rig.agent.rewind_files(point)
            assert (done.left, done.omitted) == ((), ())
            assert done == seen
            assert tree(cwd) == state
        assert not (cwd / "x").exists()
        assert not (cwd / "new").exists()
        for point, state in zip([*points[1:], tip], states[1:], strict=True):
            assert (await rig.agent.rewind_files(point)).left == ()
            assert tree(cwd) == state


async def test_preview_tells_changes(plain: Path) -> None:
    async with at_work(plain) as rig:
        point = await rig.write("a.txt", "one\ntwo\n")
        await rig.run("printf '\\0' > bits; rm below/b.txt")
        seen = await rig.agent.preview(point)
        assert {Path(one.path).name: (one.how, one.added, one.removed) for one in seen.changed} == {
            "a.txt": ("written", 1, 2),
            "bits": ("deleted", 0, 0),
            "b.txt": ("created", 1, 0),
        }
        assert seen.commands
        assert tree(plain)["a.txt"] == (b"one\ntwo\n", 0o644)
        with pytest.raises(UsageError, match="no entry"):
            await rig.agent.preview("f" * 64)


async def test_checkpointed_session_verifies(plain: Path, tmp_path: Path) -> None:
    with Session.create(tmp_path / "state", plain) as session:
        session.log().append(Opened(session.id, "root", str(plain), {}))
        rig = desk_of(plain, session.log())
        point = await rig.write("a.txt", "changed by a tool\n")
        await rig.run("echo changed by a command > below/b.txt")
        await rig.agent.rewind_files(point)
        await rig.agent.aclose()
    assert faults(session.path) == []
    assert unnamed_blobs(session.path) == set()
    blobs = sorted((session.path / "blobs").iterdir())
    assert {blob.read_bytes() for blob in blobs} == {
        b"a\n",
        b"changed by a tool\n",
        b"b\n",
        b"changed by a command\n",
    }
    for blob in blobs:
        kept = blob.read_bytes()
        blob.write_bytes(b"x" + kept[1:])
        assert any(f"{blob.name} was changed" in problem for problem in faults(session.path))
        blob.unlink()
        assert any(f"{blob.name} is missing" in problem for problem in faults(session.path))
        blob.write_bytes(kept)
    assert faults(session.path) == []


# -- what git has stays git's ------------------------------------------------------------------------------------------


def state_of_git(cwd: Path) -> tuple[bytes, str, str]:
    refs = git(cwd, "for-each-ref") + git(cwd, "symbolic-ref", "HEAD") + git(cwd, "stash", "list")
    return (cwd / ".git" / "index").read_bytes(), refs, git(cwd, "count-objects")


async def test_index_and_branches_are_untouched(repository: Path) -> None:
    (repository / "a.txt").write_text("staged\n")
    git(repository, "add", "a.txt")
    (repository / "a.txt").write_text("and changed\n")
    git(repository, "status")
    before, status, files = state_of_git(repository), git(repository, "status", "--porcelain"), tree(repository)
    async with at_work(repository) as rig:
        point = await rig.run("rm a.txt; echo b >> below/b.txt; echo x > x")
        await rig.write("below/b.txt", "by a tool\n")
        assert state_of_git(repository) == before
        await rig.agent.rewind_files(point)
    assert tree(repository) == files
    assert state_of_git(repository) == before
    assert not (repository / ".git" / "index.lock").exists()
    assert git(repository, "status", "--porcelain") == status


async def test_replaced_git_object_is_not_content(repository: Path) -> None:
    (repository / "other").write_text("b\n")
    git(repository, "add", "other")
    git(repository, "replace", *git(repository, "rev-parse", ":a.txt", ":other").split())
    files = tree(repository)
    async with at_work(repository) as rig:
        point = await rig.run("echo changed > a.txt")
        await rig.agent.rewind_files(point)
    assert tree(repository) == files


@pytest.mark.parametrize("where", ["plain", "repository"])
async def test_directory_replaced_by_link_returns(where: str, request: pytest.FixtureRequest) -> None:
    cwd: Path = request.getfixturevalue(where)
    (cwd / "else").mkdir()
    (cwd / "else" / "b.txt").write_text("another\n")
    states = [tree(cwd)]
    async with at_work(cwd) as rig:
        points = [await rig.run("rm -r below; ln -s else below")]
        states.append(tree(cwd))
        points.append(await rig.run("rm below; mkdir below; echo 2 > below/b.txt"))
        for point, state in [*zip(points, states, strict=True)][::-1]:
            done = await rig.agent.rewind_files(point)
            assert (done.left, done.omitted) == ((), ())
            assert tree(cwd) == state


async def test_commit_and_branch_stay_in_rewind(repository: Path) -> None:
    files = tree(repository)
    async with at_work(repository) as rig:
        commit = f"git {' '.join(IDENTITY)} commit -qam second"
        point = await rig.run(f"git checkout -q -b other; echo more >> a.txt; git rm -q below/b.txt; {commit}")
        assert git(repository, "log", "--format=%s").split() == ["second", "first"]
        refs = git(repository, "for-each-ref")
        assert paths(await rig.agent.rewind_files(point)) == {"a.txt": "written", "b.txt": "created"}
        assert tree(repository) == files
        assert git(repository, "for-each-ref") == refs


async def test_ignored_files_are_kept_and_said(repository: Path) -> None:
    async with at_work(repository) as rig:
        point = await rig.run(
            "rm .gitignore; echo other > build/out; echo mine > fresh.log; mkdir -p n/m; echo > n/m/o"
        )
        done = await rig.agent.rewind_files(point)
        assert {Path(one.path).name for one in done.omitted} == {"out"}
        assert (repository / "build" / "out").read_text() == "other\n"
        assert not (repository / "fresh.log").exists()
        assert not (repository / "n").exists()
        assert (repository / ".gitignore").exists()


async def test_repeated_lines_are_counted_quickly(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would take a minute for 2,000 of them."""
    (plain / "a.txt").write_text("same\n" * 1_999)
    async with at_work(plain) as rig:
        point = await rig.run("sed -i 'n;s/same/other/' a.txt; echo >> below/b.txt")
        monkeypatch.setattr("difflib.SequenceMatcher", None)
        seen = await rig.agent.preview(point)
    assert {Path(one.path).name: (one.added, one.removed) for one in seen.changed} == {
        "a.txt": (999, 999),
        "b.txt": (0, 1),
    }


@pytest.mark.parametrize("where", ["plain", "repository"])
async def test_log_named_file_is_no_session(where: str, request: pytest.FixtureRequest) -> None:
    cwd: Path = request.getfixturevalue(where)
    (cwd / "root.jsonl").write_text('{"id":"data of somebody\'s own"}\n')
    before = tree(cwd)
    with Session.create_at(cwd / "another") as other:
        other.log().append(Opened(other.id, "root", str(cwd), {}))
        with Session.create_at(cwd / "empty"):
            async with at_work(cwd) as rig:
                point = await rig.run("echo more >> a.txt; echo x >> root.jsonl; echo x >> another/root.jsonl")
                assert paths(await rig.agent.rewind_files(point)) == {"a.txt": "written", "root.jsonl": "written"}
    after = tree(cwd)
    assert {name: after[name] for name in before} == before
    assert (cwd / "another" / "root.jsonl").read_text().endswith("x\n")


def test_unkeepable_file_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")

    def keep(_: bytes) -> str:
        raise FileNotFoundError(2, "No such file or directory")

    assert "No such file" in snapshot_module.read_state(os.fsencode(tmp_path / "a"), keep).why
    assert snapshot_module.read_state(os.fsencode(tmp_path / "b"), keep) == ABSENT


def test_endless_ignore_file_delays_once(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(repository / "below" / ".gitignore")
    root, stop = os.fsencode(repository.resolve()), snapshot_module.Stop()
    monkeypatch.setattr(snapshot_module, "SEARCH_TIMEOUT_SECONDS", 0.3)
    first = snapshot_module.take_snapshot(root, None, (), stop)
    monkeypatch.setattr(snapshot_module, "SEARCH_TIMEOUT_SECONDS", 60)
    timer = threading.Timer(10, stop.set)  # which raises, if git is waited for once more
    timer.start()
    try:
        second = snapshot_module.take_snapshot(root, first, (), stop)
    finally:
        timer.cancel()
    assert root + b"/a.txt" in first.files.keys() & second.files.keys()


def test_new_link_to_elsewhere_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "id").write_text("KEY")
    (tmp_path / "x").symlink_to("keys")
    kept: list[bytes] = []

    def keep(data: bytes) -> str:
        kept.append(data)
        return "0"

    state = snapshot_module.read_state(os.fsencode(tmp_path.resolve() / "x" / "id"), keep)
    assert state == ABSENT  # at that path itself
    assert kept == []


async def test_repository_change_keeps_old_files(plain: Path, repository: Path) -> None:
    (plain / "node_modules").mkdir()
    (plain / "node_modules" / "theirs").write_text("theirs")
    for cwd, command in ((plain, "git init -q ."), (repository, "rm -rf .git")):
        files = tree(cwd)
        async with at_work(cwd) as rig:
            point = await rig.run(f"{command}; echo x > x")
            done = await rig.agent.rewind_files(point)
            assert paths(done) == {"x": "deleted"}
            assert tree(cwd) == files


@later
@pytest.mark.parametrize("whose", ["mine", "its own", "mine, and it was added just now"])
async def test_line_ends_and_filters_of_work_tree(
    repository: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    (repository / ".gitattributes").write_text("*.crlf text eol=crlf\n*.secret filter=upper\n")
    settings = repository.parent / "settings" / "git"
    settings.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings.parent))
    config = ("--local",) if whose == "its own" else ("--file", str(settings / "config"))
    git(repository, "config", *config, "filter.upper.clean", "tr a-z A-Z")
    git(repository, "config", *config, "filter.upper.smudge", "touch smudged; tr A-Z a-z")
    git(repository, "config", *config, "filter.upper.required", "true")
    (repository / "one.crlf").write_bytes(b"one\r\ntwo\r\n")
    (repository / "two.secret").write_bytes(b"secret\n")
    at = 1e9 if whose == "mine" else time.time() + 60  # which is never before what git has added it with
    os.utime(repository / "two.secret", (at, at))
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "with attributes")
    async with at_work(repository) as rig:
        await rig.run("sleep 0.1")  # until times tell that nothing has changed
        point = await rig.run("echo changed > one.crlf; echo changed > two.secret")
        done = await rig.agent.rewind_files(point)
        assert (repository / "one.crlf").read_bytes() == b"one\r\ntwo\r\n"
        if whose != "mine":  # git is not asked, or had to run the filter to know: that is nobody's choice
            assert paths(done) == {"one.crlf": "written", "two.secret": "written"}
            assert (repository / "two.secret").read_bytes() == b"secret\n"
            return
        assert paths(done) == {"one.crlf": "written"}
        ((name, why),) = {(Path(one.path).name, one.why) for one in done.left}
        assert (name, "filter" in why) == ("two.secret", True)
        assert not (repository / "smudged").exists()


async def test_git_is_asked_once_if_nothing_changed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    git = snapshot_module.Stop.git

    def counted(stop: snapshot_module.Stop, root: bytes, *arguments: str, data: bytes = b"") -> bytes | None:
        asked.append(arguments[0])
        return git(stop, root, *arguments, data=data)

    monkeypatch.setattr(snapshot_module.Stop, "git", counted)
    async with at_work(repository) as rig:
        await asyncio.sleep(0.1)
        await rig.run("sleep 0.1; true; echo one > one")
        asked.clear()
        await asyncio.sleep(0.1)
        await rig.run("sleep 0.1; echo two >> a.txt")
        assert asked == ["ls-files", "cat-file", "check-attr"]
        await asyncio.sleep(0.1)
        (repository / "below" / "b.txt").write_text("theirs\n")
        (repository / "one").write_text("theirs as well\n")
        asked.clear()
        point = await rig.run("echo mine > below/b.txt; rm one a.txt")
        assert asked == ["ls-files"]
        (repository / "below" / "theirs").write_text("new\n")
        await rig.run("echo mine > below/theirs")
        assert paths(await rig.agent.rewind_files(point)) == {
            "b.txt": "written",
            "one": "created",
            "a.txt": "created",
            "theirs": "written",
        }
        assert (repository / "below" / "b.txt").read_text() == "theirs\n"
        assert (repository / "one").read_text() == "theirs as well\n"
        assert (repository / "a.txt").read_text() == "a\ntwo\n"
        assert (repository / "below" / "theirs").read_text() == "new\n"


async def test_change_git_ignores_by_flag_is_seen(repository: Path) -> None:
    git(repository, "config", "core.checkStat", "minimal")
    git(repository, "config", "core.trustctime", "false")
    file = repository / "a.txt"
    os.utime(file, (10**9, 10**9))
    git(repository, "update-index", "--refresh")
    draft = repository / "draft"
    draft.write_text("b\n")
    os.utime(draft, (10**9, 10**9))
    draft.replace(file)
    async with at_work(repository) as rig:
        point = await rig.run("echo more >> a.txt")
        await rig.agent.rewind_files(point)
    assert file.read_text() == "b\n"


@later
@pytest.mark.parametrize("roots", [["below", "empty"], ["empty"], ["", "empty"], ["build", "empty", "below"]])
@pytest.mark.parametrize("where", ["plain", "repository"])
async def test_nested_directories_count_once(where: str, roots: list[str], request: pytest.FixtureRequest) -> None:
    cwd: Path = request.getfixturevalue(where)
    (cwd / "empty").mkdir()
    before = tree(cwd)
    async with at_work(cwd) as rig:
        rig.agent.state.workspace.roots = tuple(cwd / root for root in roots)
        point = await rig.run("mkdir empty/new; echo x > empty/x; echo y > empty/new/y")
        await rig.run("rm -r empty below/b.txt; mkdir empty; echo z > empty/x")
        done = await rig.agent.rewind_files(point)
    assert (done.left, done.omitted) == ((), ())
    covered = {name for name in before if where == "repository" or any(name.startswith(root) for root in roots)}
    assert {name: tree(cwd).get(name) for name in covered} == {name: before[name] for name in covered}
    assert list((cwd / "empty").iterdir()) == []


async def test_linked_work_tree_costs_no_more(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-q", str(linked))
    asked: list[tuple[str, ...]] = []
    ask = snapshot_module.Stop.git

    def counted(stop: snapshot_module.Stop, root: bytes, *arguments: str, data: bytes = b"") -> bytes | None:
        asked.append(arguments)
        return ask(stop, root, *arguments, data=data)

    monkeypatch.setattr(snapshot_module.Stop, "git", counted)
    async with at_work(linked) as rig:
        for each in range(3):
            await asyncio.sleep(0.1)
            asked.clear()
            point = await rig.run(f"echo {each} > new{each}")
        assert [("-m" in each, each[0]) for each in asked] == [(False, "ls-files")]
        (repository / ".git" / "info" / "exclude").write_text("new*\n")
        await rig.run("echo 3 > new3")
        assert paths(await rig.agent.rewind_files(point)) == {"new2": "deleted"}
    assert {each.name for each in linked.iterdir()} == {".git", ".gitignore", "a.txt", "below", "new0", "new1", "new3"}


async def test_tree_without_repository_is_plain(plain: Path) -> None:
    (plain / ".git").write_bytes(b"gitdir: a\0b")
    async with at_work(plain) as rig:
        point = await rig.run("echo b >> a.txt")
        assert paths(await rig.agent.rewind_files(point)) == {"a.txt": "written"}


@pytest.mark.parametrize("where", ["plain", "repository"])
async def test_moved_in_directory_is_not_deleted(where: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    cwd: Path = request.getfixturevalue(where)
    theirs, linked = tmp_path / "theirs", tmp_path / "linked"
    theirs.write_text("the only copy\n")
    linked.write_text("one of two\n")
    if born(os.fsencode(theirs)) is None:
        pytest.skip("this file system does not tell when a file was made")
    await asyncio.sleep(2 * SETTLED_NS / 1e9)
    async with at_work(cwd) as rig:
        point = await rig.run(f"mv {theirs} below/c; ln {linked} below/d; mv below/b.txt e; cp -p a.txt f; echo x > g")
        await rig.run("mv e below/e; mv g below/g")
        done = await rig.agent.rewind_files(point)
    assert [(Path(one.path).name, one.why) for one in done.left] == [("c", MOVED_HERE)]
    assert {each.name for each in (cwd / "below").iterdir()} == {"b.txt", "c"}
    assert not {"e", "f", "g"} & {each.name for each in cwd.iterdir()}


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["plain", "repository"])
async def test_too_large_file_is_said(where: str, request: pytest.FixtureRequest) -> None:
    cwd: Path = request.getfixturevalue(where)
    (cwd / "there.bin").write_bytes(b"1" * 10_000_000)
    async with at_work(cwd) as rig:
        point = await rig.run("head -c 10000000 /dev/zero > large.bin; echo 2 >> there.bin; echo x > a.txt")
        done = await rig.agent.rewind_files(point)
        assert paths(done) == {"a.txt": "written"}
        assert {(Path(one.path).name, "1 MiB" in one.why) for one in done.left} == {
            ("large.bin", True),
            ("there.bin", True),
        }
        assert {one.path for one in done.left} == {one.path for one in done.omitted}
        assert (cwd / "large.bin").stat().st_size == 10_000_000
        assert sum(file.stat().st_size for file in rig.agent.log.blobs.scratch().parent.iterdir()) < 1_000


@pytest.mark.parametrize("where", ["plain", "repository"])
async def test_too_many_files_are_said(
    where: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cwd: Path = request.getfixturevalue(where)
    for number in range(60):
        (cwd / f"file{number}").touch()
    for most in ("MAX_FILES", "MAX_WATCHED_FILES"):
        monkeypatch.setattr(snapshot_module, most, 50)
    async with at_work(cwd) as rig:
        point = await rig.run("echo x > a.txt")
        await rig.write("below/new.txt", "by a tool\n")
        await rig.run("echo y > a.txt")
        done = await rig.agent.rewind_files(point)
        ((path, why),) = {(one.path, one.why) for one in done.omitted}
        assert (path, "files" in why) == (str(cwd), True)
        assert paths(done) == {"new.txt": "deleted"}
        assert (cwd / "a.txt").read_text() == "y\n"


async def test_memory_for_contents_is_limited(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        (plain / f"file{number}").write_text(str(number) * 1_000)
    monkeypatch.setattr(snapshot_module, "MAX_HELD_BYTES", 5_000)
    async with at_work(plain) as rig:
        point = await rig.run("for n in 0 1 2 3 4 5 6 7 8 9; do echo x > file$n; done")
        done = await rig.agent.rewind_files(point)
        assert 0 < len(done.changed) < 10
        assert len(done.changed) + len(done.left) == 10
        for change in done.changed:
            assert Path(change.path).read_text() == Path(change.path).name[-1] * 1_000


def touched_entries(agent: Agent) -> list[Touched]:
    return list(contents(agent.log.entries(), Touched))


async def test_looking_costs_no_checkpoint(repository: Path) -> None:
    async with at_work(repository) as rig:
        await rig.do(("Read", {"file_path": "a.txt"}), ("Bash", {"command": "ls -la && git status | head -3"}))
        assert touched_entries(rig.agent) == []


@pytest.mark.parametrize(
    ("command", "looks"),
    [
        ("ls -la | head", True),
        ("cd below && cat b.txt 2>/dev/null", True),
        ("echo x > file", False),
        ("PAGER=./run git log", False),
        ("git status; ./run", False),
        ("cat $(./run)", False),
        ("find . -delete", False),
        ("bash -c 'cat a.txt'", True),
        ("bash -c 'rm a.txt'", False),
    ],
)
def test_commands_that_only_look(command: str, looks: bool) -> None:
    assert only_looks(command) is looks


async def test_without_log_named_files_are_covered(plain: Path) -> None:
    steps = [
        (call("1", "Read", file_path="a.txt"), call("2", "Write", file_path="a.txt", content="x")),
        (call("3", "Bash", command="echo y > below/b.txt"),),
        "done",
    ]
    agent = Agent(
        ScriptedModel(*steps), tools=(Bash(), Read(), Write()), resources=Resources(workspace=Workspace(plain))
    )
    await agent.run("do it")
    done = await agent.rewind_files("")
    assert paths(done) == {"a.txt": "written"}
    assert (plain / "below" / "b.txt").read_text() == "y\n"
    await agent.aclose()


# -- others ------------------------------------------------------------------------------------------------------------


async def test_foreign_change_is_left_alone(plain: Path) -> None:
    async with at_work(plain) as rig:
        point = await rig.run("echo 1 > one; echo 2 > two; echo 3 > three; echo 4 > a.txt; mkdir d; echo 5 > d/five")
        (plain / "one").write_text("theirs\n")
        (plain / "two").chmod(0o600)
        (plain / "a.txt").unlink()
        (plain / "d" / "theirs").write_text("theirs\n")
        await rig.run("echo and mine >> one")
        done = await rig.agent.rewind_files(point)
        assert {Path(one.path).name: one.why for one in done.left} == {"one": BETWEEN, "two": ELSE, "a.txt": ELSE}
        assert (plain / "one").read_text() == "theirs\nand mine\n"
        assert not (plain / "three").exists()
        assert not (plain / "a.txt").exists()
        assert [path.name for path in (plain / "d").iterdir()] == ["theirs"]


async def test_directory_made_link_is_not_followed(plain: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with at_work(plain) as rig:
        point = await rig.run("echo changed > below/b.txt")
        (plain / "below").rename(elsewhere / "below")
        (plain / "below").symlink_to(elsewhere / "below")
        done = await rig.agent.rewind_files(point)
        assert done.changed == ()
        assert len(done.left) == 1
        assert (elsewhere / "below" / "b.txt").read_text() == "changed\n"


async def test_swapped_files_and_directories(plain: Path) -> None:
    before = tree(plain)
    async with at_work(plain) as rig:
        point = await rig.run("rm a.txt; mkdir a.txt; echo x > a.txt/x; rm -r below; echo y > below")
        after, tip = tree(plain), rig.agent.log.head
        assert (await rig.agent.rewind_files(point)).left == ()
        assert tree(plain) == before
        assert (await rig.agent.rewind_files(tip)).left == ()
        assert tree(plain) == after


ODD = ("new\nline", "caf\u00e9 \u65e5\u672c", "'quo\"te$'", os.fsdecode(b"not \xff utf-8"), "-dash", "tab\tand\x01")


@pytest.mark.parametrize("where", ["plain", "repository"])
async def test_odd_names(where: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    cwd: Path = request.getfixturevalue(where)
    for name in ODD:
        (cwd / name).write_text("before\n")
    (cwd / "link").symlink_to(ODD[3])
    before = tree(cwd)
    with Session.create(tmp_path / "state", cwd) as session:
        session.log().append(Opened(session.id, "root", str(cwd), {}))
        rig = desk_of(cwd, session.log())
        point = await rig.run('rm link; for f in *; do [ -f "$f" ] && echo x > "./$f" && mv -- "$f" "./$f.moved"; done')
        after, tip = tree(cwd), rig.agent.log.head
        assert len(after.keys() - before.keys()) > len(ODD)
        assert (await rig.agent.rewind_files(point)).left == ()
        assert tree(cwd) == before
        assert (await rig.agent.rewind_files(tip)).left == ()
        assert tree(cwd) == after
        await rig.agent.aclose()
    assert faults(session.path) == []


# -- calls at the same time, cut off, of others ------------------------------------------------------------------------


async def test_interrupted_call_is_told_of(plain: Path) -> None:
    async with at_work(plain) as rig:
        run = asyncio.create_task(rig.run("echo x > x; sleep 60"))
        await until((plain / "x").exists, task=run)
        rig.agent.interrupt()
        await run
        assert paths(await rig.agent.preview("")) == {"x": "deleted"}


async def test_job_is_blamed_for_its_own_changes(plain: Path) -> None:
    async with at_work(plain) as rig:
        point = rig.agent.log.head
        waits = "while [ ! -e go ]; do sleep 0.02; done; echo job > job.txt"
        rig.steps += [
            (call("job", "Bash", command=waits, background=True),),
            (call("tool", "Write", file_path="tool.txt", content="tool\n"),),
            (call("other", "Bash", command="echo other > other.txt"),),
            (call("go", "Write", file_path="go", content=""),),  # not before the other has ended
            *["done"] * 3,
        ]
        await rig.agent.run("do it")
        ended = [each for each in touched_entries(rig.agent) if each.ended]
        found = {each.call: {Path(touch.path).name for touch in each.files} for each in ended}
        assert found == {"tool": {"tool.txt"}, "other": {"other.txt"}, "go": {"go"}, "job": {"job.txt"}}
        assert {each.call: each.beside for each in ended} == {
            "tool": (),
            "other": ("job",),
            "go": (),
            "job": ("other",),
        }
        await rig.agent.rewind_files(point)
        assert set(tree(plain)) == {"a.txt", "below/b.txt"}


@pytest.mark.costly
@pytest.mark.parametrize("where", ["plain", "repository"])
@pytest.mark.parametrize("other", ["Write", "Bash"])
async def test_job_change_before_other_call_returns(other: str, where: str, request: pytest.FixtureRequest) -> None:
    cwd: Path = request.getfixturevalue(where)
    cwd.joinpath("seen.txt").write_text("seen\n")
    before = tree(cwd)
    changes = "echo A > a.txt; echo A > new; touch half; while [ ! -e go ]; do sleep 0.01; done; echo end > end"
    second = {
        "Write": call("write", "Write", file_path="a.txt", content="B\n"),
        "Bash": call("bash", "Bash", command="echo B > a.txt; echo B > new"),
    }
    async with at_work(cwd) as rig:
        point = rig.agent.log.head
        rig.steps += [
            (
                call("job", "Bash", command=changes, background=True),
                call("wait", "Bash", command="while [ ! -e half ]; do sleep 0.01; done"),
            ),
            (call("read", "Read", file_path="a.txt"),),
            (second[other],),
            (call("go", "Write", file_path="go", content=""),),
            *["done"] * 3,
        ]
        await rig.agent.run("do it")
        assert cwd.joinpath("a.txt").read_text() == "B\n"
        done = await rig.agent.rewind_files(point)
        assert not done.left
        assert tree(cwd) == before


async def test_writes_of_one_reply_are_rewound(plain: Path) -> None:
    before = tree(plain)
    async with at_work(plain) as rig:
        point = await rig.do(
            ("Bash", {"command": "echo A > a.txt; touch half; while [ ! -e go ]; do sleep 0.01; done; rm half go"}),
            ("Bash", {"command": "while [ ! -e half ]; do sleep 0.01; done; echo B > a.txt; touch go"}),
        )
        done = await rig.agent.rewind_files(point)
        assert not done.left
        assert tree(plain) == before


async def test_job_is_not_blamed_for_similar_name(plain: Path) -> None:
    elsewhere = plain.with_name("plainly") / "new" / "tool.txt"
    async with at_work(plain) as rig:
        point = rig.agent.log.head
        rig.steps += [
            (call("job", "Bash", command="while [ ! -e go ]; do sleep 0.02; done; echo > own", background=True),),
            (call("tool", "Write", file_path=str(elsewhere), content="tool\n"),),
            (call("other", "Bash", command=f"echo somebody else > {elsewhere}; touch go"),),
            *["done"] * 3,
        ]
        await rig.agent.run("do it")
        wrote = [each.call for each in touched_entries(rig.agent) for touch in each.files if "tool" in touch.path]
        assert set(wrote) == {"tool"}
        done = await rig.agent.rewind_files(point)
        assert [(Path(one.path), one.why) for one in done.left] == [(elsewhere, ELSE)]
        assert elsewhere.read_text() == "somebody else\n"


async def test_job_is_not_blamed_for_ignored_files(repository: Path) -> None:
    """Though it was told of it when a tool wrote it meanwhile."""
    async with at_work(repository) as rig:
        point = rig.agent.log.head
        rig.steps += [
            (call("job", "Bash", command="while [ ! -e go ]; do sleep 0.02; done; echo > own", background=True),),
            (call("tool", "Write", file_path="build/tool.txt", content="tool\n"),),
            (call("other", "Bash", command="echo somebody else > build/tool.txt; touch go"),),
            *["done"] * 3,
        ]
        await rig.agent.run("do it")
        wrote = [each.call for each in touched_entries(rig.agent) for touch in each.files if "tool" in touch.path]
        assert set(wrote) == {"tool"}
        done = await rig.agent.rewind_files(point)
        assert [(Path(one.path).name, one.why) for one in done.left] == [("tool.txt", ELSE)]
        assert (repository / "build" / "tool.txt").read_text() == "somebody else\n"


async def test_changes_of_children_are_rewound(plain: Path) -> None:
    def work(name: str) -> Callable[..., object]:
        return in_turn(
            (call("1", "Write", file_path=name, content=name), call("2", "Bash", command=f"echo > {name}.sh")), "ok"
        )

    spawn = call("s1", "AgentSpawn", prompt="write", name="a")
    again = call("s2", "AgentSpawn", prompt="write", name="b")
    model = Cast(root=in_turn((spawn,), "done", (again,), "done"), root__a=work("a"), root__b=work("b"))  # pyright: ignore[reportArgumentType]
    log = MemoryLog()
    agent = root_of(model, log=log, workspace=Workspace(plain))
    agent.state.tools = {**agent.state.tools, "Write": Write(), "Bash": Bash()}
    log.append(Unknown("opened", {}))
    start = log.head
    await agent.run("first")
    middle = log.head
    await agent.run("second")
    assert paths(await agent.preview(middle)) == {"b": "deleted", "b.sh": "deleted"}
    assert len((await agent.preview(start)).changed) == 4
    await agent.rewind_files(middle)
    assert set(tree(plain)) == {"a.txt", "below/b.txt", "a", "a.sh"}
    await agent.rewind_files(start)
    assert set(tree(plain)) == {"a.txt", "below/b.txt"}
    await agent.aclose()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_checkpoints import desk_of
from sagent.session.store import Session
from sagent.tool import Effect
from sagent.lib.json import json_freeze_object

cwd = Path(sys.argv[2])

class Dies:
    name, description = "Dies", "writes and dies"
    parameters = json_freeze_object({"type": "object"})
    def __init__(self, name, effect): self.name, self._effect = name, effect
    def effect(self, arguments, workspace): return self._effect
    async def __call__(self, arguments, run):
        (cwd / "a.txt").write_text("half\\n")
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    with Session.open(Path(sys.argv[1])) as session:
        kinds = {"write": Effect("write", (cwd / "a.txt",)), "execute": Effect("execute")}
        rig = desk_of(cwd, session.log(), *(Dies(f"Dies-{kind}", effect) for kind, effect in kinds.items()))
        await rig.write("below/b.txt", "whole\\n")
        await rig.do((f"Dies-{sys.argv[4]}", {}))

asyncio.run(main())
"""


@later
@pytest.mark.costly
@pytest.mark.parametrize("kind", ["write", "execute"])
async def test_killed_process_leaves_honest_record(kind: str, plain: Path, tmp_path: Path) -> None:
    with Session.create(tmp_path / "state", plain) as session:
        session.log().append(Opened(session.id, "root", str(plain), {}))
        point = session.log().head
    argv = [
        sys.executable,
        "-c",
        KILLED.replace("\\\\", "\\"),
        str(session.path),
        str(plain),
        str(Path(__file__).parent),
        kind,
    ]
    done = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    with Session.open(session.path) as again:
        rig = desk_of(plain, again.log())
        await rig.agent.resume()
        later = again.log().head
        done = await rig.agent.rewind_files(point)
        assert paths(done) == {"b.txt": "written"}
        told = done.left if kind == "write" else done.omitted
        assert [(one.path, one.why) for one in told] == [(str(plain / "a.txt" if kind == "write" else plain), NOT_SEEN)]
        assert (plain / "a.txt").read_text() == "half\n"
        assert not (await rig.agent.preview(again.log().head)).omitted
        await rig.agent.rewind_files(later)
        assert (plain / "below" / "b.txt").read_text() == "whole\n"
        await rig.agent.aclose()
    assert faults(session.path) == []


KILLED_REWIND = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_checkpoints import desk_of
from sagent.session.store import Session

async def main():
    with Session.open(Path(sys.argv[1])) as session:
        rig = desk_of(Path(sys.argv[2]), session.log())
        await rig.agent.resume()
        os.fchmod = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        await rig.agent.rewind_files(sys.argv[4])

asyncio.run(main())
"""


@later
@pytest.mark.needs("linux")
async def test_killed_rewind_can_be_redone(plain: Path, tmp_path: Path) -> None:
    before = tree(plain)
    with Session.create(tmp_path / "state", plain) as session:
        session.log().append(Opened(session.id, "root", str(plain), {}))
        rig = desk_of(plain, session.log())
        point = await rig.run("echo x > a.txt; echo y > below/b.txt")
        after = tree(plain)
        await rig.agent.aclose()
    argv = [sys.executable, "-c", KILLED_REWIND, str(session.path), str(plain), str(Path(__file__).parent), point]
    done = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert tree(plain) == after
    with Session.open(session.path) as again:
        rig = desk_of(plain, again.log())
        await rig.agent.resume()
        await rig.agent.rewind_files(point)
        await rig.agent.aclose()
    assert tree(plain) == before


async def test_session_copy_rewinds_same_files(plain: Path, tmp_path: Path) -> None:
    with Session.create(tmp_path / "state", plain) as session:
        session.log().append(Opened(session.id, "root", str(plain), {}))
        rig = desk_of(plain, session.log())
        point = await rig.run("echo x > a.txt")
        await rig.agent.aclose()
    path = copy(session.path, tmp_path / "state", plain)
    with Session.open(path) as again:
        rig = desk_of(plain, again.log())
        await rig.agent.resume()
        await rig.agent.rewind_files(point)
        await rig.agent.aclose()
    assert (plain / "a.txt").read_text() == "a\n"
    assert faults(path) == []


def watches() -> int:
    """How many this process holds."""
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return sum(os.path.lexists(link) and os.readlink(link) == "anon_inode:inotify" for link in links)


@pytest.mark.needs("linux")
async def test_closed_agent_drops_its_watches(plain: Path) -> None:
    before = watches()
    async with at_work(plain) as rig:
        point = await rig.run("echo x > a.txt")
        assert watches() > before
        rig.agent.neighbours.close()
        assert watches() == before
        await rig.run("echo y > a.txt")
        await rig.agent.rewind_files(point)
    assert watches() == before
    assert (plain / "a.txt").read_text() == "a\n"


@later
async def test_cut_off_rewind_can_be_redone(plain: Path) -> None:
    before = tree(plain)
    async with at_work(plain) as rig:
        point = await rig.run("for n in $(seq 400); do echo $n > $n; done; rm a.txt")
        tip = rig.agent.log.head
        after = tree(plain)
        for _ in range(deep(2, 3)):
            task = asyncio.create_task(rig.agent.rewind_files(point))
            while not task.done() and len(os.listdir(plain)) > 250:
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.wait([task])
            assert (await rig.agent.rewind_files(point)).left == ()
            assert tree(plain) == before
            assert (await rig.agent.rewind_files(tip)).left == ()
            assert tree(plain) == after


async def test_unrecordable_rewind_changes_nothing(plain: Path) -> None:
    async with at_work(plain) as rig:
        point = await rig.run("echo more >> a.txt")
        after = tree(plain)
        rig.agent.state.journal.lost = True
        with pytest.raises(UsageError, match="log cannot be written"):
            await rig.agent.rewind_files(point)
        assert tree(plain) == after


def test_agent_runs_in_successive_loops(plain: Path) -> None:
    def calls(turn: int) -> tuple[ToolCall, ...]:
        return tuple(
            call(f"{turn}.{number}", "Write", file_path=f"{turn}.{number}", content="x") for number in range(4)
        )

    model = ScriptedModel(calls(1), "done", calls(2), "done")
    agent = Agent(model, tools=(Write(),), resources=Resources(log=MemoryLog(), workspace=Workspace(plain)))
    for _ in range(2):
        assert agent.run_sync("do it").content == "done"
    assert len(asyncio.run(agent.rewind_files("")).changed) == 8
    assert set(tree(plain)) == {"a.txt", "below/b.txt"}


# -- whatever happens --------------------------------------------------------------------------------------------------

NAMES = ("a", "d/b", "d/e/c", "f/new\nline", os.fsdecode(b"f/not \xff utf-8"), "f/\u65e5\u672c")
Step = tuple[str, str, str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("tool", "command", "command", "theirs")),
        st.sampled_from(("write", "write", "delete", "move", "mode", "link", "clear")),
        st.sampled_from(NAMES),
        st.integers(0, len(NAMES) - 1),
    ),
    min_size=1,
    max_size=7,
)


def change_file(root: Path, what: str, name: str, other: str, number: int) -> None:
    """Do something to a file, where it can be done."""
    path, target = root / name, root / other
    there = os.path.lexists(path)
    match what:
        case "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():
                path.unlink()
            path.write_text(f"{number}\n")
        case "delete" if there:
            path.unlink()
        case "move" if there and name != other:
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        case "mode" if there and not path.is_symlink():
            path.chmod(0o644 if path.stat().st_mode & 0o100 else 0o755)
        case "link":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.symlink_to(f"to {number}")
        case "clear" if path.parent != root:
            shutil.rmtree(path.parent, ignore_errors=True)


class Change:
    """A tool of which nobody knows what it does."""

    name, description = "Change", "does something"
    parameters = json_freeze_object({"type": "object"})
    work: Callable[[], None]

    async def __call__(self, arguments: JsonObject, run: RunContext) -> str:
        del arguments, run
        self.work()
        return "done"


async def wind_through(cwd: Path, steps: list[Step], back: int) -> None:
    """Do the steps, go back to before one of them, and forth again."""
    change = Change()
    seen: list[tuple[str, dict[str, object], dict[str, object]]] = []  # before each: the entry, and files
    theirs: list[set[str]] = []
    async with at_work(cwd, change) as rig:
        for number, (who, what, name, other) in enumerate(steps):
            before, entry = tree(cwd), rig.agent.log.head
            if who == "tool":
                quoted = quote_path(name)
                await rig.do(
                    ("Read", {"file_path": quoted}), ("Write", {"file_path": quoted, "content": f"{number}\n"})
                )
            else:
                change.work = partial(change_file, cwd, what, name, NAMES[other], number)
                await (rig.do(("Change", {})) if who == "command" else asyncio.to_thread(change.work))
            after = tree(cwd)
            seen.append((entry, before, after))
            differs = {each for each in before.keys() | after.keys() if before.get(each) != after.get(each)}
            theirs.append(differs if who == "theirs" else set())
        place = back % len(steps)
        entry, wanted, _ = seen[place]
        untouchable = set().union(*theirs[place:])
        now, tip = tree(cwd), rig.agent.log.head
        done = await rig.agent.rewind_files(entry)
        found = tree(cwd)
        for name in wanted.keys() | now.keys() | found.keys():
            by_others = [after.get(name) for (*_, after), names in zip(seen, theirs, strict=True) if name in names]
            expected = [now.get(name), *by_others] if name in untouchable else [wanted.get(name)]
            assert found.get(name) in expected, name
        assert {Path(one.path).relative_to(cwd).as_posix() for one in done.left} <= untouchable
        assert done.omitted == ()
        assert (await rig.agent.rewind_files(tip)).left == ()
        assert tree(cwd) == now
        assert not list(cwd.rglob(".sagent-*"))


@settings(max_examples=deep(12, 40), deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
@given(steps=STEPS, back=st.integers(0, 6), in_git=st.booleans())
def test_any_point_returns_but_for_others(steps: list[Step], back: int, *, in_git: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        cwd = Path(directory).resolve()
        for name in NAMES[:3]:
            (cwd / name).parent.mkdir(parents=True, exist_ok=True)
            (cwd / name).write_text("first\n")
        if in_git:
            git(cwd, "init", "-q", "-b", "main")
            git(cwd, "add", ".")
            git(cwd, "commit", "-q", "-m", "first")
        before = state_of_git(cwd) if in_git else None
        asyncio.run(wind_through(cwd, steps, back))
        assert (state_of_git(cwd) if in_git else None) == before
