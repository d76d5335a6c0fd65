"""The flags: the grammar of the command line, without its effects."""

import argparse
import os
import sys
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from sagent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from _typeshed import SupportsWrite

    from sagent.config.plugins import Installed
    from sagent.plugin import Command, Flag, Setting

_OPERATIONS = ("list", "ls", "login", "logout", "install", "uninstall", "enable", "disable")  # of others' commands
EPILOG = """{commands}

{more}See `sagent COMMAND --help` for details.
To send a prompt that is a command's name: sagent -- models

exit codes:
  0 done   1 failed   2 usage   3 budget   4 turn or round limit   5 reply cut at its output limit
  6 answer does not match the schema   7 review findings   124 `wait` timed out   129, 130, 141, 143 by a signal"""


SESSION = "a session's path or id, or the beginning of an id (default: the last session)"
_SHARED = "\nThe flags of a run, such as --effort E and --plan, are flags of this too: `sagent help all` lists them.\n"


class ParserExit(SystemExit):
    """A parser has written the requested help or version."""

    def __init__(self, code: int, parser: "Parser") -> None:
        super().__init__(code)
        self.parser = parser


class Parser(argparse.ArgumentParser):
    """A command's parser. It raises UsageError, with the nearest valid flag, instead of exiting the process."""

    def __init__(
        self,
        command: str = "",
        description: str | None = None,
        *,
        prog: str = "",  # argparse gives it to the parser of an operation
        usage: str | None = None,
        epilog: str | None = None,
        argument_default: str | None = None,
        color: bool = False,  # as is this, from Python 3.14 on
    ) -> None:
        form = argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter
        super().__init__(
            prog=prog or f"sagent {command}".rstrip(),
            description=description,
            usage=usage,
            epilog=epilog,
            argument_default=argument_default,
            formatter_class=partial(form, width=_columns() - 2),
            allow_abbrev=False,
        )
        self.color, self.suggest_on_error = color, False  # the same help and errors with every Python
        self.shared: list[argparse.Action] = []

    def format_help(self) -> str:
        """Return the help: flags that every run has are one line, and two examples end it."""
        texts = [(action, action.help) for action in self.shared]
        for action in self.shared:
            action.help = argparse.SUPPRESS
        text = super().format_help() + _SHARED * bool(texts)
        for action, about in texts:
            action.help = about
        return text + examples_of(plugins_of(sys.argv[1:]), self.prog)

    def add_cwd(self) -> None:
        add_setting(self, "cwd", "run as if started in this directory")

    def add_flags_of(self, command: str, group: "argparse._ActionsContainer | None" = None) -> None:
        """Add the flags that plugins have for a command."""
        for flag in plugins_of(sys.argv[1:]).flags(command):
            add_own_flag(group or self, flag)

    def add_config(self) -> None:
        self.add_argument("--config", metavar="FILE", help="a TOML or YAML file to use in place of your user settings")

    def add_addresses(self, title: str) -> argparse._ArgumentGroup:
        """Return a group of flags with addresses for single models."""
        group = self.add_argument_group(title)
        group.add_argument("--executor-api-base", metavar="URL", help="the base URL for the executor only")
        group.add_argument(
            "--advisor-api-base",
            metavar="URL",
            action="append",
            help="the base URL for the advisor only; give one for each --advisor",
        )
        return group

    @property
    def flags(self) -> list[argparse.Action]:
        return [action for action in self._actions if action.option_strings]

    @property
    def positionals(self) -> list[argparse.Action]:
        return [action for action in self._actions if not action.option_strings]

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise ParserExit(status, self)

    def parse_apart(
        self, argv: "Sequence[str]", refused: "Sequence[str]", reason: str
    ) -> tuple[argparse.Namespace, dict[str, object]]:
        """Parse all flags, and separately those for agents. Raises UsageError for those `refused`."""
        own = {action.dest for action in self._actions}
        add_agent_flags(self, plugins_of(argv))
        given = self.parse_args(argv)
        flags = {name: value for name, value in vars(given).items() if name not in own and value is not None}
        if name := next((name for name in refused if flags.pop(name, None)), ""):
            raise UsageError(f"--{name.replace('_', '-')}: {reason}.")
        return given, flags

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Fail if the output cannot be written; argparse's own method only does so beyond a buffer's size."""
        if file is not None:
            file.write(message)

    def error(self, message: str) -> NoReturn:
        known, wrong, same = list[str](), "", ""
        if "unrecognized arguments:" in message:
            known = [flag for action in self.flags for flag in action.option_strings]
            wrong = message.partition(":")[2].split()[0].partition("=")[0]
            if owner := plugins_of(sys.argv[1:]).former_owner(wrong):
                raise UsageError(f"{wrong} is a flag of the plugin {owner}, which is not loaded.")
            same = _elsewhere("flags").get(wrong, "")
        elif (choice := message.partition("invalid choice: ")[2].partition(" (choose from "))[1]:
            known = choice[2].rstrip(")").replace("'", "").split(", ")
            wrong = choice[0].strip("'")
        from difflib import get_close_matches

        from sagent.lib.text import unlike

        near = [same] if same.partition(" ")[0] in known else get_close_matches(wrong, known, 3, 0.6)
        meant = f" Did you mean {' or '.join(near)}?{unlike(wrong, near)}" if near else ""
        raise UsageError(f"{message.rstrip('.')}.{meant} See {self.prog} --help.")


def _columns() -> int:
    """Return the terminal's columns, as argparse would by shutil, which takes 3 ms to import."""
    with suppress(ValueError):
        if (columns := int(os.environ.get("COLUMNS", ""))) > 0:
            return columns
    with suppress(OSError, ValueError):
        return os.get_terminal_size(1).columns or 80
    return 80


