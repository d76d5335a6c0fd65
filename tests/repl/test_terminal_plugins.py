"""What plugins add to the terminal: slash commands with pickers, and parts of the status line."""

import subprocess

import pytest
from console import CHECKOUT, Console

from sagent.testing.server import Turn

pytestmark = pytest.mark.needs("tmux")
WRONG = """
from sagent.plugin import Plugin, StatusPart
plugin = Plugin("wrong", status_parts=(StatusPart("odd", "", ":none"), StatusPart("zero", "", ":zero")))
def zero(figures):
    return 1 / 0
"""


def test_a_plugins_command_has_a_picker_and_its_part_of_the_status_line_is_shown(console: Console) -> None:
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


def test_a_part_that_cannot_be_shown_says_why_and_the_others_stay(console: Console) -> None:
    folder = console.cwd.parent / "home/.config/sagent/plugins"
    folder.mkdir(parents=True)
    (folder / "wrong.py").write_text(WRONG)
    (folder.parent / "config.toml").write_text('status_line = "mode cost zero odd"\n')
    console.serve([Turn(text="Fine.")])
    console.start("--sandbox", "off", width=160)
    console.until("edit · no sandbox │ $0 │ (zero: ZeroDivisionError: division by zero) │ (odd: AttributeError")
    console.type("hello")
    console.until("Fine.")
