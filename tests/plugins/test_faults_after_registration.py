"""Whatever a plugin added that fails later is named and left out, and what may guard runs is not done without."""

from pathlib import Path

import pytest

from sagent.lib.json import as_array, as_object
from sagent.testing.script import Call
from sagent.testing.server import Turn
from tests.cli.program import Shell
from tests.depth import later

COMMANDS = """
import sys
from sagent.plugin import Command, Plugin
class Odd(BaseException): pass
def none(words): return None
def text(words): return "0"
async def later(words): return 0
def says(words): sys.exit("no boat today")
def odd(words): raise Odd("bang")
names = ("none", "text", "later", "says", "odd")
plugin = Plugin("boats", commands=tuple(Command(name, "h", f":{name}") for name in names))
"""
PART = """
from sagent.plugin import Part, Plugin
async def add(builder):
    builder.sections.append(lambda: "Mind the gap.")
    {line}
plugin = Plugin("added", parts=(Part(":add", ("always",)),))
"""
FAILING = {
    "a section that raises": ("builder.sections.append(lambda: 1 / 0)", "division by zero", True),
    "a section that is no text": ("builder.sections.append(lambda: 7)", "int as a section", True),
    "a follower that raises": ("builder.started.append(lambda agent: 1 / 0)", "division by zero", True),
    "a policy that is none": ("builder.judge = None", "NoneType into builder.judge", False),
    "a listener that is none": ("builder.listener = 7", "int into builder.listener", False),
    "a source that is none": ("builder.sources = [7]", "int into builder.sources", False),
    "a layer that is none": ("builder.layers.append(7)", "int into builder.layers", False),
    "an adapter that is none": ("builder.adapters.append(7)", "int into builder.adapters", False),
    "resources that are none": ("builder.resources = 7", "int into builder.resources", False),
    "a tool that is none": ("builder.tools.append(7)", "int is not a tool", False),
    "a layer that raises": ("builder.wrap(lambda tools: 1 / 0)", "division by zero", False),
    "a log that is none": ("builder.log = None", "it replaced builder.log", False),
    "a choice that is none": ("builder.choice = None", "it replaced builder.choice", False),
    "a workspace that is none": ("builder.workspace = 7", "it replaced builder.workspace", False),
    "notices that are none": ("builder.notices = 7", "it replaced builder.notices", False),
    "settings that are none": ("builder.settings = 7", "it replaced builder.settings", False),
    "an exit": ("raise SystemExit(3)", "SystemExit: 3", False),
    "an end that nobody asked for": ("import asyncio; raise asyncio.CancelledError", "CancelledError", False),
    "an error of its own": ("raise type('Panic', (BaseException,), {})('bang')", "Panic: bang", False),
}
ODD = """
from sagent.config.values import whole
from sagent.plugin import Plugin, Setting, ToolEntry
class Odd:
    name, description, parameters = "Odd", "Odd.", {schema}
    async def __call__(self, arguments, run):
        return "ok"
plugin = Plugin(
    "odd", settings=(Setting("depth", whole, 10, "int"),), tools=(ToolEntry("Odd", ":Odd", ("default",)),)
)
"""
PROVIDER = """
from sagent.model import ModelLimits
from sagent.plugin import Plugin, ProviderRow
class Large:
    provider, id, limits = "acme", "acme-large", ModelLimits()
    def max_input_tokens(self, request):
        return 10
    async def stream(self, request):
        {line}
        yield
class Acme:
    name = "acme"
    @classmethod
    def from_env(cls):
        return cls()
    def model(self, model_id):
        return Large()
    async def models(self):
        {line}
    async def aclose(self):
        pass
plugin = Plugin("acme", providers=(ProviderRow("acme", "models = ['acme-']", ":Acme"),))
"""
GUARD = """
from sagent.plugin import Part, Plugin, Setting, Table
from sagent.config.values import text_of
async def add(builder):
    pass
def read(given):
    return dict(given.rows())
plugin = Plugin(
    "guard", settings=(Setting("reviewer", text_of, help="h", metavar="M"),),
    parts=(Part(":add", ("reviewer",), "around"),),
)
"""
TABLE = """
from sagent.plugin import Plugin, Table, RefusedError
def read(given):
    raise RefusedError("this is no harbour")
plugin = Plugin("guard", tables=(Table("harbours", ":read", guards=True),))
"""


@pytest.fixture
def folder(shell: Shell) -> Path:
    """Return where the person's own plugins lie."""
    place = Path(shell.environment["HOME"]) / ".config/sagent/plugins"
    place.mkdir(parents=True)
    return place


