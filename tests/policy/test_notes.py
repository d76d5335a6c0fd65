"""The memory's folders: tools for files read them and write their Markdown files, and nobody else does."""

from pathlib import Path

import pytest

from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.policy import Allow, Ask, Deny, Verdict
from sagent.policy.permissions import Mode, PermissionPolicy
from sagent.policy.rules import Rules
from sagent.tool import Effect, Workspace
from sagent.tools import Edit, Glob, Grep, List, Read, Write

KEY = "sk-ant-api03-" + "x1Y2z3" * 8


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """The folder of a project, with a note, beside another project's."""
    state = tmp_path / "state"
    for name in ("memory/here/build.md", "memory/there/other.md", "sessions/x/root.jsonl"):
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_text("Build with make\n")
    (tmp_path / "tree").mkdir()
    return state / "memory" / "here"


def judging(notes: Path, mode: Mode = "edit", allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()):
    state = notes.parents[1]
    policy = PermissionPolicy(mode, Rules.parse(allow, deny), home=state.parent / "home", private=(state,))
    policy.expose(notes=(notes,))
    return policy


async def judge(policy: PermissionPolicy, tool: object, tree: Path, **arguments: str) -> Verdict:
    workspace = Workspace(tree)
    workspace.hidden = policy.hidden(workspace)
    given = json_freeze_object(arguments)
    return await policy.before_tool(ToolCall("1", tool.name, given), tool.effect(given, workspace), workspace)  # type: ignore[attr-defined]


async def writes(policy: PermissionPolicy, path: Path, content: str = "Use tabs", tree: Path | None = None) -> Verdict:
    return await judge(policy, Write(), tree or path.parents[-2], file_path=str(path), content=content)


async def test_file_tools_reach_notes_only(notes: Path, tmp_path: Path) -> None:
    policy, tree = judging(notes), tmp_path / "tree"
    assert await judge(policy, Read(), tree, file_path=str(notes / "build.md")) == Allow()
    for search in (Grep(), Glob()):
        assert await judge(policy, search, tree, pattern="make", path=str(notes)) == Allow()
    assert await judge(policy, List(), tree, path=str(notes)) == Allow()
    assert await writes(policy, notes / "build.md") == Allow()
    assert await writes(policy, notes / "new one-2.md") == Allow()
    edit = {"file_path": str(notes / "build.md"), "old_string": KEY, "new_string": "gone"}
    assert await judge(policy, Edit(), tree, **edit) == Allow()
    for name in ("run.sh", "deep/a.md", ".hidden.md", "a\nb.md", "../there/other.md", "../../sessions/x/root.jsonl"):
        verdict = await writes(policy, Path(f"{notes}/{name}"))
        assert isinstance(verdict, Ask), name
    other = notes.parent / "there" / "other.md"
    assert isinstance(await judge(policy, Read(), tree, file_path=str(other)), Ask)
    policy.expose()
    assert isinstance(await judge(policy, Read(), tree, file_path=str(notes / "build.md")), Ask)
    assert isinstance(await writes(policy, notes / "build.md"), Ask)


async def test_mode_and_rules_hold_for_notes(notes: Path, tmp_path: Path) -> None:
    path = notes / "build.md"
    assert isinstance(await writes(judging(notes, "plan"), path), Deny)
    assert await judge(judging(notes, "plan"), Read(), tmp_path / "tree", file_path=str(path)) == Allow()
    asked = await writes(judging(notes, "ask"), path)
    assert isinstance(asked, Ask) and asked.reason == f"Writing {path} needs permission."
    assert await writes(judging(notes, "ask", allow=(f"Edit(/{path})",)), path) == Allow()
    assert await writes(judging(notes, "full"), path) == Allow()
    assert isinstance(await writes(judging(notes, "full", deny=("Edit(**/*.md)",)), path), Deny)


@pytest.mark.parametrize("mode", ["edit", "ask", "full"])
async def test_no_secret_is_written_into_a_note(notes: Path, tmp_path: Path, mode: Mode) -> None:
    policy, tree = judging(notes, mode), tmp_path / "tree"
    assert isinstance(await writes(policy, notes / "a.md", f"the key is {KEY}"), Deny)
    changed = {"file_path": str(notes / "build.md"), "old_string": "make", "new_string": f"make with {KEY}"}
    verdict = await judge(policy, Edit(), tree, **changed)
    assert isinstance(verdict, Deny) and "secret" in verdict.reason
    assert not isinstance(await writes(policy, tree / "a.md", f"the key is {KEY}", tree), Deny)


async def test_link_leads_neither_out_nor_in(notes: Path, tmp_path: Path) -> None:
    policy, tree = judging(notes), tmp_path / "tree"
    (notes / "out.md").symlink_to(notes.parent / "there" / "other.md")
    (notes / "script.md").symlink_to(tmp_path / "home" / ".bashrc")
    (tree / ".git" / "hooks").mkdir(parents=True)
    (tree / ".git" / "hooks" / "pre-commit").symlink_to(notes / "build.md")
    (tmp_path / "door").symlink_to(notes.parents[1])
    assert isinstance(await judge(policy, Read(), tree, file_path=str(notes / "out.md")), Ask)
    for path in (notes / "out.md", notes / "script.md", tree / ".git" / "hooks" / "pre-commit"):
        assert isinstance(await writes(policy, path, tree=tree), Ask), path
        only_spelled = Effect("write", (path,))
        assert isinstance(await policy.before_tool(ToolCall("1", "Mine"), only_spelled, Workspace(tree)), Ask), path
    policy.expose(notes=(tmp_path / "door" / "memory" / "here",))
    for path in (notes / "build.md", tmp_path / "door" / "memory" / "here" / "build.md"):
        assert await writes(policy, path, tree=tree) == Allow(), path


async def test_commands_see_no_note(notes: Path, tmp_path: Path) -> None:
    policy, workspace = judging(notes), Workspace(tmp_path / "tree")
    for command in (f"cat {notes}/build.md", f"echo x > {notes}/build.md", f"grep -r make {notes}"):
        effect = Effect("execute", command=command)
        assert isinstance(await policy.before_tool(ToolCall("1", "Bash"), effect, workspace), Ask), command
    profile = policy.profile(workspace)
    assert str(notes.parents[1]) in profile.hidden
    assert not any(str(notes).startswith(path) for path in (*profile.writable, *profile.exposed))
