"""Origins of lines: each case in which evidence is lacking, or of another kind than a call's arguments."""

import os
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.agent import Agent, Resources
from sagent.errors import SessionCorrupt
from sagent.lib.json import json_freeze_object
from sagent.messages import Message, ToolCall, user
from sagent.plugins.blame.alignment import trace
from sagent.plugins.blame.approvals import recording
from sagent.plugins.blame.arguments import split_lines
from sagent.plugins.blame.attribution import Unknown, WrittenByAgent, attribute
from sagent.plugins.blame.card import read_card
from sagent.plugins.blame.gitlog import committed
from sagent.policy import Allow, Ask, Policy
from sagent.session.contents import MessageEntry, Opened, Spawned, StoredMessage
from sagent.session.log import FileLog
from sagent.session.store import Session
from sagent.session.touches import Snapshot, Touch, Touched, unknown
from sagent.tool import Effect, Workspace
from sagent.tools import Bash, Edit, Read, Write
from tests.agent.cast import Cast
from tests.messages import call


@dataclass
class Work:
    """An agent at work in a directory, with a session on the disk."""

    agent: Agent
    session: Session
    script: list[tuple[ToolCall, ...] | str]
    file: Path

    async def do(self, name: str, **arguments: object) -> None:
        number = len(self.agent.messages)
        self.script += [(call(f"r{number}", "Read", file_path="a.txt"), call(f"c{number}", name, **arguments)), "done"]
        await self.agent.run("please do it")

    async def write(self, content: str) -> None:
        await self.do("Write", file_path="a.txt", content=content)

    def origins(self) -> list[str]:
        """The tool that wrote each line, or why that is unknown."""
        found = attribute(self.file, self.file.read_bytes(), [self.session.path])
        return [each.tool if isinstance(each, WrittenByAgent) else each.reason for each in found]


class Asking(Policy):
    """Asks about every call that writes."""

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Allow | Ask:
        return Allow() if effect.kind in ("none", "read") else Ask("It writes.")


@asynccontextmanager
async def working(root: Path, content: str = "one\n", *, asks: bool = False) -> AsyncGenerator[Work]:
    cwd = root / "work"
    cwd.mkdir()
    (cwd / "a.txt").write_text(content)
    script: list[tuple[ToolCall, ...] | str] = []

    async def yes(call: ToolCall, question: Ask) -> None:
        del call, question

    with Session.create(root / "state", cwd) as session:
        session.log().append(Opened(session.id, "root", str(cwd), {}))
        ask = recording(yes, session.log()) if asks else None
        agent = Agent(
            Cast(root=lambda _: script.pop(0)),
            tools=(Bash(), Edit(), Read(), Write()),
            policy=Asking() if asks else None,
            resources=Resources(log=session.log(), workspace=Workspace(cwd), ask=ask),
        )
        yield Work(agent, session, script, cwd / "a.txt")
        await agent.aclose()


def test_each_line_has_an_origin(tmp_path: Path) -> None:
    content = b"one\n\ntwo\r\nthree"
    assert attribute(tmp_path / "a.txt", content, ()) == (Unknown("no log"),) * 4
    assert attribute(tmp_path / "a.txt", b"", ()) == ()


async def test_equal_lines_are_ambiguous_for_a_whole_file_but_not_for_an_edit(tmp_path: Path) -> None:
    async with working(tmp_path, "a {\n}\nb {\n}\n") as work:
        await work.write("a {\n}\n}\nb {\n}\n")
        assert work.origins() == ["outside", "ambiguous", "ambiguous", "outside", "outside"]
        await work.do("Edit", file_path="a.txt", old_string="b {\n", new_string="}\nb {\n")
        assert work.origins() == ["outside", "ambiguous", "ambiguous", "Edit", "outside", "outside"]


async def test_commands_and_line_ends(tmp_path: Path) -> None:
    async with working(tmp_path, "one\r\ntwo\r\n") as work:
        await work.do("Bash", command="sed -i 's/two/2/' a.txt")
        await work.do("Edit", file_path="a.txt", old_string="one\n", new_string="one\nafter one\n")
        assert work.file.read_bytes() == b"one\r\nafter one\r\n2\r\n"
        assert work.origins() == ["outside", "Edit", "Bash"]


