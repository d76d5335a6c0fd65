"""Completion candidates for a command line: commands, flags, their values, models, sessions."""

import io
import shlex
from argparse import Action
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import islice
from pathlib import PurePath
from typing import Literal, NamedTuple, TypeAlias, cast

from sagent.cli.flags import Parser, ParserExit, operations, plugins_of, run_parser
from sagent.config import Settings
from sagent.errors import SagentError
from sagent.plugin import Command, Setting, resolve

Place: TypeAlias = Literal["files", "directories", "none"]
Word: TypeAlias = tuple[str, str]  # with its description

MAX_SESSIONS = 50
_PLACES: Mapping[str, Place] = {"DIR": "directories", **dict.fromkeys(("FILE", "PATH", "KEY"), "files")}


class Candidates(NamedTuple):
    """Candidates at the cursor: `words` that begin with the `typed` text. `places`: paths of the file system fit,
    too."""

    typed: str
    places: Place
    words: Sequence[Word]


def candidates(line: str) -> Candidates:
    """Return the candidates for the end of a command line, which is cut at the cursor."""
    before, typed = _split(line)
    plugins = plugins_of(before)
    if not before and not typed.startswith("-"):
        return _beginning(typed, ((each.name, each.help) for each in plugins.every(Command)), "files")
    parser, rest = run_parser(plugins), before
    if before and (of := operations(plugins, before[0])):
        if len(before) == 1:
            return _beginning(typed, ((each.name, each.help) for each in of.values()), "none")
        before = before[1:]
    if before and before[0] in plugins.named(Command):
        run = cast("Callable[[Sequence[str]], int]", resolve(plugins.named(Command)[before[0]].run))
        parser, rest = _parser_of(run, before[1:])
    action, taken = _awaited(parser, rest)
    flag, equals, value = typed.partition("=")
    if action is None and flag.startswith("-"):
        if not equals:
            return _beginning(typed, ((name, help_of(each)) for each in parser.flags for name in _names(each)), "none")
        action = next((each for each in parser.flags if flag in each.option_strings), None)
        found = _values(action, value) if action else Candidates(value, "none", ())
        return found._replace(typed=typed, words=[(f"{flag}={word}", what) for word, what in found.words])
    if action is None and (positionals := parser.positionals):
        action = positionals[min(taken, len(positionals) - 1)]
    return _values(action, typed) if action else Candidates(typed, "files", ())


def _split(line: str) -> tuple[list[str], str]:
    """Return the words after the program, and the unfinished last word."""
    for end in ("", "'", '"'):
        with suppress(ValueError):
            words = shlex.split(line + end)
            break
    else:
        words = line.split()
    if not end and (not line or line[-1].isspace()):
        words.append("")
    start = next((n for n, word in enumerate(words[:-1]) if PurePath(word).name == "sagent"), 0)
    return words[start + 1 : -1], words[-1] if len(words) > 1 else ""


def _beginning(typed: str, words: Iterable[Word], places: Place) -> Candidates:
    found = [(word, what) for word, what in words if word.startswith(typed)]
    return Candidates(typed, "none" if found else places, found)


def _names(action: Action) -> Sequence[str]:
    """Return a flag's long names, or its short one if it has no other."""
    return [name for name in action.option_strings if name.startswith("--")] or action.option_strings


def _parser_of(command: Callable[[Sequence[str]], int], words: list[str]) -> tuple[Parser, list[str]]:
    """Return the parser of a command, or of its operation, and the words for it. The command's help gives the
    parser."""
    whole = _asked(command, [])
    if words and whole.positionals and words[0] in _choices(whole.positionals[0]):
        inner = _asked(command, words[:1])
        return inner, words if inner.prog == whole.prog else words[1:]
    return whole, words


def _asked(command: Callable[[Sequence[str]], int], words: list[str]) -> Parser:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            command([*words, "--help"])
        except ParserExit as left:
            return left.parser
    raise AssertionError(words)


