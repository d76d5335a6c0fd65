"""A call is judged as what it is when its turn has come: another call of the same reply may have changed that."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.messages import ToolCall
from sagent.peer import Action
from sagent.policy import Allow, AllowAll, Ask, Turn, Verdict
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.testing import ScriptedModel
from sagent.tool import Effect, Workspace
from sagent.tools import Bash, Edit, Read, Write
from tests.messages import call, calls


async def run(cwd: Path, *made: ToolCall, policy: object = None) -> Agent:
    """An agent whose one reply makes these calls."""
    judge = policy or PermissionPolicy("edit", home=cwd.parent)
    model = ScriptedModel(calls(*made), "Done.")
    tools = [Bash(), Write(), Edit(), Read()]
    agent = Agent(model, tools=tools, policy=judge, resources=Resources(workspace=Workspace(cwd)))  # pyright: ignore[reportArgumentType]
    await agent.run("go")
    await agent.aclose()
    return agent


def in_repository(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / ".git/config").write_text("[core]\n")
    (tmp_path / "outside").mkdir()
    return tree


async def test_write_after_cd_is_judged_there(tmp_path: Path) -> None:
    tree = in_repository(tmp_path)
    write = call("b", "Write", file_path="hooks/post-checkout", content="evil")
    agent = await run(tree, call("a", "Bash", command="cd .git"), write)
    first, second = agent.messages[2].results
    assert not first.is_error
    assert second.denied and "may run by itself" in second.text
    assert not (tree / ".git/hooks").exists()


async def test_write_through_new_link_is_judged(tmp_path: Path) -> None:
    tree = in_repository(tmp_path)
    (tree / "make.sh").write_text("ln -s ../outside here")
    policy = PermissionPolicy("edit", home=tmp_path)
    policy.rules = Rules.parse(("Bash(sh make.sh)",), ())
    write = call("b", "Write", file_path="here/x", content="evil")
    agent = await run(tree, call("a", "Bash", command="sh make.sh"), write, policy=policy)
    first, second = agent.messages[2].results
    assert not first.is_error and (tree / "here").is_symlink()
    assert second.denied and "outside the working tree" in second.text
    assert os.listdir(tmp_path / "outside") == []


async def test_allowed_write_goes_where_judged(tmp_path: Path) -> None:
    tree = in_repository(tmp_path)
    (tree / "src").mkdir()
    agent = await run(
        tree, call("a", "Bash", command="cd src"), call("b", "Write", file_path="new.py", content="x = 1\n")
    )
    assert not any(result.is_error for result in agent.messages[2].results)
    assert (tree / "src/new.py").read_text() == "x = 1\n"


class Asked:
    """A policy with a question about every write; it counts them."""

    def __init__(self) -> None:
        self.judged: list[tuple[str, tuple[Path, ...]]] = []

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        self.judged.append((call.id, effect.paths))
        return Ask(f"Write {effect.paths[0]}?") if effect.kind == "write" else Allow()

    async def after_turn(self, turn: Turn) -> Sequence[Action]:
        return ()


async def test_only_changed_question_is_asked_again(tmp_path: Path) -> None:
    tree = in_repository(tmp_path)
    (tree / "src").mkdir()
    questions: list[str] = []

    async def ask(_call: ToolCall, question: Ask) -> str | None:
        questions.append(question.reason)
        return None

    for command, count in (("true", 1), ("cd src", 2)):
        questions.clear()
        model = ScriptedModel(
            calls(call("a", "Bash", command=command), call("b", "Write", file_path="new", content="x")), "Done."
        )
        resources = Resources(workspace=Workspace(tree), ask=ask)
        agent = Agent(model, tools=[Bash(), Write()], policy=Asked(), resources=resources)
        await agent.run("go")
        await agent.aclose()
        assert len(questions) == count
    assert questions == [f"Write {tree / 'new'}?", f"Write {tree / 'src/new'}?"]
    assert (tree / "src/new").exists()


@pytest.mark.parametrize("verdict", [None, True, False, "no"])
async def test_call_without_verdict_is_not_made(verdict: object, tmp_path: Path) -> None:
    class Forgets(AllowAll):
        async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
            return verdict  # pyright: ignore[reportReturnType] -- that is the mistake

    agent = await run(tmp_path, call("a", "Write", file_path="x", content="x"), policy=Forgets())
    assert agent.messages[2].results[0].text.startswith("Write was not run: ")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("command", "made"), [("touch b", True), ("touch forbidden", False)])
async def test_changed_call_is_judged_anew(tmp_path: Path, command: str, made: bool) -> None:
    policy = PermissionPolicy("ask", home=tmp_path.parent)
    policy.rules = Rules.parse((), ("Bash(touch forbidden)",))
    asked = list[object]()

    async def change(one: ToolCall, ask: Ask) -> Allow | None:
        asked.append(one.arguments["command"])
        return Allow({"command": command}) if len(asked) == 1 else None

    model = ScriptedModel(calls(call("c", "Bash", command="touch a")), "Done.")
    resources = Resources(workspace=Workspace(tmp_path), ask=change)
    agent = Agent(model, tools=[Bash()], policy=policy, resources=resources)
    await agent.run("go")
    await agent.aclose()
    assert asked == ["touch a", *([command] if made else [])]
    assert [path.name for path in tmp_path.iterdir()] == (["b"] if made else [])
    (told,) = [message for message in agent.messages if message.sender == "person"]
    assert command in told.content  # as the model and the log have it
