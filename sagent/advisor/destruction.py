"""Decides whether a command destroys something permanently, by its effects; in doubt it does.

A list of programs is never complete. So every command line that a script may run counts, including wrappers and scripts
in files; for unknown programs, words that mean destruction count, and for code, the functions it names.
"""

import json
import re
from functools import cache
from pathlib import Path

from sagent.advisor.changes import runs_tests
from sagent.advisor.overwriting import overwrites
from sagent.lib.json import as_object, as_str
from sagent.lib.regular import read_regular
from sagent.lib.toml import toml_beside
from sagent.policy.harmless import only_looks
from sagent.policy.shell import SHELLS, Part, Word, program, split
from sagent.policy.wrappers import WRAPPERS, bare_text, runs

_OPTION = re.compile(r"--(?:del|delete|remove|purge|prune|discard|wipe|vacuum)\b")
_ALSO = frozenset({"docker", "podman", "uv", "npx"})
"""Wrappers with commands of their own."""
_CLIENTS = frozenset(
    {"psql", "mysql", "mariadb", "sqlite3", "sqlcmd", "duckdb", "clickhouse-client", "mongo", "mongosh"}
)
_EDITORS = frozenset({"ed", "ex", "vi", "vim", "nvim"})
_RUNNERS, SOURCING = frozenset({"npm", "pnpm", "yarn", "bun"}), SHELLS | {"source", "."}
"""Programs that run scripts of a project's table, and those that run shell scripts."""
_MAX_DEPTH = 3  # scripts that run scripts
_MAX_SCRIPT_BYTES = 1 << 18
_MAX_FILES = 50  # of a directory


@cache
def _listed(name: str) -> tuple[str, ...]:
    """Return a list of destruction.toml, which says what each is for."""
    lists: dict[str, list[str]] = toml_beside(__file__, "destruction.toml")
    return tuple(lists[name])


@cache
def _pattern(name: str) -> re.Pattern[str]:
    version = r"[\d.]*" if name == "interpreters" else ""
    return re.compile(f"(?:{'|'.join(_listed(name))}){version}", re.IGNORECASE if name in ("sql", "code") else 0)


@cache
def _danger() -> re.Pattern[str]:
    words = (*_listed("acts"), "rmdir", "shred", "wipefs", "mkfs", "rmtree", "checkout", "restore", "dd")
    return re.compile(rf"\b(?:{'|'.join(words)})\b|--hard|--force|\beval\b")


def destroys(command: str, folder: Path | None = None, depth: int = 0) -> bool:
    """Return True if a command, in a directory, may remove something permanently. Words that it quotes do not count."""
    script = split(command)
    if script.doubt and _danger().search(bare_text(command)):
        return True
    if folder is not None and overwrites(script.parts, command, folder):
        return True
    return any(_part_destroys(part, command, folder, depth) for part in script.parts)


def programs_of(command: str, folder: Path) -> str:
    """Return the text of the scripts and recipes that a command runs: if it changes, it is another command."""
    lines = [words for part in split(command).parts for words, _ in runs(part) if words]
    files = [file for words in lines for file in _scripts(program(words[0]), words)]
    return "\n".join(_read(file, folder) or "" for file in dict.fromkeys(files))


