"""Renames that a server plans wrongly, or only in part: nothing half is written, and what is left is named."""

import json
import os
from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import ToolCall
from sagent.plugins.code.lsp.policy import CodePolicy
from sagent.plugins.code.lsp.rename import FileChange, RenamePlan
from sagent.plugins.code.lsp.tool import Code
from sagent.policy import Allow, AllowAll, Ask, Deny
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.tool import RunContext, Workspace
from tests.depth import later
from tests.plugins.code.conftest import Bench
from tests.tools.conftest import Folder


def edit(line: int, start: int, end: int, new: str = "new") -> dict[str, object]:
    places = ({"line": line, "character": start}, {"line": line, "character": end})
    return {"range": dict(zip(("start", "end"), places, strict=True)), "newText": new}


class Rename:
    """A rename in a.fake as the server of a test plans it."""

    def __init__(self, bench: Bench, directory: Path) -> None:
        self.bench, self.tool = bench, Code(bench.access)
        bench.use_fake("versioned")
        (bench.root / "a.fake").write_bytes(b"old x\r\nold y\r\n")
        self.blobs = Folder(directory / "blobs")
        self.arguments = json_freeze_object(
            {"action": "rename", "file_path": "a.fake", "symbol": "old", "new_name": "new"}
        )

    def plans(self, answer: object) -> None:
        self.bench.launcher.variables = {**self.bench.launcher.variables, "FAKE_EDIT": json.dumps(answer)}

    def edits(self, **files: list[dict[str, object]]) -> None:
        self.plans({"changes": {(self.bench.root / f"{name}.fake").as_uri(): edits for name, edits in files.items()}})

    async def make(self, arguments: JsonObject | None = None) -> str:
        given = arguments or self.arguments
        effect = self.tool.effect(given, self.bench.workspace)
        run = RunContext("root", "1", self.bench.workspace, self.blobs, lambda _: None, effect=effect)
        output = await self.tool(given, run)
        return "".join(getattr(part, "text", "") for part in output.content)


@pytest.fixture
def rename(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rename:
    monkeypatch.setattr("sagent.plugins.code.lsp.tool._PAUSE_SECONDS", 0.0)
    return Rename(bench, tmp_path)


async def test_unchanged_uses_named(rename: Rename) -> None:
    rename.edits(a=[edit(1, 0, 3), edit(0, 0, 3)])
    (rename.bench.root / "unseen.fake").write_text("call old\n")
    (rename.bench.root / "other.fake").write_text("older\n")
    said = await rename.make()
    assert "Not changed" in said and "unseen.fake" in said
    assert (rename.bench.root / "a.fake").read_bytes() == b"new x\r\nnew y\r\n"


@pytest.mark.costly
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "found nothing to change"),
        ({"documentChanges": [{"kind": "delete", "uri": "file:///etc/passwd"}]}, "would also delete a file"),
        ({"changes": {"file:///nowhere/at/all": [edit(0, 0, 1)]}}, "No such file"),
        ({"changes": {"http://example.org/a": [edit(0, 0, 1)]}}, "/dev/null"),
    ],
)
async def test_invalid_plan_refused(rename: Rename, answer: object, said: str) -> None:
    rename.plans(answer)
    with pytest.raises(ToolError, match=said):
        await rename.make()


@later
@pytest.mark.parametrize("edits", [[edit(0, 0, 3), edit(0, 2, 4)], [edit(9, 0, 3)], [{"newText": "x"}], ["x"]])
async def test_unfitting_edits_change_nothing(rename: Rename, edits: list[dict[str, object]]) -> None:
    rename.edits(a=edits)
    with pytest.raises(ToolError, match="do not fit"):
        await rename.make()
    assert b"old x" in (rename.bench.root / "a.fake").read_bytes()


async def test_each_renamed_file_judged_first(rename: Rename, tmp_path: Path) -> None:
    outside, root = tmp_path / "outside.fake", rename.bench.root
    outside.write_text("old\n")
    (root / "b.fake").write_text("old\n")
    there = {path.as_uri(): [edit(0, 0, 3)] for path in (outside, root / "a.fake", root / "b.fake")}
    rename.plans({"changes": there})
    call = ToolCall("1", "Code", rename.arguments)
    workspace, unknown = rename.bench.workspace, rename.tool.effect(rename.arguments, rename.bench.workspace)

    async def judge(rules: Rules) -> object:
        policy = CodePolicy(PermissionPolicy("edit", rules, home=tmp_path), None, rename.tool)
        planned = await policy.before_tool(call, unknown, workspace)
        if isinstance(planned, Allow) and planned.arguments is not None:
            assert "+new x" in str(planned.arguments["changes"])
            again = ToolCall("1", "Code", planned.arguments)
            return await policy.before_tool(again, rename.tool.effect(planned.arguments, workspace), workspace)
        return await policy.before_tool(call, rename.tool.effect(rename.arguments, workspace), workspace)

    asked = await judge(Rules())
    assert isinstance(asked, Ask)
    assert str(outside) in asked.reason
    denied = await judge(Rules.parse((), ("Edit(b.fake)",)))
    assert isinstance(denied, Deny)
    assert outside.read_text() == "old\n"