def plugins_of(argv: "Sequence[str]") -> "Installed":
    """Return the plugins for these words, which determine the flags and commands."""
    from pathlib import Path

    from sagent.config.plugins import find_plugins
    from sagent.context.places import directory, home_of

    words = list(argv[: argv.index("--")] if "--" in argv else argv)
    named = [word.partition("=")[2] for word in words if word.startswith("--plugin=")]
    named += [value for word, value in pairwise(words) if word == "--plugin"]
    config, state = (directory(kind, os.environ, home_of(os.environ)) for kind in ("config", "state"))
    files = [file for file in map(Path, named) if file.is_file()]  # missing files are reported with the settings
    return find_plugins(config, state, files, foreign="--no-plugins" not in words)


def _elsewhere(kind: str) -> "Mapping[str, str]":
    """Return other programs' commands or flags, with our equivalents."""
    import json
    from pathlib import Path

    return json.loads(Path(__file__).with_name("elsewhere.json").read_text("utf-8"))[kind]


def meant_command(words: list[str], commands: "Mapping[str, Command]") -> str:
    """Guess the intended command of a few unquoted words: one typing error, or another program's name for it; "" for
    none."""
    first = words[0] if words else ""
    if len(first) < 2 or len(words) > 3 or not first.replace("-", "").isalnum() or first.isdecimal():
        return ""
    if first in commands:
        return f"sagent {first}, whose name stands before its flags"
    elsewhere = {other: f"sagent {name}" for name, command in commands.items() for other in command.elsewhere}
    elsewhere = {**_elsewhere("commands"), **elsewhere}
    second = words[1] if len(words) > 1 else _OPERATIONS[0]
    if first in elsewhere and (second in _OPERATIONS or first in ("session", "auth", "resume") or " " in second):
        return elsewhere[first]  # with a blank it is a quoted task
    others = [name for name in elsewhere if len(name) > 4 or name == "help"]  # four letters are too often another word
    known = [*commands, *others] if len(words) == 1 else [name for name in commands if len(name) > 4]
    near = [name for name in known if _is_one_edit(first, name)]
    return " or ".join(dict.fromkeys(elsewhere.get(name, f"sagent {name}") for name in near[:3]))


def _is_one_edit(word: str, name: str) -> bool:
    """Return True if one letter is added, left out, replaced, or swapped with its neighbour."""
    at = next((at for at, (one, other) in enumerate(zip(word, name, strict=False)) if one != other), len(word))
    rest, other = word[at:], name[at:]
    swapped = rest[1:2] + rest[:1] + rest[2:]
    return rest[1:] in (other, other[1:]) or rest == other[1:] or swapped == other


def parse_run(plugins: "Installed", argv: "Sequence[str]") -> "dict[str, Any]":
    """Parse a run's flags and prompt. Only named settings become flags at first; if that is not enough, all do."""
    named = {word.partition("=")[0] for word in argv}
    if not named & {"-h", "--help"} and not any(word[:1] == "-" != word[1:2] and word[2:] for word in argv):
        with suppress(UsageError):
            return vars(run_parser(plugins, named).parse_args(argv))
    return vars(run_parser(plugins, short=True).parse_args(argv))


