"""What became of one file since a session began, and that file alone set back."""

import asyncio
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.agent import Agent, Resources
from sagent.config import load
from sagent.errors import UsageError
from sagent.lib.diff import unified
from sagent.messages import ToolCall
from sagent.policy.permissions import PermissionPolicy
from sagent.repl.headless_command import run_headless_command
from sagent.repl.opening import Opened as OpenedAgent
from sagent.rewind.filediff import diff_file
from sagent.rewind.recorder import Checkpoints
from sagent.rewind.restore import preview, restore_files
from sagent.session.contents import Unknown
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.tool import Effect, Workspace
from tests.depth import deep
from tests.hands import Hand
from tests.messages import call

NAMES = ("a", "b", "new/c", "new/deep/d")


class Session:
    """Commands one after the other in a directory, and what they did to its files."""

    def __init__(self, cwd: Path) -> None:
        self.cwd, self.log, self.number = cwd, MemoryLog(), 0
        self.log.append(Unknown("opened", {}))
        self.hand, self.checkpoints = Hand(self.log, Workspace(cwd)), Checkpoints(looks_around=True)

    async def run(self, script: str) -> str:
        """The id of the last entry before it."""
        before, self.number = self.log.head, self.number + 1
        made: ToolCall = call(f"c{self.number}", "Bash")

        async def work() -> None:
            subprocess.run(script, shell=True, cwd=self.cwd, check=True)

        await self.checkpoints.around(self.hand, made, Effect("execute"), work)
        return before

    async def undo(self, name: str) -> str:
        before = self.log.head
        await restore_files(self.hand, self.checkpoints, "", str(self.cwd / name))
        return before


def state_of(cwd: Path) -> Mapping[str, str]:
    return {str(path.relative_to(cwd)): path.read_text() for path in cwd.rglob("*") if path.is_file()}


def directories(cwd: Path) -> list[str]:
    return sorted(str(path.relative_to(cwd)) for path in cwd.rglob("*") if path.is_dir())


@settings(max_examples=deep(25, 250), deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("write", "write", "delete", "undo")), st.sampled_from(NAMES)), min_size=1, max_size=8
    ),
    back=st.integers(0, 7),
)
def test_one_file_returns_and_all_can_follow(steps: Sequence[tuple[str, str]], back: int) -> None:
    async def go(cwd: Path) -> None:
        session = Session(cwd)
        points: list[tuple[str, Mapping[str, str], list[str]]] = []
        first = state_of(cwd)
        for number, (what, name) in enumerate(steps):
            before, there = state_of(cwd), directories(cwd)
            if what == "undo":
                changed = {each.path for each in (await preview(session.log, "")).changed}
                if str(cwd / name) not in changed:
                    continue
                entry = await session.undo(name)
                wanted = {path: text for path, text in before.items() if path != name}
                wanted |= {name: first[name]} if name in first else {}
                assert state_of(cwd) == wanted
                assert {each.path for each in (await preview(session.log, "")).changed} == changed - {str(cwd / name)}
            elif what == "write":
                entry = await session.run(f"mkdir -p $(dirname {name}); echo {number} > {name}")
            else:
                entry = await session.run(f"rm -f {name}")
            points.append((entry, before, there))
        if not points:
            return
        entry, wanted, there = points[back % len(points)]
        done = await restore_files(session.hand, session.checkpoints, entry)
        assert (state_of(cwd), done.left) == (wanted, ())
        assert directories(cwd) == there
        session.log.close()

    with tempfile.TemporaryDirectory() as directory:
        cwd = Path(directory).resolve()
        (cwd / "a").write_text("first\n")
        asyncio.run(go(cwd))


