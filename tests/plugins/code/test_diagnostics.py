"""Errors of changes in a whole session: reported to the model with a call, or after it, from servers in the sandbox."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sagent.app import open_agent
from sagent.config import load
from sagent.events import Event, Notice
from sagent.plugins.setup.doctor import examine
from sagent.session.touches import Touched
from sagent.testing.server import Call, FakeProviderServer, Received, Turn
from tests.depth import later, slow
from tests.waiting import wait_until
from tests.walls import without_shortfall

BAD = "def f() -> int:\n    return missing\n"


class Model:
    """Writes a file with an error, says that it is done, and corrects what it hears of."""

    def __init__(self, path: str = "a.py") -> None:
        self.path, self.bodies = path, list[str]()

    def answer(self, request: Received) -> Turn:
        body = request.body.decode()
        self.bodies.append(body)
        match len(self.bodies):
            case 1:
                return Turn(calls=(Call("Write", {"file_path": self.path, "content": BAD}),))
            case _ if "New error" in body and "return 1" not in body:
                edit = {"file_path": self.path, "old_string": "missing", "new_string": "1  # return 1"}
                return Turn(calls=(Call("Edit", edit),))
            case _:
                return Turn(text="done")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    (tmp_path / "work").mkdir()
    return {"HOME": str(tmp_path), "SAGENT_STATE_DIR": str(tmp_path / "state"), "PATH": path}


async def run(
    directory: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, **flags: object
) -> tuple[Model, list[Event]]:
    model, events = Model(), list[Event]()
    async with FakeProviderServer(model.answer) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        settings = load({"model": "anthropic/claude-sonnet-4-6", **flags}, environment, directory / "work")
        async with open_agent(settings, events.append) as agent:
            await agent.run("go")
    return model, events


@pytest.mark.parametrize("sandbox", ["auto", pytest.param("off", marks=slow)])
async def test_model_sees_error_and_fixes_it(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    monkeypatch.setattr("sagent.plugins.code.lsp.checks.TURN_END_TIMEOUT_SECONDS", 60.0)
    model, events = await run(tmp_path, environment, monkeypatch, diagnostics="on", sandbox=sandbox)
    body = next(body for body in model.bodies if "New error" in body)
    assert "New error in a.py" in body
    assert "is not defined" in body or "Undefined name" in body
    assert "1  # return 1" in (tmp_path / "work" / "a.py").read_text()
    assert [event.text for event in events if isinstance(event, Notice) and without_shortfall(event.text)] == []


class Renamer:
    """Renames what the project has, and is done."""

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def answer(self, request: Received) -> Turn:
        self.bodies.append(request.body.decode())
        rename = {"action": "rename", "file_path": "b.py", "symbol": "sow", "new_name": "plant"}
        return Turn(calls=(Call("Code", rename),)) if len(self.bodies) == 1 else Turn(text="done")


@later
async def test_rename_can_be_rewound_per_file(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work" / "a.py").write_text("def sow() -> int:\n    return 1\n")
    (tmp_path / "work" / "b.py").write_text("from a import sow\n\nprint(sow())\n")
    model = Renamer()
    async with FakeProviderServer(model.answer) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        flags = {"model": "anthropic/claude-sonnet-4-6", "tools": ("default", "code")}
        async with open_agent(load(flags, environment, tmp_path / "work"), lambda _: None) as agent:
            await agent.run("go")
            kept = agent.log.contents()
            touched = [each.content for each in kept.latest("touched") if isinstance(each.content, Touched)]
    assert "plant" in (tmp_path / "work" / "a.py").read_text()
    said = model.bodies[-1].partition('"messages":')[2]
    assert '"changes":' not in said.partition("Renamed in 2 files: a.py, b.py.")[0]
    assert [Path(touch.path).name for touch in touched[0].files] == ["a.py", "b.py"]
    assert all(touch.before.kind == "file" for touch in touched[0].files)


@pytest.mark.costly
@pytest.mark.parametrize("flags", [{}, {"diagnostics": "off"}])
async def test_headless_run_starts_no_server(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, flags: dict[str, object]
) -> None:
    for name in [name for name in sys.modules if name.startswith("sagent.plugins.code.")]:
        monkeypatch.delitem(sys.modules, name)
    model, _ = await run(tmp_path, environment, monkeypatch, **flags)
    assert len(model.bodies) == 2
    assert [name for name in sys.modules if name.startswith("sagent.plugins.code.")] == []


@later
@pytest.mark.needs("bwrap")
async def test_servers_cannot_write_or_see_keys(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Path(__file__).with_name("fake_language_server.py")
    command = f'["{sys.executable}", "{fake}", "prying"]'
    config = tmp_path / "config.toml"
    config.write_text(
        f'[language_servers.prying]\ncommand = {command}\nkind = "own"\nlanguages = {{ ".py" = "python" }}\n'
        "[language_servers.pyright]\noff = true\n[language_servers.ruff]\noff = true\n"
    )
    monkeypatch.setattr("sagent.plugins.code.lsp.checks.TURN_END_TIMEOUT_SECONDS", 60.0)
    environment["SAGENT_CONFIG"] = str(config)
    model, _ = await run(tmp_path, environment, monkeypatch, diagnostics="on", permission_mode="edit")
    assert any("bad: wrote False, False; has keys False" in body for body in model.bodies)
    assert not (tmp_path / "work" / "pried").exists()


@later
@pytest.mark.needs("linux")
async def test_killed_session_ends_servers(tmp_path: Path, environment: dict[str, str]) -> None:
    def running() -> list[str]:
        found: list[str] = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if b"ruff\0server" in (process / "cmdline").read_bytes() and (process / "cwd").resolve() == work:
                    found.append(process.name)
            except OSError:
                continue
        return found

    work = (tmp_path / "work").resolve()
    async with FakeProviderServer(Model().answer) as server:
        variables = {**environment, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        code = (
            "import asyncio, sys; from sagent.app import open_agent; from sagent.config import load\n"
            "async def main():\n"
            "    settings = load({'model': 'anthropic/claude-sonnet-4-6', 'diagnostics': 'on'})\n"
            "    async with open_agent(settings, lambda _: None) as agent:\n"
            "        await agent.run('go'); print('ran', flush=True); await asyncio.sleep(600)\n"
            "asyncio.run(main())\n"
        )
        checkout = str(Path(__file__).parents[3])
        argv = [sys.executable, "-c", code]
        variables["PYTHONPATH"] = checkout
        import asyncio

        child = subprocess.Popen(argv, env=variables, cwd=work, stdout=subprocess.PIPE)
        try:
            assert child.stdout is not None
            assert await asyncio.to_thread(child.stdout.readline) == b"ran\n"
            assert running()
            child.send_signal(signal.SIGKILL)
            child.wait()
            await asyncio.to_thread(wait_until, lambda: not running(), "the end of the servers")
        finally:
            child.kill()
            child.communicate()


async def test_doctor_lists_servers(tmp_path: Path, environment: dict[str, str]) -> None:
    settings = load({}, environment, tmp_path / "work")
    said = {each.what: each.detail for each in await examine(settings)}["language servers"]
    assert {"pyright", "ruff"} <= set(said.split(", "))
    off = load({"diagnostics": "off"}, environment, tmp_path / "work")
    assert "off" in {each.what: each.detail for each in await examine(off)}["language servers"]
