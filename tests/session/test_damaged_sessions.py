"""What is there of a session and cannot be opened as one is never gone on with as if it were new."""

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from sagent import Agent
from sagent.agent import Resources
from sagent.app import open_agent
from sagent.config import load
from sagent.config.plugin_index import INDEX
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import SagentError, SessionCorrupt, SessionNotFound, UsageError
from sagent.events import Notice
from sagent.messages import user
from sagent.session.contents import MessageEntry, StoredMessage
from sagent.session.folds import spend
from sagent.session.lock import Lock
from sagent.session.log import read_agent, read_log
from sagent.session.store import Session, copy, delete, find, is_damaged, latest, log_files, sessions
from sagent.testing import ScriptedModel
from tests.agent.cast import PRICES, Cast, tree_tools
from tests.messages import call, in_turn


def in_place_of_log(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(session: Path) -> None:
        (session / "root.jsonl").unlink()
        make(session / "root.jsonl")

    return damage


def leave_the_lock(session: Path) -> None:
    """Remove all but the lock, as of a session without blobs only its log can be lost."""
    shutil.rmtree(session / "blobs")
    (session / "root.jsonl").unlink()


def cut_first_line(session: Path) -> None:
    (session / "root.jsonl").write_bytes((session / "root.jsonl").read_bytes()[:20])


def change_first_line(session: Path) -> None:
    text = (session / "root.jsonl").read_bytes()
    (session / "root.jsonl").write_bytes(text.replace(b'"kind":"opened"', b'"kind":"closed"', 1))


def drop_second_line(session: Path) -> None:
    lines = (session / "root.jsonl").read_bytes().splitlines(keepends=True)
    (session / "root.jsonl").write_bytes(b"".join([lines[0], *lines[2:]]))


def empty_all(session: Path) -> None:
    """Empty the log of a session that has nothing else, a minute after it was made."""
    shutil.rmtree(session / "blobs")
    (session / "root.jsonl").write_bytes(b"")
    later = time.time() + 60
    os.utime(session / "root.jsonl", (later, later))


def leave(*names: str) -> Callable[[Path], None]:
    """Leave only some names of what a session may have, none of which is its log."""

    def damage(session: Path) -> None:
        shutil.rmtree(session)
        for name in names:
            (session / name).parent.mkdir(parents=True, exist_ok=True)
            (session / name).write_text("x")

    return damage


def empty_blobs(session: Path) -> None:
    shutil.rmtree(session)
    (session / "blobs").mkdir(parents=True)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty log": lambda session: (session / "root.jsonl").write_bytes(b""),
    "nothing but an emptied log": empty_all,
    "nothing but a lock": leave_the_lock,
    "log missing": in_place_of_log(lambda path: None),
    "directory": in_place_of_log(Path.mkdir),
    "FIFO": in_place_of_log(os.mkfifo),
    "circle of links": in_place_of_log(lambda path: path.symlink_to(path.name)),
    "link to nowhere": in_place_of_log(lambda path: path.symlink_to("gone")),
    "a file in its place": lambda session: (shutil.rmtree(session), session.write_text("x")),
    "a link to nowhere in its place": lambda session: (shutil.rmtree(session), session.symlink_to("gone")),
    "nothing but outputs": leave("outputs/" + "a" * 64),
    "nothing but a signature": leave("signed.json", "signed.json.sig"),
    "nothing but a log that was renamed": leave("root.jsonl.bak"),
    "nothing but an empty directory of blobs": empty_blobs,
    "cut first line": cut_first_line,
    "changed first line": change_first_line,
    "missing second line": drop_second_line,
}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def session_of(state: Path, cwd: Path) -> Path:
    with Session.create(state, cwd) as session:
        session.begin(cwd)
        log = session.log()
        for text in ("one", "two"):
            log.append(MessageEntry(StoredMessage.of(user(text), None)))
        log.blobs.put(b"x" * 100)
    return session.path


def files_of(place: Path) -> list[Path]:
    """All files but locks, and the index of plugins, which any run may write."""
    names = (path.relative_to(place) for path in place.rglob("*"))
    return sorted(name for name in names if name.name not in ("lock", INDEX))


@pytest.mark.costly
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_no_door_begins_anew(damage: Callable[[Path], object], state: Path, tmp_path: Path) -> None:
    older, broken = session_of(state, tmp_path), session_of(state, tmp_path)
    os.utime(older / "root.jsonl", (1, 1))
    damage(broken)
    before = files_of(tmp_path)
    async with asyncio.timeout(60):
        assert latest(state, tmp_path) == broken, "the older one is not taken in its place"
        assert find(state, broken.name) == broken
        with pytest.raises(SessionCorrupt):
            Session.open(broken)
        with pytest.raises(SagentError):
            Agent(ScriptedModel("hi"), session=broken)
        with pytest.raises(SessionCorrupt):
            Agent.open(broken)
        named = [{"session": str(broken)}, {"session": broken.name}, {"fork": broken.name}]
        for flags in ({"continue_session": True}, *named):
            environment = {"HOME": str(tmp_path), "SAGENT_STATE_DIR": str(state), "ANTHROPIC_API_KEY": "k" * 20}
            settings = load({"model": "anthropic/claude-sonnet-4-6", **flags}, environment, tmp_path)
            with pytest.raises(SessionCorrupt, match=broken.name):
                async with open_agent(settings, lambda _: None):
                    pass
    assert files_of(tmp_path) == before