async def test_content_that_a_command_brings_back_is_not_the_commands(tmp_path: Path) -> None:
    async with working(tmp_path, "the first line of a person\n") as work:
        await work.do("Bash", command="cp a.txt kept.txt")
        await work.write("a line of the agent\n")
        await work.do("Bash", command="mv a.txt b.txt; cp kept.txt a.txt")
        assert work.origins() == ["outside"]
        moved = attribute(work.file.with_name("b.txt"), b"a line of the agent\n", [work.session.path])
        assert [each.tool for each in moved if isinstance(each, WrittenByAgent)] == ["Write"]


async def test_approver_is_the_person_who_was_asked(tmp_path: Path) -> None:
    async with working(tmp_path, asks=True) as work:
        await work.write("one\ntwo\n")
        found = attribute(work.file, work.file.read_bytes(), [work.session.path])
        assert isinstance(found[1], WrittenByAgent)
        card = read_card(found[1])
        assert (card.approver, card.prompt) == ("a person", "please do it")


async def test_every_flipped_byte_is_refused(tmp_path: Path) -> None:
    async with working(tmp_path) as work:
        await work.write("one\ntwo\n")
        log = work.session.path / "root.jsonl"
        data = log.read_bytes()
        assert work.origins() == ["outside", "Write"]
        for place in range(0, len(data), 97):
            log.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            with pytest.raises(SessionCorrupt, match=r"^Entry \S+ is not as it was written.*root\.jsonl"):
                attribute(work.file, b"one\ntwo\n", [work.session.path])
        log.write_bytes(data)


async def test_log_that_no_other_names_is_refused(tmp_path: Path) -> None:
    async with working(tmp_path) as work:
        await work.write("one\ntwo\n")
        stray = work.session.path / "root" / "stray.jsonl"
        stray.parent.mkdir()
        stray.write_bytes((work.session.path / "root.jsonl").read_bytes())
        work.session.log().append(Opened())
        with pytest.raises(SessionCorrupt, match=r"stray\.jsonl"):
            attribute(work.file, b"one\ntwo\n", [work.session.path])


def alignments(old: Sequence[bytes], new: Sequence[bytes]) -> set[tuple[int, ...]]:
    """All longest common subsequences, as the old line of each new one, -1 for none."""
    found = {()} if not new else set[tuple[int, ...]]()
    for row in [-1, *(row for row, line in enumerate(old) if new and line == new[0])]:
        rest = alignments(old[row + 1 :], new[1:]) if new else set[tuple[int, ...]]()
        found |= {(row, *(each if each < 0 else each + row + 1 for each in tail)) for tail in rest}
    most = max(sum(row >= 0 for row in each) for each in found)
    return {each for each in found if sum(row >= 0 for row in each) == most}


LINES = st.lists(st.sampled_from((b"a", b"b", b"c")), max_size=6)


@given(LINES, LINES)
def test_trace_keeps_the_origins_of_every_alignment(old: Sequence[bytes], new: Sequence[bytes]) -> None:
    traced, _ = trace(old, new, [frozenset({row}) for row in range(len(old))], frozenset({-1}))
    for each in alignments(old, new):
        assert all(row in found for row, found in zip(each, traced, strict=True))


@given(st.binary())
def test_lines_are_as_git_counts_them(content: bytes) -> None:
    assert len(split_lines(content)) == content.count(b"\n") + (content[-1:] not in (b"", b"\n"))


def test_large_repetitive_files_are_traced() -> None:
    old = [b"}"] * 3000
    traced, _ = trace(old, [b"new", *old, b"}"], [frozenset({0})] * 3000, frozenset({-1}))
    assert traced[0] == {-1} and set(traced[1:]) == {frozenset({0, -1})}


def record(log: FileLog, call_id: str, before: str, after: str, path: Path, times: Sequence[str] = ()) -> None:
    """Log a call of Write as an agent does; it begins and ends at these times, if given."""
    made = ToolCall(call_id, "Write", json_freeze_object({"file_path": str(path), "content": after}))
    log.append(MessageEntry(StoredMessage.of(Message("assistant", (made,), model="a/b"), None)))
    states = [Snapshot("file", log.blobs.put(text.encode()).name, 0o644) for text in (before, after)]
    for ended, at in zip((False, True), times or ("", ""), strict=True):
        log._family.latest = max(log._family.latest, at)
        log.append(
            Touched(call_id, "Write", ended, (Touch(str(path), states[0], states[1] if ended else unknown("")),))
        )


