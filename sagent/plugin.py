"""Plugins and the things they add to sagent, all named so that they are imported only when used.

A plugin is a folder of sagent/plugins, an installed distribution with an entry point of the group `sagent.plugins`, or
one file. Its module has a `plugin`, which is a Plugin; the core is one too. A setting is declared once: its flag,
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
"""The version of the plugin interface. A plugin made for a later one is left out."""
GROUP = "sagent.plugins"
"""The group of entry points."""
OURS = Path(__file__).parent / "plugins"
"""The folder of sagent's own plugins."""
_OWN = re.compile(r":[A-Za-z_]\w*")  # a function of the plugin's own module
_BESIDE = re.compile(r"\./[\w./-]+")  # a file beside it
Kind = TypeVar("Kind")
Moment: TypeAlias = Literal["offer", "offered", "around"]
"""When a part is added: while tools are offered; once all are known; or around the agent's tools and policy."""
Project: TypeAlias = Literal["no", "yes", "lower", "ask"]
"""What a project's file may set: nothing, anything, only stricter values, or anything with the person's trust."""
Scope: TypeAlias = Literal["agent", "place", "session", "surface"]
"""What a setting concerns: how an agent works, where it works, which session it continues, or one program only."""
Use: TypeAlias = Literal["remote", "shared", "asked_again", "acting"]
"""Who passes a setting on: "remote", a person who starts a session on another machine may choose it; "shared", all runs
of a comparison have the same value; "asked_again", it may be chosen when prompts are given to another model; "acting",
it concerns an agent's permissions or instructions, which a read-only surface sets itself."""


EVERYDAY, SESSIONS = "everyday commands", "commands for sessions"
SERVERS, MORE = "commands for editors, programs and other people", "more commands"
"""Headings of commands in help, in order; those of others follow."""


class Command(NamedTuple):
    """A subcommand. `run` is "module:function": it takes the words after the name, and returns an exit code.

    One of `flags`, anywhere in a line without a command, starts it too, with all words of the line. `elsewhere` are
    other programs' names for it, for which an error suggests ours. `group` is its heading in help. A command `under`
    another, as `bus` is `under` mesh, is also `sagent mesh bus`, and help lists it there; the other one needs no `run`.
    """

    name: str
    help: str
    run: str = ""
    flags: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    group: str = MORE
    under: str = ""


class Part(NamedTuple):
    """A part of an agent. `add` is "module:function", a coroutine function that takes an AgentBuilder.

    It is called if one of `when` holds: "always", a setting that is not its default or has a value ("language=Basque"),
    a table of settings that is not empty, an offered tool ("tool Read"), or another condition of AgentBuilder.
    """

    add: str
    when: tuple[str, ...]
    moment: Moment = "offer"


class SlashCommand(NamedTuple):
    """A command of the REPL. `command` is "module:member", what `sagent.repl.commands.command.command` made. With a
    `key`, as "ctrl-t", it is carried out by that too, in an empty input; the person may bind another key."""

    name: str
    command: str
    key: str = ""


class Flag(NamedTuple):
    """A flag that is not a setting. It belongs to runs, if the plugin has a Runner, or to the command `of`.

    It takes one of `choices`, or any text; no value if `metavar` is empty, and "" without one if that is "[NAME]".
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
    """A way to carry out a run elsewhere. `run` is "module:function", which returns an exit code.

    It is called if one of the plugin's flags of runs is given, and for a prompt if one of `variables` is in the
    environment. It takes the values of these flags, those of settings (with files to attach as `image`), and the words
    of the prompt, None for a conversation on a terminal. With them it `takes` flags of another plugin, by keyword.
    """

    run: str
    variables: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


class Store(NamedTuple):
    """A remote place of sessions. Commands that read sessions have a flag of its name.

    The flag's value, or for a session that is not found here the variable's, is the address. `fetch` is
    "module:function": it copies the session of an address and an id into a directory, and returns the path. `rows` is
    "module:function": for an address it returns the texts to list, one row a session, its id first. `listing` describes
    the flag for lists of sessions, and `costs` says how to see costs, which are not listed.
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
    """An addition to another plugin's extension point: `to` is its name, `add` "module:member".

    An operation of a command is one with `help`, which the command's help shows: the function added to "sessions
    repair" takes the words after these two.
    """

    to: str
    add: str
    help: str = ""


class Variable(NamedTuple):
    """An environment variable that is not a setting. `each`: it is also read for each user or agent, with an underscore
    and their name appended."""

    name: str
    each: bool = False


class SecretFolder(NamedTuple):
    """A folder in the state directory that agents of sessions for other people never read or write, in any mode."""

    name: str


