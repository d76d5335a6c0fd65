"""A directory that commands swap for a link while tools work: what was judged is read and written, and nothing else."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import ToolCall
from sagent.policy import Allow
from sagent.policy.permissions import PermissionPolicy
from sagent.session.blobs import BlobDirectory
from sagent.tool import Foreseeable, RunContext, Tool, ToolOutput, Workspace, foresee
from sagent.tools import Edit, Glob, Grep, List, Read, Write, listing

SWAP = """
import os, sys
os.chdir(sys.argv[1])
print(flush=True)
while True:
    os.rename("x", "directory"), os.rename("link", "x")
    os.rename("x", "link"), os.rename("directory", "x")
"""
CALLS: tuple[tuple[Tool, dict[object, object]], ...] = (
    (Read(), {"file_path": "x/key"}),
    (List(), {"path": "x"}),
    (Glob(), {"pattern": "x/**"}),
    (Glob(), {"pattern": "**/*", "path": "x"}),
    (Grep(), {"pattern": "K.Y", "path": "x"}),
    (Grep(), {"pattern": "(?=K.Y)K", "path": "x"}),  # searched in a process of its own
    (Grep(), {"pattern": "K.Y", "path": "x/key"}),
    (Grep(), {"pattern": "K.Y", "output_mode": "files_with_matches"}),
    (Write(), {"file_path": "x/planted", "content": "new"}),
    (Write(), {"file_path": "x/deep/planted", "content": "new"}),
    (Edit(), {"file_path": "x/planted", "old_string": "", "new_string": "new"}),
)


class Place:
    """A workspace with a directory `x`, and keys elsewhere to which a link leads."""

    def __init__(self, base: Path) -> None:
        self.cwd, self.keys = base / "tree", base / "home" / ".ssh"
        for directory in (self.keys, self.cwd / "x", self.cwd / ".git"):
            directory.mkdir(parents=True)
        (self.keys / "key").write_text("a KEY")
        (self.keys / "other").write_text("a KEY")
        (self.cwd / "x" / "key").write_text("no key")
        (self.cwd / "link").symlink_to(self.keys)
        self.policy = PermissionPolicy("edit", home=base / "home")
        self.workspace = Workspace(self.cwd)
        self.workspace.hidden = self.policy.hidden(self.workspace)
        self.blobs = BlobDirectory(base / "blobs")

    async def judged(self, tool: Tool, said: JsonObject) -> RunContext | None:
        """A call, if it is allowed."""
        self.workspace.known_files.clear()
        assert isinstance(tool, Foreseeable)
        try:
            effect = foresee(tool, said, self.workspace)
            verdict = await self.policy.before_tool(ToolCall("1", tool.name, said), effect, self.workspace)
        except (OSError, ToolError):  # swapped in the middle of a step: what cannot be judged is not done
            return None
        run = RunContext("root", "1", self.workspace, self.blobs, lambda _: None, effect=effect)
        return run if verdict == Allow() else None

    @contextmanager
    def swapping(self) -> Iterator[None]:
        with subprocess.Popen([sys.executable, "-c", SWAP, str(self.cwd)], stdout=subprocess.PIPE) as swapper:
            assert swapper.stdout is not None
            swapper.stdout.readline()
            try:
                yield
            finally:
                swapper.kill()

    def check(self, shown: str) -> None:
        assert "KEY" not in shown
        assert "other" not in shown
        assert {path.name for path in self.keys.iterdir()} == {"key", "other"}


async def outcome(tool: Tool, said: JsonObject, run: RunContext) -> str:
    try:
        output = await tool(said, run)
    except (ToolError, OSError) as error:
        return str(error)
    assert isinstance(output, ToolOutput)
    return "".join(getattr(part, "text", "") for part in output.content)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=lambda each: getattr(each, "name", ""))
async def test_directory_made_link_shows_nothing(tool, arguments, place) -> None:
    said = json_freeze_object(arguments)
    run = await place.judged(tool, said)
    assert run is not None
    (place.cwd / "x").rename(place.cwd / "directory")
    (place.cwd / "link").rename(place.cwd / "x")
    place.check(await outcome(tool, said, run))


async def test_names_through_link_are_not_ignored(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory becomes a link between two lists of it: the second has the names of others' files."""
    run = await place.judged(Grep(), said := json_freeze_object({"pattern": "K", "path": "x", "glob": "oth*"}))
    assert run is not None
    found = listing.list_ignored

    async def swapped(root: str, listed: listing.Listing) -> list[str]:
        (place.cwd / "x").rename(place.cwd / "directory")
        (place.cwd / "link").rename(place.cwd / "x")
        names = await found(root, listed)
        assert "other" in names
        return names

    monkeypatch.setattr(listing, "list_ignored", swapped)
    place.check(await outcome(Grep(), said, run))


@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=lambda each: getattr(each, "name", ""))
async def test_swapped_directory_shows_only_judged(tool, arguments, place) -> None:
    said = json_freeze_object(arguments)
    with place.swapping():
        for _ in range(40):
            if (run := await place.judged(tool, said)) is not None:
                place.check(await outcome(tool, said, run))


@pytest.mark.parametrize("tool", [Read(), Grep()], ids=lambda tool: tool.name)
async def test_file_made_link_is_not_read(tool, place) -> None:
    said = json_freeze_object({"file_path": "x/key"} if tool.name == "Read" else {"path": "x/key", "pattern": "K"})
    run = await place.judged(tool, said)
    assert run is not None
    (place.cwd / "x" / "key").unlink()
    (place.cwd / "x" / "key").symlink_to(place.keys / "key")
    with pytest.raises(ToolError, match="leads elsewhere than a moment ago"):
        await tool(said, run)
