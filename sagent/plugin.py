"""Plugins and what they add to sagent, each thing named so that it is imported only when it is used.

A plugin is a folder of sagent/plugins, an installed distribution with an entry point of the group `sagent.plugins`,
or one file. Its module has a `plugin`, which is a Plugin; the core is one too. A setting is declared once: its flag,
variable, key in a file, type and uses follow from that.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar, cast

from sagent.lib.dataclass import dataclass
from sagent.lib.text import nearest

if TYPE_CHECKING:
    from types import ModuleType

API = 1
"""The version of this door. A plugin that was made for a later one is left out."""
GROUP = "sagent.plugins"
"""The group of entry points."""
OURS = Path(__file__).parent / "plugins"
"""The folder of sagent's own plugins."""
_OWN = re.compile(r":[A-Za-z_]\w*")  # a function of the plugin's own module
_BESIDE = re.compile(r"\./[\w./-]+")  # a file beside it
Kind = TypeVar("Kind")
Moment: TypeAlias = Literal["offer", "offered", "around"]
"""When a part is added: to what an agent is offered; when all that is known; or around its tools and its policy."""
Project: TypeAlias = Literal["no", "yes", "lower", "ask"]
"""What a project's file may do: nothing, anything, only make it stricter, or with the person's trust anything."""
Scope: TypeAlias = Literal["agent", "place", "session", "surface"]
"""What a setting is about: how an agent works, where it does, which session it continues, or one program's own."""
Use: TypeAlias = Literal["remote", "shared", "asked_again", "acting"]
"""Who passes a setting on: "remote", whoever starts a session on another machine may choose it; "shared", all runs of a
comparison have it alike; "asked_again", it may be chosen for prompts that are given to another model; "acting", it says
what an agent may do or is told to be, which a surface that only reads decides itself."""


EVERYDAY, SESSIONS = "everyday commands", "commands for sessions"
SERVERS, MORE = "commands for editors, programs and other people", "more commands"
"""Headings of commands in help, in their order; those of others follow."""


class Command(NamedTuple):
    """A subcommand. `run` is "module:function": it is given the words after the name, and returns an exit code.

    One of `flags`, anywhere in a line that names no command, starts it too: then it is given all words of the line.
    `elsewhere` are the names that other programs have for it: who writes one is told ours. `group` is its heading in
    help. One that is `under` another, as `bus` is `under` mesh, is also `sagent mesh bus`, and help lists it there; the
    other one needs no `run`.
    """

    name: str
    help: str
    run: str = ""
    flags: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    group: str = MORE
    under: str = ""


class Part(NamedTuple):
    """A part of an agent. `add` is "module:function", a coroutine function that is given an AgentBuilder.

    It is called where one of `when` is so: "always", a setting that is not its default or has a value
    ("language=Basque"), a table of settings that is not empty, a tool that is offered ("tool Read"), or another fact
    that AgentBuilder knows.
    """

    add: str
    when: tuple[str, ...]
    moment: Moment = "offer"


class SlashCommand(NamedTuple):
    """A command of the REPL. `command` is "module:member", what `sagent.repl.commands.command.command` made."""

    name: str
    command: str


class Flag(NamedTuple):
    """Flag that is no setting. It belongs to runs, whose plugin has a Runner, or to the command `of`.

    It takes one of `choices`, or any text; no value where `metavar` is empty.
    """

    name: str
    help: str
    metavar: str = ""
    of: str = ""
    choices: tuple[str, ...] = ()

    @property
    def keyword(self) -> str:
        """The name as it is given to a function."""
        return self.name.replace("-", "_")


class Runner(NamedTuple):
    """Way to carry a run out elsewhere. `run` is "module:function", which returns an exit code.

    It is called where one of the plugin's flags of runs was given, and for a prompt where the environment has one of
    `variables`. It is given the values of these flags, those of settings, the words of the prompt, which are None
    where a person on a terminal wants to talk.
    """

    run: str
    variables: tuple[str, ...] = ()