async def test_history_of_one_file(tmp_path: Path) -> None:
    files = {
        "text": "one\ntwo\n",
        "cut": "end",
        "gone": "x\n",
        "mode": "m\n",
        "bits": "plain\n",
        "link": "l\n",
        "odd": "",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    session = Session(tmp_path)
    await session.run(
        "sed -i s/two/2/ text; echo ing >> cut; rm gone; chmod 755 mode; printf 'a\\0b' > bits; ln -sf text link; "
        "printf '\\377\\n' > odd; touch made"
    )

    async def told(name: str) -> tuple[str, str]:
        seen = await diff_file(session.log, "", str(tmp_path / name))
        return seen.diff, seen.note

    assert await told("text") == ("@@ -1,2 +1,2 @@\n one\n-two\n+2", "")
    assert await told("cut") == ("@@ -1,1 +1,1 @@\n-end\n\\ No newline at end of file\n+ending", "")
    assert await told("gone") == ("@@ -1,1 +0,0 @@\n-x", "")
    assert await told("mode") == ("", "permissions 644, now 755")
    assert await told("bits") == ("", "not text: 6 bytes, now 3")
    assert await told("link") == ("@@ -1,1 +0,0 @@\n-l", "is a link to text")
    assert await told("odd") == ("@@ -0,0 +1,1 @@\n+ÿ", "")
    assert await told("made") == ("", "")
    with pytest.raises(UsageError, match="was not changed in this session"):
        await told("other")
    with pytest.raises(UsageError, match="was not changed in this session"):
        await session.undo("other")


async def test_foreign_change_is_shown_and_stays(tmp_path: Path) -> None:
    session = Session(tmp_path)
    await session.run("echo ours > f; echo ours > g")
    (tmp_path / "f").write_text("theirs\n")
    seen = await diff_file(session.log, "", str(tmp_path / "f"))
    assert seen.diff == "@@ -0,0 +1,1 @@\n+theirs"
    done = await restore_files(session.hand, session.checkpoints, "", str(tmp_path / "f"))
    assert (done.changed, [each.path for each in done.left]) == ((), [str(tmp_path / "f")])
    assert state_of(tmp_path) == {"f": "theirs\n", "g": "ours\n"}


def test_slow_comparison_replaces_whole_text() -> None:
    old, new = ["a"] * 20_000, ["a", "b"] * 10_000
    shown = unified(old, new).split("\n")
    assert shown[0] == "@@ -1,20000 +1,20000 @@"
    assert (shown.count("-a"), shown.count("+b")) == (19_999, 10_000)


@pytest.mark.plugin("branches")
async def test_headless_diff_is_patch_undo_needs_word(tmp_path: Path) -> None:
    cwd = tmp_path / "work"
    cwd.mkdir()
    (cwd / "old.txt").write_text("one\ntwo\n")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "old.txt").write_text("one\ntwo\n")
    session = Session(cwd)
    agent = Agent(ScriptedModel(), resources=Resources(log=session.log, workspace=Workspace(cwd)))
    opened, written = OpenedAgent(agent, PermissionPolicy("edit")), []
    given = load({"cwd": str(cwd)}, {"HOME": str(tmp_path / "home")}, cwd)

    async def do(line: str) -> str:
        written.clear()
        assert await run_headless_command(line, given, opened, written.append) == ""
        return "".join(written)

    assert "This session has changed no files." in await do("/diff")
    await session.run("sed -i s/two/2/ old.txt; mkdir sub; printf 'a\\tb' > sub/new.txt; printf '\\0' > bits")
    patch = await do("/diff")
    assert "# bits: not text: 0 bytes, now 1" in patch
    subprocess.run(["git", "apply", "-p1", "-"], input=patch.encode(), cwd=copy, check=True)
    assert state_of(copy) == {name: text for name, text in state_of(cwd).items() if name != "bits"}

    assert "+++ b/sub/new.txt" in await do("/diff new.txt")
    with pytest.raises(UsageError, match=r"nope is not one of the changed files: .*old\.txt"):
        await do("/diff nope")
    assert "sub/new.txt: 1 deleted" in await do("/diff new.txt undo")
    assert sorted(state_of(cwd)) == ["bits", "old.txt"]
    assert not (cwd / "sub").exists()
    assert "sub/new.txt" not in await do("/diff")
    await agent.aclose()


async def test_hard_linked_file_returns_alone_and_said(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    session = Session(tmp_path)
    await session.run("echo two >a")
    done = await restore_files(session.hand, session.checkpoints, "", str(tmp_path / "a"))
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("one\n", "two\n")
    assert [each.path for each in done.omitted if "hard link" in each.why] == [str(tmp_path / "a")]