async def test_plan_from_model_ignored(rename: Rename, tmp_path: Path) -> None:
    rename.edits(a=[edit(0, 0, 3)])
    policy = CodePolicy(PermissionPolicy("ask", Rules(), home=tmp_path), None, rename.tool)
    workspace = rename.bench.workspace
    for _ in range(2):  # the second time a plan is there, of a call that was refused
        lie = JsonObject({**rename.arguments, "changes": "nothing at all"})
        call = ToolCall("1", "Code", lie)
        planned = await policy.before_tool(call, rename.tool.effect(lie, workspace), workspace)
        assert isinstance(planned, Allow)
        assert planned.arguments is not None
        assert "-old x\r\n+new x\r\n" in str(planned.arguments["changes"])
        call = ToolCall("1", "Code", planned.arguments)
        judged = await policy.before_tool(call, rename.tool.effect(planned.arguments, workspace), workspace)
        assert isinstance(judged, Ask)


@later
async def test_unreadable_file_refuses_rename(rename: Rename) -> None:
    rename.edits(a=[edit(0, 0, 3)])
    rename.bench.workspace.hidden = lambda tool, root: lambda name: name == "a.fake"
    with pytest.raises(ToolError, match=r"a\.fake, which may not be read"):
        await rename.make()


async def test_other_calls_are_judged_as_ever(rename: Rename) -> None:
    policy = CodePolicy(AllowAll(), rename.bench.access, rename.tool)
    call = ToolCall("1", "Read", json_freeze_object({"file_path": "a.fake", "action": "rename"}))
    effect = rename.tool.effect(rename.arguments, rename.bench.workspace)
    assert await policy.before_tool(call, effect, rename.bench.workspace) == Allow()


async def test_read_state_survives_rename(rename: Rename) -> None:
    workspace, path = rename.bench.workspace, rename.bench.root / "a.fake"
    (rename.bench.root / "b.fake").write_text("old\n")
    workspace.saw(path, path.read_bytes())
    rename.edits(a=[edit(0, 0, 3)], b=[edit(0, 0, 3)])
    await rename.make()
    workspace.check_unchanged(path)
    with pytest.raises(ToolError, match="was not read"):
        workspace.check_unchanged(rename.bench.root / "b.fake")


@pytest.mark.parametrize("name", ["a b", "a\nb", "\x1b[2J", "a\u202eb", "a;b()"])
async def test_compound_name_refused_early(rename: Rename, name: str) -> None:
    rename.edits(a=[edit(0, 0, 3, name)])
    with pytest.raises(ToolError, match="not one name"):
        await rename.make(json_freeze_object({**rename.arguments, "new_name": name}))
    assert (rename.bench.root / "a.fake").read_bytes() == b"old x\r\nold y\r\n"


async def test_directory_reported_as_such(rename: Rename) -> None:
    (rename.bench.root / "dir.fake").mkdir()
    with pytest.raises(ToolError, match=r"dir\.fake is not a file\."):
        await rename.make(json_freeze_object({**rename.arguments, "file_path": "dir.fake"}))


def test_diff_splits_lines_like_file(tmp_path: Path) -> None:
    before, after = "first\x0chalf\nold\u2028old\r\nlast", "first\x0chalf\nnew\u2028new\r\nlast"
    plan = RenamePlan((FileChange(tmp_path / "a.c", b"", b"", before, after),))
    shown = plan.diff(Workspace(tmp_path)).split("\n")
    assert shown == ["--- a/a.c", "+++ b/a.c", "@@ -2 +2 @@", "-old\u2028old\r", "+new\u2028new\r", ""]


@later
async def test_broken_hard_link_named(rename: Rename) -> None:
    rename.edits(a=[edit(0, 0, 3)])
    os.link(rename.bench.root / "a.fake", rename.bench.root / "other-name")
    said = await rename.make()
    assert "a.fake:" in said and "hard link" in said
    assert (rename.bench.root / "other-name").read_bytes() == b"old x\r\nold y\r\n"