def _awaited(parser: Parser, words: Sequence[str]) -> tuple[Action | None, int]:
    """Return the flag whose value comes next, None if none does, and the number of words so far that belong to no
    flag."""
    named = {name: action for action in parser.flags for name in action.option_strings}
    awaited, taken = None, 0
    for word in words:
        if awaited is not None and not word.startswith("-"):
            awaited = None
        elif word.startswith("-") and word != "-":
            action = named.get(word)
            awaited = action if action is not None and action.nargs != 0 else None
        else:
            taken += 1
    return awaited, taken


def _values(action: Action, typed: str) -> Candidates:
    """Return the candidates for the value of a flag or positional argument."""
    name = str(action.metavar or action.dest).upper()
    if fixed := list(_fixed(action)):
        return _beginning(typed, fixed, "none")
    if name == "M":
        return _tried(typed, _models)
    if action.dest in ("provider", "allow_providers"):
        return _tried(typed, _providers)
    if action.dest in ("session", "resume", "fork", "run") or name in ("A", "B"):
        return _tried(typed, _sessions)._replace(places="files")
    return Candidates(typed, _PLACES.get(name, "none" if action.option_strings else "files"), ())


def help_of(action: Action) -> str:
    """Return the help of a flag as `--help` shows it, its values filled in."""
    return (action.help or "") % {**vars(action), "choices": ", ".join(_choices(action))}


def _choices(action: Action) -> Sequence[str]:
    return [str(each) for each in cast("Iterable[object]", action.choices or ())]


def _fixed(action: Action) -> Iterator[Word]:
    """Yield the only words that an argument takes, if they are fixed."""
    # argparse keeps the help of operations there
    rows = cast("Iterable[Action]", getattr(action, "_choices_actions", ()))
    about = {row.dest: row.help or "" for row in rows}
    for word in _choices(action):
        yield word, about.get(word, "")
    takes_one = action.nargs is None and bool(action.option_strings)
    for setting in plugins_of(()).every(Setting) if takes_one else ():
        if action.dest in (setting.keyword, setting.name):
            yield from ((str(word), "") for word in setting.order if word not in _choices(action))


def _tried(typed: str, tiers: Callable[[Settings], Iterator[Sequence[Word]]]) -> Candidates:
    """Return the first of several lists that has a candidate for this beginning."""
    from sagent.cli.settings import load_settings

    with suppress(SagentError, OSError):
        for words in tiers(load_settings({})):
            if (found := _beginning(typed, words, "none")).words:
                return found
    return Candidates(typed, "none", ())


def _models(settings: Settings) -> Iterator[Sequence[Word]]:
    """Models of the providers that have a key, and short names; all others; all without their provider."""
    from sagent.app.models import Choice, offered_models, price_book
    from sagent.providers.aliases import shipped
    from sagent.providers.registry import infer, row_named
    from sagent.providers.rows import built_in

    choice, prices = Choice(settings), price_book(settings)

    def of(providers: Iterable[str]) -> list[Word]:
        found = ((name, offered_models(row_named(name, settings.rows), (each.id for each in prices.known_models(name))))
                 for name in providers)  # fmt: skip
        return [(f"{name}/{model}", "") for name, models in found for model in models]

    short = {**dict.fromkeys(shipped(), "the newest of its family"), **settings.aliases}
    yield [*short.items(), *of(choice.with_keys())]
    every = of(dict.fromkeys((*built_in(), *settings.rows)))
    yield every
    bare = ((name.partition("/")[2], name) for name, _ in every)
    yield [(word, name) for word, name in bare if infer(word, settings.rows) == name.partition("/")[0]]


def _providers(settings: Settings) -> Iterator[Sequence[Word]]:
    from sagent.providers.rows import built_in

    yield [(name, "") for name in dict.fromkeys((*settings.rows, *built_in()))]


def _sessions(settings: Settings) -> Iterator[Sequence[Word]]:
    """Yield the sessions of this directory, most recently used first, then those of all directories."""
    from sagent.lib.text import printable
    from sagent.session.retention import glances

    for cwd in (settings.cwd, None):
        yield [
            (each.id, " ".join(printable(each.title).split())[:60])
            for each in islice(glances(settings.state_dir, cwd), MAX_SESSIONS)
        ]
