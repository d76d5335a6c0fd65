"""One door: ours and other people's plugins, found without being imported, left out where they are wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sagent.advisor.rules import TRIGGERS
from sagent.cli.flags import run_parser
from sagent.config.declared import ALIASES, CORE, RESERVED
from sagent.config.plugins import INDEX, Installed, find_plugins
from sagent.config.typed import GUARDS
from sagent.context.places import plugin_folders
from sagent.plugin import API, Command, Setting
from sagent.testing.script import Call
from sagent.testing.server import Turn
from tests.cli.program import CHECKOUT, Shell
from tests.deleted import copied_without
from tests.depth import few, later

HELLO = """
from sagent.config.values import switch, text_of
from sagent.plugin import Command, Part, Plugin, Setting

def greet(words):
    print("Hello", *words)
    return 3

async def add(builder):
    builder.sections.append(lambda: "Speak " + str(builder.settings.of(LANGUAGE)) + ".")

LANGUAGE = Setting("language", text_of, "English", "str", help="the language to speak", metavar="L")
plugin = Plugin(
    "hello",
    "greets",
    commands=(Command("greet", "greet somebody", ":greet"),),
    parts=(Part(":add", ("language",)),),
    settings=(LANGUAGE, Setting("loud", switch, default=False, type="bool", help="greet loudly")),
)
"""
WRONG = {
    "raises while it is imported": "raise RuntimeError('no')",
    "cannot be read": "def",
    "has no plugin": "",
    "is something else": "plugin = 7",
    "is made for a later version": f"from sagent.plugin import Plugin\nplugin = Plugin('wrong', api={API + 1})",
    "ends the process": "raise SystemExit(5)",
    "has a command that is none": "from sagent.plugin import Plugin\nplugin = Plugin('wrong', commands=('x',))",
    "names a command by a number": (
        "from sagent.plugin import Command, Plugin\nplugin = Plugin('wrong', commands=(Command(7, 'x', ':x'),))"
    ),
    "names a setting as no name": (
        "from sagent.plugin import Plugin, Setting\nplugin = Plugin('wrong', settings=(Setting('A b', print),))"
    ),
    "has a list of parts": "from sagent.plugin import Plugin\nplugin = Plugin('wrong', parts=[['a:b', 'c']])",
    "needs something that is no name": "from sagent.plugin import Plugin\nplugin = Plugin('wrong', needs=(7,))",
    "needs a text": "from sagent.plugin import Plugin\nplugin = Plugin('wrong', needs='hello')",
    "needs a plugin that is not there": "from sagent.plugin import Plugin\nplugin = Plugin('wrong', needs=('none',))",
    "needs one that is there and one that is not": (
        "from sagent.plugin import Plugin\nplugin = Plugin('wrong', needs=('hello', 'none'))"
    ),
    "has flags of runs and nothing that is given them": (
        "from sagent.plugin import Flag, Plugin\nplugin = Plugin('wrong', flags=(Flag('far', 'go far'),))"
    ),
    "has a flag that is no name": (
        "from sagent.plugin import Flag, Plugin\nplugin = Plugin('wrong', flags=(Flag('--far', 'far', of='serve'),))"
    ),
    "has a part at no moment": (
        "from sagent.plugin import Part, Plugin\nplugin = Plugin('wrong', parts=(Part(':add', ('always',), 'late'),))"
    ),
    "has a default that no index can keep": (
        "from sagent.plugin import Plugin, Setting\nplugin = Plugin('wrong', settings=(Setting('x', print, object()),))"
    ),
}


@pytest.fixture
def folder(shell: Shell) -> Path:
    """Where the person's own plugins lie."""
    place = Path(shell.environment["HOME"]) / ".config/sagent/plugins"
    place.mkdir(parents=True)
    return place


def found(folder: Path, *files: Path, foreign: bool = True) -> Installed:
    (folder.parent / "state").mkdir(exist_ok=True)
    return find_plugins(folder.parent, folder.parent / "state", files, foreign=foreign)


