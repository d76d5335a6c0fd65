"""`/export`, and the page that it opens in a browser."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.config import load
from sagent.config.plugins import find_plugins
from sagent.errors import UsageError
from sagent.plugins.exports.slash import show_page
from sagent.policy.permissions import PermissionPolicy
from sagent.repl.opening import OpenedHere
from sagent.session import contents
from sagent.session.store import Session
from sagent.testing import ScriptedModel
from sagent.testing.server import Turn
from tests.repl.console import Console
from tests.repl.recorded import RecordingContext


async def test_slash_exports_and_counts_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path / "home")}, tmp_path)
    settings = replace(settings, plugins=find_plugins(tmp_path, tmp_path))
    session = Session.create(settings.state_dir, tmp_path)
    log = session.log()
    log.append(contents.Opened(session.id, "root", str(tmp_path)))
    model = ScriptedModel("The answer.")
    agent = Agent(model, resources=Resources(log=log))
    context = RecordingContext(settings, OpenedHere(agent, PermissionPolicy("edit")))
    with pytest.raises(UsageError, match="Nothing was said in this session yet"):
        await context.do("/share")
    await agent.run("my key is sk-abcdefghijklmnopqrstuvwxyz")
    assert "1 that looked like secrets" in await context.do("/export md talk.md")
    text = (tmp_path / "talk.md").read_text()
    assert "The answer." in text
    assert "abcdefghijklmnop" not in text
    assert (tmp_path / "talk.md").stat().st_mode & 0o777 == 0o600
    (tmp_path / "talk.md").write_text("mine")
    context.picks = ["keep", "replace"]
    assert await context.do("/export md talk.md") == "Nothing was exported."
    assert (tmp_path / "talk.md").read_text() == "mine"
    assert str(tmp_path / "talk.md") in (await context.do("/export md talk.md")).splitlines()
    assert (tmp_path / "talk.md").read_text() == text
    monkeypatch.setattr("sagent.plugins.exports.slash.show_page", lambda page: f"{page.name} opened")
    (tmp_path / "pages").mkdir()
    assert f"{session.path.name}.html opened" in await context.do("/export html pages")
    assert (tmp_path / "pages" / f"{session.path.name}.html").exists()
    await context.do("/export pages/talk.MD")
    assert "The answer." in (tmp_path / "pages/talk.MD").read_text()
    await context.do("/export")
    await context.do("/export jsonl")
    await context.do("/export bundle")
    found = {path.suffix for path in tmp_path.iterdir() if path.name.startswith(session.path.name)}
    assert found == {".html", ".jsonl", ".tar"}
    with pytest.raises(UsageError, match=r"no format 'pdf': give one of bundle, html, md, jsonl, cast"):
        await context.do("/export pdf")
    await agent.aclose()
    session.close()


async def test_unsaved_session_not_exported(tmp_path: Path) -> None:
    settings = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path / "home")}, tmp_path)
    settings = replace(settings, plugins=find_plugins(tmp_path, tmp_path))
    agent = Agent(ScriptedModel("The answer."))
    context = RecordingContext(settings, OpenedHere(agent, PermissionPolicy("edit")))
    with pytest.raises(UsageError, match="not saved"):
        await context.do("/export md x.md")
    assert "bundle" in [name for name, _ in context.arguments("export", "")]
    await agent.aclose()


@pytest.mark.plugin("plain")
def test_unwritable_file_ends_only_command(console: Console) -> None:
    console.serve([Turn(text="Plain words.")])
    console.environment["TERM"] = "dumb"
    console.start(ready=">")
    console.type("/export md /proc/no/file.md")
    console.until("No such file")
    console.type("hello")
    console.until("Plain words.")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"DISPLAY": ":7"}, "It is open in your browser."),
        ({"WAYLAND_DISPLAY": "w", "FAILS": "exit 3"}, "It could not be opened in a browser (xdg-open: exit 3)."),
        ({"DISPLAY": ":7", "SSH_CONNECTION": "a b"}, "Not opened in a browser: the terminal is on another"),
        ({"DISPLAY": ""}, "Not opened in a browser: there is no desktop here."),
        ({"DISPLAY": ":7", "PATH": "/nowhere"}, "Not opened in a browser: there is no xdg-open here."),
    ],
)
def test_page_opens_on_a_desktop(
    environment: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, page, program = tmp_path / "told", tmp_path / "a page.html", tmp_path / "xdg-open"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {told}; $FAILS\n')
    program.chmod(0o755)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("sagent.plugins.exports.slash.system_path", lambda: os.environ["PATH"])  # it may have one
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment}.items():
        monkeypatch.setenv(name, value)
    assert show_page(page).startswith(said)
    assert (told.read_text() if told.exists() else "") == ("" if "Not opened " in said else page.as_uri())