def is_destroyer(tool: str) -> bool:
    """Return True if a tool that runs no command removes something, by its name: `mcp__files__delete_file`."""
    return _says(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", tool))


def _part_destroys(part: Part, command: str, folder: Path | None, depth: int) -> bool:
    texts = [word.text for word in part.words if not (word.text.startswith("-") and word.text != "-")]
    # `> file`, `printf '' > file`, `cat /dev/null > file`
    empties = texts in ([], [":"], ["true"], ["echo"], ["printf", ""]) or texts[1:] == ["/dev/null"]
    read = [redirect.target.text for redirect in part.redirects if not redirect.writes]
    if ("/dev/null" in read and "tee" in texts) or (not _CLIENTS.isdisjoint(texts) and _queries(read, folder)):
        return True
    if empties and any(redirect.writes and not redirect.target.text.startswith("/dev/") for redirect in part.redirects):
        return True
    return any(_line_destroys(words, command, folder, depth, sure=sure) for words, sure in runs(part) if words)


def _line_destroys(words: tuple[Word, ...], command: str, folder: Path | None, depth: int, *, sure: bool) -> bool:
    """Return True if a command line destroys something; unless it is `sure` to be one, the words after its program do
    not count."""
    name = program(words[0]) or _name_after_variable(words[0])
    rest = [word.text for word in words[1:]]
    line = " ".join([name, *(text if " " not in text and "\n" not in text else "''" for text in rest)])
    if not name:
        return sure and words[0].kind == "dynamic"
    if only_looks(words) or runs_tests(line) or rest in (["--help"], ["--version"]):
        return False
    if name in SHELLS or name == "eval":
        scripts = [text for text in rest if re.search(r"\s", text)]
        if depth >= _MAX_DEPTH or any(destroys(text, folder, depth + 1) for text in scripts):
            return True
    if name == "alias":
        return any(destroys(text.partition("=")[2], folder, depth + 1) for text in rest)
    if name == "git":
        return _git_destroys(rest, folder)
    if name in _CLIENTS and (_pattern("sql").search(command) or _queries(rest, folder)):
        return True
    if recipe := recipe_of(name, rest, folder):
        return depth >= _MAX_DEPTH or destroys(recipe, folder, depth + 1)
    named = (name, *rest[:2]) if name in _RUNNERS else (name,)  # `pnpm exec rimraf`
    if any(map(_pattern("destroyers").fullmatch, named)) or _pattern("others").match(line):
        return True
    if name in _EDITORS and any(destroys(text.partition("!")[2], folder, depth + 1) for text in rest):
        return True
    known = _pattern("interpreters").fullmatch(name) or name in SOURCING or _runs_go(name, words)
    if known or "/" in words[0].text:
        return _code_destroys(name, words, command, folder, depth)
    return sure and (name not in WRAPPERS or name in _ALSO) and any(map(_says, rest))


def _name_after_variable(word: Word) -> str:
    """Return the program of `"$BIN/pytest"`."""
    _, slash, name = word.text.rpartition("/")
    return name if slash and "$" not in name and "`" not in name else ""


def _says(text: str) -> bool:
    if text.startswith("-"):
        return _OPTION.match(text) is not None
    if re.search(r"[\s/.=]", text):
        return False
    return not frozenset(_listed("acts")).isdisjoint(re.split(r"[^a-z]+", text.lower()))


def _git_destroys(arguments: list[str], folder: Path | None) -> bool:
    while arguments and arguments[0].startswith("-"):
        option, *arguments = arguments
        if option in ("-C", "-c", "--git-dir", "--work-tree", "--namespace") and arguments:
            value, *arguments = arguments
            if option == "-c" and "alias." in value:
                return True
            folder = folder / value if option == "-C" and folder else folder
    line, options = " ".join(arguments), " ".join(text for text in arguments if text.startswith("-"))
    match arguments[0] if arguments else "":
        case "clean":
            return not re.search(r"(?:^|(?<!e) )(?:-[dfiqxX]*n|--dry-run)", options)  # not the value of -e
        case "restore":
            return "--staged" not in arguments or "--worktree" in arguments or "-W" in arguments
        case "checkout" if folder is not None and any((folder / text).exists() for text in arguments[1:]):
            return True  # uncommitted changes in those files are lost
        case _:
            return _pattern("git").match(line) is not None


def _code_destroys(name: str, words: tuple[Word, ...], command: str, folder: Path | None, depth: int) -> bool:
    """Return True if code run by an interpreter, a shell or a file destroys something."""
    if _pattern("code").search(command):
        return True
    given = [word.text for word in words[1:]]
    has_code = any(re.fullmatch(r"-|-\w*[ceEr]|-[np]e?|--eval", text) for text in given)
    if (name in SHELLS or has_code) and any(word.kind == "dynamic" for word in words):
        return True
    if name.endswith("awk") or (has_code and not _runs_go(name, words)):
        return name not in SHELLS and _pattern("hides").search(command) is not None  # a shell's code is parsed instead
    if any(map(_says, given)):
        return True
    found = [text for file in _scripts(name, words) if (text := _read(file, folder)) is not None]
    if name in SHELLS and not found:  # it runs its input, or an unreadable script
        return True
    return any(depth >= _MAX_DEPTH or _text_destroys(text, name, folder, depth + 1) for text in found)


def _scripts(name: str, words: tuple[Word, ...]) -> list[str]:
    """Return the script files that a command line runs, as far as its words show."""
    if name == "make" or name in _RUNNERS:
        return ["Makefile" if name == "make" else "package.json"]
    if _runs_go(name, words):
        return [word.text for word in words[2:] if not word.text.startswith("-")][:1]
    path = words[0].text
    installed = path.startswith(("/usr/", "/bin/", "/sbin/", "/opt/")) or "/bin/" in path
    own = [path] if "/" in path and not installed else []
    runs_code = own or _pattern("interpreters").fullmatch(name) or name in SOURCING
    return own + [word.text for word in words[1:] if runs_code and not word.text.startswith("-")][:1]


def _runs_go(name: str, words: tuple[Word, ...]) -> bool:
    """Return True if it compiles a file or a directory and runs it."""
    return name == "go" and [word.text for word in words[1:2]] == ["run"]


def _text_destroys(text: str, name: str, folder: Path | None, depth: int) -> bool:
    first = text.partition("\n")[0]
    shell = name in SOURCING or (first.startswith("#!") and re.search(r"\b\w*sh\b", first))
    return destroys(text, folder, depth) if shell else _pattern("code").search(text) is not None


def _queries(files: list[str], folder: Path | None) -> bool:
    """Return True if a file makes a database drop something."""
    return any(_pattern("sql").search(_read(file, folder) or "") for file in files)


def recipe_of(name: str, arguments: list[str], folder: Path | None) -> str:
    """Return the recipe that the project defines for a target: `make tidy`, `npm run tidy`."""
    if name == "make":
        text = _read("Makefile", folder) or ""
        bodies = [re.findall(rf"(?m)^{re.escape(target)}\s*:(?!=).*\n((?:\t.*\n?)+)", text) for target in arguments]
        return "\n".join(re.sub(r"(?m)^\t[@+-]*", "", body) for found in bodies for body in found)
    text = _read("package.json", folder) if name in _RUNNERS else None
    try:
        scripts = as_object(as_object(json.loads(text or "{}")).get("scripts"))
    except (ValueError, RecursionError):
        return ""
    return "\n".join(as_str(scripts.get(target)) for target in arguments if target in scripts)


def _read(file: str, folder: Path | None) -> str | None:
    """Return a script's text, or that of all Go files in a directory; None if there is none to read."""
    if folder is None:
        return None
    try:
        files = [*(folder / file).glob("*.go")] if (folder / file).is_dir() else [folder / file]
        raw = b"\n".join(read_regular(each, max_bytes=_MAX_SCRIPT_BYTES, cut=True) for each in files[:_MAX_FILES])
    except (OSError, ValueError):
        return None
    return None if b"\0" in raw else raw.decode("utf-8", "replace")
