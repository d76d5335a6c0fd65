"""docs/plugins.md says what is so: its file does what the page says, and its table has every kind."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import sagent.plugin
from sagent.config.values import text_of
from sagent.plugin import KINDS, Plugin
from sagent.testing.server import Turn
from scripts.make_names import public_names
from tests.cli.program import CHECKOUT, Shell
from tests.snippets import snippets

PAGE = CHECKOUT / "docs/plugins.md"
ROW = re.compile(r"^\| `(\w+)` \| `(.+)` \| .+ \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text("utf-8"))


@pytest.fixture
def hello(shell: Shell) -> Path:
    """Save the page's first file where the page says."""
    (source,) = (each.text for each in snippets(PAGE) if "def greet(" in each.text)
    file = Path(shell.environment["HOME"]) / ".config/sagent/plugins/hello.py"
    file.parent.mkdir(parents=True)
    file.write_text(source)
    return file


def test_page_example_adds_all_parts(shell: Shell, hello: Path) -> None:
    server = shell.serve([Turn(text="Bien.")] * 4)
    assert shell.run("greet", "you", model="").out == "Hello you\n"
    assert "greet somebody" in shell.run("--help", model="").out
    assert "--language" in shell.run("help", "all", model="").out
    assert "language" in shell.run("config", "show", model="").out
    shell.run("hello")
    shell.run("--language", "French", "hello")
    (hello.parents[1] / "config.toml").write_text('language = "French"\n')
    shell.run("hello")
    (hello.parents[1] / "config.toml").unlink()
    shell.environment["SAGENT_LANGUAGE"] = "French"
    shell.run("hello")
    assert ["Speak French." in str(each.json["system"]) for each in server.requests] == [False, True, True, True]


def test_reference_has_modules_of_page() -> None:
    listed = {each.module for each in public_names()}
    text = PAGE.read_text("utf-8")
    named = {*re.findall(r"^from (sagent[\w.]*) import", text, re.MULTILINE)}
    named |= {name.rpartition(".")[0] for name in re.findall(r"`(sagent\.[a-z_.]+\.[A-Z]\w+)", text)}
    missing = {name for name in named if not name.startswith("sagent.testing.")} - listed
    assert named and not missing


def test_table_lists_every_kind_once() -> None:
    assert sorted(member for member, _ in ROWS) == sorted(KINDS)
    assert {*KINDS} <= {field.name for field in fields(Plugin)}


@pytest.mark.plugin("authoring")
@pytest.mark.parametrize(("member", "example"), ROWS, ids=[member for member, _ in ROWS])
def test_examples_match_their_kinds(shell: Shell, hello: Path, member: str, example: str) -> None:
    kind = KINDS[member][1]
    assert type(eval(example, {**vars(sagent.plugin), "text_of": text_of})) is kind
    more = 'runners=(Runner(":run"),)' if member == "flags" else ""
    hello.write_text(
        f"from sagent.config.values import text_of\nfrom sagent.plugin import *\n"
        f"plugin = Plugin('shown', {member}=({example},), {more})\n"
    )
    shown = shell.run("plugin", "list", model="")
    line = next(line for line in shown.out.splitlines() if line.startswith("shown"))
    assert KINDS[member][0] in line
    assert "is left out" not in shown.err
    assert "Error" not in line