def replace(way: Path, make: Callable[[Path], object]) -> None:
    shutil.rmtree(way)
    make(way)


WAYS: dict[str, Callable[[Path], object]] = {
    "file": lambda way: way.write_text("x"),
    "link to nowhere": lambda way: way.symlink_to("gone"),
    "circle of links": lambda way: way.symlink_to(way.name),
}


@pytest.mark.parametrize("above", [1, 2, 3])
@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
async def test_unreachable_session_is_not_begun_anew(
    make: Callable[[Path], object], above: int, state: Path, tmp_path: Path
) -> None:
    session = session_of(state, tmp_path)
    replace(session.parents[above - 1], make)
    with pytest.raises(SagentError):
        Agent(ScriptedModel("hi"), session=session)
    named = [{"session": str(session)}, {"session": session.name}, {"fork": session.name}]
    for flags in ({"continue_session": True}, *named):
        environment = {"HOME": str(tmp_path), "SAGENT_STATE_DIR": str(state), "ANTHROPIC_API_KEY": "k" * 20}
        settings = load({"model": "anthropic/claude-sonnet-4-6", **flags}, environment, tmp_path)
        with pytest.raises(SagentError, match=r"cannot be opened|which does not exist|no session "):
            async with open_agent(settings, lambda _: None):
                pass


def test_id_of_no_session_begins_none(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFound):
        Agent(ScriptedModel("hi"), session=tmp_path / "20260101-101010-abcdef")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("above", [0, 1, 2])
@pytest.mark.needs("not-root")
def test_unreadable_session_is_not_begun_anew(above: int, state: Path, tmp_path: Path) -> None:
    session = session_of(state, tmp_path)
    closed = [session, *session.parents][above]
    closed.chmod(0)
    try:
        for flags in ({"continue_session": True}, {"session": session.name}, {"session": str(session)}):
            environment = {"HOME": str(tmp_path), "SAGENT_STATE_DIR": str(state), "ANTHROPIC_API_KEY": "k" * 20}
            settings = load({"model": "anthropic/claude-sonnet-4-6", **flags}, environment, tmp_path)

            async def go() -> None:
                async with open_agent(settings, lambda _: None):  # noqa: B023 -- run at once
                    pass

            with pytest.raises(UsageError, match="Permission denied"):
                asyncio.run(go())
    finally:
        closed.chmod(0o700)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to(path.name)])
async def test_irregular_child_log_is_refused(make: Callable[[Path], object], state: Path, tmp_path: Path) -> None:
    path = session_of(state, tmp_path)
    (path / "root").mkdir()
    make(path / "root/child.jsonl")
    async with asyncio.timeout(60):
        with Session.open(path) as session:
            with pytest.raises((SessionCorrupt, OSError), match=r"child\.jsonl is .*, not a log|symbolic links"):
                session.log("root/child")
            with pytest.raises((SessionCorrupt, OSError), match=r"child\.jsonl is .*, not a log|symbolic links"):
                list(read_agent(session.log(), "root/child"))