@pytest.mark.parametrize("name", ["none", "text", "later", "odd"])
def test_command_without_exit_code_named(shell: Shell, folder: Path, name: str) -> None:
    (folder / "boats.py").write_text(COMMANDS)
    done = shell.run(name, model="")
    assert done.code == 2
    assert "plugin boats failed" in done.err
    assert "Traceback" not in done.err


def test_command_exit_text_shown(shell: Shell, folder: Path) -> None:
    (folder / "boats.py").write_text(COMMANDS)
    done = shell.run("says", model="")
    assert (done.code, done.err) == (1, "no boat today\n")


@pytest.mark.costly
@pytest.mark.parametrize(("line", "why", "stays"), FAILING.values(), ids=FAILING)
def test_failing_part_left_out_whole(shell: Shell, folder: Path, line: str, why: str, *, stays: bool) -> None:
    (folder / "added.py").write_text(PART.format(line=line))
    server = shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    assert done.err.count("A part of the plugin added") == 1
    assert why in done.err
    assert "Traceback" not in done.err
    assert ("Mind the gap." in str(server.requests[0].json["system"])) == stays, "a part is there whole or not at all"


@later
def test_function_from_part_is_tool(shell: Shell, folder: Path) -> None:
    source = 'def wave() -> str:\n    """Wave."""\n    return "waved"\n'
    (folder / "added.py").write_text(source + PART.format(line="builder.tools.append(wave)"))
    server = shell.serve([Turn(calls=(Call("wave", {}),)), Turn(text="Fine.")])
    assert shell.run("--permission-mode", "full", "hello").out == "Fine.\n"
    assert "waved" in str(server.requests[1].json["messages"])


@later
@pytest.mark.parametrize("raised", ["RuntimeError('bang')", "SystemExit(3)", "asyncio.CancelledError()"])
def test_failing_listener_named_once(shell: Shell, folder: Path, raised: str) -> None:
    hear = f"import asyncio\ndef hear(event):\n    raise {raised}\n"
    (folder / "added.py").write_text(
        hear + PART.format(line="builder.started.append(lambda agent: agent.listen(hear))")
    )
    shell.serve([Turn(calls=(Call("Bash", {"command": "true"}),)), Turn(text="Fine.")])
    done = shell.run("--permission-mode", "full", "hello")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    assert done.err.count("The plugin added failed") == 1
    assert "Traceback" not in done.err


@pytest.mark.costly
@pytest.mark.parametrize("how", ["broken", "broken and no index", "broken before", "gone and no module"])
def test_broken_guard_stops_run(shell: Shell, folder: Path, how: str) -> None:
    server = shell.serve([Turn(text="Fine.")] * 3)
    state = Path(shell.environment["HOME"]) / ".local/state/sagent"
    if how != "broken before":
        (folder / "guard.py").write_text(GUARD)
        assert shell.run("hello").out == "Fine.\n"
        server.requests.clear()
    (folder / "guard.py").write_text(GUARD + "\nimport nowhere.at_all\n")
    if how == "broken and no index":
        (state / "plugins.json").unlink()
    if how == "gone and no module":
        (folder / "guard.py").unlink()
        (folder / "guard.py").symlink_to("nowhere")
    for _ in range(2):
        done = shell.run("hello")
        assert (done.code, server.requests) == (2, []), done.err
        assert "The plugin guard (" in done.err
        assert "--unguarded" in done.err
    assert "guard" in shell.run("plugin", "list", model="").out
    assert shell.run("--unguarded", "hello").out == "Fine.\n"
    assert shell.run("--no-plugins", "hello").out == "Fine.\n"


def test_deleted_guard_stops_run(shell: Shell, folder: Path) -> None:
    (folder / "guard.py").write_text(GUARD)
    server = shell.serve([Turn(text="Fine.")] * 2)
    assert shell.run("hello").out == "Fine.\n"
    (folder / "guard.py").unlink()
    assert shell.run("hello").out == "Fine.\n", "nothing asks for it"
    server.requests.clear()
    (folder.parent / "config.toml").write_text('reviewer = "m"\n')
    done = shell.run("hello")
    assert (done.code, server.requests) == (2, [])
    assert "plugin guard, which is not loaded" in done.err


def test_invalid_guard_table_stops_run(shell: Shell, folder: Path) -> None:
    (folder / "guard.py").write_text(TABLE)
    (folder.parent / "config.toml").write_text("[harbours.x]\na = 1\n")
    server = shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, server.requests) == (2, [])
    assert "this is no harbour" in done.err
    assert shell.run("--unguarded", "hello").out == "Fine.\n"


