"""A place for file tools to work in, and a short way to call them as the agent does."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sagent.lib.json import JsonObject, json_freeze
from sagent.lib.schema import coerce, violations
from sagent.tool import RunContext, Tool, ToolOutput, Workspace

Call = Callable[..., Awaitable[ToolOutput]]


class Folder:
    """Blobs in a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir()

    def put(self, data: bytes) -> Path:
        path = self.scratch()
        path.write_bytes(data)
        return path

    def adopt(self, path: Path, *, sha256: str | None = None) -> Path:
        return path

    def show(self, path: Path) -> Path:
        return path

    def drop(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def shown(self) -> tuple[Path, Path]:
        return self._path, self._path

    def scratch(self) -> Path:
        return self._path / str(len(list(self._path.iterdir())))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "work"
    root.mkdir()
    (root / ".git").mkdir()  # a repository's root: ignore files above it do not count
    return Workspace(root.resolve())


@pytest.fixture
def root(workspace: Workspace) -> Path:
    return workspace.cwd


@pytest.fixture
def call(workspace: Workspace, tmp_path: Path) -> Call:
    """Check the arguments against the tool's schema, then call it."""
    run = RunContext("root", "call-1", workspace, Folder(tmp_path / "blobs"), lambda text: None)

    async def make(tool: Tool, **arguments: object) -> ToolOutput:
        frozen = coerce(tool.parameters, json_freeze(arguments))
        assert violations(tool.parameters, frozen) == []
        assert isinstance(frozen, JsonObject)
        return ToolOutput.of(await tool(frozen, run))

    return make
