"""Commands that go through whole directories, and so files that were not named: `grep -r`, `rg`, `git clean`."""

import re
from fnmatch import fnmatchcase

from sagent.policy.harmless import acts, only_looks
from sagent.policy.programs import listed
from sagent.policy.shell import Word, program

_GREPS = frozenset({"grep", "egrep", "fgrep", "zgrep"})
_RECURSES = re.compile(r"-[^-]*[rR]|--[rd]|.*recurse$", re.DOTALL)
_SHOWS_HIDDEN = re.compile(r"-[^-]*[ug.]|--(hid|unr|glob|iglob)")  # options of rg

_READERS = listed("readers") | listed("simple")
_GIT = frozenset({"add", "commit", "push", "fetch", "tag", "branch", "remote", "config", "init"})  # leave files alone


def searches(words: tuple[Word, ...]) -> bool:
    """Return True if a looking command shows contents below the directories that it names."""
    name = program(words[0])
    if name == "git":  # of two places outside a repository it compares all below them
        plain = [word.text for word in words[1:] if not word.text.startswith("-")]
        return plain[:1] == ["diff"] and len(plain) == 3
    options = words[1:] if name in _GREPS else ()  # a file that a wildcard matches may look like an option
    globs = any(word.kind == "glob" and word.text[0] in "-*?[" for word in options)
    return name in ("rg", "diff") or globs or any(_RECURSES.match(word.text) for word in options)


def leaves_files(words: tuple[Word, ...]) -> bool:
    """Return True if a command certainly does not write the files that it names."""
    name, second = program(words[0]), words[1].text if words[1:] else ""
    return (name in _READERS and not acts(words)) or (
        name == "git" and second in _GIT and second not in ("config", "init")
    )


def starts_here(words: tuple[Word, ...]) -> bool:
    """Return True if a command may by default search the directory where it runs."""
    name = program(words[0])
    if name == "rg" or name in _GREPS:
        return searches(words) and not _names_places(words, "ABCEMTdefgjmrt" if name == "rg" else "ABCDdefm")
    if name == "find":
        return any(word.text.startswith("-") for word in words[1:2]) and not only_looks(words)
    if name == "git":
        return not only_looks(words) and next((w.text for w in words[1:] if not w.text.startswith("-")), "") not in _GIT
    return name in ("ag", "ack", "ug", "ugrep", "rgrep", "xargs", "parallel", "fd", "fdfind")


def _names_places(words: tuple[Word, ...], valued: str) -> bool:
    """Return True if a search certainly names its places. `valued` are the letters of options that take a value."""
    operands, needed, takes = 0, 2, False
    for word in words[1:]:
        if word.text.startswith("--"):
            if "=" not in word.text:
                return False  # the next word may be its value
            needed -= word.text.startswith(("--reg", "--file="))
        elif word.text.startswith("-") and not takes:
            option = re.search(f"[{valued}]", word.text)
            takes = option is not None and option.end() == len(word.text)
            needed -= option is not None and option[0] in "ef"
        else:
            operands += not takes
            takes = False
    return operands >= max(needed, 1)


def shows(name: str, words: tuple[Word, ...]) -> bool:
    """Return True if a search would read a hidden file of this name.

    For grep the last matching `--include=` or `--exclude=` decides; if none matches, the file is read unless the first
    of them includes. https://www.gnu.org/software/grep/manual/
    """
    if program(words[0]) == "rg":
        return any(_SHOWS_HIDDEN.match(word.text) for word in words)
    given = [word.text.partition("=") for word in words if word.text.startswith(("--inc", "--exclude="))]
    if not given or not all(equals for _, equals, _ in given):
        return True
    fitting = [option for option, _, glob in given if fnmatchcase(name, glob)]
    return fitting[-1].startswith("--inc") if fitting else given[0][0] == "--exclude"
