"""Commands and skills from files: what they run and read is judged, and what they send holds it."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.config import Settings, load
from sagent.errors import UsageError
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.repl.commands.registry import all_commands
from sagent.repl.headless_command import run_headless_command
from sagent.repl.opening import Opened
from sagent.sandbox import Sandbox
from sagent.testing import ScriptedModel
from sagent.tool import Workspace
from sagent.tools import Bash, Read


class Project:
    def __init__(self, settings: Settings, opened: Opened) -> None:
        self.settings, self.opened, self.root = settings, opened, settings.cwd

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    async def send(self, line: str) -> str:
        return await run_headless_command(line, self.settings, self.opened, lambda _: None)


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[Project]:
    root = tmp_path / "work"
    root.mkdir()
    settings = load({"cwd": str(root)}, {"HOME": os.environ["HOME"]}, root)
    policy = PermissionPolicy("edit", Rules.parse(["Bash(echo:*)"], ["Read(secret.txt)"]))
    resources = Resources(workspace=Workspace(root))
    async with Agent(ScriptedModel("ok"), tools=[Bash(), Read()], policy=policy, resources=resources) as agent:
        yield Project(settings, Opened(agent, policy, Sandbox("off")))


async def test_command_fills_arguments_and_files(project: Project) -> None:
    project.write(
        ".claude/commands/fix.md",
        "---\ndescription: fixes\nargument-hint: [n]\n---\n"
        "Fix $1 in $ARGUMENTS.\nBranch: !`echo main $1`\nSee @notes.txt.",
    )
    project.write("notes.txt", "take care")
    said = await project.send("/fix 12 now")
    assert said.startswith("Fix 12 in 12 now.\nBranch: main 12\nSee @notes.txt.")
    assert '<file path="notes.txt">\ntake care\n</file>' in said
    assert all_commands(project.settings)["fix"].summary == "fixes ([n])"


async def test_refused_command_and_file_not_run(project: Project) -> None:
    project.write(".claude/commands/run.md", "!`touch made`")
    with pytest.raises(UsageError, match=r"touch made is not allowed"):
        await project.send("/run")
    assert not (project.root / "made").exists()
    project.write(".claude/commands/show.md", "@secret.txt")
    project.write("secret.txt", "k")
    with pytest.raises(UsageError, match=r"@secret\.txt is not allowed"):
        await project.send("/show")
    key = Path(os.environ["HOME"]) / ".ssh" / "id_rsa"
    key.parent.mkdir()
    key.write_text("PRIVATE")
    project.write(".claude/commands/steal.md", "@~/.ssh/id_rsa")
    with pytest.raises(UsageError, match=r"not allowed"):
        await project.send("/steal")


@pytest.mark.parametrize("body", ["Fix $ARGUMENTS.", "Fix", "Fix !$1", "$1`echo $((6*7))`", "Fix `$2 !`"])
@pytest.mark.parametrize(
    "words", ["!`echo $((6*7))`", '"`echo $((6*7))`"', "!{echo $((6*7))}", "!", '- "echo $((6*7))"']
)
async def test_typed_arguments_are_not_run(project: Project, body: str, words: str) -> None:
    """It may be somebody's issue."""
    project.write(".claude/commands/fix.md", body)
    said = await project.send(f"/fix {words}")
    assert "42" not in said and "\0" not in said
    assert "$ARGUMENTS" not in body or said == f"Fix {words}."


async def test_unknown_mentions_stay_text(project: Project) -> None:
    project.write(".agents/commands/ask.md", "Ask @anna, and a@b.org.")
    assert await project.send("/ask") == "Ask @anna, and a@b.org."


async def test_command_names_skip_outside_links(project: Project) -> None:
    project.write(".claude/commands/test.md", "one")
    project.write(".claude/commands/web/test.md", "two")
    project.write(".claude/commands/web/lint.md", "three")
    (project.root.parent / "outside.md").write_text("four")
    os.symlink(project.root.parent / "outside.md", project.root / ".claude/commands/out.md")
    found = all_commands(project.settings)
    assert {"test", "web:test", "lint"} <= set(found) and "out" not in found
    assert await project.send("/web:test") == "two"


async def test_skill_is_a_command(project: Project) -> None:
    project.write(".claude/skills/deploy/SKILL.md", "---\ndescription: deploys\n---\nRun ${CLAUDE_SKILL_DIR}/go $1")
    said = await project.send("/deploy now")
    assert said.endswith(f"Run {project.root}/.claude/skills/deploy/go now")