async def test_fifo_is_not_waited_for(state: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    async with asyncio.timeout(60):
        with pytest.raises(SessionCorrupt, match="is a FIFO, not a log"):
            list(read_log(tmp_path / "log"))


def test_empty_killed_session_is_skipped(state: Path, tmp_path: Path) -> None:
    older = session_of(state, tmp_path)
    with Session.create(state, tmp_path) as session:
        pass
    shutil.rmtree(session.path / "blobs", ignore_errors=True)
    assert latest(state, tmp_path) == older


def test_unreadable_log_is_not_replaced(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = session_of(state, tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path / "root.jsonl"))

    monkeypatch.setattr("sagent.session.store.FileLog", refuse)
    environment = {"HOME": str(tmp_path), "SAGENT_STATE_DIR": str(state), "ANTHROPIC_API_KEY": "k" * 20}
    settings = load({"model": "anthropic/claude-sonnet-4-6", "session": path.name}, environment, tmp_path)

    async def go() -> None:
        async with open_agent(settings, lambda _: None):
            pass

    with pytest.raises(UsageError, match=r"cannot be opened for writing: .*Permission denied"):
        asyncio.run(go())


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_rest_of_a_session_is_deleted(damage: Callable[[Path], object], state: Path, tmp_path: Path) -> None:
    broken = session_of(state, tmp_path)
    damage(broken)
    delete(find(state, broken.name))
    assert not broken.exists()


def test_failed_session_leaves_nothing(state: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        Session.create(state, tmp_path).begin(tmp_path, strange=object())
    assert not list(sessions(state, tmp_path))


def test_foreign_lock_makes_no_session(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("4711\n")
    (tmp_path / "notes").write_text("x")
    with pytest.raises(SessionNotFound):
        Session.open(tmp_path)


def test_session_at_dangling_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(tmp_path / "gone")
    with pytest.raises(UsageError, match="which does not exist"):
        Session.create_at(tmp_path / "mine")


async def family_of(path: Path) -> None:
    """A session whose root has a child that has answered and one that lives on, which has a child itself."""
    spawns = [call("1", "AgentSpawn", prompt="a", name="once")]
    spawns.append(call("2", "AgentSpawn", prompt="b", name="stays", persistent=True))
    players = {
        "root__once": in_turn("one"),
        "root__stays": in_turn((call("3", "AgentSpawn", prompt="c", name="deep"),), "two", "three"),
        "root__stays__deep": in_turn("deep"),
    }
    model = Cast(root=in_turn(tuple(spawns), "four", "five"), **players)
    resources = Resources(ledger=Ledger(Decimal(1), PriceBook(PRICES)))
    async with Agent(model, tools=tree_tools(), session=path, resources=resources) as agent:
        await agent.run("go")


async def resumed(path: Path) -> tuple[list[str], Decimal]:
    """What is said when it is gone on with, and what it had cost by then."""
    said: list[str] = []
    model = Cast(root=in_turn("x", "y"), root__stays=in_turn("z"))
    resources = Resources(ledger=Ledger(Decimal(1), PriceBook(PRICES)))
    async with Agent(model, tools=tree_tools(), session=path, resources=resources) as agent:
        agent.listen(lambda event: said.append(event.text) if isinstance(event, Notice) else None)
        spent = agent.cost().total
        await agent.run("again")
    return said, spent


def cut(file: Path, lines: int, rest: bytes = b"") -> None:
    """Take lines off the end of a log."""
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-lines]) + rest)


@pytest.mark.parametrize("agent", ["root/once", "root/stays", "root/stays/deep"])
async def test_missing_child_log_is_said_and_kept(agent: str, tmp_path: Path) -> None:
    await family_of(tmp_path / "s")
    (tmp_path / "s" / f"{agent}.jsonl").unlink()
    said, _ = await resumed(tmp_path / "s")
    assert any(text.startswith(f"The log of {agent} is missing") for text in said)
    assert not (tmp_path / "s" / f"{agent}.jsonl").exists()


@pytest.mark.parametrize("agent", ["root/once", "root/stays"])
async def test_cut_child_log_is_said_and_billed(agent: str, tmp_path: Path) -> None:
    await family_of(tmp_path / "s")
    cut(tmp_path / "s" / f"{agent}.jsonl", 1, b'{"id":')
    left = spend(entry for file in log_files(tmp_path / "s") for entry in read_log(file)).cost().total
    said, known = await resumed(tmp_path / "s")
    assert any(text.startswith(f"The log of {agent} lacks its end") for text in said)
    assert known == left


@pytest.mark.parametrize("kept", [-1, 0, 1])
@pytest.mark.parametrize("agent", ["root/once", "root/stays/deep", "root/orphan"])
async def test_torn_child_log_is_cut_and_said(agent: str, kept: int, tmp_path: Path) -> None:
    """Of a child that a later run does not open too: of an orphan, killed before it was named, and at any length."""
    await family_of(tmp_path / "s")
    file, mine = tmp_path / "s" / f"{agent}.jsonl", tmp_path / "s" / "root" / "mine.jsonl"
    lines = (tmp_path / "s" / "root.jsonl" if "orphan" in agent else file).read_bytes().splitlines(keepends=True)
    whole = b"".join(lines[:kept] if kept >= 0 else lines)
    torn = lines[0][:-1] if kept == 0 else b'{"id":"' + b"a" * 64 + b'","at":"' + b"x" * 9_000
    file.write_bytes(whole + torn)
    mine.write_bytes(b'{"id": 1}\n{"id": 2}')
    with Session.open(tmp_path / "s") as session:
        assert [text for text in session.losses() if f"{agent}: {len(torn)} incomplete bytes" in text]
    assert file.read_bytes() == whole
    assert mine.read_bytes() == b'{"id": 1}\n{"id": 2}'


