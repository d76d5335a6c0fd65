"""Forms of calls and layers around models that plugins add, and replies with calls where none reads them."""

import subprocess
import sys
from pathlib import Path

import pytest

from sagent.context.calls import valid_stream
from sagent.lib.json import EMPTY
from sagent.messages import Message, Text, ToolCall, user
from sagent.model import Reply, Request, TextPart, ToolSpec
from sagent.plugin import CallForm
from sagent.testing import ScriptedModel
from sagent.testing.server import Turn
from tests.cli.program import Shell
from tests.deleted import copied_without
from tests.depth import later

SOURCE = """
from sagent.context.calls import WrittenCalls
from sagent.lib.json import JsonObject
from sagent.messages import ToolCall
from sagent.plugin import CallForm, ModelLayer, Plugin

class Reader:
    def __init__(self, request, before):
        self.held = ""

    def feed(self, text):
        if not self.held and "@" not in text:
            return text
        shown, sign, rest = ("", "", text) if self.held else text.partition("@")
        self.held += sign + rest
        return shown

    def rest(self):
        return self.held

    def calls_in(self, text, reply):
        before, sign, path = text.partition("@list ")
        if not sign:
            return None
        return WrittenCalls(before, (ToolCall("at_1", "List", JsonObject({"path": path.strip()})),))

def layer(choice):
    return Loud

class Loud:
    def __init__(self, model):
        self.model = model

    async def stream(self, request):
        from dataclasses import replace
        async for item in self.model.stream(replace(request, system="LOUD")):
            yield item

    def __getattr__(self, name):
        return getattr(self.model, name)

plugin = Plugin(
    "at",
    call_forms=(CallForm("at", "@list PATH", ":Reader", "@", "@list "),),
    model_layers=(ModelLayer(":layer", ("effort=low",)),),
)
"""
LOOKS = '<tool_call>\n{"name": "List", "arguments": {"path": "."}}\n</tool_call>'


@pytest.fixture
def file(shell: Shell) -> Path:
    """A plugin of the person's own with a form of calls and a layer."""
    file = Path(shell.environment["HOME"]) / ".config/sagent/plugins/at.py"
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE)
    return file


@pytest.mark.usefixtures("file")
def test_plugin_call_form_used(shell: Shell) -> None:
    (shell.cwd / "seen.txt").touch()
    server = shell.serve([Turn(text="I look. @list ."), Turn(text="Mail me@home.")])
    done = shell.run("look")
    assert (done.code, done.out) == (0, "Mail me@home.\n")
    assert "wrote its call as text" in done.err
    assert "seen.txt" in str(server.requests[1].json["messages"])


@pytest.mark.plugin("textcalls")
@pytest.mark.usefixtures("file")
def test_other_forms_still_read(shell: Shell) -> None:
    shell.serve([Turn(text=LOOKS), Turn(text="Fine.")])
    assert shell.run("look").out == "Fine.\n"


@pytest.mark.usefixtures("file")
def test_layer_wraps_chosen_models(shell: Shell) -> None:
    server = shell.serve([Turn(text="Fine."), Turn(text="Fine.")])
    shell.run("--effort", "low", "hello")
    shell.run("hello")
    assert ["LOUD" in str(each.json["system"]) for each in server.requests] == [True, False]


@pytest.mark.parametrize(
    "where", ["feed(self, text):", "calls_in(self, text, reply):", "__init__(self, request, before):"]
)
def test_failing_form_named_and_text_kept(shell: Shell, file: Path, where: str) -> None:
    file.write_text(SOURCE.replace(where, f"{where}\n        raise ValueError('no')"))
    shell.serve([Turn(text="I look. @list .")])
    done = shell.run("--output-format", "text", "look")
    assert (done.code, done.out) == (0, "I look. @list .\n")
    assert "form at are not read" in done.err and "ValueError: no" in done.err
    assert str(file) in done.err


@pytest.mark.parametrize("where", ["feed(self, text):", "rest(self):", "calls_in(self, text, reply):"])
async def test_failing_reader_loses_nothing(file: Path, where: str) -> None:
    """With one that works before it, which holds text back too."""
    file.write_text(SOURCE.replace(where, f"{where}\n        return 7"))
    forms = [CallForm(f"form{number}", "", f"{file}:Reader", "@", "@list ") for number in range(2)]
    for parts in ((Text("I look @lis"),), (Text("I look @list ."), ToolCall("c", "List", EMPTY))):
        reply = Message("assistant", parts, stop="tool_use" if len(parts) > 1 else "end")
        request = Request("c", (user("go"),), tools=(ToolSpec("List", "Lists.", EMPTY),))
        model = ScriptedModel(("I look @l", reply.content[9:], Message("assistant", parts[1:], stop=reply.stop)))
        items = [item async for item in valid_stream(model, request, lambda: forms)]
        assert "".join(item.text for item in items if isinstance(item, TextPart)) == reply.content
        assert isinstance(items[-1], Reply)
        assert items[-1].message.content == reply.content
        assert items[-1].message.calls == reply.calls


@pytest.mark.parametrize(("returned", "error"), [("1 / 0", "ZeroDivisionError"), ("lambda _: None", "TypeError")])
def test_failing_layer_named(shell: Shell, file: Path, returned: str, error: str) -> None:
    file.write_text(SOURCE.replace("return Loud", f"return {returned}"))
    shell.serve([Turn(text="Fine.")])
    done = shell.run("--effort", "low", "hello")
    assert done.code == 2
    assert f"plugin at failed: {error}" in done.err


def test_bad_expression_drops_plugin(shell: Shell, file: Path) -> None:
    file.write_text(SOURCE.replace('"@list "),', '"("),'))
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert "The plugin at" in done.err


@later
@pytest.mark.plugin("textcalls")
def test_call_like_text_noted_without_form(shell: Shell, tmp_path: Path) -> None:
    """And native calls are made; a session with calls in text goes on."""
    shell.serve([Turn(text=LOOKS), Turn(text="Fine."), Turn(text=LOOKS), Turn(text="{}")])
    assert shell.run("look").out == "Fine.\n"
    code = "import sys; from sagent.bin.cli import main; sys.exit(main())"
    environment = {**shell.environment, "PYTHONPATH": str(copied_without("textcalls", tmp_path / "copy"))}
    words = ["--model", "anthropic/claude-sonnet-4-6", "--continue", "again"]
    for said in (True, False):
        run = [sys.executable, "-c", code, *words]
        done = subprocess.run(run, cwd=shell.cwd, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert ("that needs the plugin textcalls" in done.stderr) == said