@later
def test_file_runs_keep_foreign_index(shell: Shell, folder: Path) -> None:
    note = "import pathlib\npathlib.Path(__file__ + '.seen').open('a').write('x')\n"
    (folder / "own.py").write_text(f"{note}from sagent.plugin import Plugin\nplugin = Plugin('own')\n")
    (shell.cwd / "given.py").write_text(GUARD.replace('"guard"', '"given"'))
    shell.serve([Turn(text="Fine.")] * 9)
    ways = ((), ("--no-plugins",), ("--plugin", "given.py"))
    for way in ways:
        assert shell.run(*way, "hello").code == 0
    state = Path(shell.environment["HOME"]) / ".local/state/sagent"
    seen = (folder / "own.py.seen").read_text()
    written = {file.name: file.stat().st_ino for file in state.glob("plugins*.json")}
    for way in (*ways, *ways):
        assert shell.run(*way, "hello").code == 0
    assert (folder / "own.py.seen").read_text() == seen, "it is imported no more"
    assert {file.name: file.stat().st_ino for file in state.glob("plugins*.json")} == written
    (folder.parent / "config.toml").write_text('reviewer = "m"\n')
    assert "plugin given, which is not loaded" in shell.run("config", "show", model="").err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 / 0", "The plugin acme failed: ZeroDivisionError"),
        ("raise SystemExit(3)", "The plugin acme failed: RuntimeError: SystemExit(3)"),
        ("import asyncio; raise asyncio.CancelledError", "The plugin acme failed: RuntimeError: CancelledError()"),
        ("raise type('Panic', (BaseException,), {})('bang')", "The plugin acme failed: RuntimeError: Panic('bang')"),
        ("yield 7", "acme: its stream gave int"),
    ],
)
def test_failing_provider_stream_named(shell: Shell, folder: Path, line: str, said: str) -> None:
    (folder / "acme.py").write_text(PROVIDER.format(line=line))
    done = shell.run("--model", "acme/acme-large", "hello", model="")
    assert done.code in (1, 2)
    assert said in done.err
    assert "Traceback" not in done.err
    assert "trying again" not in done.err


