"""The index of plugins: their declarations, so that a plugin is imported only when it is used.

It is in the state directory, and may be deleted at any time. It is trusted only if no other user can have written it,
because it decides what is imported.
"""

import json
import os
import stat
import sys
from binascii import crc32
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from sagent.errors import SagentError
from sagent.lib.raised import ends, reason
from sagent.plugin import KINDS, OURS, Choice, PathBase, Plugin, Reader, RefusedError, Setting, package_folders, resolve
from sagent.version import __version__

INDEX = "plugins.json"
OWN = "sagent"
"""The source name of sagent's own plugins."""
_SUM = b', "sum": '
_KEPT = (
    *(("commands", "name", ""), ("settings", "name", ""), ("tables", "name", "")),
    *(("slash_commands", "name", "/"), ("extras", "to", ""), ("tools", "name", ""), ("providers", "name", "")),
    *(("status_parts", "name", ""), ("triggers", "name", ""), ("hook_events", "name", "")),
)
"""The members of Plugin whose names files and command lines may use, with a description and prefix."""
T = TypeVar("T", bound=tuple[object, ...])


class Source(NamedTuple):
    """The source of a plugin, and its import path: "module:member" or "/a/file.py:member"; or why there is none."""

    name: str
    origin: str
    target: str
    fault: str = ""


class Head(NamedTuple):
    """A plugin in the index without its additions. `error` says why it is left out; `guards`: it may refuse actions."""

    name: str
    about: str
    version: str
    needs: tuple[str, ...]
    origin: str
    target: str
    error: str = ""
    guards: bool = False

    @property
    def source(self) -> Source:
        """The source of the plugin."""
        return Source(self.name, self.origin, self.target)

    @property
    def bare(self) -> Plugin:
        """The plugin without its additions."""
        return Plugin(self.name, self.about, needs=self.needs, version=self.version)


class Known(NamedTuple):
    """A plugin and its source, and why it is left out."""

    plugin: Plugin
    source: Source
    error: str = ""


class Index(NamedTuple):
    """The declarations of all plugins except the core. `rows` are their additions, by member of Plugin, each with the
    number of its plugin's head and as JSON: a run only decodes the kinds that it needs."""

    heads: tuple[Head, ...] = ()
    rows: Mapping[str, Sequence[tuple[int, Mapping[str, object]]]] = {}
    notices: tuple[str, ...] = ()
    formerly: tuple[tuple[str, str, str], ...] = ()
    """Additions of missing plugins: a member of Plugin, a name, and the plugin."""


NOTHING = Index()


class Places(NamedTuple):
    """The places of third-party plugins: directories of installed packages, and files. Ours have one fixed place."""

    sites: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    own_folder: str = ""
    """The folder of the person's own files, which are found without being named."""

    @classmethod
    def of(cls, config_dir: Path, files: Iterable[Path]) -> "Places":
        """Return those of this process: the files in `config_dir`/plugins, then these, each once."""
        own, *named = (os.path.abspath(path) for path in (f"{config_dir}/plugins", *files))  # noqa: PTH100 -- no links
        return cls(tuple(package_folders()), tuple(dict.fromkeys((*_files_in(own, ".py"), *named))), own)

    def stamps(self) -> Iterator[str]:
        """Yield the times of the files and directories that change when plugins do."""
        yield f"{__version__} {sys.version}"
        ours = (f"{folder.path}/__init__.py" for folder in _listed(str(OURS)))
        form = (f"{OURS.parent}/plugin.py", f"{OURS.parent}/config/plugin_index.py")  # they define the index's form
        yield from (f"{path} {at}" for path in (*form, *ours, *self.sites) if (at := stamp(path)))
        folders = dict.fromkeys(map(os.path.dirname, self.files))
        beside = (path for folder in folders for path in _files_in(folder, ".toml"))  # the data of providers
        yield from (f"{path} {stamp(path)}" for path in beside)
        yield f"{self.own_folder} {_state(self.own_folder)[1:]}"
        yield from (f"{path} {_state(path)}" for path in self.files)


def stamp(path: str) -> int:
    """Return the modification time of a file or directory in nanoseconds, 0 if it is missing."""
    return _state(path)[0]


def _state(path: str) -> tuple[int, int, int, int]:
    """Return the modification time of a file or directory, its permissions and its owners; zeros if it is missing."""
    with suppress(OSError):
        found = os.stat(path)  # noqa: PTH116 -- fifty at every start
        return found.st_mtime_ns, found.st_mode, found.st_uid, found.st_gid
    return 0, 0, 0, 0


def _listed(folder: str) -> Sequence["os.DirEntry[str]"]:
    with suppress(OSError):
        return sorted(os.scandir(folder), key=lambda each: each.name)
    return ()


def _files_in(folder: str, ending: str) -> Sequence[str]:
    """Return the paths in a folder that end so, sorted."""
    return [each.path for each in _listed(folder) if each.name.endswith(ending) and not each.name.startswith(".")]