def run_parser(plugins: "Installed", named: "Container[str] | None" = None, *, short: bool = False) -> Parser:
    """Return the parser of `sagent [flags] [prompt]`. Only given flags appear in the parsed namespace. With `named`,
    only these settings become flags. A `short` one's help lists the everyday flags."""
    parser = Parser(
        "",
        usage="sagent [flags] [PROMPT]   |   ... | sagent [flags] [PROMPT]   |   sagent COMMAND",
        description="A coding agent on any model of any provider. With a prompt, or piped input, it answers and exits.",
        epilog=EPILOG.format(
            commands="" if named is not None else "\n".join(_list_commands(plugins, short=short)),
            more="`sagent help all` shows every flag and command. " if short else "",
        ),
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("prompt", nargs="*", metavar="PROMPT", help="what to do; piped input is attached as context")
    parser.add_argument("-p", "--print", action="store_true", help="answer and exit (the default with a prompt)")
    add_images(parser)
    _add_all(parser, plugins, _settings(plugins, named))
    if short:
        daily = {setting.keyword for setting in _settings(plugins) if setting.everyday}
        daily |= {"help", "image", "print", "resume", "version"}
        for action in parser.flags:
            if action.dest not in daily:
                action.help = argparse.SUPPRESS
    return parser


def add_images(parser: Parser) -> None:
    what = "attach an image, a PDF or a recording to the prompt; may be repeated"
    parser.add_argument("-i", "--image", metavar="FILE", action="append", help=what)


def _list_commands(plugins: "Installed", *, short: bool) -> "Iterator[str]":
    """Yield the lines of help about commands, by group. In short help a family of commands is one line."""
    from sagent.plugin import EVERYDAY, MORE, SERVERS, SESSIONS, Command

    groups: dict[str, list[tuple[str, str]]] = {title: [] for title in (EVERYDAY, SESSIONS, SERVERS, MORE)}
    for each in plugins.every(Command):
        of = operations(plugins, each.name)
        if each.under not in plugins.named(Command) or each.group != MORE:
            names = f": {', '.join(of)}" if of and short else ""
            groups.setdefault(each.group, []).append((each.name, each.help + names))
            groups[each.group] += () if short else ((f"{each.name} {name}", one.help) for name, one in of.items())
    width = max(len(name) for found in groups.values() for name, _ in found)
    for title in filter(groups.get, groups):
        yield from (f"\n{title}:", *(f"  {name:{width}}  {text}" for name, text in groups[title]))


def operations(plugins: "Installed", family: str) -> "dict[str, Command]":
    """Return the commands that are also operations of this one, by name."""
    from sagent.plugin import Command

    return {each.name: each for each in plugins.every(Command) if each.under == family}


def examples_of(plugins: "Installed", command: str) -> str:
    """Return the two examples that end a command's help, from files that plugins add to the point "examples"."""
    from pathlib import Path

    lines = list[str]()
    for _, extra in plugins.extras("examples"):
        with suppress(OSError, ValueError):
            lines += [line for line in Path(extra.add).read_text("utf-8").splitlines() if f"{command} " in f"{line} "]
    return "\n".join(["", "examples:", *(f"  {line}" for line in lines[:2]), ""]) if lines else ""


def add_flags(parser: Parser, plugins: "Installed | None" = None) -> None:
    """Add all flags of a run; by default `plugins` are those of this process."""
    plugins, own = plugins or plugins_of(sys.argv[1:]), len(parser.flags)
    _add_all(parser, plugins, _settings(plugins))
    parser.shared = parser.flags[own:]


def _add_all(parser: Parser, plugins: "Installed", settings: "Sequence[Setting]") -> None:
    _add_agent_flags(parser, plugins, settings, ("agent", "place"))
    _session_flags(parser.add_argument_group("session and output"), plugins, settings)


def _settings(plugins: "Installed", named: "Container[str] | None" = None) -> "Sequence[Setting]":
    """Return the settings with a flag, or only these."""
    from sagent.plugin import Setting

    every = (setting for setting in plugins.every(Setting) if setting.help)
    if named is None:
        return [*every]
    with_others = ("continue_session", "output_format")
    return [each for each in every if f"--{each.flag_name}" in named or each.short in named or each.name in with_others]


def add_agent_flags(parser: Parser, plugins: "Installed | None" = None) -> None:
    """Add those that determine how an agent works, wherever it does."""
    plugins, own = plugins or plugins_of(sys.argv[1:]), len(parser.flags)
    _add_agent_flags(parser, plugins, _settings(plugins), ("agent",))
    parser.shared = parser.flags[own:]


def _add_agent_flags(
    parser: Parser, plugins: "Installed", settings: "Sequence[Setting]", scopes: "Container[str]"
) -> None:
    from sagent.config.declared import GROUPS, MODEL, SESSION, WORK

    for title in dict.fromkeys((*GROUPS, *(setting.group for setting in settings))):
        if title == SESSION:
            continue
        group = parser.add_argument_group(title)
        for setting in settings:
            if setting.group == title and setting.scope in scopes:
                add_flag(group, setting, plugins.help_of(setting))
        if title == WORK:
            text = "use this plugin, a Python file (repeatable)"
            group.add_argument("--plugin", metavar="FILE", action="append", help=text)
            text = "use no plugins but sagent's own"
            group.add_argument("--no-plugins", action="store_const", const=True, help=text)
        if title == MODEL:
            text = "let this folder's .sagent/config.toml set model, provider, fallback, effort and hooks, for this run"
            group.add_argument("--trust-project", action="store_true", help=text)


def _session_flags(group: argparse._ArgumentGroup, plugins: "Installed", settings: "Sequence[Setting]") -> None:
    from sagent.config.declared import SESSION
    from sagent.version import __version__

    one = group.add_mutually_exclusive_group()
    resume = "continue this session, by its path or id, or the beginning of an id; without S choose from a list"
    as_json = "the same as --output-format json"
    for setting in settings:
        if setting.group == SESSION:
            add_flag(one if setting.scope == "session" else group, setting)
        if setting.name == "continue_session":
            one.add_argument("-r", "--resume", metavar="S", nargs="?", const="", help=resume)
        elif setting.name == "output_format":
            group.add_argument("--json", dest="output_format", action="store_const", const="json", help=as_json)
    for flag in plugins.flags():
        add_own_flag(group, flag)
    group.add_argument("--config", metavar="FILE", help="a TOML or YAML file to use in place of your user settings")
    group.add_argument("--version", "-V", action="version", version=f"sagent {__version__}", help="show the version")


def add_own_flag(group: "argparse._ActionsContainer", flag: "Flag") -> None:
    """Add a flag that is not a setting."""
    about: dict[str, Any] = {"help": flag.help.replace("%", "%%")}  # argparse expands single ones
    if flag.metavar:
        optional: dict[str, Any] = {"nargs": "?", "const": ""} if flag.metavar.startswith("[") else {}
        about |= {"metavar": flag.metavar.strip("[]"), "choices": flag.choices or None, **optional}
    else:
        about |= {"action": "store_const", "const": True}
    with suppress(argparse.ArgumentError):  # the core or a command has one of this name
        group.add_argument(f"--{flag.name}", **about)


def add_setting(group: "argparse._ActionsContainer", name: str, text: str = "") -> None:
    """Add the flag of one core setting to a command that does not accept them all."""
    from sagent.config.declared import BY_NAME

    add_flag(group, BY_NAME[name], text)


def add_flag(group: "argparse._ActionsContainer", setting: "Setting", text: str = "") -> None:
    """Add the flag of a setting, with its own help or this text. Without a value it turns it on, or off if it is on."""
    from sagent.config.declared import ALIASES

    names = (*filter(None, [setting.short]), f"--{setting.flag_name}")
    about: dict[str, Any] = {"dest": setting.keyword, "help": (text or setting.help).replace("%", "%%")}
    if not setting.metavar:
        about |= {"action": "store_const", "const": not setting.default}
    else:
        about |= {"metavar": setting.metavar, "action": "append" if setting.each else "store"}
    with suppress(argparse.ArgumentError):  # a command has a flag of this name: the setting is set elsewhere
        group.add_argument(*names, **about)
    for alias, meant in ALIASES.items():
        if meant == setting.name and alias != setting.flag_name:
            group.add_argument(f"--{alias}", metavar=setting.metavar, help=f"another name for --{setting.flag_name}")