@later
@pytest.mark.costly
@pytest.mark.parametrize("points", [b"this is : junk [", b"\xff\xfe = x"], ids=["no list", "no text"])
def test_broken_entry_points_isolated(shell: Shell, tmp_path: Path, points: bytes) -> None:
    place = tmp_path / "site-packages"
    for name, written in (("broken", points), ("whole", b"whole = whole_module")):
        (place / f"{name}-1.0.dist-info").mkdir(parents=True)
        (place / f"{name}-1.0.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (place / f"{name}-1.0.dist-info/entry_points.txt").write_bytes(b"[sagent.plugins]\n" + written + b"\n")
    (place / "whole_module.py").write_text("from sagent.plugin import Plugin\nplugin = Plugin('whole', 'is whole')\n")
    shell.environment["PYTHONPATH"] = str(place)
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    assert "The plugin broken (broken 1.0) is left out: " in done.err
    assert "broken-1.0.dist-info cannot be read" in done.err
    assert "Update or uninstall broken;" in done.err
    assert "whole 1.0" in shell.run("plugin", "list", model="").out


@later
def test_metadata_that_is_no_text_is_named(shell: Shell, tmp_path: Path) -> None:
    """Also where its entry points would be whole, and extras are left away as importlib.metadata does."""
    place = tmp_path / "site-packages"
    for name, written in (("broken", b"\xff\xfe"), ("whole", b"Metadata-Version: 2.1\nName: whole\nVersion: 1.0\n")):
        (place / f"{name}-1.0.dist-info").mkdir(parents=True)
        (place / f"{name}-1.0.dist-info/METADATA").write_bytes(written)
        points = f"[sagent.plugins]\n{name} = whole_module:plugin [more]\n"
        (place / f"{name}-1.0.dist-info/entry_points.txt").write_text(points)
    (place / "whole_module.py").write_text("from sagent.plugin import Plugin\nplugin = Plugin('whole', 'is whole')\n")
    shell.environment["PYTHONPATH"] = str(place)
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    assert "The plugin broken (broken 1.0) is left out: " in done.err
    assert "the plugin whole" not in done.err.lower()


@pytest.mark.plugin("setup")
@pytest.mark.parametrize(("line", "said"), [("1 / 0", "ZeroDivisionError"), ("raise SystemExit(3)", "SystemExit: 3")])
def test_failing_model_list_names_plugin(shell: Shell, folder: Path, line: str, said: str) -> None:
    (folder / "acme.py").write_text(PROVIDER.format(line=line))
    done = shell.run("models", "acme", "--check", model="")
    assert done.code == 2
    assert f"acme failed: {said}" in done.err
    assert "setup" not in done.err


def test_unmakeable_tool_class_explained(shell: Shell, folder: Path) -> None:
    made = "    def __init__(self):\n        raise LookupError('no sea here')\n    async def __call__"
    (folder / "odd.py").write_text(ODD.format(schema="{}").replace("    async def __call__", made))
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert "tool Odd of the plugin odd" in done.err and "left out" in done.err
    assert "LookupError: no sea here" in done.err


@later
@pytest.mark.parametrize(
    ("schema", "strange"),
    [
        ({"type": "odd"}, '"odd"'),
        ({"type": ["object", "null"]}, '"null"'),
        ({"properties": {"a": {"type": "float"}}}, '"float"'),
        ({"properties": {"a": {"items": {"anyOf": [{"type": "string"}, {"type": "int"}]}}}}, '"int"'),
        ({"$defs": {"a": {"additionalProperties": {"type": ["string", "none"]}}}}, '"none"'),
    ],
)
def test_tool_with_a_strange_type_is_left_out(
    shell: Shell, folder: Path, schema: dict[str, object], strange: str
) -> None:
    (folder / "odd.py").write_text(ODD.format(schema=schema))
    server = shell.serve([Turn(text="Fine.")] * 2)
    done = shell.run("--tools", "Read,Odd", "hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert "The tool Odd of the plugin odd is left out" in done.err
    assert f"the type {strange}" in done.err
    (folder / "odd.py").write_text(f"{ODD.format(schema=schema)}{PART.format(line='builder.tools.append(Odd)')}")
    done = shell.run("--tools", "Read", "hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert "A part of the plugin added is left out" in done.err
    assert "Odd" not in str([request.json["tools"] for request in server.requests])


def test_notice_of_another_kind_is_shown(shell: Shell, folder: Path) -> None:
    (folder / "added.py").write_text(PART.format(line="builder.notices.append(7)"))
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out, "sagent: 7\n" in done.err) == (0, "Fine.\n", True)


@pytest.mark.costly
@pytest.mark.parametrize("raised", ["type('Panic', (BaseException,), {})('bang')", "asyncio.CancelledError"])
def test_tool_that_raises_anything_answers_so(shell: Shell, folder: Path, raised: str) -> None:
    source = ODD.format(schema="{}").replace('return "ok"', f"import asyncio; raise {raised}")
    (folder / "odd.py").write_text(source)
    server = shell.serve([Turn(calls=(Call("Odd", {}),)), Turn(text="Fine.")])
    assert shell.run("--permission-mode", "full", "hello").out == "Fine.\n"
    assert "Odd failed: " in str(server.requests[1].json["messages"])


def test_every_tool_is_sent_with_a_type(shell: Shell, folder: Path) -> None:
    (folder / "odd.py").write_text(ODD.format(schema={"properties": {"type": {"type": "string"}}}))
    server = shell.serve([Turn(text="Fine.")])
    assert shell.run("--tools", "Odd", "hello").out == "Fine.\n"
    (sent,) = as_array(server.requests[0].json["tools"])
    assert as_object(sent)["input_schema"] == {"properties": {"type": {"type": "string"}}, "type": "object"}


@pytest.mark.plugin("authoring")
def test_test_finds_orphan_operation(shell: Shell) -> None:
    head = "from sagent.plugin import Extra, Plugin\ndef count(words):\n    return 0\n"
    extras = "(Extra('config count', ':count', 'h'), Extra('sessions count', ':count', 'h'))"
    (shell.cwd / "counting.py").write_text(f"{head}plugin = Plugin('counting', extras={extras})\n")
    done = shell.run("plugin", "test", "counting.py", model="")
    assert done.code == 1
    assert [line.split()[2:4] for line in done.out.splitlines() if line.startswith("bad")] == [["config", "count"]]


@pytest.mark.plugin("authoring")
@pytest.mark.parametrize("name", ["mcp", "json"])
def test_taken_plugin_name_refused(shell: Shell, name: str) -> None:
    done = shell.run("plugin", "new", name, model="")
    assert done.code == 2
    assert "give another name" in done.err
    assert not (shell.cwd / name).exists()


@pytest.mark.plugin("authoring")
def test_test_finds_failing_reader(shell: Shell) -> None:
    (shell.cwd / "wrong.py").write_text(ODD.format(schema={"type": "odd"}))
    done = shell.run("plugin", "test", "wrong.py", model="")
    assert done.code == 1
    assert [line.split()[1] for line in done.out.splitlines() if line.startswith("bad")] == ["setting", "tool"]