class Suite(NamedTuple):
    """Tests of an interface's promises. `suite` is "module:Class", which tests inherit from. Needs pytest."""

    name: str
    help: str
    suite: str


class ExportFormat(NamedTuple):
    """A format of `sagent export` and /export. `write` is "module:function": it takes an `Exporting` of the plugin
    `exports`, and returns its `Exported`. `suffix` is its files' suffix, by default the name."""

    name: str
    help: str
    write: str
    suffix: str = ""

    @property
    def file_suffix(self) -> str:
        """The end of its files' names, without the dot."""
        return self.suffix or self.name


class ProviderRow(NamedTuple):
    """A provider of models. `data` has the members of [providers.NAME] in a settings file, in TOML or as a JSON object;
    "./FILE.toml" is a file beside the plugin's module with the table [NAME].

    `make` is "module:Class", a class with from_key and from_env; "" is that of the row's family. `login` is
    "module:function", a coroutine function that takes a CommandContext and a host, for `sagent login NAME`; `about` is
    a short description of its requirements, for the list of logins.
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
    """A tool that can be chosen by its name, or by one of its `groups`; "default" is the group without a choice.

    `tool` is "module:member": a tool, a class of tools without arguments, or a function that takes an AgentBuilder and
    returns a tool of this name. Without it nobody can choose the tool: it is offered when it is useful, and rules and
    hooks may name it. "acme__*" means all tools with that prefix, which only their server knows.
    """

    name: str
    tool: str = ""
    groups: tuple[str, ...] = ()


class Table(NamedTuple):
    """A table of settings files, `[NAME]`. `read` is "module:function", which takes a GivenTable (of
    sagent.config.files) and returns a mapping or a tuple.

    Layers are joined: a later row replaces an earlier one of its name, and the members of a tuple are appended. A row's
    text is shown to people. `project` is "no" if a project's file may not have the table, or "ask" if the person is
    asked: then its rows are programs. `folder_file` is the file of added folders that may have the table too. `show` is
    "module:function", which takes the value and yields the name and the text of each row for `sagent config show`, with
    the source if that differs from the table's.

    A table that `guards` may refuse actions of an agent: without the plugin that reads it, nothing is run.
    """

    name: str
    read: str
    project: Literal["no", "ask"] = "no"
    folder_file: str = ""
    show: str = ""
    guards: bool = False


class Finding(NamedTuple):
    """The state of one checked thing."""

    state: Literal["good", "poor", "bad"]
    what: str
    detail: str


class Check(NamedTuple):
    """A check of `sagent doctor`. `run` is "module:function": it takes the settings and the command for entering a key,
    and returns Findings. It may be a coroutine function; any other runs in a thread."""

    name: str
    run: str


class StatusPart(NamedTuple):
    """A part of the status line in the REPL. `show` is "module:function": it takes `sagent.repl.view.panel.Figures` at
    each drawing, so it must be quick, and returns a text; "" is not shown."""

    name: str
    help: str
    show: str


class Trigger(NamedTuple):
    """A reason to ask an advisor. `fires` is "module:function": it takes a `sagent.advisor.signals.Watch` after each
    turn, or with `at_end` when the executor is about to end, and returns its finding, for the advisor to read, or "".

    It applies if `triggers` names it or is not set. Without `fires`, the core judges it itself.
    """

    name: str
    help: str
    fires: str = ""
    at_end: bool = False


class HookEvent(NamedTuple):
    """An event at which hooks run. `matcher` describes what their matchers compare, and `values` lists it if known in
    advance; an event without `matcher` has no matchers. Events with `of_tools` compare names of tools.

    `can` are the possible effects of an answer; a refusal without effect is only shown. If the event `prints`, a
    command's output that is not JSON is added for the model. Its plugin fires it by `AgentBuilder.fire`.
    """

    name: str
    help: str
    matcher: str = ""
    values: tuple[str, ...] = ()
    can: tuple[Literal["refuse", "ask", "allow", "change", "add"], ...] = ()
    prints: bool = False
    of_tools: bool = False


class CallForm(NamedTuple):
    """A form of calls in the text of replies, for models that do not use their provider's. `read` is "module:function":
    it takes a request and the end of the shown reply, and returns a CallReader of sagent.context.calls.

    A reply is read once its text has one of the characters `begins`, and searched for calls if the regular expression
    `likely` matches, so that few replies load the module.
    """

    name: str
    help: str
    read: str
    begins: str
    likely: str


class ModelLayer(NamedTuple):
    """A layer around models. `layer` is "module:function": it takes a `sagent.app.models.Choice` and returns a function
    that takes each chosen model, and returns it or a wrapper.

    It applies to models for which one of `when` holds: "always", "family NAME" of their provider, a setting that is not
    its default or has a value ("language=Basque"), or a table of settings that is not empty.
    """

    layer: str
    when: tuple[str, ...]


class RefusedError(ValueError):
    """A value is not accepted; the message names the accepted ones."""


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


@dataclass(frozen=True, slots=True)
class Choice:
    """Parses one of a few words in any case; the error names the nearest."""

    words: tuple[str, ...]

    def __call__(self, value: object, _: object = None) -> object:
        if isinstance(value, str) and (word := value.strip().lower()) in self.words:
            return word
        raise RefusedError(f"give one of {', '.join(self.words)}{nearest(str(value), self.words)}")


def choice(*names: str) -> Choice:
    """Return the parser of one of these words."""
    return Choice(names)


class Setting(NamedTuple):
    """Setting of the core or of a plugin. Without `help` it has no flag.

    `type` is its type in Settings, and `keyword_type` the type of its keyword of `load_config`. With `adds` the values
    of several sources are joined. `flag` is the flag's name if it differs, `metavar` its value in help ("" if it takes
    none), and `each` lets it be repeated. `key` is the place in a file, if that is in a table. `everyday` flags come
    first in help. The name of a setting in a table begins with the table's: "advisor_rules.max_usd" (in the
    environment SAGENT_ADVISOR_MAX_USD).
    """

    name: str
    read: Reader
    default: object = None
    type: str = "str | None"
    keyword_type: str = ""
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
        """The name without its table's."""
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
        """The keyword for programs. A flag that turns something off has none: use the setting's name."""
        return self.name if self.flag.startswith("no-") else self.flag_name.replace("-", "_")

    @property
    def is_swept(self) -> bool:
        """True if a sweep may vary it."""
        return self.swept and self.scope in ("agent", "place")

    @property
    def order(self) -> Sequence[object]:
        """The accepted words, strictest first; none if it accepts other values."""
        return self.read.words if isinstance(self.read, Choice) else ()


