"""Programs that run other programs: finds every command line that a part of a script may run."""

import re
from collections.abc import Iterator
from itertools import dropwhile

from sagent.policy.programs import listed
from sagent.policy.sed import sed_acts
from sagent.policy.shell import DEPTH, SHELLS, Part, Word, program, split

_DIRECT, _AFTER_ONE, _FINDERS = listed("direct"), listed("after_one"), frozenset({"find", "fd", "fdfind"})
WRAPPERS, INTERPRETERS = _DIRECT | _AFTER_ONE | _FINDERS, listed("interpreters")
_FED, _TEXTS, _RUN_NOTHING = map(listed, ("fed", "texts", "run_nothing"))
_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_NO_CODE = frozenset({"-m", "-V", "--version", "--test", "--help"})
_RUNS_NEXT = re.compile(r"-exec|-execdir|-ok|-okdir|-[xX]|--exec.*")
# Words after which any program may have a command to run, or its name.
_RUN = frozenset({"run", "exec", "dlx", "--exec", "--execute", "--run", "--command"})
_TAILS = 256  # words of a wrapper at which its command may begin
_GIT_RUNS = frozenset({"foreach", "run", "-x", "--exec", "filter-branch", "--upload-pack", "--receive-pack"})


def runs(part: Part, depth: int = 0) -> Iterator[tuple[tuple[Word, ...], bool]]:
    """Yield every command line that a part may run, each with True if that is likely; deny rules check them all.

    Among a wrapper's words, the likely ones begin after its options; any other word, and a script in any word, is
    possible.
    """
    words = tuple(dropwhile(lambda word: word.is_assignment, part.words))
    likely = _beginnings(words[:_TAILS])
    is_wrapper = bool(words) and (
        program(words[0]) in WRAPPERS or program(words[0]) in SHELLS or any(word.text in _RUN for word in words[1:])
    )
    if words and known_program(words[0]) in ("python", "python2", "python3"):
        yield from ((module, True) for module in _modules(words))
    for at in range(min(len(words), _TAILS) if is_wrapper else len(words[:1])):
        yield words[at:], at in likely
        if at > 0 and depth < DEPTH and words[at].kind == "literal" and re.search(r"[\s;&|<>()`$=]", words[at].text):
            for inner in split(words[at].text, depth + 1).parts:
                yield from ((line, False) for line, _ in runs(inner, depth + 1))


def may_run(part: Part) -> Iterator[tuple[Word, ...]]:
    """Yield the commands that a part may run in an unknown way: named in an argument of a program that `runs` does not
    know, in the value of an option, or in a variable."""
    words = tuple(dropwhile(lambda word: word.is_assignment, part.words))
    name = known_program(words[0]) if words else ""
    for word in part.words:
        _, equals, value = word.text.partition("=")
        if equals and (words or name) and word.kind == "literal":
            yield from _named_by(value)
    if name in _RUN_NOTHING or name == "":
        return
    for at, word in enumerate(words[1:_TAILS], 1):
        if word.kind == "literal":
            yield words[at:]
            if bare := re.sub(r"\A(?:-[A-Za-z]|\W+)", "", word.text):
                yield from _named_by(bare)


def _named_by(text: str) -> Iterator[tuple[Word, ...]]:
    for inner in split(text, 1).parts:
        yield from (line for line, _ in runs(inner, 1))


def _modules(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """Yield what Python runs as a module, as if it were called by its name: `python -m pip install x`."""
    for at, word in enumerate(words[1:-1], 1):
        if re.fullmatch("-[A-Za-z]*m", word.text):
            yield words[at + 1 :]
            return
    for at, word in enumerate(words[1:], 1):
        if match := re.fullmatch("-[A-Za-ln-z]*m(.+)", word.text):
            yield (word._replace(text=match[1], raw=match[1]), *words[at + 1 :])
            return


def _beginnings(words: tuple[Word, ...]) -> set[int]:
    """Return the positions where commands begin: the first, and the one that each wrapper most likely runs."""
    found, waiting = {0}, [0]
    while waiting:
        for start in _after_options(words, waiting.pop()):
            if start not in found:
                found.add(start)
                waiting.append(start)
    return found


def _after_options(words: tuple[Word, ...], at: int) -> Iterator[int]:
    """Yield where a wrapper's command may begin; a word after an option may be its value or the command."""
    name = program(words[at]) if at < len(words) else ""
    if name in _FINDERS:
        yield from (each + 1 for each in range(at, len(words) - 1) if _RUNS_NEXT.fullmatch(words[each].text))
    only_looks_up = name == "command" and any(word.text in ("-v", "-V") for word in words[at + 1 : at + 2])
    if name not in _DIRECT | _AFTER_ONE | SHELLS or only_looks_up:
        return
    plain = 1 if name in _AFTER_ONE else 0
    for start in range(at + 1, len(words)):
        if words[start].text.startswith("-") or words[start].is_assignment:
            continue
        yield start
        if not words[start - 1].text.startswith("-"):
            plain -= 1
        if plain < 0:
            return


def is_opaque(words: tuple[Word, ...]) -> bool:
    """Return True if a command line runs code that is not read here: an interpreter, a shell's file or input."""
    name = known_program(words[0]) if words else ""
    if name == "git":
        return any(
            word.text in _GIT_RUNS or word.text.startswith(("-c", "--config-env", "--exec-path")) for word in words
        )
    return name in INTERPRETERS or name in SHELLS


def brings_code(words: tuple[Word, ...]) -> bool:
    """Return True if a command line passes unread code to an interpreter, in an option or on its input."""
    name, arguments = known_program(words[0]) if words else "", [word.text for word in words[1:]]
    if name == "sed":
        return sed_acts(words[1:], edits=True)
    if name not in INTERPRETERS - {"tar", "rsync", "source", "."}:
        return False
    return name.endswith("awk") or not arguments or (arguments[0][:1] == "-" and arguments[0] not in _NO_CODE)


def is_fed(part: Part) -> bool:
    """Return True if a part may run its input, which no rule about its words can cover: `python -`, `sh`."""
    return any(_is_fed(words) for words, _ in runs(part))


def _is_fed(words: tuple[Word, ...]) -> bool:
    name, arguments = known_program(words[0]), [word.text for word in words[1:]]
    if name in _FED:
        return True
    if name == "ssh":
        return len(arguments) < 2 or arguments[0].startswith("-")
    if name not in SHELLS | INTERPRETERS or (name in _TEXTS and _INPUT.isdisjoint(arguments)):
        return False
    code = ("-c" if name.startswith("python") else "-e", "--eval", *_NO_CODE)
    first = arguments[0] if arguments else "-"
    return not _INPUT.isdisjoint((first, *arguments)) or (
        first[:1] in ("-", "+") and (name in SHELLS or first not in code)
    )


def known_program(word: Word) -> str:
    """Return the name of a word's program, without an interpreter's version (python3.11)."""
    name = program(word)
    bare = name.rstrip("0123456789.-")
    return bare if bare in INTERPRETERS and name not in INTERPRETERS else name


def bare_text(command: str) -> str:
    """Return a script without characters that can hide a word in it (quotes, backslashes, empty expansions)."""
    return re.sub(r"\\\n|['\"\\]|\$\{?[@*]\}?|\$\{[A-Za-z_]+\}", "", command)