class Store(NamedTuple):
    """Place where sessions are kept that are not on this machine. Commands that read sessions have a flag of its name.

    The flag's value, or that of the variable for a session that is not found here, is the address. `fetch` is
    "module:function": it copies the session of an address and an id into a directory, and returns the path. `rows` is
    "module:function": for an address the texts to list, one row a session, its id first. `listing` describes the flag
    where sessions are listed, and `costs` says how to see costs, which are not listed.
    """

    name: str
    help: str
    fetch: str
    rows: str
    variable: str
    metavar: str = "URL"
    listing: str = ""
    costs: str = ""


class Extra(NamedTuple):
    """Something added to what another plugin offers: `to` is the place that it names, `add` "module:member".

    An operation of a command is one with `help`, which the command's help says of it: to "sessions repair" a function
    is added that is given the words after these two.
    """

    to: str
    add: str
    help: str = ""


class Variable(NamedTuple):
    """Environment variable that is no setting. `each` says that it is read for each user or agent too, whose name
    follows with an underscore before it."""

    name: str
    each: bool = False


class SecretFolder(NamedTuple):
    """Folder in the state directory that no agent of a session for others reads or writes, in any mode."""

    name: str


class Suite(NamedTuple):
    """Tests of what an interface promises. `suite` is "module:Class", which tests inherit from. Needs pytest."""

    name: str
    help: str
    suite: str


class ExportFormat(NamedTuple):
    """A format of `sagent export` and /export. `write` is "module:function": it is given a
    `Exporting` of the plugin `exports`, and returns its `Exported`. `suffix` is that of its files, where it is
    not the name."""

    name: str
    help: str
    write: str
    suffix: str = ""

    @property
    def file_suffix(self) -> str:
        """The end of its files' names, without the dot."""
        return self.suffix or self.name


class ProviderRow(NamedTuple):
    """A provider of models. `data` has the members of [providers.NAME] of a file of settings, in TOML or as a JSON
    object; "./FILE.toml" is a file beside the plugin's module that has the table [NAME].

    `make` is "module:Class", a class with from_key and from_env; "" is that of the row's family. `login` is
    "module:function", a coroutine function that is given a CommandContext and a host, for `sagent login NAME`;
    `about` says in a few words what it needs, for the list to choose from.
    """

    name: str
    data: str = ""
    make: str = ""
    login: str = ""
    about: str = ""

    def read(self) -> Mapping[str, object]:
        """Return the data. Raises OSError, ValueError and LookupError."""
        if self.data.startswith("{"):
            import json

            return json.loads(self.data)
        import tomllib

        if not Path(self.data).is_absolute():
            return tomllib.loads(self.data)
        return tomllib.loads(Path(self.data).read_text("utf-8"))[self.name]


class ToolEntry(NamedTuple):
    """A tool that may be chosen by its name, or by that of one of its `groups`; "default" is the one for no choice.

    `tool` is "module:member": a tool, a class of tools that needs no arguments, or a function that is given an
    AgentBuilder and returns a tool of this name. Without it nobody can choose the tool: it is offered where it is of
    use, and rules and hooks may name it. "acme__*" is all tools whose names begin so, which only their server knows.
    """

    name: str
    tool: str = ""
    groups: tuple[str, ...] = ()


class Table(NamedTuple):
    """A table of files of settings, `[NAME]`. `read` is "module:function", which is given a GivenTable (of
    sagent.config.files) and returns a mapping or a tuple.

    Layers are joined: a later row replaces an earlier one of its name, and the members of a tuple are added. A row's
    text is what a person sees of it. `project` is "no" where a project's file may not have the table, or "ask" where
    the person is asked: then its rows are programs. `folder_file` is the file of added folders that may have the table
    too. `show` is "module:function", which is given what was read and yields the name and the text of each row for
    `sagent config show`, and where it comes from if that is not where the table does.

    A table that `guards` may refuse what an agent is about to do: without the plugin that reads it, nothing is run.
    """

    name: str
    read: str
    project: Literal["no", "ask"] = "no"
    folder_file: str = ""
    show: str = ""
    guards: bool = False


class Finding(NamedTuple):
    """The state of one thing that was checked."""

    state: Literal["good", "poor", "bad"]
    what: str
    detail: str


class Check(NamedTuple):
    """A check of `sagent doctor`. `run` is "module:function": it is given the settings and the command by which a
    person enters a key, and returns Findings. It may be a coroutine function; any other runs in a thread."""

    name: str
    run: str


