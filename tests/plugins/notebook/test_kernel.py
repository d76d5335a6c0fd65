"""Notebook: real kernels, in a real sandbox where there is one."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.messages import Image, ToolCall
from sagent.plugins.notebook import Notebook
from sagent.policy import Allow, Ask, Deny
from sagent.policy.permissions import Mode, PermissionPolicy
from sagent.policy.rules import Rules
from sagent.repl.view.calls import render_approval
from sagent.sandbox import Sandbox
from sagent.sandbox.probe import Confinement
from sagent.tool import RunContext, ToolOutput, Workspace
from tests.depth import later
from tests.tools.conftest import Call, Folder
from tests.waiting import until

pytestmark = pytest.mark.skipif(find_spec("ipykernel") is None, reason="needs the extra notebook")

PICTURE = """
import struct, zlib
from IPython.display import Image, display
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
head = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
rows = chunk(b"IDAT", zlib.compress((b"\\0" + b"\\xff\\0\\0" * 8) * 8))
picture = Image(data=b"\\x89PNG\\r\\n\\x1a\\n" + head + rows + chunk(b"IEND", b""))
"""
SLEEPS = "import time; time.sleep(60)"


@pytest.fixture
async def notebook() -> AsyncIterator[Notebook]:
    tool = Notebook()
    yield tool
    await tool.aclose()


def text_of(output: ToolOutput) -> str:
    return "".join(getattr(part, "text", "") for part in output.content)


async def test_variables_errors_images_and_limit(notebook: Notebook, call: Call) -> None:
    assert text_of(await call(notebook, code="x = 41\nprint('hi')\nx + 1")) == "hi\n42\n"
    failed = await call(notebook, code="x / 0")
    assert failed.is_error
    assert "ZeroDivisionError" in text_of(failed)
    assert "\x1b" not in text_of(failed)
    shown = await call(notebook, code=PICTURE + "display(picture)\nprint(x)")
    assert [type(part) for part in shown.content][:1] == [Image]
    assert "41" in text_of(shown)
    many = await call(notebook, code="for _ in range(14): display(picture)")
    assert sum(isinstance(part, Image) for part in many.content) == 10
    assert "left out" in text_of(many)
    long = await call(notebook, code="print('y' * 3_000_000)")
    assert len(text_of(long)) < 500_000
    assert "characters are left out" in text_of(long)
    assert (await call(notebook, code="input()")).is_error
    assert text_of(await call(notebook, code="pass")) == "(no output)"
    late = await call(notebook, code=SLEEPS, timeout=0.1)
    assert late.is_error
    assert "took longer than 0.1 s" in text_of(late)
    assert text_of(await call(notebook, code="x")) == "41\n"


@later
async def test_missing_kernel_explained(notebook: Notebook, call: Call, workspace: Workspace) -> None:
    place = workspace.cwd / "{name}" / ".venv"
    package = place / "lib" / "python3.12" / "site-packages"
    package.mkdir(parents=True)
    (package / "ipykernel_launcher.py").touch()
    (place / "bin").mkdir()
    (place / "bin" / "python").touch(0o600)
    workspace.cwd = place.parent
    refused = await call(notebook, code="1")
    assert refused.is_error
    assert "there is no kernel" in text_of(refused)
    assert "{name}" in text_of(refused)


@later
async def test_interrupts_keep_kernel_exits_end_it(
    notebook: Notebook, call: Call, workspace: Workspace, tmp_path: Path
) -> None:
    late = await call(notebook, code=f"x = 1\n{SLEEPS}", timeout=2)
    assert late.is_error
    assert "took longer than 2 s" in text_of(late)
    assert text_of(await call(notebook, code="x")) == "1\n"
    said: list[str] = []
    run = RunContext("root", "c", workspace, Folder(tmp_path / "more"), said.append)
    cancelled = asyncio.create_task(notebook(json_freeze_object({"code": f"print('on', flush=True)\n{SLEEPS}"}), run))
    await until(lambda: bool(said))
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert text_of(await call(notebook, code="x")) == "1\n"
    stubborn = f"while True:\n    try:\n        {SLEEPS}\n    except KeyboardInterrupt: pass"
    assert "its kernel was ended" in text_of(await call(notebook, code=stubborn, timeout=0.3))
    assert "NameError" in text_of(await call(notebook, code="x"))
    ended = await call(notebook, code="import os; os._exit(3)")
    assert "the kernel has ended" in text_of(ended)
    assert "NameError" in text_of(await call(notebook, code="x"))
    await call(notebook, code="x = 2")
    assert "NameError" in text_of(await call(notebook, code="x", restart=True))


@later
async def test_one_kernel_per_agent(notebook: Notebook, workspace: Workspace, tmp_path: Path) -> None:
    blobs = Folder(tmp_path / "blobs")

    async def ask(agent: str, code: str) -> str:
        run = RunContext(agent, "c", workspace, blobs, lambda _: None)
        return text_of(await notebook(json_freeze_object({"code": code}), run))

    first = await asyncio.gather(*(ask("root", f"x = {number}\nx") for number in range(4)))
    assert list(first) == [f"{number}\n" for number in range(4)]
    assert "NameError" in await ask("root/other", "x")
    assert await ask("root", "x") == "3\n"


@later
async def test_notebook_cell_runs_as_judged(
    notebook: Notebook, workspace: Workspace, tmp_path: Path, call: Call
) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["y = 6\n", "y * 7"], "outputs": []},
    ]
    file = workspace.cwd / "a b.ipynb"
    file.write_text(json.dumps({"cells": cells}))
    assert text_of(await call(notebook, file_path="a b.ipynb", cell=2)) == "42\n"
    arguments = json_freeze_object({"file_path": "a b.ipynb", "cell": 2})
    effect = notebook.effect(arguments, workspace)
    file.write_text(json.dumps({"cells": [cells[0], {**cells[1], "source": "'another'"}]}))
    run = RunContext("root", "c", workspace, Folder(tmp_path / "more"), lambda _: None, effect=effect)
    assert text_of(await notebook(arguments, run)) == "42\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "either code"),
        ({"code": "1", "file_path": "a.ipynb"}, "either code"),
        ({"file_path": "a.ipynb", "cell": 9}, "has 2 cells"),
        ({"file_path": "a.ipynb"}, "has 2 cells"),
        ({"file_path": "a.ipynb", "cell": 1}, "has no code"),
        ({"file_path": "b.ipynb", "cell": 1}, "is not a notebook"),
        ({"file_path": "c.ipynb", "cell": 1}, "no file"),
        ({"file_path": "secret.ipynb", "cell": 1}, "may not be read"),
        ({"file_path": "link.ipynb", "cell": 1}, "may not be read"),
    ],
    ids=str,
)
def test_unrunnable_cell_refused(arguments: dict[str, object], why: str, workspace: Workspace) -> None:
    root = workspace.cwd
    cells = {"cells": [{"cell_type": "markdown", "source": "x"}, {"cell_type": "code", "source": "1"}]}
    (root / "a.ipynb").write_text(json.dumps(cells))
    (root / "secret.ipynb").write_text(json.dumps(cells))
    (root / "b.ipynb").write_text("[" * 100_000)
    (root / "link.ipynb").symlink_to(root / "secret.ipynb")
    policy = PermissionPolicy("full", Rules.parse((), ("Read(secret.ipynb)",)))
    workspace.hidden = policy.hidden(workspace)
    with pytest.raises(ToolError, match=why):
        Notebook().effect(json_freeze_object(arguments), workspace)


@pytest.mark.parametrize(
    ("mode", "rules", "verdict"),
    [
        ("plan", Rules(), Deny),
        ("ask", Rules(), Ask),
        ("edit", Rules(), Ask),
        ("full", Rules(), Allow),
        ("edit", Rules.parse(("Notebook",), ()), Allow),
        ("full", Rules.parse((), ("Notebook",)), Deny),
        ("full", Rules.parse((), ("Bash",)), Deny),
        ("edit", Rules.parse(("Notebook",), ("Bash",)), Deny),
        ("edit", Rules.parse(("Bash",), ()), Ask),
    ],
)
async def test_unsandboxed_asks_like_command(mode: Mode, rules: Rules, verdict: type, workspace: Workspace) -> None:
    arguments: JsonObject = json_freeze_object({"code": "import shutil; shutil.rmtree('/')"})
    effect = Notebook().effect(arguments, workspace)
    policy = PermissionPolicy(mode, rules)
    assert isinstance(await policy.before_tool(ToolCall("1", "Notebook", arguments), effect, workspace), verdict)


async def test_approval_shows_whole_cell(workspace: Workspace) -> None:
    source = "\n".join(f"line_{number} = {number}" for number in range(100)) + "\nimport shutil; shutil.rmtree('/')"
    (workspace.cwd / "a.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": source}]}))
    arguments = json_freeze_object({"file_path": "a.ipynb", "cell": 1})
    call = ToolCall("1", "Notebook", arguments)
    effect = Notebook().effect(arguments, workspace)
    verdict = await PermissionPolicy("ask").before_tool(call, effect, workspace)
    assert isinstance(verdict, Ask)
    lines = render_approval(call, verdict, lambda _: None, 200)
    shown = "\n".join("".join(text for _, text in line) for line in lines)
    assert all(f"line_{number} = {number}" in shown for number in range(100))
    assert "shutil.rmtree" in shown


@later
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("changed", [False, pytest.param(True, marks=later)])
async def test_sandboxed_and_restarted_on_change(
    workspace: Workspace, tmp_path: Path, call: Call, *, changed: bool
) -> None:
    sandbox = Sandbox()
    tool = Notebook(sandbox=sandbox)
    policy = PermissionPolicy("edit", home=tmp_path)
    workspace.profile = policy.profile
    outside = tmp_path / "outside"
    outside.mkdir()
    try:
        made = await call(tool, code=f"x = 1; open('made', 'w').write('x'); open({str(outside / 'made')!r}, 'w')")
        assert made.is_error
        assert (workspace.cwd / "made").exists()
        assert not list(outside.iterdir())
        if not changed:
            return
        policy.mode = "plan"
        planned = await call(tool, code="open('more', 'w').write('x')")
        assert "Error" in text_of(planned)
        assert "in a new kernel" in text_of(planned)
        assert not (workspace.cwd / "more").exists()
    finally:
        await tool.aclose()
        await sandbox.aclose()


async def test_forbidden_listening_explained(workspace: Workspace, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))
    sandbox = Sandbox()
    with pytest.raises(ToolError, match="which Landlock does not allow"):
        await call(Notebook(sandbox=sandbox), code="1")
    await sandbox.aclose()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from sagent.lib.json import json_freeze_object
from sagent.tool import RunContext, Workspace
from sagent.plugins.notebook import Notebook
async def main():
    run = RunContext("root", "c", Workspace(Path(sys.argv[1])), None, print)
    code = "import os, subprocess; p = subprocess.Popen(['sleep', '600'])"
    code += "; open('pids', 'w').write(f'{os.getpid()} {p.pid}')"
    await Notebook()(json_freeze_object({"code": code}), run)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@later
async def test_killed_sagent_ends_kernel(workspace: Workspace) -> None:
    argv = [sys.executable, "-c", KILLED, str(workspace.cwd)]
    done = await asyncio.to_thread(subprocess.run, argv, check=False, capture_output=True, timeout=60)
    assert done.returncode == -9, done.stderr
    pids = [int(pid) for pid in (workspace.cwd / "pids").read_text().split()]
    await until(lambda: not any(_runs(pid) for pid in pids))


def _runs(pid: int) -> bool:
    try:
        return (
            "zombie" not in Path(f"/proc/{pid}/status").read_text()
            if os.path.isdir("/proc")
            else os.kill(pid, 0) is None
        )
    except OSError:
        return False
