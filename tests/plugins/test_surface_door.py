"""What a part of an agent adds for its person, and tools that it adds later: the door that MCP and editors take."""

from pathlib import Path

import pytest

from sagent.testing.server import Call, Turn
from tests.cli.program import Shell

SOURCE = """
from sagent.messages import Text
from sagent.plugin import Part, Plugin
from sagent.surface import Prompt
from sagent.tool import Harmless, arguments_schema

class Late(Harmless):
    name, description, parameters, deferrable = "late", "Answers late.", arguments_schema(), True

    async def __call__(self, arguments, run):
        return "better late"

class Source:
    adds = True

    async def offered(self):
        return [Prompt("ours__greet", "greets", self.fill)]

    async def fill(self, typed):
        return f"Greet {typed}."

    async def resources(self):
        return ["shelf:book"]

    def has(self, mention):
        return mention == "shelf:book"

    async def read(self, mention):
        return [Text("Once upon a time")]

    def follow(self, changed):
        pass

    def take_in(self, intake):
        intake.take(Late())

async def add(builder):
    source = Source()
    builder.surface.sources.append(source)
    builder.sources.append(source)

plugin = Plugin("ours", "adds a source", parts=(Part(":add", ("always",)),))
"""


@pytest.fixture
def source(shell: Shell) -> Path:
    """A plugin of the person's own with a source of prompts, resources and tools."""
    file = Path(shell.environment["HOME"]) / ".config/sagent/plugins/ours.py"
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE)
    return file


def test_prompt_of_part_is_slash_command(shell: Shell, source: Path) -> None:
    server = shell.serve([Turn(text="Hello.")])
    done = shell.run("/ours__greet you")
    assert (done.code, done.out) == (0, "Hello.\n"), done.err
    assert "Greet you." in str(server.requests[0].json["messages"])
    source.unlink()
    assert shell.run("/ours__greet you").code == 2


@pytest.mark.plugin("toolsearch")
def test_late_tool_uses_call_tool(shell: Shell, source: Path) -> None:
    server = shell.serve([Turn(calls=(Call("call_tool", {"name": "late", "arguments": {}}),)), Turn(text="Done.")])
    done = shell.run("go", "--permission-mode", "full")
    assert (done.code, done.out) == (0, "Done.\n"), done.err
    offered = str(server.requests[0].json["tools"])
    assert "call_tool" in offered
    assert "Answers late." not in offered
    assert "better late" in str(server.requests[1].json["messages"])
    assert source.exists()