class StatusPart(NamedTuple):
    """A part of the status line in the REPL. `show` is "module:function": it is given `sagent.repl.view.panel.Figures`
    each time the line is drawn, so it must be quick, and returns a text; "" is not shown."""

    name: str
    help: str
    show: str


class Trigger(NamedTuple):
    """A reason to ask an advisor. `fires` is "module:function": it is given a `sagent.advisor.signals.Watch` after each
    turn, or with `at_end` when the executor is about to end, and returns what it saw, for the advisor to read, or "".

    It holds where `triggers` names it or is not set. Without `fires`, the core judges it itself.
    """

    name: str
    help: str
    fires: str = ""
    at_end: bool = False


class HookEvent(NamedTuple):
    """An event at which hooks are asked. `matcher` says what their matchers are about, and `values` lists it where it
    is known beforehand; an event without `matcher` is about nothing. `of_tools` are about the names of tools.

    `can` is what an answer may do: a refusal of what cannot be refused is only shown. What a command prints that is no
    JSON is added for the model where the event `prints`. Its plugin fires it by `AgentBuilder.fire`.
    """

    name: str
    help: str
    matcher: str = ""
    values: tuple[str, ...] = ()
    can: tuple[Literal["refuse", "ask", "allow", "change", "add"], ...] = ()
    prints: bool = False
    of_tools: bool = False


class CallForm(NamedTuple):
    """A form of calls in the text of replies, for models that do not use their provider's. `read` is
    "module:function": it is given a request and the end of what was shown of its reply, and returns a CallReader of
    sagent.context.calls.

    A reply is read once its text has one of the characters `begins`, and searched for calls where the regular
    expression `likely` is found: so that the module is loaded for few replies.
    """

    name: str
    help: str
    read: str
    begins: str
    likely: str


class ModelLayer(NamedTuple):
    """Something around models. `layer` is "module:function": it is given a `sagent.app.models.Choice` and returns a
    function that is given each model which is chosen, and returns it, or one around it.

    It is called for models for which one of `when` is so: "always", "family NAME" of their provider, a setting that is
    not its default or has a value ("language=Basque"), or a table of settings that is not empty.
    """

    layer: str
    when: tuple[str, ...]


class RefusedError(ValueError):
    """A value is not accepted; the message says what is."""


class PathBase(NamedTuple):
    """Directories from which relative paths and `~` in a value start."""

    directory: Path
    home: Path

    def path(self, text: str) -> Path:
        """Return an absolute path, symlinks left alone."""
        if not text or "\0" in text or text.endswith("\n"):
            raise RefusedError("give a path" + ", without a line break at its end" * text.endswith("\n"))
        if text == "~" or text.startswith("~/"):
            return self.home / text[2:]
        return self.directory / text


Reader: TypeAlias = Callable[[object, PathBase], object]


class Choice:
    """Reads one of a few words, whatever its case; the error names the nearest. `words` may be imported when needed."""

    def __init__(self, words: Callable[[], tuple[str, ...]]) -> None:
        self.words = words

    def __call__(self, value: object, _: object = None) -> object:
        names = self.words()
        if isinstance(value, str) and (word := value.strip().lower()) in names:
            return word
        raise RefusedError(f"give one of {', '.join(names)}{nearest(str(value), names)}")


def choice(*names: str) -> Choice:
    """Return the reader of one of these words."""
    return Choice(lambda: names)


