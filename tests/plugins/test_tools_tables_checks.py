"""Tools, tables of settings and checks of plugins, and tools of a person's own file."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from sagent.lib.json import as_array, as_object
from sagent.testing.server import Call, Turn
from tests.cli.program import Shell
from tests.depth import later

HARBOUR = '''
from sagent.config.files import GivenTable
from sagent.plugin import Check, Finding, Part, Plugin, RefusedError, Table, ToolEntry
from sagent.tools import tool

@tool
def Tide(place: str) -> str:
    """Say when the water is high.

    Args:
        place: where
    """
    return f"High water at {place}: 14:20."

def depth(builder):
    known = builder.settings.of(HARBOURS)

    @tool(name="Depth")
    def found(place: str) -> str:
        """Say how deep a harbour is.

        Args:
            place: where
        """
        return f"{place}: {known[place]} m"

    return found

def read(given: GivenTable):
    for name, row in given.rows().items():
        if not isinstance(row.get("depth"), int):
            raise given.file.error((given.name, name), "give a depth in metres")
    return {name: row["depth"] for name, row in given.rows().items()}

def shown(value):
    return ((name, f"{depth} m deep") for name, depth in value.items())

async def add(builder):
    builder.sections.append(lambda: f"Harbours: {dict(builder.settings.of(HARBOURS))}.")

def check(settings, login):
    yield Finding("good", "harbours", str(len(settings.of(HARBOURS))))

HARBOURS = Table("harbours", ":read", show=":shown")
plugin = Plugin(
    "harbour",
    tools=(ToolEntry("Tide", ":Tide", ("sea",)), ToolEntry("Depth", ":depth", ("sea", "default")), ToolEntry("Sound")),
    tables=(HARBOURS,),
    checks=(Check("harbours", ":check"),),
    parts=(Part(":add", ("harbours",)),),
)
'''
TABLE = "[harbours.Brest]\ndepth = 12\n"


@pytest.fixture
def folder(shell: Shell) -> Path:
    """Return where the person's own plugins lie, with one in it."""
    place = Path(shell.environment["HOME"]) / ".config/sagent/plugins"
    place.mkdir(parents=True)
    (place / "harbour.py").write_text(HARBOUR)
    return place


def asked(shell: Shell, request: int = -1) -> Mapping[str, object]:
    """Return what the provider was asked."""
    assert shell.server is not None
    return shell.server.requests[request].json


def names(shell: Shell, request: int = -1) -> list[str]:
    return [str(as_object(tool)["name"]) for tool in as_array(asked(shell, request)["tools"])]


def result(shell: Shell) -> str:
    return str(as_array(asked(shell)["messages"])[-1])


def test_tools_chosen_by_name_or_group(shell: Shell, folder: Path) -> None:
    shell.serve([Turn(text="Fine.")] * 4)
    for given, chosen in (("tide", ["Tide"]), ("sea", ["Tide", "Depth"]), ("Tide,READ", ["Tide", "Read"])):
        assert shell.run("--tools", given, "hello").code == 0
        assert names(shell) == chosen
    assert shell.run("hello").code == 0
    assert names(shell)[-1] == "Depth", "one of the group default is there without being chosen"
    assert "sea" in shell.run("--help", model="").out


def test_tool_gets_its_table(shell: Shell, folder: Path) -> None:
    (folder.parent / "config.toml").write_text(TABLE)
    calls = (Call("Tide", {"place": "Brest"}), Call("Depth", {"place": "Brest"}))
    shell.serve([Turn(calls=calls), Turn(text="Fine.")])
    assert shell.run("--tools", "sea", "--permission-mode", "full", "hello").code == 0
    assert "High water at Brest: 14:20." in result(shell)
    assert "Brest: 12 m" in result(shell)
    assert "{'Brest': 12}" in str(asked(shell, 0)["system"]), "its part is added where the table is set"


