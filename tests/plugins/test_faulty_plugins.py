"""Whatever a plugin does wrong, one sentence names it, and the rest works."""

import grp
import json
import os
import pwd
import subprocess
import sys
from binascii import crc32
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sagent.config import load
from sagent.config.files import written_by_others
from sagent.config.plugin_index import Head, Index, read_index, write_index
from sagent.config.plugins import INDEX, find_plugins
from sagent.plugin import Command
from sagent.testing.script import Call
from sagent.testing.server import Turn
from tests.cli.program import CHECKOUT, Shell
from tests.depth import later
from tests.plugins.test_door import HELLO

BANG = '''
from sagent.plugin import *
from sagent.repl.commands.command import command

def bang(*words, **more):
    raise RuntimeError("bang")

async def later(*words):
    raise RuntimeError("bang")

@command(name="bangs")
async def bangs(context):
    """Go bang."""
    raise RuntimeError("bang")

class Boom:
    name = "Boom"
    description = "Go bang."
    parameters = {"type": "object", "properties": {}}
    async def __call__(self, arguments, run):
        raise RuntimeError("bang")

class Provider:
    from_env = from_key = bang

plugin = Plugin(
    "boom",
    commands=(Command("bang", "goes bang", ":bang"),),
    settings=(Setting("bangs", bang, metavar="X", help="bang"),),
    tools=(ToolEntry("Boom", ":Boom"),),
    parts=(Part(":later", ("always",)),),
    tables=(Table("booms", ":bang"), Table("shown", ":dict", show=":bang")),
    checks=(Check("booming", ":bang"),),
    export_formats=(ExportFormat("boomy", "b", ":bang"),),
    triggers=(Trigger("boomy", "b", ":bang"),),
    status_parts=(StatusPart("boomy", "b", ":bang"),),
    providers=(ProviderRow("boomer", 'base_url = "http://127.0.0.1:1"', ":Provider", ":later", "nothing"),),
    slash_commands=(SlashCommand("bangs", ":bangs"),),
    flags=(Flag("far", "go far"),),
    runners=(Runner(":bang", ("SAGENT_FAR",)),),
    stores=(Store("boomstore", "b", ":later", ":later", "SAGENT_BOOMSTORE"),),
)
def dict(given):
    return {"a": 1}
'''
USES = {
    "a command": (["bang"], {}),
    "a runner by its flag": (["--far", "hello"], {}),
    "a runner by its variable": (["hello"], {"SAGENT_FAR": "1"}),
    "a setting's flag": (["--bangs", "x", "hello"], {}),
    "a setting's variable": (["hello"], {"SAGENT_BANGS": "x"}),
    "a provider": (["--model", "boomer/x", "hello"], {}),
    "a slash command": (["--model", "anthropic/claude-sonnet-4-6", "/bangs"], {}),
}
COMMANDS = {
    "a login": ["login", "boomer"],
    "a store's list": ["sessions", "list", "--boomstore", "x"],
    "a store's session": ["sessions", "show", "abc", "--boomstore", "x"],
}


@pytest.fixture
def folder(shell: Shell) -> Path:
    """Return where the person's own plugins lie, with one that always fails, in a home where no run was before."""
    shell.environment["HOME"] = str(shell.cwd.parent / "another")
    place = Path(shell.environment["HOME"]) / ".config/sagent/plugins"
    place.mkdir(parents=True)
    (Path(shell.environment["HOME"]) / ".local/state/sagent").mkdir(parents=True)
    (place / "boom.py").write_text(BANG)
    return place


@pytest.mark.parametrize(("words", "variables"), USES.values(), ids=USES)
def test_every_fault_named_without_traceback(
    shell: Shell, folder: Path, words: list[str], variables: dict[str, str]
) -> None:
    shell.environment |= variables
    check_named(shell, folder, words)


@pytest.mark.plugin("audit", "setup")
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_failing_core_command_named(shell: Shell, folder: Path, words: list[str]) -> None:
    check_named(shell, folder, words)


def check_named(shell: Shell, folder: Path, words: list[str]) -> None:
    """Check that a command that fails in a plugin names it, and the file, without a traceback."""
    shell.serve([])
    done = shell.run(*words, model="")
    said = done.out + done.err
    assert done.code == 2, said
    assert "Traceback" not in said
    assert "RuntimeError: bang" in said
    assert "boom" in said.replace("boomer", "").replace("boomstore", "")
    assert f"{folder / 'boom.py'}:" in said, "where it was raised"