@dataclass(frozen=True, slots=True)
class Plugin:
    """All additions of a plugin. `needs` names other plugins: if one of them is missing, this one is left out."""

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
"""Members of Plugin with additions: the term for one of each, and its class. Two of a kind cannot have the same `name`.
A text ":function" in one names a function of the plugin's own module."""


def placed(member: object, home: str) -> object:
    """Return a member of an addition with its place: ":function" is in the module `home`, and "./file" is beside it."""
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


def of_ours(kind: type[Kind], naming: str = "") -> Iterator[tuple[Plugin, Kind]]:
    """Yield the additions of a kind in sagent's own plugins, each with its plugin, for programs without settings.

    With `naming`, only plugins whose modules contain this text are imported.
    """
    member = next(name for name, (_, made) in KINDS.items() if made is kind)
    for file in sorted(OURS.glob("*/__init__.py")):
        with suppress(Exception):  # the index of plugins reports it
            text = file.read_text("utf-8")
            if f"{member}=" in text and naming in text:  # most need not be imported
                module = f"sagent.plugins.{file.parent.name}"
                yield from _of_module(kind, member, f"{module}:plugin")


def extra_of_ours(to: str) -> object:
    """Return the addition of one of our plugins to an extension point, None if there is none, for programs without
    settings. Raises whatever its module raises."""
    return next((resolve(extra.add) for _, extra in of_ours(Extra, f'"{to}"') if extra.to == to), None)


def of_installed(kind: type[Kind]) -> Iterator[tuple[Plugin, Kind]]:
    """Yield the additions of plugins in installed distributions, which are imported."""
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
    """Return the folders of installed packages: not the whole path, which may contain a project."""
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
            if name not in seen:  # the first of two copies counts
                points += [(each.name, f"{name} {version}", each.value.partition("[")[0].strip(), "") for each in found]
        except Exception as error:  # an unknown encoding, no list of entry points, or missing
            points.append((name, f"{name} {version}", "", f"{place} cannot be read: {type(error).__name__}: {error}"))
        seen.add(name)
    for name, origin, target, fault in sorted(points):
        yield name, origin, target if ":" in target or fault else f"{target}:plugin", fault


def _with_points(folders: Sequence[str]) -> Iterator[Path]:
    """Yield the metadata of distributions with plugins. A search by importlib.metadata takes 15 ms."""
    for folder in folders:
        with suppress(OSError):
            for entry in sorted(os.scandir(folder), key=lambda each: each.name):
                if entry.name.endswith((".dist-info", ".egg-info")):
                    with suppress(OSError):
                        if f"[{GROUP}]".encode() in Path(entry.path, "entry_points.txt").read_bytes():
                            yield Path(entry.path)


def load_file(path: str) -> "ModuleType":
    """Return the module of a Python file, imported once. Raises the module's errors, and ImportError."""
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