class Setting(NamedTuple):
    """Setting of the core or of a plugin. `help` describes its flag; a setting without it has none.

    `type` is its type in Settings and `given` what a program may give, both as type checkers read them. `adds` joins
    the values of layers. `metavar` is the flag's value in help, "" where it takes none; `each` lets it be repeated, and
    `flag` is its name where that differs. `key` is its place in a file where that is in a table.
    Help begins with those that are `everyday`.
    The name of one in a table has the table's before it: "advisor_rules.max_usd" is SAGENT_ADVISOR_MAX_USD.
    """

    name: str
    read: Reader
    default: object = None
    type: str = "str | None"
    given: str = ""
    project: Project = "no"
    adds: bool = False
    group: str = "work"
    flag: str = ""
    short: str = ""
    metavar: str = ""
    help: str = ""
    each: bool = False
    scope: Scope = "agent"
    uses: tuple[Use, ...] = ()
    swept: bool = True
    key: str = ""
    everyday: bool = False

    @property
    def member(self) -> str:
        """The name without that of its table."""
        return self.name.rpartition(".")[2]

    @property
    def variable(self) -> str:
        """The environment variable."""
        if self.name == self.member:
            return "SAGENT_" + self.name.upper()
        return "SAGENT_ADVISOR_" + self.member.upper().replace("ADVISOR_", "")

    @property
    def flag_name(self) -> str:
        """The flag without its dashes."""
        return self.flag or self.name.replace("_", "-")

    @property
    def keyword(self) -> str:
        """The flag as a program gives it. A flag that turns something off has none: the setting's name does it."""
        return self.name if self.flag.startswith("no-") else self.flag_name.replace("-", "_")

    @property
    def is_swept(self) -> bool:
        """True if a sweep may vary it."""
        return self.swept and self.scope in ("agent", "place")

    @property
    def order(self) -> Sequence[object]:
        """The words that are accepted, the strictest first; none where it takes other values."""
        return self.read.words() if isinstance(self.read, Choice) else ()


@dataclass(frozen=True, slots=True)
class Plugin:
    """All that a plugin adds. `needs` names other plugins: where one of them is missing, this one is left out."""

    name: str
    about: str = ""
    commands: tuple[Command, ...] = ()
    parts: tuple[Part, ...] = ()
    settings: tuple[Setting, ...] = ()
    api: int = API
    slash_commands: tuple[SlashCommand, ...] = field(default=(), kw_only=True)
    flags: tuple[Flag, ...] = field(default=(), kw_only=True)
    runners: tuple[Runner, ...] = field(default=(), kw_only=True)
    stores: tuple[Store, ...] = field(default=(), kw_only=True)
    extras: tuple[Extra, ...] = field(default=(), kw_only=True)
    suites: tuple[Suite, ...] = field(default=(), kw_only=True)
    variables: tuple[Variable, ...] = field(default=(), kw_only=True)
    secret_folders: tuple[SecretFolder, ...] = field(default=(), kw_only=True)
    export_formats: tuple[ExportFormat, ...] = field(default=(), kw_only=True)
    providers: tuple[ProviderRow, ...] = field(default=(), kw_only=True)
    tools: tuple[ToolEntry, ...] = field(default=(), kw_only=True)
    tables: tuple[Table, ...] = field(default=(), kw_only=True)
    checks: tuple[Check, ...] = field(default=(), kw_only=True)
    status_parts: tuple[StatusPart, ...] = field(default=(), kw_only=True)
    triggers: tuple[Trigger, ...] = field(default=(), kw_only=True)
    hook_events: tuple[HookEvent, ...] = field(default=(), kw_only=True)
    call_forms: tuple[CallForm, ...] = field(default=(), kw_only=True)
    model_layers: tuple[ModelLayer, ...] = field(default=(), kw_only=True)
    needs: tuple[str, ...] = field(default=(), kw_only=True)
    version: str = field(default="", kw_only=True)


KINDS: Mapping[str, tuple[str, type[tuple[object, ...]]]] = {
    "commands": ("command", Command),
    "parts": ("part", Part),
    "settings": ("setting", Setting),
    "slash_commands": ("slash command", SlashCommand),
    "flags": ("flag", Flag),
    "runners": ("runner", Runner),
    "stores": ("store", Store),
    "extras": ("extra", Extra),
    "suites": ("suite", Suite),
    "variables": ("variable", Variable),
    "secret_folders": ("secret folder", SecretFolder),
    "export_formats": ("export format", ExportFormat),
    "providers": ("provider", ProviderRow),
    "tools": ("tool", ToolEntry),
    "tables": ("table", Table),
    "checks": ("check", Check),
    "status_parts": ("status part", StatusPart),
    "triggers": ("trigger", Trigger),
    "hook_events": ("hook event", HookEvent),
    "call_forms": ("call form", CallForm),
    "model_layers": ("model layer", ModelLayer),
}
"""Members of Plugin that hold what it adds: what one of each is called, and its class. Two of a kind cannot have the
same `name`. A text ":function" in one names a function of the plugin's own module."""


