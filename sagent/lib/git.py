"""Git for this program's own use, in repositories of any origin: no program that they name is run.

The configuration of a repository can name programs that even read-only commands run (git-config(1): core.fsmonitor,
filter.<driver>.clean, diff.external, ...). An unpacked archive brings its own configuration.
"""

import contextlib
import functools
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sagent.lib.process import system_path
from sagent.lib.regular import read_regular
from sagent.lib.toml import toml_beside

_FROM_OUTSIDE = ("HOME", "XDG_CONFIG_HOME", "TMPDIR")
_NAMED = (
    rb"(?i)\[\s*(include|includeif)\b|\b(fsmonitor|hookspath|sshcommand|gitproxy|alternaterefscommand|pager|external"
    rb"|command|textconv|clean|smudge|process|program|driver)[ \t\r]*="
    rb"(?![ \t\r]*(?:(?:true|false|yes|no|on|off|[01])[ \t\r]*)?(?:[#;\n]|\Z))"
)
_SUBMODULE = r'(?i)\[\s*submodule\s+"([^"\\\n=]+)"'
_WORK_TREE = rb'(?m)^[ \t]+worktree = (?:"(?=[^\n]*"$)|(?![^\n]*[#;]))((?:[^"\\\n\0]|\\["\\])+)"?\n'
_FILTER = r'(?i)\[\s*filter\s+"([^"\\=]+)"'
MAX_NAMES = 5  # of settings that are told
MAX_GIT_DIRECTORIES = 2_000  # of one repository
_WITH_CHILDREN = ("bundle", "clone", "worktree")  # that cannot do without
_NOT_OVERRULED = frozenset({"include", "includeif", "clean", "smudge", "process", "unreadable"})


class _Table(NamedTuple):
    """The lists of git.toml, which says what each is for."""

    inert: Sequence[str]
    addresses: Sequence[str]
    environment: Mapping[str, str]
    harmless: Mapping[str, Sequence[str]]


@functools.cache
def _table() -> _Table:
    return _Table(**toml_beside(__file__, "git.toml"))


class GitCall(NamedTuple):
    """A command with its whole environment, which has no keys."""

    argv: list[str]
    environment: dict[str, str]


def git_call(directory: str | os.PathLike[str], *arguments: str) -> GitCall | None:
    """Return a call of git for a repository, found from the working directory alone. None if its configuration names
    filters or other files, which git cannot ignore. On Linux git cannot start programs named after this check."""
    if not _NOT_OVERRULED.isdisjoint(programs_named(directory)):
        return None
    own = (f"submodule.{name}.ignore=all" for name in _submodules(Path(directory).resolve()))
    settings = (word for setting in (*_table().inert, *own) for word in ("-c", setting))
    kept = {name: os.environ[name] for name in _FROM_OUTSIDE if name in os.environ}
    environment = {**kept, "PATH": system_path(), **_table().environment}
    git = ["git"] if arguments[0] in _WITH_CHILDREN else _alone(environment)
    return GitCall([*git, *settings, "-C", os.fspath(directory), *arguments], environment)


def _alone(environment: Mapping[str, str]) -> list[str]:
    """Return git as a program that starts no other, not even the person's own filters; files kept in another form by
    these then appear changed. If that is impossible, return git's name."""
    from sagent.lib.gate import childless

    candidates = (os.path.join(directory, "git") for directory in environment["PATH"].split(os.pathsep))  # noqa: PTH118
    program = next((path for path in candidates if os.access(path, os.X_OK)), None)
    if (wall := childless(os.getpid())) is None or program is None or not _starts(wall.path, program):
        return ["git"]
    home = Path(environment.get("HOME", "/"))
    places = (home / ".gitconfig", Path(environment.get("XDG_CONFIG_HOME") or home / ".config", "git", "config"))
    names = {name for place in places for name in re.findall(_FILTER, os.fsdecode(_read(place) or b""))}
    return [wall.path, program, *(word for name in names for word in ("-c", f"filter.{name}.required=false"))]


