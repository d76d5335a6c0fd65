"""Language servers in a directory, and checks by them."""

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pytest

from sagent.plugins.code.lsp.access import CodeAccess
from sagent.plugins.code.lsp.checks import Checks
from sagent.plugins.code.lsp.rows import ServerRow
from sagent.plugins.code.lsp.servers import Servers
from sagent.sandbox import Confined
from sagent.tool import Workspace
from tests.config.conftest import config, home, settings

__all__ = ["config", "home", "settings"]

FAKE = Path(__file__).with_name("fake_language_server.py")


class Launcher:
    """Runs servers as they are."""

    def __init__(self) -> None:
        self.rule: Literal["all", "outside", "none"] = "all"
        self.started: list[Sequence[str]] = []
        self.variables: Mapping[str, str] = dict(os.environ)

    async def allowed(self) -> Literal["all", "outside", "none"]:
        return self.rule

    async def launch(self, argv: Sequence[str], root: Path) -> Confined:
        self.started.append(argv)
        return Confined(argv)

    def environment(self) -> Mapping[str, str]:
        return self.variables


class Bench:
    """A workspace, and what checks say of changes in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.launcher, self.warned = root, Launcher(), list[str]()
        self.workspace = Workspace(root)
        self.checks = Checks(Servers([], self.launcher, self.warned.append))
        self.access = CodeAccess(lambda: self.checks)

    def use(self, *rows: ServerRow) -> None:
        self.checks = Checks(Servers(rows, self.launcher, self.warned.append))
        self.access.started = None

    def use_fake(self, *kinds: str) -> None:
        command = (sys.executable, str(FAKE))
        self.use(*(ServerRow(kind, (*command, kind), {".fake": "fake"}, roots=("marker",)) for kind in kinds))

    async def change(self, name: str, text: str) -> str:
        """What is said at once of a change."""
        path = (self.root / name).resolve()
        before = path.read_text() if path.exists() else ""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return await self.checks.changed(path, before, "root", self.workspace)

    async def later(self) -> str:
        """What is said once all checks have ended."""
        await self.checks.finish("root")
        return await self.checks.news("root")

    async def changed(self, name: str, text: str) -> str:
        return await self.change(name, text) + await self.later()


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr("sagent.plugins.code.lsp.checks.TURN_END_TIMEOUT_SECONDS", 60.0)
    monkeypatch.setattr("sagent.plugins.code.lsp.checks.CALL_TIMEOUT_SECONDS", 60.0)
    root = (tmp_path / "work").resolve()
    root.mkdir()
    (root / ".git").mkdir()
    bench = Bench(root)
    yield bench
    await bench.checks.aclose()