def test_file_adds_command_setting_and_part(shell: Shell, folder: Path) -> None:
    (folder / "hello.py").write_text(HELLO)
    server = shell.serve([Turn(text="Bonjour."), Turn(text="Hello.")])
    done = shell.run("greet", "you", model="")
    assert (done.code, done.out) == (3, "Hello you\n")
    assert "greet somebody" in shell.run("--help", model="").out
    shell.run("--language", "French", "hello")
    assert "Speak French." in str(server.requests[0].json["system"])
    shell.run("hello")
    assert "Speak" not in str(server.requests[1].json["system"])
    assert "language" in shell.run("config", "show", model="").out


@pytest.mark.plugin("audit")
def test_file_adds_operation(shell: Shell, folder: Path) -> None:
    file = folder / "hello.py"
    extra = 'extras=(Extra("sessions greet", ":greet", "greet every session"),)'
    file.write_text(HELLO.replace("parts=", f"{extra}, parts=").replace("import Command", "import Command, Extra"))
    assert "greet every session" in shell.run("sessions", "--help", model="").out
    done = shell.run("sessions", "greet", "you", model="")
    assert (done.code, done.out) == (3, "Hello you\n")
    file.write_text(file.read_text().replace("return 3", "return 1 / 0"))
    assert "greet` of the plugin hello failed" in shell.run("sessions", "greet", model="").err
    file.unlink()
    done = shell.run("sessions", "greet", model="")
    assert done.code == 2
    assert "`sessions greet`" in done.err and "plugin hello, which is not loaded" in done.err


@later
@pytest.mark.plugin("audit")
def test_failing_cost_extra_named(shell: Shell, folder: Path) -> None:
    (folder / "costs.py").write_text(
        "from sagent.plugin import Extra, Plugin\n"
        "def tell(session, price):\n"
        "    yield f'told of {session.name}'\n"
        "    yield str(1 / 0)\n"
        "plugin = Plugin('costs', extras=(Extra('session costs', ':tell'), Extra('session costs', ':none')))"
    )
    shell.serve([Turn(text="Fine.")])
    session = Path(str(shell.run("--json", "hello").json["session_path"])).name
    done = shell.run("sessions", "show", session, model="")
    assert done.code == 0, done.err
    assert f"told of {session}" in done.out
    assert done.err.count("`session costs` of the plugin costs failed") == 2


def test_command_flag_works_anywhere(shell: Shell, folder: Path) -> None:
    (folder / "hello.py").write_text(HELLO.replace('":greet")', '":greet", ("--greet",))'))
    done = shell.run("you", "--greet", model="")
    assert (done.code, done.out) == (3, "Hello you --greet\n")
    assert shell.run("config", "--greet", model="").code == 2


@pytest.mark.parametrize("how", ["environment", "file", "hello.tongue", "logging.tongue"])
def test_plugin_setting_read_everywhere(shell: Shell, folder: Path, how: str) -> None:
    """In a file it is a key, or one in a table of its own or of the core."""
    table, _, member = how.partition(".")
    hello = HELLO.replace('metavar="L")', f'metavar="L", key="{how}")') if member else HELLO
    (folder / "hello.py").write_text(hello)
    if member:
        (folder.parent / "config.toml").write_text(f'[{table}]\n{member} = "French"\n')
    elif how == "file":
        (folder.parent / "config.toml").write_text('language = "French"\n')
    else:
        shell.environment["SAGENT_LANGUAGE"] = "French"
    server = shell.serve([Turn(text="Bonjour.")])
    shell.run("hello")
    assert "Speak French." in str(server.requests[0].json["system"])


