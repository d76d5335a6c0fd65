"""What plugins add to the terminal: slash commands with pickers, and parts of the status line."""

import subprocess

import pytest
from console import CHECKOUT, Console

from sagent.testing.server import Turn
from tests.depth import later

pytestmark = pytest.mark.needs("tmux")
WRONG = """
from sagent.plugin import Plugin, StatusPart
plugin = Plugin("wrong", status_parts=(StatusPart("odd", "", ":none"), StatusPart("zero", "", ":zero")))
def zero(figures):
    return 1 / 0
"""
PARTS = """
import asyncio, sys, time
from sagent.plugin import Plugin, StatusPart
drawn = []
def seven(figures):
    return (7,)
def ends(figures):
    sys.exit(3)
def stops(figures):
    raise asyncio.CancelledError
def slow(figures):
    drawn.append("x")
    time.sleep(1.5)
    return f"drawn {len(drawn)}"
names = ("seven", "ends", "stops", "slow")
plugin = Plugin("wrong", status_parts=tuple(StatusPart(name, "", f":{name}") for name in names))
"""
COMMANDS = """
import sys
from sagent.plugin import Plugin, SlashCommand
from sagent.repl.commands.command import CommandContext, command
@command()
async def ends(context: CommandContext) -> None:
    "End."
    sys.exit(3)
@command()
async def picks(context: CommandContext) -> None:
    "Pick."
    await context.pick("Which?", [7])
plugin = Plugin("wrong", slash_commands=(SlashCommand("ends", ":ends"), SlashCommand("picks", ":picks")))
"""
PROVIDER = """
from sagent.model import ModelLimits
from sagent.plugin import Plugin, ProviderRow
class Large:
    provider, id, limits = "acme", "acme-large", ModelLimits()
    def max_input_tokens(self, request):
        return 10
    async def stream(self, request):
        raise SystemExit(3)
        yield
class Acme:
    name = "acme"
    @classmethod
    def from_env(cls):
        return cls()
    def model(self, model_id):
        return Large()
    async def aclose(self):
        pass
plugin = Plugin("acme", providers=(ProviderRow("acme", "models = ['acme-']", ":Acme"),))
"""


@pytest.mark.plugin("overview")
def test_plugin_command_picker_and_status_part(console: Console) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    for words in (
        ("init", "-q", "-b", "main"),
        (*who, "commit", "--quiet", "--allow-empty", "-m1"),
        ("branch", "two"),
    ):
        subprocess.run(["git", *words], cwd=console.cwd, check=True)
    folder = console.cwd.parent / "home/.config/sagent/plugins"
    folder.mkdir(parents=True)
    for name in ("slash_command", "status_part"):
        (folder / f"{name}.py").write_text((CHECKOUT / f"examples/plugins/{name}.py").read_text())
    console.serve([Turn(text="Fine.")])
    console.start("--sandbox", "off")
    console.until("load ", "⎇ main")
    console.type("/branch")
    console.until("Which branch?", "two")
    console.keys("t", "w", "o", "Enter")
    console.until("On two.")
    console.type("/help branch")
    console.until("Check out a branch.")


def test_failed_status_part_says_why(console: Console) -> None:
    folder = console.cwd.parent / "home/.config/sagent/plugins"
    folder.mkdir(parents=True)
    (folder / "wrong.py").write_text(WRONG)
    (folder.parent / "config.toml").write_text('status_line = "mode cost zero odd"\n')
    console.serve([Turn(text="Fine.")])
    console.start("--sandbox", "off", width=160)
    console.until("edit · no sandbox │ $0 │ (zero of wrong: ZeroDivisionError: division by zero)")
    console.type("hello")
    console.until("Fine.")


def test_exiting_or_blocking_parts_are_left_out(console: Console) -> None:
    folder = console.cwd.parent / "home/.config/sagent/plugins"
    folder.mkdir(parents=True)
    (folder / "wrong.py").write_text(PARTS)
    (folder.parent / "config.toml").write_text('status_line = "mode slow seven ends stops"\n')
    console.serve([Turn(text="Fine.")])
    console.start("--sandbox", "off", width=240, ready="(ends of wrong: SystemExit: 3)")
    console.until("(slow of wrong", "(seven of wrong: TypeError", "(stops of wrong: CancelledError")
    console.type("hello")
    assert "drawn 2" not in console.until("Fine.")


@later
def test_faulty_plugin_commands_are_named(console: Console) -> None:
    folder = console.cwd.parent / "home/.config/sagent/plugins"
    folder.mkdir(parents=True)
    (folder / "wrong.py").write_text(COMMANDS)
    console.serve([Turn(text="Fine.")])
    console.start("--sandbox", "off", width=160)
    console.type("/ends")
    console.until("/ends of the plugin wrong failed: SystemExit: 3")
    console.type("/picks")
    console.until("/picks of the plugin wrong failed: TypeError", "not an Option")
    console.type("hello")
    console.until("Fine.")


@later
def test_exiting_provider_is_named(console: Console) -> None:
    folder = console.cwd.parent / "home/.config/sagent/plugins"
    folder.mkdir(parents=True)
    (folder / "acme.py").write_text(PROVIDER)
    console.serve([Turn(text="Fine.")])
    console.start("--sandbox", "off", "--model", "acme/acme-large", width=160, ready="acme-large │")
    console.type("hello")
    console.until("The plugin acme failed: RuntimeError: SystemExit(3)")
    console.type("/model anthropic/claude-sonnet-4-6")
    console.until("· model anthropic/claude-sonnet-4-6")
    console.type("hello")
    console.until("Fine.")