@later
@pytest.mark.parametrize(
    ("made", "why"),
    [
        ('"nowhere.at.all:depth"', "ModuleNotFoundError"),
        ('":nothing"', "AttributeError"),
        ('":Tide"', "it is called Tide"),
        ('":plugin"', "Plugin is not a tool"),
    ],
)
def test_unmakeable_tool_left_out(shell: Shell, folder: Path, made: str, why: str) -> None:
    (folder / "harbour.py").write_text(HARBOUR.replace('":depth"', made))
    shell.serve([Turn(text="Fine.")])
    done = shell.run("--tools", "sea,Read", "hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert "Depth of the plugin harbour" in done.err and "left out" in done.err
    assert why in done.err
    assert names(shell) == ["Tide", "Read"]


@later
def test_unchosen_tool_known_to_rules(shell: Shell, folder: Path) -> None:
    shell.serve([Turn(text="Fine.")] * 2)
    assert "there is no tool" not in shell.run("--deny", "Sound", "--deny", "Depth", "hello").err
    assert "no tool Soundings" in shell.run("--deny", "Soundings", "hello").err
    assert shell.run("--tools", "Sound", "hello").code == 2


def test_first_tool_of_a_name_wins(shell: Shell, folder: Path) -> None:
    (folder / "other.py").write_text(
        HARBOUR.replace('"harbour"', '"other"').replace('"Tide", ":Tide"', '"READ", ":Tide"')
    )
    shell.serve([Turn(text="Fine.")])
    done = shell.run("--tools", "read", "hello")
    assert names(shell) == ["Read"]
    assert "The tool READ of the plugin other" in done.err.replace("tool read", "tool READ")
    assert "table harbours of the plugin other" in done.err


def test_table_shown_or_refused_with_line(shell: Shell, folder: Path) -> None:
    file = folder.parent / "config.toml"
    file.write_text(TABLE)
    assert "12 m deep" in shell.run("config", "show", model="").out
    file.write_text("model = 'x'\n[harbours.Brest]\ndepth = 'deep'\n")
    done = shell.run("hello", model="")
    assert done.code == 2
    assert f"{file}:2: give a depth in metres" in done.err
    file.write_text("[harbors.Brest]\ndepth = 12\n")
    assert "Did you mean harbours?" in shell.run("hello").err


def test_table_with_failing_reader_ignored(shell: Shell, folder: Path) -> None:
    (folder / "harbour.py").write_text(
        HARBOUR.replace("for name, row in given.rows()", "for name, row in given.colums()")
    )
    (folder.parent / "config.toml").write_text(TABLE)
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert "harbours is ignored" in done.err and "AttributeError" in done.err


@pytest.mark.costly
@pytest.mark.parametrize("project", ["no", "ask"])
def test_project_table_needs_trust(shell: Shell, folder: Path, project: str) -> None:
    (folder / "harbour.py").write_text(HARBOUR.replace('":read", show', f'":read", "{project}", show'))
    (shell.cwd / ".sagent").mkdir()
    (shell.cwd / ".sagent/config.toml").write_text(TABLE)
    shell.serve([Turn(text="Fine.")] * 2)
    assert "harbours" in shell.run("hello").err
    assert "Brest" not in str(asked(shell, -1)["system"])
    shell.run("--trust-project", "hello")
    assert ("Brest" in str(asked(shell, -1)["system"])) is (project == "ask")


@later
@pytest.mark.parametrize(
    ("when", "flags", "added"),
    [
        ("effort=high", ["--effort", "high"], True),
        ("effort=high", ["--effort", "low"], False),
        ("nothing=high", [], False),
        ("tool Read", ["--tools", "Read"], True),
        ("tool Read", ["--tools", "Grep"], False),
    ],
)
def test_part_added_for_value_or_tool(shell: Shell, folder: Path, when: str, flags: list[str], added: bool) -> None:
    source = HARBOUR.replace('Part(":add", ("harbours",))', f'Part(":add", ("{when}",), "around")')
    (folder / "harbour.py").write_text(source)
    shell.serve([Turn(text="Fine.")])
    assert shell.run(*flags, "hello").code == 0
    assert ("Harbours:" in str(asked(shell, 0)["system"])) is added


FILES = {
    "a tool": "from sagent.tools import tool\n@tool\ndef Tide(place: str) -> str:\n    'High water.'\n"
    "    return '14:20'\ndef inner(x):\n    return x\n",
    "a function": "def Tide(place: str) -> str:\n    'High water.'\n    return '14:20'\n",
    "a class": "from sagent.tools import Read\nclass Tide:\n    name = 'Tide'\n    description = 'High water.'\n"
    "    parameters = {'type': 'object', 'properties': {'place': {'type': 'string'}}}\n"
    "    async def __call__(self, arguments, run):\n        return '14:20'\n",
}


@pytest.mark.costly
@pytest.mark.parametrize("source", FILES.values(), ids=FILES)
@pytest.mark.parametrize("how", ["./my tool.py", "my tool.py", "absolute", "file"])
def test_file_tools_chosen_by_path(shell: Shell, source: str, how: str) -> None:
    file = shell.cwd / "my tool.py"
    file.write_text(source)
    given = str(file) if how == "absolute" else how
    flags = ["--tools", f"Read,{given}"]
    if how == "file":
        config = Path(shell.environment["HOME"]) / ".config/sagent/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text('tools = ["Read", "./tools/tide.py"]\n')
        (config.parent / "tools").mkdir()
        file.rename(config.parent / "tools/tide.py")
        flags = []
    shell.serve([Turn(calls=(Call("Tide", {"place": "Brest"}),)), Turn(text="Fine.")])
    done = shell.run(*flags, "--permission-mode", "full", "hello")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    assert names(shell) == ["Read", "Tide"]
    assert "14:20" in result(shell)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (None, "No such file"),
        ("", "has no tool: write a function"),
        ("1 / 0", "cannot be loaded: ZeroDivisionError"),
        (HARBOUR, "is a plugin: give --plugin"),
        ("def Tide(place): ...\n", "needs a docstring"),
        ("def Read(place: str) -> str:\n    'x'\n    return ''\n", "two tools called Read"),
    ],
)
def test_file_without_tool_refused(shell: Shell, source: str | None, why: str) -> None:
    if source is not None:
        (shell.cwd / "tool.py").write_text(source)
    done = shell.run("--tools", "default,./tool.py", "hello")
    assert done.code == 2
    assert why in done.err


def test_project_cannot_choose_tool_file(shell: Shell) -> None:
    (shell.cwd / ".sagent").mkdir()
    (shell.cwd / "tool.py").write_text("open('ran', 'w')\n")
    (shell.cwd / ".sagent/config.toml").write_text('tools = ["./tool.py"]\n')
    shell.serve([Turn(text="Fine.")])
    assert "tools is ignored" in shell.run("hello").err
    assert not (shell.cwd / "ran").exists()