def test_named_file_lasts_one_run(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "own plugin.py"
    file.write_text(HELLO)
    shell.serve([Turn(text="Fine.")])
    assert shell.run("--plugin", str(file), "--language", "French", "hello").out == "Fine.\n"
    assert shell.run("--language", "French", "hello").code == 2
    assert str(tmp_path / "none.py") in shell.run("--plugin", str(tmp_path / "none.py"), "hello").err


def test_no_plugins_leaves_only_ours(shell: Shell, folder: Path) -> None:
    (folder / "hello.py").write_text(HELLO)
    assert "greet" not in shell.run("--no-plugins", "--help", model="").out
    assert shell.run("--no-plugins", "--language", "French", "hello").code == 2
    assert [*found(folder, foreign=False).names] == [name for name in found(folder).names if name != "hello"]


@pytest.mark.costly
@pytest.mark.parametrize("source", WRONG.values(), ids=WRONG)
def test_broken_plugin_named_rest_works(shell: Shell, folder: Path, source: str) -> None:
    (folder / "wrong.py").write_text(source)
    (folder / "hello.py").write_text(HELLO)
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert "The plugin wrong" in done.err
    assert str(folder / "wrong.py") in done.err
    assert shell.run("greet", model="").code == 3


def test_raising_part_left_out(shell: Shell, folder: Path) -> None:
    (folder / "hello.py").write_text(HELLO.replace("builder.sections.append(", "builder.nothing("))
    shell.serve([Turn(text="Fine.")])
    done = shell.run("--language", "French", "hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert "plugin hello" in done.err


def test_unloadable_command_names_plugin(shell: Shell, folder: Path) -> None:
    (folder / "hello.py").write_text(HELLO.replace('":greet"', '"nowhere.at.all:greet"'))
    done = shell.run("greet", model="")
    assert done.code == 2
    assert "plugin hello" in done.err


def test_first_of_equal_names_wins(folder: Path) -> None:
    (folder / "a.py").write_text(HELLO.replace('"hello",', '"a",'))
    (folder / "b.py").write_text(HELLO.replace('"hello",', '"b",').replace('"greet",', '"config",'))
    (folder / "c.py").write_text(HELLO.replace('"hello",', '"a",'))
    plugins = found(folder)
    assert plugins.owner(Command, "greet") == "a"
    assert plugins.owner(Command, "config") == "sagent"
    assert len(plugins.notices) == 4  # b: a command of the core's and two settings of a's; c: its name
    assert sum(setting.name == "language" for setting in plugins.every(Setting)) == 1


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"stamps": []}', b"\xff", b'{"stamps": 1, "plugins": 2}'])
def test_damaged_index_rebuilt(folder: Path, damage: bytes) -> None:
    (folder / "hello.py").write_text(HELLO)
    place = folder.parent / "state" / INDEX
    before = found(folder)
    whole = place.read_bytes()
    place.write_bytes(damage)
    (folder / "more.py").write_text(HELLO.replace('"hello",', '"more",'))
    assert [*found(folder).names] == [*before.names, "more"]
    place.unlink()
    place.mkdir()  # it cannot be written
    (folder / "more.py").unlink()
    assert found(folder).named(Command) == before.named(Command)
    assert json.loads(whole)["heads"]


@later
@pytest.mark.parametrize(
    "name", ["config", "json", "plugin", "providers", "model", "print", "executor", "advisor", "permissions"]
)
def test_flag_and_table_names_reserved(shell: Shell, folder: Path, name: str) -> None:
    (folder / "hello.py").write_text(HELLO.replace('"language"', f'"{name}"'))
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert f"setting {name} of the plugin hello" in done.err
    assert shell.run("greet", model="").code == 3


@pytest.mark.plugin("serve")
def test_command_flag_beats_setting(shell: Shell, folder: Path) -> None:
    (folder / "hello.py").write_text(HELLO.replace('"language"', '"port"'))
    assert "--port" in shell.run("serve", "--help", model="").out


def test_plugin_output_kept_from_answer(shell: Shell, folder: Path) -> None:
    (folder / "hello.py").write_text(f"print('loud')\n{HELLO}")
    shell.serve([Turn(text="Fine.")])
    assert shell.run("hello").out == "Fine.\n"


def test_reserved_names_match_flags() -> None:
    plugins = Installed()
    known = (
        {setting.keyword for setting in plugins.every(Setting)}
        | {*ALIASES}
        | {flag.keyword for flag in plugins.flags()}
    )
    flags = {action.dest for action in run_parser(plugins).flags} | {"prompt"}
    assert flags - known - {"wait_for_jobs"} <= {*RESERVED}


def test_plugin_imported_on_first_use(shell: Shell, folder: Path) -> None:
    """But once, when it is new, to be written to the index."""
    log = folder.parent / "imported"
    (folder / "hello.py").write_text(f"open({str(log)!r}, 'a').write('x')\n{HELLO}")
    shell.serve([Turn(text="Fine."), Turn(text="Fine.")])
    for _ in range(2):
        assert shell.run("hello").out == "Fine.\n"
    assert log.read_text() == "x"
    assert shell.run("greet", model="").code == 3
    assert log.read_text() == "xx"


def test_start_looks_once_at_each_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which are folders of another kind of plugins is known without looking at any."""
    (folder / "hello.py").write_text(HELLO)
    (folder / "bundle").mkdir()
    (folder / "linked").symlink_to(folder / "bundle")
    own = found(folder)
    looked: list[str] = []
    real = os.stat

    def counted(path: str, **named: bool) -> os.stat_result:
        looked.append(str(path))
        return real(path, **named)

    monkeypatch.setattr(os, "stat", counted)
    assert found(folder) is own
    assert plugin_folders(folder.parent) == [folder / "bundle"]
    assert [path for path in looked if Path(path).parent == folder] == [str(folder / "hello.py")]


@later
def test_installed_entry_point_found(tmp_path: Path) -> None:
    """In a place where packages are installed, as pip writes it."""
    site = tmp_path / "site-packages"
    (site / "hello-1.5.dist-info").mkdir(parents=True)
    (site / "hello.py").write_text(HELLO)
    (site / "hello-1.5.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: hello\nVersion: 1.5\n")
    (site / "hello-1.5.dist-info/entry_points.txt").write_text("[sagent.plugins]\nhello = hello\n")
    code = (
        f"import sys; sys.path[:0] = [{str(site)!r}, {str(CHECKOUT)!r}]\n"
        "from pathlib import Path; from sagent.config.plugins import find_plugins\n"
        "for each in find_plugins(Path('config'), Path('state')).known:\n"
        "    print(each.plugin.name, each.source.origin, sep='|')\n"
    )
    (tmp_path / "state").mkdir()
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "hello|hello 1.5" in done.stdout.splitlines()
    (site / "hello.py").write_text(HELLO.replace('"greets"', '"says hello"'))  # as in an editable installation
    about = code.replace("each.plugin.name, each.source.origin", "each.plugin.about")
    done = subprocess.run([sys.executable, "-c", about], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "says hello" in done.stdout


@pytest.mark.costly
@pytest.mark.parametrize("name", [path.parent.name for path in (CHECKOUT / "sagent/plugins").glob("*/__init__.py")])
def test_each_of_ours_may_be_deleted(shell: Shell, tmp_path: Path, name: str) -> None:
    """The program works without it, a session that used it goes on, and a file or a person that names what it had is
    told whose that was."""
    mine = next(each.plugin for each in find_plugins(tmp_path, tmp_path).known if each.plugin.name == name)
    settings = mine.settings
    tools = [tool.name for tool in mine.tools if tool.tool]
    used = [Turn(calls=tuple(Call(tool, {}) for tool in tools))] if tools else []
    shell.serve([*used, Turn(text="Fine."), Turn(text="Fine.")])
    assert shell.run("--tools", ",".join(["Read", *tools]), "hello").out == "Fine.\n"
    shell.environment["PYTHONPATH"] = str(copied_without(name, tmp_path / "copy"))
    config = Path(shell.environment["HOME"]) / ".config/sagent/config.toml"
    config.parent.mkdir(parents=True)
    keys = [f"{setting.name} = true\n" for setting in settings if not setting.key]
    placed = [setting.key.split(".") for setting in settings if setting.key]
    keys += [f"[{table}]\n{member} = true\n" for table, member in placed]
    ruled = [tool.name.replace("*", "x") for tool in mine.tools]
    keys.append(f"[permissions]\ndeny = {ruled}\n")
    keys += [f'[providers.{row.name}]\ndefault = "x"\n' for row in mine.providers]
    config.write_text("".join([*keys, *(f"[{table.name}.x]\ny = 1\n" for table in mine.tables)]))
    code = "import sys; from sagent.bin.cli import main; sys.exit(main())"
    run = [sys.executable, "-c", code, "--model", "anthropic/claude-sonnet-4-6", "--continue", "hello"]

    def ran() -> subprocess.CompletedProcess[str]:
        named = {**dict.fromkeys((each.variable for each in settings), ""), **shell.environment}
        return subprocess.run(run, cwd=shell.cwd, env=named, capture_output=True, text=True, check=False)

    done = ran()
    if any(table.guards for table in mine.tables) or any(each.name in GUARDS for each in settings):
        assert (done.returncode, done.stdout) == (2, "")
        assert f"the plugin {name}, which is not loaded" in done.stderr and "--unguarded" in done.stderr
        shell.environment["SAGENT_UNGUARDED"] = "true"
        done = ran()
    assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
    for key in (*settings, *mine.tables):
        assert f"the plugin {name}" in done.stderr
        assert (getattr(key, "key", "") or key.name) in done.stderr
    for each in settings:
        assert f"{each.variable}: it belongs to the plugin {name}, which is not loaded" in done.stderr
    for row in mine.providers:
        assert f"providers.{row.name} is ignored: it is of the plugin {name}" in done.stderr
    for tool in ruled:
        assert f"there is no tool {tool}: it is of the plugin {name}" in done.stderr
    typed = [command.name for command in mine.commands]
    typed += [f"/{command.name}" for command in mine.slash_commands]
    modes = [extra.to.split()[1] for extra in mine.extras if extra.to.startswith("mode ")]
    operations = [extra.to for extra in mine.extras if extra.help and not extra.to.startswith("mode ")]
    typed += [line for line in operations if line.split()[0] not in typed]
    for line in few(typed):
        words = [*run[:-2], line] if line.startswith("/") else [*run[:3], *line.split()]
        told = subprocess.run(words, cwd=shell.cwd, env=shell.environment, capture_output=True, text=True, check=False)
        assert told.returncode == 2
        assert f"`{line}` is a command of the plugin {name}, which is not loaded" in told.stderr
    given = [["--tools", tool] for tool in tools] + [[f"--{each.flag_name}", "x"] for each in settings if each.help]
    given += [["--permission-mode", mode] for mode in modes]
    for words in few([*given, *([f"--{flag.name}", "x"] for flag in mine.flags if not flag.of)]):
        told = subprocess.run([*run, *words], cwd=shell.cwd, env=shell.environment, capture_output=True, text=True)
        assert told.returncode == 2
        assert f"the plugin {name}, which is not loaded" in told.stderr
    run = [*run[:3], "help", "all"]
    shown = subprocess.run(run, cwd=shell.cwd, env=shell.environment, capture_output=True, text=True, check=True)
    assert not [setting.name for setting in settings if f"--{setting.flag_name}" in shown.stdout]
    assert not [each.name for each in mine.commands if f"\n  {each.name} " in shown.stdout]


GUARD = """
from sagent.plugin import Part, Plugin, Table

def read(given):
    return {name: 1 / row["y"] for name, row in given.rows().items()}

async def add(builder):
    raise OSError("no guard today")

plugin = Plugin("guard", tables=(Table("guard", ":read", guards=True),), parts=(Part(":add", ("guard",)),))
"""


@pytest.mark.costly
@pytest.mark.parametrize(
    ("y", "why"), [("1", "no guard today"), ("0", "division by zero"), ("", "the plugin guard, which is not loaded")]
)
def test_missing_guard_stops_run(shell: Shell, folder: Path, y: str, why: str) -> None:
    (folder / "guard.py").write_text(GUARD)
    server = shell.serve([Turn(text="Fine.")])
    (folder.parent / "config.toml").write_text(f"[guard.x]\ny = {y or 1}\n")
    assert shell.run("config", "show", model="").code == (2 if y == "0" else 0)
    if not y:
        (folder / "guard.py").unlink()
    done = shell.run("hello")
    assert (done.code, server.requests) == (2, []), done.err
    assert why in done.err and "--unguarded" in done.err
    done = shell.run("--unguarded", "hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert why in done.err


def test_dependent_plugin_needs_other(folder: Path) -> None:
    (folder / "hello.py").write_text(HELLO)
    (folder / "first.py").write_text("from sagent.plugin import Plugin\nplugin = Plugin('first', needs=('second',))")
    (folder / "second.py").write_text("from sagent.plugin import Plugin\nplugin = Plugin('second', needs=('hello',))")
    assert {"first", "second"} <= {*found(folder).names}
    (folder / "hello.py").unlink()
    assert not {"first", "second"} & {*found(folder).names}
    notices = " ".join(found(folder).notices)
    assert "first" in notices
    assert "plugin hello, which is not loaded" in notices


@pytest.mark.plugin("telemetry")
def test_import_error_names_plugin() -> None:
    with pytest.raises(ImportError, match=r"from sagent\.plugins\.telemetry import Telemetry"):
        exec("from sagent import Telemetry")


@pytest.mark.plugin("overview")
def test_unavailable_slash_command_named(shell: Shell, folder: Path) -> None:
    (folder / "wrong.py").write_text(
        "from sagent.plugin import Plugin, SlashCommand\n"
        "plugin = Plugin('wrong', slash_commands=(SlashCommand('one', ':none'), SlashCommand('two', ':plugin'),\n"
        "    SlashCommand('model', ':plugin')))"
    )
    server = shell.serve([Turn(text="Fine.")])
    done = shell.run("/help")
    assert done.code == 0
    for said in ("/one of the plugin wrong", "/two of the plugin wrong", "The slash command model of the plugin wrong"):
        assert said in done.err, done.err
    assert "/model" in done.out
    assert server.requests == []


@later
@pytest.mark.plugin("exports")
def test_failing_export_leaves_no_file(shell: Shell, folder: Path) -> None:
    (folder / "wrong.py").write_text(
        "from sagent.plugin import ExportFormat, Plugin\n"
        "def write(exporting):\n"
        "    exporting.put(str(1 / 0) for _ in range(2))\n"
        "plugin = Plugin('wrong', export_formats=(ExportFormat('odd', 'odd', ':write'), "
        "ExportFormat('none', 'none', ':plugin')))"
    )
    shell.serve([Turn(text="Fine.")])
    shell.run("hello")
    for name, said in (("odd", "ZeroDivisionError"), ("none", "TypeError")):
        done = shell.run("export", "--format", name, model="")
        assert done.code == 2
        assert said in done.err
        assert f"The format {name} of the plugin wrong failed" in done.err
    assert list(shell.cwd.iterdir()) == []


def test_failing_trigger_named_once(shell: Shell, folder: Path) -> None:
    (folder / "wrong.py").write_text(
        "from sagent.plugin import Plugin, Trigger\n"
        "plugin = Plugin('wrong', triggers=(Trigger('odd', 'odd', ':none'), Trigger('done', 'again', ':none')))"
    )
    reads = Turn(calls=(Call("List", {"path": "."}),))
    shell.serve([reads, reads, Turn(text="Fine.")])
    done = shell.run("--advisor", "anthropic/claude-opus-4-6", "--advisor-mode", "client", "go")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert done.err.count("The trigger odd of the plugin wrong failed") == 1
    assert "trigger done of the plugin wrong" in done.err


def test_core_declares_its_triggers() -> None:
    assert tuple(each.name for each in CORE.triggers) == TRIGGERS


@later
@pytest.mark.plugin("lab")
def test_plugin_setting_swept_and_shared(shell: Shell, folder: Path) -> None:
    file = folder / "hello.py"
    file.write_text(HELLO.replace('metavar="L")', 'metavar="L", uses=("asked_again", "shared"))'))
    assert "--language L" in shell.run("replay", "--help", model="").out
    server = shell.serve([Turn(text="Bonjour."), Turn(text="Hallo.")])
    plan = shell.cwd / "plan.toml"
    plan.write_text(
        'max_total_usd = 9\nmax_budget_usd = 1\n[[task]]\nname = "a"\nprompt = "hello"\ncheck = "true"\n'
        '[grid]\nmodel = "anthropic/claude-sonnet-4-6"\nlanguage = ["French", "German"]\n'
    )
    done = shell.run("sweep", str(plan), model="")
    assert done.code == 0, done.err
    systems = [str(request.json["system"]) for request in server.requests]
    assert sorted("French" in each for each in systems) == [False, True]
    assert sorted("German" in each for each in systems) == [False, True]
