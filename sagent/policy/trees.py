"""Commands that show what is in every file below a directory, whatever those are: `grep -r`, `rg`, `find -exec`."""

from fnmatch import fnmatchcase
from typing import NamedTuple

from sagent.policy.shell import Word, program

# Letters that make it go into directories (none: it always does), and letters of the options that take a value.
_SEARCHERS = {
    "grep": ("rR", "ABCDdefm"), "egrep": ("rR", "ABCDdefm"), "fgrep": ("rR", "ABCDdefm"), "rgrep": ("", "ABCDdefm"),
    "zgrep": ("rR", "ABCDdefm"), "rg": ("", "ABCEMTdefgjmrt"), "ag": ("", "ABCGgmp"), "ack": ("", "ABCgm"),
}  # fmt: skip
_COPIERS = {"cp": "rRa", "scp": "r", "diff": "r", "zip": "r", "tar": "", "rsync": ""}
_CHANGERS = {"rm": "rR", "mv": "", "chmod": "R", "chown": "R", "chgrp": "R", "rsync": "", "shred": "", "setfacl": "R"}
_GIT_CHANGES = frozenset(
    {"clean", "checkout", "restore", "reset", "stash", "apply", "am", "merge", "pull", "rebase", "switch", "rm", "mv"}
)
_FINDERS = frozenset({"find", "fd", "fdfind"})
_FEEDERS = frozenset({"xargs", "parallel"})  # they run programs on whatever files they are given
_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})


class Trees(NamedTuple):
    """The directories that a command reads: those among `places`, and where it runs if `here`.

    `hidden`: hidden files too.
    """

    places: tuple[Word, ...]
    here: bool
    hidden: bool = True


def trees(words: tuple[Word, ...]) -> Trees | None:
    """What a command line reads to its depths; None where it reads no more than the files it names."""
    name, rest = program(words[0]), words[1:]
    texts = [word.text for word in rest]
    if name in _SEARCHERS:
        return _searched(name, rest)
    if name in _COPIERS:
        letters = _COPIERS[name]
        plain = tuple(word for word in rest if not word.text.startswith("-"))
        return Trees(plain, here=False) if not letters or _has_option(rest, letters) else None
    if name in _FINDERS and not _RUNS.isdisjoint(texts):
        end = next((at for at, text in enumerate(texts) if text.startswith(("-", "(", "!"))), len(rest))
        starts = rest[:end] if name == "find" else ()
        return Trees(starts, here=not starts)
    if name == "git" and texts[:1] == ["diff"]:  # of two places outside a repository it compares all below them
        plain = tuple(word for word in rest[1:] if not word.text.startswith("-"))
        return Trees(plain, here=False) if len(plain) == 2 else None
    if name in _FEEDERS or (name == "git" and "grep" in texts):
        return Trees((), here=True)
    return None


def changed_trees(words: tuple[Word, ...]) -> Trees | None:
    """What a command line may change or remove to its depths; None where it changes no more than it names."""
    name, rest = program(words[0]), words[1:]
    plain = tuple(word for word in rest if not word.text.startswith("-"))
    if name == "git":
        return Trees((), here=True) if not _GIT_CHANGES.isdisjoint(word.text for word in rest) else None
    if name == "find" and any(word.text == "-delete" for word in rest):
        return Trees((), here=True) if rest[0].text.startswith("-") else Trees(rest[:1], here=False)
    letters = _CHANGERS.get(name)
    return Trees(plain, here=False) if letters is not None and (not letters or _has_option(rest, letters)) else None


def _searched(name: str, rest: tuple[Word, ...]) -> Trees | None:
    letters, valued = _SEARCHERS[name]
    if letters and not _has_option(rest, letters):
        return None
    operands, has_pattern, sure = _operands(rest, valued)
    places = operands if has_pattern else operands[1:]
    hidden = (
        name != "rg"
        or _has_option(rest, "ug.")
        or any(word.text.startswith(("--hid", "--unr", "--glob", "--iglob")) for word in rest)
    )
    return Trees(places if sure else operands, here=not places or not sure, hidden=hidden)


def _has_option(words: tuple[Word, ...], letters: str) -> bool:
    """Whether an option goes into directories; what is only known when the command runs may be one."""
    for word in words:
        text = word.text
        if word.kind == "dynamic" and word.raw.startswith("$"):
            return True
        if text.startswith(("--rec", "--deref", "--arch")) or text.endswith("recurse"):
            return True
        if text.startswith("-") and not text.startswith("--") and any(letter in letters for letter in text[1:]):
            return True
    return False


def _operands(words: tuple[Word, ...], valued: str) -> tuple[tuple[Word, ...], bool, bool]:
    """The words that are no options, whether a pattern was given by one, and whether all that is certain."""
    found: list[Word] = []
    has_pattern, sure, at = False, True, 0
    while at < len(words):
        text = words[at].text
        at += 1
        if text == "--":
            found += words[at:]
            break
        if text.startswith("--"):
            sure &= "=" in text
            has_pattern |= text.startswith(("--reg", "--file="))
        elif text.startswith("-") and len(text) > 1:
            first = next((place for place, letter in enumerate(text) if letter in valued), 0)
            has_pattern |= first > 0 and text[first] in "ef"
            at += first == len(text) - 1
        else:
            sure &= words[at - 1].kind != "dynamic" or not words[at - 1].raw.startswith("$")
            found.append(words[at - 1])
    return tuple(found), has_pattern, sure


def is_asked_for(name: str, words: tuple[Word, ...]) -> bool:
    """Whether grep would look into a file of this name: the last `--include=` or `--exclude=` that fits it decides.

    Where none fits, it does unless the first of them includes. https://www.gnu.org/software/grep/manual/
    """
    given = [word.text.partition("=") for word in words if word.text.startswith(("--inc", "--exclude="))]
    if not given or not all(equals for _, equals, _ in given):
        return True
    fitting = [option for option, _, glob in given if fnmatchcase(name, glob)]
    return fitting[-1].startswith("--inc") if fitting else given[0][0] == "--exclude"