async def test_torn_log_is_said_by_agents_and_forks(state: Path, tmp_path: Path) -> None:
    path = session_of(state, tmp_path)
    cut(path / "root.jsonl", 1, b'{"id":')
    copied = copy(path, state, tmp_path)
    for each in (path, copied):
        said, _ = await resumed(each)
        assert [text for text in said if "6 incomplete bytes were removed" in text]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, WAYS["circle of links"]])
async def test_irregular_blob_is_not_waited_for(make: Callable[[Path], object], tmp_path: Path) -> None:
    with Session.create_at(tmp_path / "s") as session:
        blob = session.log().blobs.put(b"x" * 100)
        assert session.log().blobs.get(blob.name) == b"x" * 100
        blob.unlink()
        make(blob)
        async with asyncio.timeout(60):
            with pytest.raises((OSError, SessionCorrupt)):
                await asyncio.to_thread(session.log().blobs.get, blob.name)


@pytest.mark.parametrize(
    "files",
    [
        ["root/.profile", "etc/passwd"],
        ["root/data.jsonl", "etc/passwd"],
        ["root/index.html"],
        ["blobs/picture.png"],
        ["blobs/" + "a" * 64, "README.md"],
        ["outputs/model.bin"],
        ["lock", "root/a"],
    ],
    ids=str,
)
def test_directory_of_person_is_no_session(tmp_path: Path, files: list[str]) -> None:
    """`sagent --session /` once advised to delete it, for it has a directory `root`."""
    place = tmp_path / "place"
    for name in files:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("mine")
    assert not is_damaged(place)
    with pytest.raises(SessionNotFound):
        delete(place)
    assert all((place / name).read_text() == "mine" for name in files)


@pytest.mark.parametrize("name", ["root/a.jsonl", "blobs/" + "a" * 64])
def test_remains_of_session_elsewhere_are_one(tmp_path: Path, name: str) -> None:
    place = tmp_path / "place"
    (place / name).parent.mkdir(parents=True)
    (place / name).write_text("")
    assert is_damaged(place)
    with pytest.raises(SessionNotFound):  # anybody may have such files
        delete(place)
    Lock(place).close()
    delete(place)
    assert not place.exists()


MINE = (
    *(
        "root/.profile",
        "root/data.jsonl",
        "root/a/notes.md",
        "root/b.jsonl/x",
        "blobs/photo.png",
        "blobs/a/" + "a" * 64,
    ),
    *("outputs/report.pdf", "outputs/scratch-notes.txt", "blobs/scratch-1", "repaired-photos/1.jpg", "repaired-2026/x"),
    *("signed.txt", "rooted/root.jsonl", "../.copy-mine/lock", "../.copy-mine/x"),
)


@pytest.mark.parametrize("place", ["elsewhere", "state"])
async def test_files_of_person_outlive_session(place: str, state: Path, tmp_path: Path) -> None:
    path = session_of(state, tmp_path)
    if place == "elsewhere":
        path = path.rename(tmp_path / "elsewhere")
    for name in MINE:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text('{"id":"mine"}')
    with Session.open(path) as session:
        session.log("root/child").append(MessageEntry(StoredMessage.of(user("three"), None)))
        blobs = session.log().blobs
        blobs.show(blobs.put(b"y" * 100))
    copy(path, path.parent.parent.parent if place == "state" else state, tmp_path)
    delete(path)
    assert {name for name in MINE if (path / name).read_text() == '{"id":"mine"}'} == set(MINE)
    left = [file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()]
    assert set(left) <= set(MINE)
    assert not is_damaged(path)


@pytest.mark.parametrize("lock", ["", '{"pid": 1}', '{"pid":1}'])
def test_data_of_person_is_not_opened(lock: str, tmp_path: Path) -> None:
    """Nor is anything put beside it, also where an earlier version has left its lock."""
    (tmp_path / "root.jsonl").write_text('{"id": 1}\n{"id": 2')
    if lock:
        (tmp_path / "lock").write_text(lock)
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    for use in (Session.open, lambda path: copy(path, tmp_path / "state", tmp_path), delete):
        with pytest.raises(SessionNotFound):
            use(tmp_path)
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_data_of_person_is_not_deleted(tmp_path: Path) -> None:
    for name in ("root.jsonl", "root/a.jsonl", "blobs/" + "a" * 64, "lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"id": 1, "name": "mine"}\n')
    with pytest.raises(SessionNotFound):
        delete(tmp_path)
    assert (tmp_path / "lock").read_text() == (tmp_path / "root.jsonl").read_text()


@pytest.mark.parametrize("name", ["file/sub", "n" * 300, "\ud800", "a\0b", "/".join(["d" * 200] * 25), "/proc/none"])
async def test_session_place_that_cannot_be_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="session"):
        async with Agent(ScriptedModel("ok"), session=f"{tmp_path}/{name}" if name[0] != "/" else name) as agent:
            await agent.run("hi")
    assert (tmp_path / "file").read_text() == "mine"