def read_index(place: Path, stamps: Sequence[str]) -> tuple[Index, bool]:
    """Return the index, and True if it is current for these stamps. Return an empty one if there is none to trust."""
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
        body, _, total = _own_bytes(place).rpartition(_SUM)
        if crc32(body) != int(total.rstrip(b"}\n")):
            return NOTHING, False
        kept = json.loads(body + b"}")
        heads = tuple(
            Head(name, about, version, tuple(needs), *rest) for name, about, version, needs, *rest in kept["heads"]
        )
        former = tuple((member, name, plugin) for member, name, plugin in kept["formerly"])
        rows = {member: each for member, each in kept["rows"].items() if _are_rows(member, each, len(heads))}
        index = Index(heads, rows, tuple(kept["notices"]), former)
        holds = kept["stamps"] == [*stamps] and all(stamp(path) == at for path, at in kept["files"].items())
        return index, holds and len(rows) == len(kept["rows"])
    return NOTHING, False


def _own_bytes(place: Path) -> bytes:
    """Return the contents of a regular file that no other user can have written. Raises OSError."""
    opened = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would be waited for
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise PermissionError(f"{place} is not this user's alone")
        return file.read()


def write_index(place: Path, index: Index, stamps: Sequence[str], files: Mapping[str, int]) -> None:
    """Write the index, if there is a state directory: --ephemeral saves nothing. Raises OSError."""
    if not place.parent.is_dir() or (place.exists() and not place.is_file()):
        return
    from sagent.lib.atomic import put

    body = json.dumps({"stamps": stamps, "files": files, **index._asdict()}).encode().removesuffix(b"}")
    put(place, body + _SUM + str(crc32(body)).encode() + b"}")


def _are_rows(member: str, rows: Sequence[tuple[int, Mapping[str, object]]], heads: int) -> bool:
    """Return True if each has the members of its kind: all those without a default, and no others."""
    if member not in KINDS:  # another version's
        return False
    kind = cast("type[NamedTuple]", KINDS[member][1])
    late = {"read", "words"} if member == "settings" else set[str]()
    required, known = {*kind._fields} - {*kind._field_defaults} - late, {*kind._fields} | late
    return all(0 <= at < heads and required <= row.keys() <= known for at, row in rows)


def as_row(row: tuple[object, ...]) -> Mapping[str, object]:
    """Encode an addition for the index: its differences from the defaults."""
    named = cast("NamedTuple", row)
    defaults, late = named._field_defaults, "read" if isinstance(row, Setting) else ""
    values = {
        name: value
        for name, value in named._asdict().items()
        if name != late and (name not in defaults or value is not defaults[name])
    }
    if isinstance(row, Setting) and (words := list(map(str, row.order))):
        values["words"] = words
    return values


def made(kind: type[T], row: Mapping[str, object], head: Head) -> T:
    """Decode an addition from its row in the index."""
    values = {name: _tupled(value) for name, value in row.items()}
    if kind is Setting:
        words = cast("tuple[str, ...]", values.pop("words", ()))
        values["read"] = Choice(words) if words else _late(str(row["name"]), head)
    return cast("Callable[..., T]", kind)(**values)


def _tupled(value: object) -> object:
    return tuple(map(_tupled, cast("list[object]", value))) if isinstance(value, list) else value


def _late(name: str, head: Head) -> Reader:
    """Return the parser of a setting, which imports its plugin when there is a value to parse."""

    def read(value: object, base: PathBase) -> object:
        try:
            plugin = cast("Plugin", resolve(head.target))
            return next(setting for setting in plugin.settings if setting.name == name).read(value, base)
        except (SagentError, RefusedError):
            raise
        except BaseException as error:  # third-party code
            if ends(error):
                raise
            raise RefusedError(f"the plugin {head.name} cannot read it: {reason(error)}") from error

    return read


def names_kept(index: Index, *, ours: bool = False) -> Iterator[tuple[str, str, str]]:
    """Yield the names of third-party or all plugins' additions that a file or command line may use: a member, a name,
    and the plugin."""
    for member, key, before in _KEPT:
        for number, row in index.rows.get(member, ()):
            if not ours and index.heads[number].origin == OWN:
                continue
            whose = index.heads[number].name
            if member != "extras" or row.get("help"):
                yield "commands" if member in ("slash_commands", "extras") else member, f"{before}{row[key]}", whose
            for group in cast("list[str]", row.get("groups", ()) if member == "tools" else ()):
                yield member, group, whose
            if row.get("guards"):
                yield "guards", str(row[key]), whose
    for number, row in index.rows.get("parts", ()):  # a file may select a part around tools and policy
        if row.get("moment") == "around" and index.heads[number].origin != OWN:
            for fact in cast("list[str]", row["when"]):
                yield "guards", fact.partition("=")[0], index.heads[number].name
