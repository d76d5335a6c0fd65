"""Commands that only look: the few programs and options that need no question in any mode.

A program is listed only if none of its accepted options writes, runs something, or shows the environment.
"""

import os
import re
from typing import TYPE_CHECKING

from sagent.lib.git import is_git_directory, programs_named
from sagent.policy.awk import AWKS, awk_acts
from sagent.policy.programs import listed, table
from sagent.policy.sed import sed_acts
from sagent.policy.shell import program, unwrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sagent.policy.shell import Word

_SIMPLE, _FIND_ACTS, _TELL_VERSION = map(listed, ("simple", "find_acts", "tell_version"))
_GIT, _GIT_TAKES_TEXT, _RUN_BY_LOOKING = map(listed, ("git", "git_takes_text", "run_by_looking"))
_GIT_BARRED, _GIT_LISTS, _WRITES_SECOND = map(table, ("git_options", "git_lists", "write_second"))
_PROGRAMS = table("options")
_BARRED = {**_PROGRAMS, **table("ruled_options")}


def only_looks(words: "tuple[Word, ...]") -> bool:
    """Return True if a command line is known to only look. The files that it reads are judged elsewhere."""
    if words[0].kind != "literal" or any(word.kind == "dynamic" for word in words):
        return False
    name, arguments = words[0].text, [word.text for word in words[1:]]
    if name in _SIMPLE:
        return True
    if any(word.kind == "glob" and word.text[:1] in "-*?[" for word in words[1:]):
        return False  # a file name could turn it into an option
    if acts(words):
        return False
    match name:
        case "uniq":
            return all(re.fullmatch(r"-[cdiuDz]+", argument) for argument in arguments)
        case "sed":
            return arguments[:1] == ["-n"] and len(arguments) > 1 and _prints(arguments[1:])
        case "git":
            return _git_only_looks(arguments) or arguments == ["--version"]
        case "command":
            return len(arguments) > 1 and arguments[0] in ("-v", "-V")
        case _:
            return name in _PROGRAMS or (name in _TELL_VERSION and arguments in (["--version"], ["-V"]))


def acts(words: "Sequence[Word]", start: int = 1) -> bool:
    """Return True if one of the words from `start` on may make a looking program write, run something, or read an
    unnamed file; also if the word's value at run time, or a file's name, could do so."""
    command = unwrap(tuple(words))
    name, further = program(command[0]) if command else "", command[max(start - len(words) + len(command), 1) :]
    if name == "sed":
        return sed_acts(command[1:], len(command) - len(further) - 1)
    if name in AWKS:
        return awk_acts(command[1:], len(command) - len(further) - 1)
    if name not in _BARRED:
        return False
    arguments = [word.text for word in further]
    letters, *long = _BARRED[name]
    if name == "git" and command[1:]:
        letters += "".join(_GIT_BARRED.get(command[1].text, ()))
    if any(_is_barred(argument, letters, long) for argument in arguments):
        return True
    if name == "find" and not _FIND_ACTS.isdisjoint(arguments):
        return True
    if name == "less" and any(argument.startswith("+") for argument in arguments):
        return True
    if name == "tar" and arguments and len(further) == len(command) - 1 and _is_barred(f"-{arguments[0]}", letters, ()):
        return True
    if name in _WRITES_SECOND and further:
        several = any(word.kind != "literal" for word in further)  # it may expand to several words
        return several or len(_operands(command[1:], *_WRITES_SECOND[name])) > 1
    if name == "git" and command[1:] and command[1].text in _GIT_TAKES_TEXT:
        return False
    return any(word.kind == "dynamic" or (word.kind == "glob" and word.text[0] in "-*?[") for word in further)


def _operands(words: "Sequence[Word]", with_value: str) -> list[str]:
    """Return the words that are neither options nor values of options."""
    found, value = list[str](), False
    for word in words:
        if not value and word.text.startswith("-") and word.text != "-":
            value = len(word.text) == 2 and word.text[1] in with_value
        else:
            found += [] if value else [word.text]
            value = False
    return found


def _prints(arguments: list[str]) -> bool:
    """`sed -n 10,20p FILE`."""
    return re.fullmatch(r"[0-9]+(,([0-9]+|\$))?p", arguments[0]) is not None and not any(
        file.startswith("-") for file in arguments[1:]
    )


def _git_only_looks(arguments: list[str]) -> bool:
    if arguments[:1] == ["--no-pager"]:
        arguments = arguments[1:]
    if not arguments:
        return False
    name, rest = arguments[0], arguments[1:]
    if name in _GIT_LISTS:
        return {*_GIT_LISTS[name]}.issuperset(rest)
    return name in _GIT


def _is_barred(argument: str, letters: str, long: "Sequence[str]") -> bool:
    if argument.startswith("--"):
        name = argument[2:].split("=", 1)[0]
        return name[:1] == "-" or (bool(name) and any(option.startswith(name) for option in long))  # ugrep's ---FILE
    return argument.startswith("-") and any(letter in letters for letter in argument[1:])


def takes_names(words: "Sequence[Word]", table_name: str) -> bool:
    """Return True if a command gets names of files from a file, by a table of programs.toml: `tar -T list`."""
    name, arguments = program(words[0]), [word.text for word in words[1:]]
    if not (options := table(table_name).get(name)):
        return options is not None
    bundle = [f"-{arguments[0]}"] if name in ("tar", "ar", "jar") and arguments else []
    return any(_is_barred(argument, options[0], options[1:]) for argument in (*bundle, *arguments))


def is_plain_repository(directory: str) -> bool:
    """Return True if git, started here, reads an ordinary `.git` whose configuration names no program that reading
    commands run."""
    if not _RUN_BY_LOOKING.isdisjoint(programs_named(directory)):
        return False
    directory = os.path.realpath(directory)
    while True:
        if os.path.lexists(f"{directory}/.git"):
            return True
        if is_git_directory(directory):
            return False
        parent = directory.rpartition("/")[0] or "/"
        if parent == directory:
            return True
        directory = parent
