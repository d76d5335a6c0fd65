"""Real language servers: errors that a change brings, definitions, references, symbols, renames."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.lib.json import json_freeze_object
from sagent.plugins.code.lsp.rows import built_in
from sagent.plugins.code.lsp.tool import Code
from sagent.tool import Effect, RunContext, Workspace
from tests.depth import later
from tests.plugins.code.conftest import Bench
from tests.tools.conftest import Folder

MODULE = '''\
class Ünit:
    """𝕏"""

    def grow(self, by: int) -> int:
        size = by + 1
        return size


def sow(count: int) -> int:
    return Ünit().grow(count)
'''
USER = """\
from garden import sow

print("𝕏𝕏", sow(1), "sow")
"""


@pytest.fixture(autouse=True)
def _programs_of_this_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setattr("sagent.plugins.code.lsp.tool._PAUSE_SECONDS", 0.2)
    bench.launcher.variables = {**os.environ, "PATH": path}


CASES = [
    pytest.param("pyright", "a.py", "x: int = 1\n", 'x: int = 1\ny: int = "é"\n', "reportAssignmentType"),
    pytest.param("ruff", "a.py", "x = 1\n", "x = 1\nprint(y)\n", "F821"),
    pytest.param(
        "clangd", "a.c", "int f(void);\n", "int f(void);\nint g(void) { return h; }\n", "undeclared_var_use",
        marks=pytest.mark.needs("clangd"),
    ),
    pytest.param(
        "typescript", "a.ts", "export const n = 1;\n", "export const n = 1;\nexport const m: string = n;\n", "2322",
        marks=pytest.mark.needs("tsc-7"),
    ),
]  # fmt: skip


@later
@pytest.mark.costly
@pytest.mark.parametrize(("server", "name", "good", "bad", "rule"), CASES)
async def test_error_reported_once_and_fix_silent(
    bench: Bench, server: str, name: str, good: str, bad: str, rule: str
) -> None:
    bench.use(built_in()[server])
    assert await bench.changed(name, good) == ""
    said = await bench.changed(name, bad)
    assert said.startswith(f"New error in {name}:\n2:")
    assert f"({server} {rule})" in said
    assert await bench.changed(name, "\n" + bad) == ""
    assert await bench.changed(name, good) == ""
    assert bench.warned == []


@later
async def test_errors_in_other_files_reported(bench: Bench) -> None:
    bench.use(built_in()["pyright"])
    await bench.changed("garden.py", MODULE)
    await bench.changed("user.py", USER)
    said = await bench.changed("garden.py", MODULE.replace("count: int", "count: str"))
    assert "New error in garden.py:\n10:" in said
    assert "New error in user.py:\n3:" in said
    (bench.root / "shed.py").write_text("def store() -> int:\n    return 1\n")
    bench.checks.command_ran()
    assert "shed" not in await bench.changed("user.py", USER + "from shed import store\n\nprint(store())\n")


@pytest.fixture
def ask(bench: Bench, tmp_path: Path) -> "Ask":
    return Ask(bench, tmp_path)


class Ask:
    """The tool, called as an agent does, in a project of two modules."""

    def __init__(self, bench: Bench, directory: Path) -> None:
        self.bench, self.tool = bench, Code(bench.access)
        self.run = RunContext("root", "1", bench.workspace, Folder(directory / "blobs"), lambda _: None)
        bench.use(built_in()["pyright"])
        for name, text in (("garden.py", MODULE), ("user.py", USER)):
            (bench.root / name).write_text(text)

    async def __call__(self, action: str, **arguments: object) -> str:
        output = await self.tool(json_freeze_object({"action": action, **arguments}), self.run)
        return "".join(getattr(part, "text", "") for part in output.content)


@later
async def test_places_found_and_hidden_text_not(ask: Ask) -> None:
    assert (
        await ask("definition", file_path="user.py", symbol="sow", line=3) == "garden.py:9: def sow(count: int) -> int:"
    )
    references = await ask("references", file_path="garden.py", symbol="sow")
    assert references.splitlines() == [
        "garden.py:9: def sow(count: int) -> int:",
        "user.py:1: from garden import sow",
        'user.py:3: print("𝕏𝕏", sow(1), "sow")',
    ]
    outline = await ask("symbols", file_path="garden.py")
    assert outline.splitlines() == ["1-6 class Ünit", "  4-6 method grow", "9-10 function sow"]
    assert "garden.py:1 class Ünit" in await ask("symbols", symbol="Ünit")
    ask.bench.workspace.hidden = lambda tool, root: lambda name: name == "user.py"
    assert (await ask("references", file_path="garden.py", symbol="sow")).splitlines()[1:] == ["user.py:1", "user.py:3"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"file_path": "garden.py"}, "symbol is missing"),
        ({"file_path": "garden.py", "symbol": "weed"}, "does not occur"),
        ({"file_path": "gone.py", "symbol": "sow"}, "There is no file"),
        ({"file_path": "notes.xyz", "symbol": "sow"}, "No language server is known"),
        ({"symbol": "sow"}, "file_path is missing"),
    ],
)
async def test_unanswerable_question_explained(ask: Ask, arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        await ask("definition", **arguments)


@later
async def test_rename_plan_covers_all_files(ask: Ask) -> None:
    root, workspace = ask.bench.root, ask.bench.workspace
    arguments = json_freeze_object(
        {"action": "rename", "file_path": "user.py", "symbol": "sow", "line": 3, "new_name": "säen"}
    )
    assert ask.tool.effect(arguments, workspace) == Effect("execute")
    assert ask.tool.is_unplanned(arguments, workspace)
    diff = await ask.tool.plan(arguments, workspace)
    assert "+from garden import säen" in diff
    assert ask.tool.effect(arguments, workspace) == Effect("write", (root / "garden.py", root / "user.py"))
    assert not ask.tool.is_unplanned({**arguments, "changes": diff}, workspace)
    assert (root / "user.py").read_text() == USER
    output = await ask.tool(arguments, ask.run)
    assert output.diff == diff
    assert (root / "garden.py").read_text() == MODULE.replace("sow", "säen")
    assert (root / "user.py").read_text() == USER.replace("import sow", "import säen").replace(" sow(", " säen(")
    assert ask.tool.is_unplanned(arguments, workspace)


@later
async def test_stale_rename_changes_nothing(ask: Ask) -> None:
    arguments = json_freeze_object({"action": "rename", "file_path": "garden.py", "symbol": "sow", "new_name": "reap"})
    changes = await ask.tool.plan(arguments, ask.bench.workspace)
    judged = json_freeze_object({**arguments, "changes": changes})
    run = replace(ask.run, effect=ask.tool.effect(judged, ask.bench.workspace))
    (ask.bench.root / "user.py").write_text("# mine\n" + USER)
    with pytest.raises(ToolError, match="has changed since the rename was planned"):
        await ask.tool(judged, run)
    with pytest.raises(ToolError, match="differ from what was approved"):
        await ask.tool(json_freeze_object({**arguments, "changes": "less"}), run)
    assert (ask.bench.root / "garden.py").read_text() == MODULE


async def test_missing_server_names_install(ask: Ask, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match=r"is installed or may run .pip install 'pyright\[nodejs\]'"):
        await ask("symbols", file_path="garden.py")
    with pytest.raises(ToolError, match="not available here"):
        await Code()(json_freeze_object({"action": "symbols", "symbol": "x"}), RunContext(
            "root", "1", Workspace(bench.root), ask.run.blobs, lambda _: None
        ))  # fmt: skip