def test_lines_of_subagents_have_their_own_prompt(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "a.txt"
    path.write_text("one\ntwo\n")
    with Session.create(tmp_path / "state", tmp_path) as session:
        root, child = session.log(), session.log("root/part")
        root.append(Opened(session.id, "root", str(tmp_path), {}))
        root.append(MessageEntry(StoredMessage.of(user("the person's prompt"), None)))
        root.append(Spawned("root/part", child.append(Opened(session.id, "root/part", str(tmp_path), {})).id))
        child.append(MessageEntry(StoredMessage.of(user("the parent's prompt", sender="root"), None)))
        record(child, "c1", "one\n", "one\ntwo\n", path)
    (_, origin) = attribute(path, path.read_bytes(), [session.path])
    assert isinstance(origin, WrittenByAgent)
    assert (origin.agent, origin.model, read_card(origin).prompt) == ("root/part", "a/b", "the parent's prompt")


def test_sessions_at_work_in_turn_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "a.txt"
    states = ["one\n", "one\ntwo\n", "one\nthree\ntwo\n"]
    path.write_text(states[-1])
    paths: list[Path] = []
    for number in (2, 1):  # in the order of their times, not of their names
        with Session.create(tmp_path / "state", tmp_path) as session:
            session.log().append(Opened(session.id, "root", str(tmp_path), {}))
            times = (f"2031-01-01T00:0{number}:00.000000Z", f"2031-01-01T00:0{number}:30.000000Z")
            record(session.log(), f"c{number}", states[number - 1], states[number], path, times)
            paths.append(session.path)
    found = attribute(path, path.read_bytes(), paths)
    assert [each.call for each in found if isinstance(each, WrittenByAgent)] == ["c2", "c1"]


# -- the history of git ------------------------------------------------------------------------------------------------


def at_time(minute: int) -> dict[str, str]:
    """The environment of git at a minute of the hour in which `made_by_both` plays."""
    people = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    date = f"2031-01-01T00:{minute:02}:00+0000"
    return {**os.environ, **people, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_COMMITTER_DATE": date}


def git(place: Path, minute: int, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=place, env=at_time(minute), check=True, capture_output=True, text=True)
    return done.stdout.strip()


def shown(path: Path, session: Path, at: str = "") -> list[str]:
    content = path.read_bytes() if not at else committed(path, at)
    assert content is not None
    found = attribute(path, content, [session], at=at)
    return [each.tool if isinstance(each, WrittenByAgent) else each.reason for each in found]


TWICE = "one\nthe line of both\n"


@pytest.fixture
def made_by_both(tmp_path: Path) -> tuple[Path, Path]:
    """A file with a line that a person wrote on the branch `other`, and then an agent on `main`; and the session."""
    path = tmp_path.resolve() / "a.txt"
    path.write_text("one\n")
    git(path.parent, 1, "init", "-q", "-b", "main")
    git(path.parent, 1, "add", "a.txt")
    git(path.parent, 1, "commit", "-qm", "begin")
    git(path.parent, 2, "checkout", "-q", "-b", "other")
    path.write_text(f"{TWICE}of a person\n")
    git(path.parent, 3, "commit", "-qam", "by a person")
    git(path.parent, 4, "checkout", "-q", "main")
    with Session.create(tmp_path / "state", tmp_path) as session:
        session.log().append(Opened(session.id, "root", str(tmp_path), {}))
        times = ("2031-01-01T00:05:00.000000Z", "2031-01-01T00:05:01.000000Z")
        record(session.log(), "c1", "one\n", TWICE, path, times)
    path.write_text(TWICE)
    git(path.parent, 6, "commit", "-qam", "by an agent")
    return path, session.path


def test_line_of_another_branch_is_not_the_agents(made_by_both: tuple[Path, Path]) -> None:
    path, session = made_by_both
    assert shown(path, session) == ["outside", "Write"]
    git(path.parent, 7, "checkout", "-q", "other")
    path.write_text(f"{path.read_text()}more\n")
    assert "Write" not in shown(path, session)


@pytest.mark.parametrize("case", ["lost", "lost before a commit", "unnamed", "dated back"])
def test_checkout_that_the_reflog_lacks_is_not_overlooked(made_by_both: tuple[Path, Path], case: str) -> None:
    path, session = made_by_both
    match case:
        case "unnamed":
            git(path.parent, 7, "symbolic-ref", "HEAD", "refs/heads/other")
            git(path.parent, 7, "restore", "--staged", "--worktree", ".")
        case "dated back":
            git(path.parent, 0, "checkout", "-q", "other")
        case _:
            git(path.parent, 7, "checkout", "-q", "other")
            git(path.parent, 7, "reflog", "delete", "HEAD@{0}")
    path.write_text(f"{path.read_text()}more\n")
    if case == "lost before a commit":
        git(path.parent, 8, "commit", "-qam", "more")
    assert "Write" not in shown(path, session)


def test_commit_of_another_branch_in_the_second_of_a_call(made_by_both: tuple[Path, Path]) -> None:
    path, session = made_by_both
    git(path.parent, 5, "checkout", "-q", "other")
    git(path.parent, 5, "commit", "-q", "--amend", "-m", "at the same time")
    assert "Write" not in shown(path, session)


def test_commit_is_not_explained_by_later_calls(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "a.txt"
    path.write_text(TWICE)
    git(path.parent, 1, "init", "-q", "-b", "main")
    git(path.parent, 1, "add", "a.txt")
    git(path.parent, 1, "commit", "-qm", "begin")
    old = git(path.parent, 1, "rev-parse", "HEAD")
    with Session.create(tmp_path / "state", tmp_path) as session:
        session.log().append(Opened(session.id, "root", str(tmp_path), {}))
        record(session.log(), "c1", TWICE, "one\n", path, [f"2031-01-04T00:05:0{n}.000000Z" for n in (0, 1)])
        record(session.log(), "c2", "one\n", TWICE, path, [f"2031-01-04T00:06:0{n}.000000Z" for n in (0, 1)])
    assert shown(path, session.path) == ["outside", "Write"]
    assert shown(path, session.path, "HEAD") == shown(path, session.path, old) == ["outside", "outside"]
    path.write_text("one\n")
    git(path.parent, 9, "commit", "-qam", "later")  # `old` is not among the commits that are read
    assert shown(path, session.path, old) == ["outside", "outside"]


@pytest.mark.parametrize("name", ["a\rb", "a\nb", "\n", "-a missing"])
def test_versions_of_hostile_names_are_found(tmp_path: Path, name: str) -> None:
    path = tmp_path.resolve() / name
    git(path.parent, 1, "init", "-q", "-b", "main")
    git(path.parent, 1, "commit", "-q", "--allow-empty", "-m", "begin")
    path.write_text("one\n")
    git(path.parent, 2, "add", "--", name)
    git(path.parent, 2, "commit", "-qm", "add it")
    with Session.create(tmp_path / "state", tmp_path) as session:
        session.log().append(Opened(session.id, "root", str(tmp_path), {}))
        record(session.log(), "c1", "one\n", TWICE, path, [f"2031-01-01T00:05:0{n}.000000Z" for n in (0, 1)])
    path.write_text(TWICE)
    git(path.parent, 6, "commit", "-qam", "by an agent")
    assert shown(path, session.path, "HEAD") == ["outside", "Write"]
    assert shown(path, session.path, "HEAD~1") == ["outside"]


def test_line_that_two_sessions_wrote_at_the_same_time_is_neithers(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "a.txt"
    path.write_text(TWICE)
    with Session.create(tmp_path / "state", tmp_path) as one, Session.create(tmp_path / "state", tmp_path) as two:
        for session, (begun, ended) in ((one, (0, 9)), (two, (3, 12))):
            session.log().append(Opened(session.id, "root", str(tmp_path), {}))
            times = [f"2031-01-01T00:05:{second:02}.000000Z" for second in (begun, ended)]
            record(session.log(), f"c{begun}", "one\n", TWICE, path, times)
    found = attribute(path, path.read_bytes(), [one.path, two.path])
    assert found == (Unknown("outside"), Unknown("ambiguous"))
