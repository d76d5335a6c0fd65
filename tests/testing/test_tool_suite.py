"""The suite for tools, run over what this package ships, and over tools that break its promises."""

import asyncio
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from sagent.lib.json import JsonObject, json_freeze_object
from sagent.session.blobs import BlobDirectory
from sagent.testing.tool_suite import ToolSuite
from sagent.tool import Effect, RunContext, Tool, ToolOutput, Workspace


class Upper:
    """A tool of the smallest sort, with effects."""

    name = "Upper"
    description = "Write a file's text in capitals beside it."
    parameters = json_freeze_object(
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return Effect("write", (workspace.resolve(str(arguments["path"])),))

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput | str:
        path = run.workspace.resolve(str(arguments["path"]))
        path.write_text(path.read_text().upper())
        return "done"


@pytest.fixture
def a_file(workspace: Workspace) -> Path:
    (workspace.cwd / "a.txt").write_text("one\ntwo\nthree\n")
    return workspace.cwd / "a.txt"


class TestUpper(ToolSuite):
    @pytest.fixture
    def tool(self) -> Tool:
        return Upper()

    @pytest.fixture
    def good_arguments(self, a_file: Path) -> Mapping[str, object]:
        return {"path": a_file.name}


class BuiltIn(ToolSuite):
    @pytest.fixture
    def tool(self) -> Tool:
        import sagent.tools

        return getattr(sagent.tools, type(self).__name__.removeprefix("Test"))()


class TestRead(BuiltIn):
    @pytest.fixture
    def good_arguments(self, a_file: Path) -> Mapping[str, object]:
        return {"file_path": a_file.name, "offset": 2, "limit": 1}


class TestWrite(BuiltIn):
    @pytest.fixture
    def good_arguments(self) -> Mapping[str, object]:
        return {"file_path": "new/b.txt", "content": "x\n" * 1000}


class TestEdit(BuiltIn):
    @pytest.fixture
    def good_arguments(self, a_file: Path, workspace: Workspace) -> Mapping[str, object]:
        workspace.saw(a_file, a_file.read_bytes())
        return {"file_path": str(a_file), "old_string": "two", "new_string": "2", "replace_all": False}


class TestGlob(BuiltIn):
    @pytest.fixture
    def good_arguments(self, a_file: Path) -> Mapping[str, object]:
        return {"pattern": "**/*.txt", "path": str(a_file.parent)}


class TestGrep(BuiltIn):
    @pytest.fixture
    def good_arguments(self, a_file: Path) -> Mapping[str, object]:
        return {"pattern": "t.o", "path": str(a_file.parent), "output_mode": "content"}


class TestList(BuiltIn):
    @pytest.fixture
    def good_arguments(self, a_file: Path) -> Mapping[str, object]:
        return {"path": str(a_file.parent)}


class TestBash(BuiltIn):
    @pytest.fixture
    async def tool(self) -> AsyncGenerator[Tool]:
        from sagent.tools import Bash

        shell = Bash()
        yield shell
        await shell.aclose()

    @pytest.fixture
    def good_arguments(self) -> Mapping[str, object]:
        return {"command": "echo out; echo err >&2"}

    @pytest.fixture
    def slow_arguments(self) -> Mapping[str, object]:
        return {"command": "sleep 1000 & sleep 1000"}


# Tools that break a promise are found out.


class Nameless(Upper):
    name = "my tool"


class Loose(Upper):
    parameters = json_freeze_object({"type": "object", "required": ["path"]})


class Trusting(Upper):
    parameters = json_freeze_object({"type": "object", "properties": {"path": {}}})


class Relative(Upper):
    def effect(self, arguments, workspace):
        return Effect("write", (Path(str(arguments["path"])),))


class Hasty(Upper):
    def effect(self, arguments, workspace):
        (workspace.cwd / "lock").touch()
        return super().effect(arguments, workspace)


class Secretive(Upper):
    def effect(self, arguments, workspace):
        return Effect("read", super().effect(arguments, workspace).paths)


class Wordless(Upper):
    async def __call__(self, arguments, run):
        return None


class Clumsy(Upper):
    async def __call__(self, arguments, run):
        await super().__call__(arguments, run)
        lock = run.workspace.cwd / "lock"
        lock.open("x").close()
        await asyncio.sleep(0)
        lock.unlink()
        return "done"


class Untidy(Upper):
    async def __call__(self, arguments, run):
        partial = run.workspace.cwd / f"partial-{time.monotonic_ns()}"
        partial.touch()
        await asyncio.sleep(0.005)
        partial.unlink()
        return "done"


class Childish(Upper):
    children: ClassVar[list[subprocess.Popen[bytes]]] = []

    async def __call__(self, arguments, run):
        child = subprocess.Popen(["sleep", "100"])
        self.children.append(child)
        await asyncio.sleep(0.005)
        child.kill()
        child.wait()
        return "done"


@pytest.mark.parametrize(
    ("broken", "promise", "needed"),
    [
        (Nameless, "name_and_description_are_acceptable_everywhere", []),
        (Loose, "parameters_are_an_object_schema_that_stays_the_same", []),
        (Trusting, "the_schema_tells_good_arguments_from_bad", ["good", "bad"]),
        (Wordless, "a_call_gives_an_output_that_a_log_can_keep", ["good", "context"]),
        (Relative, "what_it_foresees_is_judgeable_and_changes_nothing", ["good", "workspace"]),
        (Hasty, "what_it_foresees_is_judgeable_and_changes_nothing", ["good", "workspace"]),
        (Secretive, "only_what_was_foreseen_is_written", ["good", "context"]),
        (Clumsy, "calls_at_the_same_time_do_not_disturb_each_other", ["good", "context"]),
        (Untidy, "a_cancelled_call_ends_and_leaves_nothing", ["good", "good", "context", "rounds"]),
        pytest.param(
            Childish,
            "a_cancelled_call_ends_and_leaves_nothing",
            ["good", "good", "context", "rounds"],
            marks=pytest.mark.needs("linux"),
        ),
    ],
)
async def test_suite_finds_broken_tool_promise(broken, promise, needed, tmp_path, monkeypatch):
    monkeypatch.setattr("sagent.testing.tool_suite.SETTLING", 0.1)
    workspace = Workspace(tmp_path / "work")
    workspace.cwd.mkdir()
    (workspace.cwd / "a.txt").write_text("one")
    good = {"path": "a.txt"}
    known = {
        "good": good,
        "bad": [{"path": 3}],
        "workspace": workspace,
        "context": RunContext("root", "call_1", workspace, BlobDirectory(tmp_path / "blobs"), lambda _: None),
        "rounds": 1,
    }
    try:
        with pytest.raises(AssertionError):
            await getattr(ToolSuite(), f"test_{promise}")(broken(), *(known[name] for name in needed))
    finally:
        for child in Childish.children:
            child.kill()
            child.wait()
