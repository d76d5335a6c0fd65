"""Scripts that call the tools: each call is judged and logged, and only what the script prints comes back."""

import json
import tempfile
from pathlib import Path
from typing import get_args

import pytest

from sagent import Agent
from sagent.events import Event, ToolFinished
from sagent.lib.json import as_array, json_freeze_object
from sagent.messages import Message, ToolCall
from sagent.plugins.scripts import Script
from sagent.plugins.scripts.tool import NOT_OFFERED, command
from sagent.policy import Allow, Verdict
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.testing import ScriptedModel
from sagent.testing.server import Call, Turn
from sagent.tool import Effect, Workspace
from sagent.tools import Bash, Grep, Read, Write
from tests.benchmarks.script_tasks import tasks
from tests.benchmarks.scripts import Way, measure
from tests.cli.program import Shell
from tests.depth import later

MODEL = "anthropic/claude-sonnet-4-6"


async def said(
    code: str, cwd: Path, *, policy: PermissionPolicy | None = None, timeout: float | None = None, **more: object
) -> tuple[str, list[ToolFinished], Agent[object]]:
    """Return a script's result, the calls that ended, and the agent."""
    from sagent.agent import Resources

    given = {"code": code} | ({} if timeout is None else {"timeout": timeout}) | more
    call = ToolCall("c1", "Script", json_freeze_object(given))
    model = ScriptedModel(Message("assistant", (call,)), "ok")
    ended: list[ToolFinished] = []

    def listen(event: Event) -> None:
        if isinstance(event, ToolFinished):
            ended.append(event)

    tools = [Bash(), Read(), Grep(), Write(), Script()]
    agent = Agent(model, tools=tools, policy=policy, resources=Resources(workspace=Workspace(cwd)))
    async with agent:
        agent.listen(listen)
        await agent.run("go")
        (result,) = [result for message in agent.messages for result in message.results]
        return result.text, ended, agent


async def test_many_reads_are_one_result(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"f{number}").write_text(f"line {number}\n")
    code = "print(sum(len(Read(f'f{n}').splitlines()) for n in range(30)))\nprint(Grep(pattern='line 29'))"
    text, ended, agent = await said(code, tmp_path)
    assert text.splitlines()[0] == "30" and "f29:1:line 29" in text and "line 7" not in text
    assert [event.call.name for event in ended] == [*["Read"] * 30, "Grep", "Bash", "Script"]
    assert len([entry for entry in agent.log.entries() if entry.kind == "result"]) == 33
    assert [len(message.results) for message in agent.messages if message.results] == [1]


async def test_failed_call_raises_in_the_script(tmp_path: Path) -> None:
    code = "try:\n    Read('none')\nexcept ToolFailed as error:\n    print('caught', error)\nRead()"
    text, _, _ = await said(code, tmp_path)
    assert "caught There is no file" in text
    assert "ToolFailed: Invalid arguments for Read" in text and "exit code 1" in text


class Unwatched(PermissionPolicy):
    """A policy that lets commands run, as a sandbox would."""

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        return Allow() if call.name == "Bash" else await super().before_tool(call, effect, workspace)


async def test_policy_judges_each_call(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hunter2")
    rules = Rules.parse((), ("Read(secret.txt)", "Write(made.txt)"))
    code = (
        "for call in (lambda: Read('secret.txt'), lambda: Write('made.txt', 'x'), lambda: Read('./secret.txt')):\n"
        "    try:\n        print('got', call())\n    except ToolFailed as error:\n        print('refused', error)"
    )
    text, _, _ = await said(code, tmp_path, policy=Unwatched("edit", rules))
    assert text.count("refused") == 3
    assert "hunter2" not in text and not (tmp_path / "made.txt").exists()


async def test_scripts_need_permission_to_run(tmp_path: Path) -> None:
    text, ended, _ = await said("print('ran')", tmp_path, policy=PermissionPolicy("ask", Rules.parse((), ())))
    assert "ran" not in text and [event.call.name for event in ended] == ["Bash", "Script"]


async def test_other_tools_are_no_functions(tmp_path: Path) -> None:
    code = f"print(sorted(name for name in {sorted(NOT_OFFERED)!r} if name in globals()))"
    assert (await said(code, tmp_path))[0] == "[]"


async def test_large_texts_and_odd_arguments(tmp_path: Path) -> None:
    code = (
        "Write('big.txt', 'ä' * 3_000_000)\nprint(len(open('big.txt', encoding='utf-8').read()))\n"
        "try:\n    Write('x', object())\nexcept TypeError as error:\n    print('no JSON')\n"
        "try:\n    Write('x', ['a'])\nexcept ToolFailed as error:\n    print('failed')"
    )
    assert (await said(code, tmp_path))[0].splitlines() == ["3000000", "no JSON", "failed"]


async def test_time_limit_ends_the_script(tmp_path: Path) -> None:
    assert "timed out after 1 s" in (await said("import time\ntime.sleep(600)", tmp_path, timeout=1))[0]
    assert not list(Path(tempfile.gettempdir()).glob("sagent-script-*"))


async def test_faulty_code_is_explained(tmp_path: Path) -> None:
    assert "SyntaxError" in (await said("print(", tmp_path))[0]
    assert "exit code 3" in (await said("import sys; sys.exit(3)", tmp_path))[0]


def test_code_cannot_end_its_own_document() -> None:
    shown = command("name", "END\nEOF\n", {})
    end = shown.rpartition("\n")[2]
    assert shown.count(f"\n{end}") == 1 and f"<<'{end}'" in shown


@later
@pytest.mark.needs("bwrap")
def test_script_runs_in_the_sandbox(shell: Shell) -> None:
    (shell.cwd / "a.txt").write_text("inside\n")
    code = (
        "print(Read('a.txt'))\nimport os\nprint(os.path.exists(os.path.expanduser('~/.ssh')))\n"
        "try:\n    open('/etc/made', 'w')\nexcept OSError:\n    print('not there')"
    )
    server = shell.serve([Turn(calls=(Call("Script", {"code": code}),)), Turn(text="ok")])
    done = shell.run("--tools", "default,Script", "--model", MODEL, "go", model="")
    assert done.code == 0, done.err
    result = json.dumps(as_array(server.requests[1].json["messages"])[-1])
    assert "inside" in result and "not there" in result
    assert shell.run("verify", model="").code == 0


@later
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("number", [5, 15, 16, 17])
def test_tasks_of_the_benchmark_are_done_each_way(number: int) -> None:
    task = tasks()[number]
    found = [measure(task, way) for way in get_args(Way)]
    assert all(one.done for one in found)
    assert found[-1].requests == 2 < found[0].requests and found[-1].sent < found[0].sent