def test_development_mode_shows_traceback(shell: Shell, folder: Path) -> None:
    run = [sys.executable, "-X", "dev", "-m", "sagent.bin.cli", "bang"]
    done = subprocess.run(run, cwd=shell.cwd, env=shell.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_run_survives_failing_parts(shell: Shell, folder: Path) -> None:
    (folder.parent / "config.toml").write_text("[booms]\nx = 1\n")
    server = shell.serve([Turn(calls=(Call("Boom", {}),)), Turn(text="Fine.")])
    words = ("--advisor", "anthropic/claude-opus-4-6", "--advisor-mode", "client", "--permission-mode", "full")
    done = shell.run(*words, "--tools", "Boom", "hello")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    for said in ("A part of the plugin boom", "The trigger boomy of the plugin boom", "booms is ignored"):
        assert said in done.err
    said = str(server.requests[1].json["messages"])
    assert "bang" in said
    assert str(folder) not in said


def test_unshowable_table_named(shell: Shell, folder: Path) -> None:
    (folder.parent / "config.toml").write_text("[shown]\nx = 1\n")
    done = shell.run("config", "show", model="")
    assert done.code == 2
    assert "table shown of the plugin boom" in done.err and "RuntimeError: bang" in done.err


def test_unreadable_setting_names_line(shell: Shell, folder: Path) -> None:
    file = folder.parent / "config.toml"
    file.write_text('bangs = "x"\n')
    done = shell.run("hello")
    assert done.code == 2
    assert f"{file}:1:" in done.err
    assert "plugin boom cannot read it" in done.err and "RuntimeError: bang" in done.err


WRONG = {
    "is cancelled": "import asyncio\nraise asyncio.CancelledError",
    "raises what is no Exception": "class Odd(BaseException): pass\nraise Odd",
    "never returns": "def again(): again()\nagain()",
    "has a number as its name": "plugin = Plugin(7)",
    "has a text as its version of the door": "plugin = Plugin('wrong', api='2')",
    "is a class": "plugin = Plugin",
    "is one of another class": "class Other(Plugin):\n    name = property(lambda self: 1 / 0)\nplugin = Other('wrong')",
    "has a number as its settings": "plugin = Plugin('wrong', settings=7)",
    "has a member that there is not": "plugin = Plugin('wrong', colours=())",
    "has a setting whose words cannot be had": ("plugin = Plugin('wrong', settings=(Setting('hue', Choice(1 / 0)),))"),
}


@pytest.mark.costly
@pytest.mark.parametrize("source", WRONG.values(), ids=WRONG)
def test_invalid_declaration_left_out(shell: Shell, folder: Path, source: str) -> None:
    (folder / "boom.py").write_text(HELLO)
    (folder / "wrong.py").write_text(f"from sagent.plugin import *\n{source}\n")
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    assert f"The plugin wrong ({folder / 'wrong.py'}) is left out: " in done.err
    assert shell.run("greet", model="").code == 3


NAMES = {
    "commands=(Command('help', 'h', ':f'),)": "command help of the plugin odd",
    "commands=(Command('run', 'h', ':f'),)": "command run of the plugin odd",
    "commands=(Command('odd', 'h', ':f', flags=('--model',)),)": "sagent has model already",
    "commands=(Command('odd', 'h', ':f', flags=('-p',)),)": "sagent has -p already",
    "commands=(Command('odd', 'h', ':f', flags=('hello',)),)": "'hello' is not a flag",
    "commands=(Command('my odd', 'h', ':f'),)": "no command can be called 'my odd'",
    "commands=(Command('Odd', 'h', ':f'),)": "no command can be called 'Odd'",
    "commands=(Command('o\\x1b[31m', 'h', ':f'),)": "no command can be called 'o\\x1b[31m'",
    "slash_commands=(SlashCommand('my odd', ':f'),)": "no slash command can be called 'my odd'",
    "secret_folders=(SecretFolder('../up'),)": "no secret folder can be called '../up'",
    "secret_folders=(SecretFolder(''),)": "no secret folder can be called ''",
    "status_parts=(StatusPart('a\\nb', 'h', ':f'),)": "no status part can be called",
    "triggers=(Trigger('', 'h', ':f'),)": "no trigger can be called ''",
    "export_formats=(ExportFormat('../up', 'h', ':f'),)": "no export format can be called '../up'",
    "variables=(Variable('A B'),)": "no variable can be called 'A B'",
    "extras=(Extra('a\\x1b', ':f'),)": "no extra can be called",
    "settings=(Setting('odd', text_of, help='h', flag='a b'),)": "'--a b' is not a flag",
    "settings=(Setting('odd', text_of, help='h', short='m'),)": "'m' is not a flag",
    "settings=(Setting('odd', text_of, help='h', short='-c'),)": "sagent has -c already",
    "settings=(Setting('odd', text_of, help='h', flag='model'),)": "sagent has model already",
    "settings=(Setting('odd', text_of, help='h', key='model'),)": "sagent has model already",
}


@later
@pytest.mark.parametrize(("rows", "said"), NAMES.items())
def test_name_that_nothing_can_have_is_refused(shell: Shell, folder: Path, rows: str, said: str) -> None:
    head = "from sagent.config.values import text_of\nfrom sagent.plugin import *\ndef f(words):\n    return 7\n"
    more = "from sagent.plugin import ExportFormat, Extra, SecretFolder, StatusPart, Trigger, Variable\n"
    (folder / "odd.py").write_text(f"{head}{more}plugin = Plugin('odd', {rows})\n")
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n")
    assert said in done.err
    assert shell.run("help", "all", model="").code == 0


@later
@pytest.mark.plugin("audit", "authoring", "imports")
def test_operation_that_is_taken_is_named(shell: Shell, folder: Path) -> None:
    """Ours stay, of two others the first counts, and one that fails is named with its plugin."""
    head = (
        "from sagent.plugin import Extra, Plugin\ndef f(*words):\n    return 7\ndef boom(*words):\n    return 1 / 0\n"
    )
    names = ("sessions list", "sessions more", "plugin new", "plugin add", "plugin more", "plugin none")
    rows = [f"Extra({name!r}, ':f', 'h')" for name in names[:-1]]
    rows += ["Extra('plugin none', ':none', 'h')", "Extra('plugin boom', ':boom', 'h')"]
    (folder / "odd.py").write_text(f"{head}plugin = Plugin('odd', extras=({', '.join(rows)},))\n")
    (folder / "peer.py").write_text(f"{head}plugin = Plugin('peer', extras=(Extra('plugin more', ':boom', 'h'),))\n")
    done = shell.run("sessions", "list", model="")
    assert (done.code, "`sessions list` of the plugin odd is left out" in done.err) == (0, True), done.err
    assert shell.run("sessions", "--help", model="").code == 0
    assert shell.run("sessions", "more", "a", "b", model="").code == 7
    done = shell.run("plugin", "new", "tide", model="")
    assert (done.code, "`plugin new` of the plugin odd is left out" in done.err) == (0, True), done.err
    assert "needs a source" in shell.run("plugin", "add", model="").err
    assert shell.run("plugin", "more", model="").code == 7
    for name, why in (("none", "AttributeError"), ("boom", "ZeroDivisionError")):
        done = shell.run("plugin", name, model="")
        assert (done.code, "of the plugin odd failed" in done.err, why in done.err) == (2, True, True), done.err
    warned = shell.run("config", "show", model="").err
    assert "extra plugin add of the plugin odd" in warned
    assert "extra plugin more of the plugin peer" in warned


@pytest.mark.plugin("completion")
def test_percent_in_help_is_shown_as_it_is(shell: Shell, folder: Path) -> None:
    settings = "(Setting('tide', text_of, help='50% more of %(x)s', metavar='T'),)"
    flags = "(Flag('far', '100% away', of='serve'), Flag('away', '100% off'))"
    rows = f"settings={settings}, flags={flags}, runners=(Runner(':f'),)"
    head = "from sagent.config.values import text_of\nfrom sagent.plugin import *\n"
    (folder / "odd.py").write_text(f"{head}plugin = Plugin('odd', {rows})\n")
    for words in (("help", "all"), ("completion", "man")):
        done = shell.run(*words, model="")
        assert done.code == 0, done.err
        assert "50% more of %(x)s" in done.out
        assert "100% off" in done.out


@later
@pytest.mark.parametrize("kind", ["directory", "pipe", "link to nothing", "unreadable"])
def test_non_python_file_left_out(shell: Shell, folder: Path, kind: str) -> None:
    place = folder / "boom.py"
    place.unlink()
    match kind:
        case "directory":
            place.mkdir()
        case "pipe":
            os.mkfifo(place)
        case "link to nothing":
            place.symlink_to(folder / "nowhere")
        case _:
            place.write_bytes(b"\xff\xfe\x00")
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    assert f"The plugin boom ({place}) is left out: " in done.err


@later
def test_equal_plugin_names_show_both_places(shell: Shell, folder: Path) -> None:
    for name in ("a", "b"):
        (folder / f"{name}.py").write_text("from sagent.plugin import Plugin\nplugin = Plugin('twice')\n")
    (folder / "boom.py").unlink()
    shell.serve([Turn(text="Fine.")])
    said = shell.run("hello").err
    assert f"The plugin twice ({folder / 'b.py'}) is left out: {folder / 'a.py'} has a plugin of that name." in said


DAMAGED = {
    "deep": "[" * 100_000,
    "another index": '{"stamps": [], "files": {}, "heads": [], "rows": {}, "notices": [], "formerly": [], "sum": 0}',
    "no sum": '{"stamps": []}',
    "a text as its sum": '{"stamps": [], "sum": "x"}',
    "cut": None,
    "a pipe": "",
}


@pytest.mark.costly
@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_damaged_index_rebuilt(shell: Shell, folder: Path, damage: str | None) -> None:
    (folder / "boom.py").write_text(HELLO)
    place = Path(shell.environment["HOME"]) / ".local/state/sagent" / INDEX
    assert shell.run("greet", model="").code == 3
    whole = place.read_text()
    if damage == "":
        place.unlink()
        os.mkfifo(place)
    else:
        place.write_text(whole[: len(whole) // 2] if damage is None else damage)
    assert shell.run("greet", model="").code == 3
    assert not place.is_file() if damage == "" else json.loads(place.read_text()) == json.loads(whole)


FORGED = {
    "no heads": {"heads": []},
    "no plugin of that number": {"rows": {"commands": [[999, {"name": "greet", "help": "x"}]]}},
    "another member": {"rows": {"commands": [[0, {"nome": "greet"}]]}},
    "a member is missing": {"rows": {"parts": [[0, {"add": ":x"}]]}},
    "another kind": {"rows": {"dreams": []}},
    "no row": {"rows": {"commands": [7]}},
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_index_of_another_form_is_not_current(tmp_path: Path, change: dict[str, object]) -> None:
    """Even with the right sum, as where a person changed it."""
    place = tmp_path / INDEX
    head = Head("hello", "greets", "", (), "file", "/hello.py:plugin")
    row = {"name": "greet", "help": "x"}
    good = Index((head,), {"commands": [(0, row)]})
    write_index(place, good, (), {})
    assert read_index(place, ())[1]
    write_index(place, good._replace(**change), (), {})
    assert not read_index(place, ())[1]


@pytest.mark.needs("root-of-machine")
@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
@pytest.mark.skipif(
    not all(path.stat().st_mode & 0o001 for path in (CHECKOUT / "sagent", *CHECKOUT.parents)),
    reason="needs a checkout that nobody may read",
)
def test_foreign_index_harmless() -> None:
    """It can neither be read nor replaced."""
    with TemporaryDirectory() as name:
        place = Path(name)
        for folder in (place, place / "plugins", place / "state", place / "first"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        (place / "plugins/hello.py").write_text(HELLO)
        (place / "state" / INDEX).write_text("{}")
        (place / "state" / INDEX).chmod(0)
        code = (
            "import os, sys; from pathlib import Path; from sagent.config.plugins import find_plugins\n"
            "from sagent.plugin import Command\n"
            "place = Path(sys.argv[1]); find_plugins(place, place / 'first')\n"  # all that it needs is imported
            "os.setgid(65534); os.setuid(65534); print(*find_plugins(place, place / 'state').named(Command))"
        )
        run = [sys.executable, "-c", code, name]
        done = subprocess.run(run, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        assert "greet" in done.stdout.split(), done.stderr
        assert (place / "state" / INDEX).read_text() == "{}"


@later
def test_parallel_index_writes_whole(shell: Shell, folder: Path) -> None:
    (folder / "boom.py").write_text(HELLO)
    children = [shell.start("greet", model="") for _ in range(6)]
    for child in children:
        assert child.communicate()[0] == b"Hello\n"
        assert child.returncode == 3
    state = Path(shell.environment["HOME"]) / ".local/state/sagent"
    names = [each[0] for each in json.loads((state / INDEX).read_bytes())["heads"]]
    assert names.count("hello") == 1
    assert [each.name for each in state.iterdir()] == [INDEX]


HARBOURS = """
from sagent.plugin import Plugin, Table
def read(given):
    return dict(given.rows())
plugin = Plugin("harbour", tables=(Table("harbours", ":read"),))
"""


@later
@pytest.mark.costly
@pytest.mark.parametrize("how", ["taken away", "broken", "not started"])
def test_settings_of_removed_plugin_ignored(shell: Shell, folder: Path, how: str) -> None:
    (folder / "boom.py").write_text(HELLO)
    (folder / "harbour.py").write_text(HARBOURS)
    file = folder.parent / "config.toml"
    file.write_text('language = "French"\n[harbours.Brest]\ndepth = 3\n')
    shell.serve([Turn(text="Fine.")] * 2)
    assert "harbours" not in shell.run("hello").err
    flags = ["--no-plugins"] if how == "not started" else []
    for each in ("boom", "harbour"):
        if how == "broken":
            (folder / f"{each}.py").write_text("raise RuntimeError('no')")
        elif how == "taken away":
            (folder / f"{each}.py").unlink()
    done = shell.run(*flags, "hello")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    assert f"{file}:1: language is ignored" in done.err and "plugin hello, which is not loaded" in done.err
    assert "harbours is ignored" in done.err and "plugin harbour, which is not loaded" in done.err
    told = shell.run(*flags, "greet", "you", model="") if not flags else shell.run("greet", *flags, model="")
    assert told.code == 2
    assert "`greet`" in told.err and "plugin hello, which is not loaded" in told.err


NAMED = """
from sagent.plugin import HookEvent, Plugin, ProviderRow, StatusPart, ToolEntry, Trigger
plugin = Plugin("sea", tools=(ToolEntry("Gull", ":f", ("sea", "default")),), triggers=(Trigger("storm", "s", ":f"),),
    status_parts=(StatusPart("waves", "w", ":f"),), hook_events=(HookEvent("TideTurned", "t"),),
    providers=(ProviderRow("acme", "base_url = 'https://acme.example/v1'"),))
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('status_line = "waves model"', "waves"),
        ('tools = ["Gull", "default"]', "Gull"),
        ('tools = "sea"', "sea"),
        ('[advisor_rules]\ntriggers = ["storm", "done"]', "storm"),
        ('[[hooks.TideTurned]]\ncommand = "true"', "hooks.TideTurned"),
        ('[providers.acme]\ndefault = "x"', "providers.acme"),
    ],
)
def test_file_may_name_what_a_missing_plugin_had(tmp_path: Path, text: str, name: str) -> None:
    home = tmp_path / "home"
    place = home / ".config/sagent/plugins/sea.py"
    place.parent.mkdir(parents=True)
    (home / ".local/state/sagent").mkdir(parents=True)
    (place.parents[1] / "config.toml").write_text(f"{text}\n")
    place.write_text(NAMED)

    def ignored() -> list[str]:
        settings = load(environ={"HOME": str(home)}, cwd=tmp_path)
        return [line.partition(": ")[2] for line in settings.warnings if "is ignored" in line]

    assert ignored() == []
    place.unlink()
    (line,) = ignored()
    assert line.startswith(f"{name} is ignored: ") and "the plugin sea, which is not loaded" in line


def test_model_of_a_missing_plugin_names_it(shell: Shell, folder: Path) -> None:
    (folder / "boom.py").write_text(NAMED)
    shell.run("plugin", "list", model="")
    told = shell.run("--no-plugins", "--model", "acme/large", "hello", model="")
    assert (told.code, "the plugin sea, which is not loaded" in told.err) == (2, True), told.err


def test_place_of_an_error_is_the_plugins(tmp_path: Path) -> None:
    """Also where sagent itself is installed in a folder called site-packages."""
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "sagent").symlink_to(CHECKOUT / "sagent")
    for name, text in (("cut.py", "def f("), ("here.py", "1 / 0")):
        (tmp_path / name).write_text(text)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from sagent.config.plugin_loading import known_plugin; from sagent.config.plugins import Source\n"
        "print(*(known_plugin(Source('x', each, each + ':plugin')).error for each in sys.argv[2:]), sep='\\n')"
    )
    run = [sys.executable, "-c", code, str(site), str(tmp_path / "cut.py"), str(tmp_path / "here.py")]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    cut, here = done.stdout.splitlines()
    assert "site-packages" not in cut
    assert here.endswith(f"({tmp_path / 'here.py'}:1)")


@later
def test_settings_of_broken_plugin_ignored(shell: Shell, folder: Path) -> None:
    (folder / "boom.py").write_text("raise RuntimeError('no')")
    (folder.parent / "config.toml").write_text('language = "French"\n')
    shell.serve([Turn(text="Fine.")])
    done = shell.run("hello")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err
    assert "language is ignored" in done.err
    (folder / "boom.py").unlink()
    assert shell.run("hello").code == 2, "with nothing left out, it is a mistake"


@pytest.mark.parametrize("key", ['plugin = "evil.py"', 'plugins = ["evil.py"]', "no_plugins = true"])
def test_file_cannot_bring_plugin(shell: Shell, folder: Path, key: str) -> None:
    (shell.cwd / ".sagent").mkdir()
    (shell.cwd / ".sagent/config.toml").write_text(f"{key}\n")
    done = shell.run("--trust-project", "hello")
    assert done.code == 2
    assert f"put them into {folder}" in done.err and "give --plugin FILE" in done.err


@pytest.mark.plugin("authoring")
def test_project_cannot_bring_plugin(shell: Shell, folder: Path) -> None:
    """Neither by a folder, nor by a distribution that lies in it, also where another one is installed."""
    (folder / "boom.py").unlink()
    log = folder.parent / "imported"
    evil = f"open({str(log)!r}, 'w')\nfrom sagent.plugin import Plugin\nplugin = Plugin('evil')\n"
    places = [shell.cwd / ".sagent/plugins", shell.cwd, shell.cwd / ".venv/lib/python3.11/site-packages"]
    for place in places:
        info = place / "evil-1.0.dist-info"
        info.mkdir(parents=True)
        (place / "evil.py").write_text(evil)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[sagent.plugins]\nevil = evil\n")
    site = folder.parent / "site-packages"
    (site / "hello-1.0.dist-info").mkdir(parents=True)
    (site / "hello.py").write_text(HELLO)
    (site / "hello-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
    (site / "hello-1.0.dist-info/entry_points.txt").write_text("[sagent.plugins]\nhello = hello\n")
    shell.environment |= {"VIRTUAL_ENV": str(shell.cwd / ".venv"), "SAGENT_PLUGIN": "evil.py"}
    shell.environment["PYTHONPATH"] = os.pathsep.join([str(CHECKOUT), str(site), *map(str, places[:2])])
    server = shell.serve([Turn(text="Fine."), Turn(text="Fine.")])
    for words in ([], ["--trust-project"]):
        run = [sys.executable, "-m", "sagent.bin.cli", "--model", "anthropic/claude-sonnet-4-6", *words, "hello"]
        done = subprocess.run(run, cwd=shell.cwd, env=shell.environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
    shown = [sys.executable, "-m", "sagent.bin.cli", "plugin", "list"]
    listed = subprocess.run(shown, cwd=shell.cwd, env=shell.environment, capture_output=True, text=True, check=True)
    assert "hello 1.0" in listed.stdout
    assert "evil" not in listed.stdout
    assert not log.exists()
    assert len(server.requests) == 2


def test_library_path_not_searched(tmp_path: Path) -> None:
    """Where a program has its directory on the path, a distribution that lies there is none that was installed."""
    for name, place in (("hello", tmp_path / "site-packages"), ("evil", tmp_path / "project")):
        info = place / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (place / f"{name}.py").write_text(f"from sagent.plugin import Plugin\nplugin = Plugin({name!r})\n")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[sagent.plugins]\n{name} = {name}\n")
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path / 'project')!r}, {str(tmp_path / 'site-packages')!r}, "
        f"{str(CHECKOUT)!r}]\nfrom pathlib import Path; from sagent.config.plugins import find_plugins\n"
        "print(*(each.plugin.name for each in find_plugins(Path('config'), Path('state')).known))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "hello" in done.stdout.split()
    assert "evil" not in done.stdout.split()


@pytest.mark.plugin("authoring")
def test_list_names_module_of_part(shell: Shell, folder: Path) -> None:
    shown = shell.run("plugin", "list", model="").out
    assert "parts: boom" in shown
    assert "__pycache__" not in shown


def test_index_keeps_own_declarations(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    assert find_plugins(tmp_path, tmp_path / "state").gone(Command) == {}


@pytest.mark.costly
@pytest.mark.needs("root-of-machine")
@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("whose", ["another user's", "writable by the group", "writable by all"])
def test_writable_index_not_trusted(shell: Shell, folder: Path, whose: str) -> None:
    """It says what is imported: here a module that nobody installed."""
    (folder / "boom.py").write_text(HELLO)
    place = Path(shell.environment["HOME"]) / ".local/state/sagent" / INDEX
    assert shell.run("greet", model="").code == 3
    evil, log = folder.parent / "evil.py", folder.parent / "imported"
    evil.write_text(f"open({str(log)!r}, 'w')\n{HELLO}")
    body = (
        place.read_bytes().rpartition(b', "sum": ')[0].replace(f"{folder / 'boom.py'}:".encode(), f"{evil}:".encode())
    )
    place.write_bytes(body + f', "sum": {crc32(body)}}}'.encode())
    assert shell.run("greet", model="").code == 3
    assert log.exists(), "it is believed where it is this user's"
    log.unlink()
    if whose == "another user's":
        os.chown(place, 65534, 65534)
    else:
        place.chmod(0o620 if "group" in whose else 0o602)
    assert shell.run("greet", model="").code == 3
    assert not log.exists()
    assert (place.stat().st_uid, place.stat().st_mode & 0o777) == (0, 0o600), "it is written anew"


def change(folder: Path, how: str) -> None:
    """Give a file, its folder or the folder of the file that it links to another mode, group or owner."""
    what, _, mode = how.partition(" ")
    if what == "target":
        target = folder.parent / "kept"
        target.mkdir()
        (folder / "boom.py").rename(target / "boom.py")
        (folder / "boom.py").symlink_to(target / "boom.py")
        os.utime(folder / "boom.py", (1, 1))
    place = {"file": folder / "boom.py", "folder": folder, "target": folder.parent / "kept"}[what]
    if mode in ("owner", "group"):
        os.chown(place, 65534 if mode == "owner" else -1, 65534)
    place.chmod(0o660 if mode == "group" else 0o700 if mode == "owner" else int(mode, 8))


@later
@pytest.mark.costly
@pytest.mark.needs("root-of-machine")
@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("how", ["file 606", "file owner", "file group", "folder 707", "folder owner", "target 707"])
def test_plugin_that_others_may_write_is_refused(shell: Shell, folder: Path, how: str) -> None:
    log = folder.parent / "imported"
    (folder / "boom.py").write_text(f"open({str(log)!r}, 'w')\n{HELLO}")
    assert shell.run("greet", model="").code == 3
    log.unlink()
    change(folder, how)
    shell.serve([Turn(text="Fine.")] * 2)
    done = shell.run("hello")
    assert (done.code, done.out, log.exists()) == (0, "Fine.\n", False)
    assert "The plugin boom" in done.err
    assert ("make it your own" if "owner" in how else "run chmod go-w") in done.err
    assert "boom" in shell.run("plugin", "list", model="").out
    assert not log.exists()
    assert shell.run("hello", "--plugin", str((folder / "boom.py").resolve())).code == 0
    assert log.exists() == how.startswith("target"), "one that a person names, elsewhere, is theirs to judge"


@pytest.mark.parametrize("how", ["file 644", "folder 755", "folder 1777"])
def test_plugin_that_others_may_read_is_taken(shell: Shell, folder: Path, how: str) -> None:
    (folder / "boom.py").write_text(HELLO)
    change(folder, how)
    assert shell.run("greet", model="").code == 3


@pytest.mark.parametrize(
    ("name", "members", "others", "taken"),
    [
        ("ann", [], [], True),
        ("ann", ["ann"], [], True),
        ("ann", ["ben"], [], False),
        ("ann", [], ["ben"], False),
        ("staff", ["ann"], [], False),
    ],
)
def test_private_group_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, members: list[str], others: list[str], *, taken: bool
) -> None:
    """As files have it with umask 002, on systems where each user has a group."""
    file = tmp_path / "boom.py"
    file.write_text(HELLO)
    file.chmod(0o664)
    users = [pwd.struct_passwd((each, "", 1, os.getgid(), "", "", "")) for each in ("ann", *others)]
    monkeypatch.setattr(pwd, "getpwuid", lambda _: users[0])
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((name, "", gid, members)))
    assert (written_by_others(str(file)) == "") == taken


@later
def test_second_start_imports_nothing(shell: Shell, folder: Path) -> None:
    """Neither after one without a state directory, nor where Python wrote a folder beside an installed module."""
    (folder / "boom.py").unlink()
    (Path(shell.environment["HOME"]) / ".local/state/sagent").rmdir()
    site = folder.parent / "site-packages"
    log = folder.parent / "imported"
    (site / "hello-1.0.dist-info").mkdir(parents=True)
    (site / "hello.py").write_text(f"open({str(log)!r}, 'a').write('x')\n{HELLO}")
    (site / "hello-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
    (site / "hello-1.0.dist-info/entry_points.txt").write_text("[sagent.plugins]\nhello = hello\n")
    shell.environment["PYTHONPATH"] = os.pathsep.join([str(CHECKOUT), str(site)])
    shell.environment.pop("PYTHONDONTWRITEBYTECODE", None)
    shell.serve([Turn(text="Fine.")] * 3)
    for _ in range(3):
        assert shell.run("hello").out == "Fine.\n"
    assert (site / "__pycache__").is_dir()
    assert log.read_text() == "x"


@later
def test_exiting_plugin_left_out_next_time(shell: Shell, folder: Path) -> None:
    (folder / "boom.py").write_text(HELLO)
    (folder / "wrong.py").write_text("import os\nos._exit(7)\n")
    shell.serve([Turn(text="Fine.")] * 2)
    assert shell.run("hello").code == 7
    for _ in range(2):
        done = shell.run("hello")
        assert (done.code, done.out) == (0, "Fine.\n"), done.err
        assert f"The plugin wrong ({folder / 'wrong.py'}) is left out: " in done.err
    assert shell.run("greet", model="").code == 3
    (folder / "wrong.py").write_text("from sagent.plugin import Plugin\nplugin = Plugin('wrong')\n")
    assert "wrong" not in shell.run("greet", model="").err


@later
def test_interrupt_names_imported_plugin(shell: Shell, folder: Path) -> None:
    (folder / "wrong.py").write_text("raise KeyboardInterrupt\n")
    for _ in range(2):
        done = shell.run("hello")
        assert done.code == 130
        assert f"The plugin wrong ({folder / 'wrong.py'}) was being imported" in done.err
    shell.serve([Turn(text="Fine.")])
    assert shell.run("--no-plugins", "hello").out == "Fine.\n"


INTERRUPTS = """
from sagent.plugin import Command, Part, Plugin, Setting
def run(words): raise KeyboardInterrupt
async def add(builder): raise KeyboardInterrupt
def read(value, base): raise KeyboardInterrupt
plugin = Plugin("hello", commands=(Command("greet", "g", ":run"),), parts=(Part(":add", ("always",)),),
    settings=(Setting("odd", read, "x", "str", metavar="X", help="h"),))
"""


@pytest.mark.parametrize(("words", "model"), [(("greet",), ""), (("hello",), None), (("--odd", "1", "hello"), None)])
def test_interrupt_names_plugin_that_was_running(
    shell: Shell, folder: Path, words: tuple[str, ...], model: str | None
) -> None:
    (folder / "boom.py").write_text(INTERRUPTS)
    shell.serve([])
    done = shell.run(*words) if model is None else shell.run(*words, model=model)
    assert done.code == 130
    assert "The plugin hello failed: KeyboardInterrupt" in done.err


@later
def test_same_file_twice_is_one_plugin(shell: Shell, folder: Path) -> None:
    (folder / "boom.py").write_text(HELLO)
    shell.serve([Turn(text="Fine.")])
    done = shell.run("--plugin", str(folder / "boom.py"), "--plugin", str(folder / "boom.py"), "hello")
    assert (done.out, done.err.count("left out")) == ("Fine.\n", 0), done.err


GUARD = """
from sagent.plugin import Part, Plugin
async def add(builder):
    raise RuntimeError("bang")
plugin = Plugin("guard", parts=(Part(ADD, ("always",), "around"),))
"""


@pytest.mark.costly
@pytest.mark.parametrize("add", ['":add"', '"nowhere.at.all:add"'])
def test_failing_guard_stops_run(shell: Shell, folder: Path, add: str) -> None:
    (folder / "boom.py").unlink()
    (folder / "guard.py").write_text(GUARD.replace("ADD", add))
    server = shell.serve([Turn(text="Fine."), Turn(text="Fine.")])
    done = shell.run("hello")
    assert done.code == 2
    assert "plugin guard" in done.err
    assert "--unguarded" in done.err
    assert server.requests == []
    assert shell.run("--unguarded", "hello").out == "Fine.\n"
    assert shell.run("--no-plugins", "hello").out == "Fine.\n"


JUDGE = """
from sagent.plugin import Part, Plugin
from sagent.policy import Policy
class Judge(Policy):
    async def before_tool(self, call, effect, workspace):
        raise RuntimeError("bang")
async def add(builder):
    builder.judge = Judge()
plugin = Plugin("guard", parts=(Part(":add", ("always",), "around"),))
"""


def test_failing_guard_call_denies(shell: Shell, folder: Path) -> None:
    (folder / "boom.py").unlink()
    (folder / "guard.py").write_text(JUDGE)
    shell.serve([Turn(calls=(Call("Bash", {"command": "touch made"}),)), Turn(text="Fine.")])
    shell.run("--permission-mode", "full", "--sandbox", "off", "hello")
    assert not (shell.cwd / "made").exists()
