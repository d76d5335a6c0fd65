"""Programs that run other programs: every command line that a part of a script may come to."""

import re
from collections.abc import Iterator
from itertools import dropwhile

from sagent.policy.shell import DEPTH, SHELLS, Part, Word, program, split

# Programs that run the command in their arguments: the options that take a value, and how many operands come first.
WRAPPERS: dict[str, tuple[str, int]] = {
    "sudo": ("ugpChrtTUDR", 0), "doas": ("uC", 0), "env": ("uCS", 0), "timeout": ("ks", 1), "nohup": ("", 0),
    "nice": ("n", 0), "ionice": ("cnp", 0), "chrt": ("", 1), "taskset": ("", 1), "stdbuf": ("ioe", 0),
    "setsid": ("", 0), "time": ("fo", 0), "command": ("", 0), "builtin": ("", 0), "exec": ("a", 0),
    "xargs": ("nIPLdsaE", 0), "parallel": ("jINnL", 0), "chroot": ("", 1), "unshare": ("SG", 0), "nsenter": ("tSG", 0),
    "strace": ("eopsPaEIOSuX", 0), "ltrace": ("eopsu", 0), "watch": ("n", 0), "flock": ("wE", 1), "busybox": ("", 0),
    "toybox": ("", 0), "find": ("", 0), "fd": ("", 0), "fdfind": ("", 0), "ssh": ("bcDEeFIiJLlmOopQRSWw", 1),
    "su": ("gGs", 0), "runuser": ("ugGs", 0), "script": ("IOBTtmE", 0), "trap": ("", 0), "eval": ("", 0),
    "coproc": ("", 0), "function": ("", 1), "systemd-run": ("pu", 0), "caffeinate": ("tw", 0), "unbuffer": ("", 0),
    "firejail": ("", 0), "bwrap": ("", 0), "uv": ("", 1), "npx": ("", 0), "docker": ("", 0), "podman": ("", 0),
    "entr": ("", 0), "setpriv": ("", 0), "pkexec": ("", 0), "prlimit": ("", 0), "setarch": ("", 1), "[[": ("", 0),
}  # fmt: skip
# Programs that run code which no rule about commands can see into.
INTERPRETERS = frozenset(
    {"python", "python2", "python3", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "tclsh", "expect"}
    | {"awk", "gawk", "mawk", "nawk", "sed", "ed", "ex", "vi", "vim", "emacs", "osascript", "pwsh", "source", "."}
    | {"gdb", "at", "batch", "crontab", "m4", "tar", "rsync"}
)
_SELECTIVE = frozenset({"find", "fd", "fdfind", "ssh", "docker", "podman", "uv", "npx", "trap"})  # much else in words
_TAILS = 256  # words of a wrapper that may each begin its command
_GIT_RUNS = frozenset({"foreach", "run", "-x", "--exec", "filter-branch", "--upload-pack", "--receive-pack"})


def runs(part: Part, depth: int = 0) -> Iterator[tuple[tuple[Word, ...], bool]]:
    """Every command line that a part may run, each with whether that is sure: what deny rules are held against.

    A wrapper's own command is sure; every further tail of its words, and every script among them, is a possibility.
    """
    words = tuple(dropwhile(lambda word: word.is_assignment, part.words))
    for nesting in range(DEPTH):
        if not words:
            return
        yield words, True
        name = program(words[0])
        if name not in WRAPPERS and name not in SHELLS:
            return
        inner = _wrapped(words, name)
        if nesting == 0:
            begins = len(words) - len(inner)
            # A long option may have taken the next word as its value: then the word after is the program.
            shifted = any(word.text.startswith("--") for word in words[1:begins]) and name not in _SELECTIVE
            for start in range(1, min(len(words), _TAILS)):
                yield words[start:], shifted and words[start].kind != "literal" and start == begins + 1
                yield from _hidden(words[start], depth)
        words = inner


def _hidden(word: Word, depth: int) -> Iterator[tuple[tuple[Word, ...], bool]]:
    """What a word would run if it were a script."""
    if depth < DEPTH and word.kind == "literal" and re.search(r"[\s;&|<>()`$=]", word.text):
        for part in split(word.text, depth + 1).walk():
            for words, _ in runs(part, depth + 1):
                yield words, False


def _wrapped(words: tuple[Word, ...], name: str) -> tuple[Word, ...]:
    """What a wrapper most likely runs."""
    if name in ("find", "fd", "fdfind"):
        runs_next = re.compile(r"-exec|-execdir|-ok|-okdir|-[xX]|--exec.*")
        return tuple(dropwhile(lambda word: not runs_next.fullmatch(word.text), words))[1:]
    if name == "command" and words[1:2] and words[1].text in ("-v", "-V"):
        return ()
    valued, operands = WRAPPERS.get(name, ("", 0))
    rest = words[1:]
    while rest and (rest[0].text.startswith("-") or rest[0].is_assignment or (name == "env" and "=" in rest[0].text)):
        takes = len(rest[0].text) == 2 and rest[0].text[1] in valued
        rest = rest[2:] if takes else rest[1:]
    return tuple(dropwhile(lambda word: word.is_assignment, rest[operands:]))


def is_opaque(words: tuple[Word, ...]) -> bool:
    """Whether a command line runs code that is not read here: an interpreter, a shell's file or input."""
    name = program(words[0]) if words else ""
    if name == "git":
        return any(
            word.text in _GIT_RUNS or word.text.startswith(("-c", "--config-env", "--exec-path")) for word in words
        )
    return name in INTERPRETERS or name in SHELLS


def bare_text(command: str) -> str:
    """A script without the marks that can hide a word in it (quotes, backslashes, empty expansions)."""
    return re.sub(r"\\\n|['\"\\]|\$\{?[@*]\}?|\$\{[A-Za-z_]+\}", "", command)