@functools.cache
def _starts(wall: str, program: str) -> bool:
    """Return True if the system starts it this way: some refuse system call filters, or programs in memory."""
    nothing = subprocess.DEVNULL
    try:
        words = [wall, program, "--version"]
        return not subprocess.run(
            words, stdin=nothing, stdout=nothing, stderr=nothing, timeout=10, check=False
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def programs_named(directory: str | os.PathLike[str]) -> frozenset[str]:
    """Return the settings, in lower case, by which a repository's configuration names programs or further files.

    "unreadable" is a configuration that is no file of a reasonable size. The person's and the system's configuration do
    not count.
    """
    found: set[str] = set()
    for file in _configurations(Path(directory).resolve()):
        text = _read(file)
        if text is None:
            found.add("unreadable")
        else:
            found |= {(match[1] or match[2]).decode().lower() for match in re.finditer(_NAMED, text)}
    return frozenset(found)


def files_named(root: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the files that a repository's configuration includes, and its directory of hooks, as real paths."""
    root = Path(root)
    for file in _configurations(root):
        section = ""
        for line in map(str.strip, os.fsdecode(_read(file) or b"").splitlines()):
            if head := re.match(r"\[\s*([\w.-]+)", line):
                section = head[1].lower()
            start = {"core hookspath": root, "include path": file.parent, "includeif path": file.parent}
            if found := re.match(r'(?:\[[^\]]*\]\s*)?(\w+)\s*=\s*"?([^"#;]+)', line):
                place = start.get(f"{section} {found[1].lower()}")
                if place is not None:
                    yield os.path.realpath(place / os.path.expanduser(found[2].partition("\0")[0].strip()))  # noqa: PTH111 -- may have no home


def work_tree_directories(root: Path) -> tuple[Path, Path]:
    """Return git's directories for a work tree: its own, and the shared one (gitrepository-layout(5)). Both are
    elsewhere for a linked work tree."""
    own = root / ".git"
    if os.path.isfile(own) and (pointer := _read(own)):  # noqa: PTH113 -- no error for one that may not be entered
        own = root / path_in(pointer.removeprefix(b"gitdir:"))
    shared = _read(own / "commondir")
    return own, own / path_in(shared) if shared else own


def path_in(text: bytes) -> str:
    """Return the path in a file, as a C program reads it: up to a zero byte."""
    return os.fsdecode(text.partition(b"\0")[0].strip())


def is_git_directory(place: str | os.PathLike[str]) -> bool:
    """Return True if git treats a directory as a repository, or a part of one, whatever its name."""
    names = ({"objects", "refs"}, {"commondir"})
    return _has(place, "HEAD") and any(all(_has(place, name) for name in each) for each in names)


def _has(place: str | os.PathLike[str], name: str) -> bool:
    return os.path.lexists(f"{os.fspath(place)}/{name}")


_HEADER = re.compile(r'[ \t]*\[([A-Za-z0-9-]+)(?:[ \t]+"(?:[^"\\]|\\.)*")?\][ \t]*')
_SETTING = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?")


def harmless_config(text: bytes, path: str) -> bytes:
    """Return the lines of a repository's configuration that name no program, each understood by itself."""
    section, kept = "", list[str]()
    for line in re.sub("\r+\n", "\n", os.fsdecode(text)).splitlines(keepends=True):
        bare = line.removesuffix("\n")
        if bare.endswith("\r"):
            section = ""  # a section header does not end the line for git
        elif header := _HEADER.fullmatch(bare):
            section = header[1].lower()
            kept.append(line)
        elif not bare.strip() or bare.lstrip()[0] in "#;":
            kept += [] if bare.endswith("\\") else [line]
        elif bare.lstrip().startswith("["):
            section = ""
        elif (match := _SETTING.fullmatch(bare)) and _is_harmless(section, match[1].lower(), match[2] or "", path):
            kept.append(line)
    return os.fsencode("".join(kept))


def lost_settings(text: bytes, harmless: bytes) -> str:
    """Return the names of settings that `harmless_config` left out, the first of them."""
    section, left, found = "", harmless.splitlines(), dict[str, None]()
    for line in text.splitlines():
        header, name = re.match(rb"\s*\[\s*([\w.-]+)", line), re.match(rb"\s*(?:\[[^\]]*\]\s*)?([\w-]+)", line)
        section = header[1].decode().lower() if header else section
        if line not in left and name:
            found[f"{section}.{name[1].decode()}"] = None
    names = [*found]
    return ", ".join(names[:MAX_NAMES]) + (", ..." if len(names) > MAX_NAMES else "")


def foreign_settings(directory: str, known: Iterable[str] = ()) -> list[str]:
    """Return the settings with programs in the repository that git finds from a directory: lines of its configuration
    with their files, and hooks; except in repositories found from `known` directories."""
    found: list[str] = []
    theirs = {os.path.realpath(shared) for each in known for _, shared in _found_from(os.path.realpath(each))}
    for own, shared in _found_from(os.path.realpath(directory)):
        for file in dict.fromkeys((Path(own, "config.worktree"), Path(shared, "config"))):
            text = _read(file)
            kept = harmless_config(text, str(file)).splitlines() if text else []
            if text is None:
                found.append(f"{file} cannot be read")
            found += [
                f"{os.fsdecode(line).strip()} ({file})" for line in (text or b"").splitlines() if line not in kept
            ]
        if os.path.realpath(shared) not in theirs:
            with contextlib.suppress(OSError):
                found += [str(path) for path in Path(shared, "hooks").iterdir() if path.suffix != ".sample"]
    return found


def _found_from(directory: str) -> Iterator[tuple[Path, Path]]:
    """Yield git's own and shared directories for a directory: `.git`, or one that is a git directory."""
    while True:
        if os.path.lexists(f"{directory}/.git"):
            yield work_tree_directories(Path(directory))
            return
        if is_git_directory(directory):
            yield Path(directory), Path(directory)
            return
        above = directory.rpartition("/")[0] or "/"
        if above == directory:
            return
        directory = above


def _is_harmless(section: str, name: str, value: str, path: str) -> bool:
    known = _table().harmless.get(section, ())
    if value.endswith("\\") or "\0" in value or not (name in known or ("*" in known and name.isalpha())):
        return False
    value = re.sub(r'["\\]', "", value).strip()  # quotes may be anywhere in it
    match f"{section}.{name}":
        case "core.worktree":  # set in a submodule, to a directory below
            place = _leads(path.rpartition("/")[0], value)
            return os.path.isfile(f"{place}/.git")  # noqa: PTH113 -- a text path
        case setting if setting in _table().addresses:
            return "::" not in value and not value.startswith("-")
        case "submodule.update":
            return "!" not in value
        case _:
            return True


def read_config(path: str) -> bytes | None:
    """Return the bytes of a file that git reads, b"" if it is missing; None if it is no file of a reasonable size."""
    return _read(Path(path))


def git_directories(directory: Path) -> Iterator[Path]:
    """Yield a repository's directory, and those of its submodules and linked work trees, at any depth."""
    waiting, left = [directory], MAX_GIT_DIRECTORIES
    while waiting and left:
        place, left = waiting.pop(), left - 1
        is_own = place == directory or is_git_directory(place)
        if is_own:
            yield place
        for below in (place / "modules", place / "worktrees") if is_own else (place,):  # a submodule may be called a/b
            with contextlib.suppress(OSError), os.scandir(below) as entries:
                waiting += (Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))


def shared_directory(root: Path) -> Path | None:
    """Return the directory that commits in a linked work tree or submodule write, if the repository refers back to it;
    None if it is in the work tree, or does not refer to this one."""
    real = os.path.realpath(root)
    if not os.path.isfile(f"{real}/.git"):  # noqa: PTH113 -- no error for one that may not be entered
        return None
    own, shared = (os.path.realpath(place) for place in work_tree_directories(Path(real)))
    if own != shared:
        back = path_in(_read(Path(own, "gitdir")) or b"")
        answers = own.rpartition("/")[0] == f"{shared}/worktrees" and _leads(own, back) == f"{real}/.git"
    else:
        line = next(filter(None, (_work_tree(_read(file) or b"") for file in _configurations(Path(real)))), None)
        answers = line is not None and _leads(own, line[1]) == real
    return Path(shared) if answers and is_git_directory(shared) else None


def _leads(directory: str, path: str) -> str:
    return os.path.realpath(f"{directory}/{path}" if not path.startswith("/") else path)


def without_work_tree(config: str) -> bytes | None:
    """Return the configuration of a submodule without the path of its work tree, which git finds without it; None
    unless it leads back. `git submodule update` writes the same value again, and fails if the file is read-only."""
    text = _read(Path(config)) or b""
    found = _work_tree(text)
    if found is None:
        return None
    own = config.rpartition("/")[0]
    root = Path(_leads(own, found[1]))
    is_its = os.path.isfile(root / ".git") and os.path.realpath(work_tree_directories(root)[0]) == os.path.realpath(own)  # noqa: PTH113 -- the same
    return text.replace(found[0], b"", 1) if is_its else None


def _work_tree(config: bytes) -> tuple[bytes, str] | None:
    """Return the line of git's configuration that names a work tree, and its path."""
    section = re.search(rb"(?m)^\[core\]\n((?:[ \t]+[^\n]*\n)*)", config)
    line = re.search(_WORK_TREE, section[1]) if section else None
    return (line[0], os.fsdecode(re.sub(rb"\\(.)", rb"\1", line[1])).strip()) if line else None


def _configurations(directory: Path) -> Iterator[Path]:
    own, shared = work_tree_directories(_top(directory))
    yield own / "config.worktree"
    yield shared / "config"


def _submodules(directory: Path) -> set[str]:
    """Return the submodules in a repository's files: for each, git may start another git."""
    files = (*_configurations(directory), _top(directory) / ".gitmodules")
    return {name for file in files for name in re.findall(_SUBMODULE, os.fsdecode(_read(file) or b""))}


def _top(directory: Path) -> Path:
    return next((place for place in (directory, *directory.parents) if os.path.lexists(place / ".git")), directory)


def _read(file: Path) -> bytes | None:
    """Return a file's content, b"" if it is missing; None if it is no file, or too large."""
    try:
        return read_regular(file)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError:
        return None