def placed(member: object, home: str) -> object:
    """Return a member of something that a plugin adds, with its place: ":function" is in the module `home`, and
    "./file" is beside it."""
    if not isinstance(member, str):
        return member
    if _OWN.fullmatch(member):
        return f"{home}{member}"
    if not _BESIDE.fullmatch(member):
        return member
    file = home if "/" in home or "\\" in home else getattr(import_module(home), "__file__", None) or home
    return str(Path(file).absolute().parent / member)


def resolve(name: str) -> object:
    """Return what "module:member" names, or "/a/file.py:member". Raises whatever its module raises, and
    AttributeError."""
    module, _, member = name.rpartition(":")
    return getattr(load_file(module) if "/" in module or "\\" in module else import_module(module), member)


def of_ours(kind: type[Kind]) -> Iterator[tuple[Plugin, Kind]]:
    """Yield what sagent's own plugins add of a kind, with whose it is, for programs that have no settings."""
    member = next(name for name, (_, made) in KINDS.items() if made is kind)
    for file in sorted(OURS.glob("*/__init__.py")):
        with suppress(Exception):  # which the index of plugins reports
            if f"{member}=" in file.read_text("utf-8"):  # most need not be imported
                module = f"sagent.plugins.{file.parent.name}"
                yield from _of_module(kind, member, f"{module}:plugin")


def of_installed(kind: type[Kind]) -> Iterator[tuple[Plugin, Kind]]:
    """Yield the same of plugins of installed distributions, which are imported."""
    member = next(name for name, (_, made) in KINDS.items() if made is kind)
    for _, _, target, _ in entry_points(package_folders()):
        with suppress(Exception, SystemExit):  # as above
            yield from _of_module(kind, member, target)


def _of_module(kind: type[Kind], member: str, target: str) -> Sequence[tuple[Plugin, Kind]]:
    plugin, home = cast("Plugin", resolve(target)), target.partition(":")[0]
    rows = cast("Sequence[tuple[object, ...]]", getattr(plugin, member))
    make = cast("Callable[..., Kind]", kind)
    return [(plugin, make(*(placed(each, home) for each in row))) for row in rows]


def package_folders() -> Sequence[str]:
    """Return where packages are installed: not all of the path, on which a project may be."""
    return [*dict.fromkeys(each for each in sys.path if each.endswith(("site-packages", "dist-packages")))]


def entry_points(folders: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the plugins of distributions that are installed in these folders: the name, the distribution with its
    version, "module:member", and why that cannot be read."""
    points: list[tuple[str, str, str, str]] = []
    seen = set[str]()
    for place in _with_points(folders):
        from importlib.metadata import PathDistribution

        name, _, version = place.stem.partition("-")
        try:
            dist = PathDistribution(place)
            name, version = dist.name or name, dist.version or version
            found = dist.entry_points.select(group=GROUP)
            if name not in seen:  # of two copies the first counts
                points += [(each.name, f"{name} {version}", each.value.partition("[")[0].strip(), "") for each in found]
        except Exception as error:  # what is written there is in no encoding, no list of entry points, or not there
            points.append((name, f"{name} {version}", "", f"{place} cannot be read: {type(error).__name__}: {error}"))
        seen.add(name)
    for name, origin, target, fault in sorted(points):
        yield name, origin, target if ":" in target or fault else f"{target}:plugin", fault


def _with_points(folders: Sequence[str]) -> Iterator[Path]:
    """Yield where the distributions are described that have plugins. For importlib.metadata to look takes 15 ms."""
    for folder in folders:
        with suppress(OSError):
            for entry in sorted(os.scandir(folder), key=lambda each: each.name):
                if entry.name.endswith((".dist-info", ".egg-info")):
                    with suppress(OSError):
                        if f"[{GROUP}]".encode() in Path(entry.path, "entry_points.txt").read_bytes():
                            yield Path(entry.path)


def load_file(path: str) -> "ModuleType":
    """Return the module of a Python file, imported once. Raises whatever it raises, and ImportError."""
    from hashlib import sha256
    from importlib.util import module_from_spec, spec_from_file_location

    if not (file := Path(path)).is_file():  # a named pipe would be waited for
        raise ImportError("it is no file" if file.exists() else "No such file")
    name = f"sagent_plugin_{sha256(path.encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python file")
        sys.modules[name] = module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
