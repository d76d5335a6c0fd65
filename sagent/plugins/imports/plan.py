"""The plan of an import from another program: converted items, items used in place, and left-out ones with the
reason."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias, cast

from sagent.config.files import File, GivenTable
from sagent.config.plugins import Installed
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.encoding import Text, decode, readable
from sagent.lib.json import as_object, json_parse, wire_bytes
from sagent.lib.regular import read_regular
from sagent.lib.toml import toml_members
from sagent.plugin import HookEvent, PathBase, Table, resolve

Status: TypeAlias = Literal["taken over", "in use", "left out"]
MAX_LISTED_FILES = 200
MAX_FILE_BYTES = 64 << 20  # of a file: some programs store conversations in it
_UNREAD: Mapping[str, str] = {
    "instructions": "of each directory only the first of AGENTS.md and the others is used, and only if it is not empty",
    "agent": "it needs a name and a description, and to be the first of its name",
}
"""Why some are not in use."""


def read_hooks(plugins: Installed, file: File, values: Mapping[str, object], base: PathBase) -> Sequence[object]:
    """Return hooks as their plugin parses those of a project. Raises ConfigError, and UsageError without the plugin."""
    table = plugins.named(Table).get("hooks")
    if table is None:
        raise UsageError("hooks are of the plugin hooks, which is not loaded")
    read = cast("Callable[[GivenTable], Sequence[object]]", resolve(table.read))
    ignored = list[str]()
    return read(
        GivenTable(table.name, file, values, base, None, None, (), {}, ignored.append, plugins.named(HookEvent))
    )


@dataclass(frozen=True, slots=True)
class Item:
    """A found item, with its destination or the reason to leave it out."""

    kind: str
    name: str
    file: Path
    status: Status
    note: str = ""


@dataclass(slots=True)
class Additions:
    """Additions to a settings file."""

    mcp: dict[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    hooks: dict[str, list[Mapping[str, object]]] = field(default_factory=dict[str, list[Mapping[str, object]]])
    allow: list[str] = field(default_factory=list[str])
    deny: list[str] = field(default_factory=list[str])

    @property
    def tables(self) -> str:
        """The servers and hooks as TOML."""
        servers = [f"[mcp.{name}]\n{_members(server)}" for name, server in self.mcp.items()]
        hooks = [f"[[hooks.{event}]]\n{_members(each)}" for event, found in self.hooks.items() for each in found]
        return "\n\n".join((*servers, *hooks)) + "\n" if servers or hooks else ""


@dataclass(slots=True)
class Plan:
    """The items found in a project and in the person's home. `taken` are names of existing servers."""

    project: Path
    home: Path
    config_dir: Path
    taken: frozenset[str] = frozenset()
    hooks: frozenset[str] = frozenset()  # descriptions of existing hooks
    items: list[Item] = field(default_factory=list[Item])
    own: Additions = field(default_factory=Additions)  # for the person's config.toml
    shared: Additions = field(default_factory=Additions)  # for the project's
    files: dict[Path, str] = field(default_factory=dict[Path, str])
    plugins: Installed = field(default_factory=Installed)
    read: frozenset[str] = frozenset()  # real paths of the instructions and agents that are in use

    def look(self) -> None:
        """Find the instructions and agents that sessions here already read."""
        from sagent.context.agents import find_agents
        from sagent.context.instructions import gather

        agents = (kind.path for kind in find_agents(self.project, self.config_dir))
        self.read = frozenset(map(os.path.realpath, (*gather(self.project, self.config_dir).files, *agents)))

    def add(self, kind: str, name: str, file: Path, status: Status, note: str = "") -> None:
        self.items.append(Item(kind, name, file, status, note))

    def leave_out(self, kind: str, name: str, file: Path, reason: str) -> None:
        self.add(kind, name, file, "left out", reason)

    def border(self, file: Path) -> Path | None:
        """Return the directory that a file must be in: the project, for its files."""
        return self.project if file.is_relative_to(self.project) and not self._is_home(file) else None

    def is_shared(self, file: Path) -> bool:
        """Return True if a file came with the project."""
        return self.border(file) is not None

    def additions(self, file: Path) -> Additions:
        """Return the additions to the settings that this source maps to."""
        return self.shared if self.is_shared(file) else self.own

    def text(self, file: Path) -> str | None:
        """Return the text of a file; None if there is none, or it is unreadable, which is recorded."""
        try:
            data = read_regular(file, self.border(file), max_bytes=MAX_FILE_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.leave_out("file", file.name, file, f"it could not be read: {error.strerror}")
            return None
        if b"\0" in data and not isinstance(decode(data), Text):
            self.leave_out("file", file.name, file, "it is not text")
            return None
        return readable(data).removeprefix("\ufeff")

    def json(self, file: Path) -> Mapping[str, object] | None:
        """Return a file's object, its comments left out."""
        if (text := self.text(file)) is None:
            return None
        try:
            found = read_json(text)
        except (ValueError, RecursionError) as error:
            self.leave_out("file", file.name, file, f"it is not JSON: {error}")
            return None
        if (table := as_object(found)) != found:
            self.leave_out("file", file.name, file, "it is not a JSON object")
            return None
        return table

    def toml(self, file: Path) -> Mapping[str, object] | None:
        """Return a file's tables."""
        import tomllib

        if (text := self.text(file)) is None:
            return None
        try:
            return tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            self.leave_out("file", file.name, file, f"it is not TOML: {error}")
            return None

    def listed(self, directory: Path, pattern: str) -> list[Path]:
        """Return the files of a directory."""
        try:
            found = sorted(directory.glob(pattern))
        except OSError as error:
            self.leave_out("files", pattern, directory, f"it could not be read: {error.strerror}")
            return []
        for file in found[MAX_LISTED_FILES:]:
            self.leave_out("file", file.name, file, f"there are more than {MAX_LISTED_FILES} beside it")
        return found[:MAX_LISTED_FILES]

    def write(self, kind: str, name: str, source: Path, place: str, text: str) -> None:
        """Plan to create a file in the person's directory, or in the project's, unless it exists."""
        target = (self.project / ".sagent" if self.is_shared(source) else self.config_dir) / place
        if target.exists() or target in self.files:
            self.leave_out(kind, name, source, f"{target} already exists")
            return
        self.files[target] = text
        self.add(kind, name, source, "taken over", f"as {target}")

    def use(self, kind: str, file: Path) -> None:
        """Record a file that is used in place."""
        name = file.stem if file.name != "SKILL.md" else file.parent.name
        if (why := _UNREAD.get(kind)) and os.path.realpath(file) not in self.read:
            self.leave_out(kind, name, file, why)
        else:
            self.add(kind, name, file, "in use", "as it is")

    def _is_home(self, file: Path) -> bool:
        """Return True if a file is the person's own although their home is the project."""
        return self.project == self.home and ".config" in file.parts


def read_json(text: str) -> object:
    """JSON as people write it, without halves of letters. Raises ValueError and RecursionError."""
    return json.loads(wire_bytes(json_parse(without_comments(text))))


def without_comments(text: str) -> str:
    """JSON as people write it, without comments and the commas before what closes a list or an object."""
    kept = re.sub(
        r'"(?:\\.|[^"\\\n])*"?|//[^\n]*|/\*.*?(?:\*/|\Z)',  # an unclosed one is scanned once
        lambda match: match[0] if match[0][0] == '"' else " ",
        text,
        flags=re.DOTALL,
    )
    return re.sub(r'("(?:\\.|[^"\\\n])*"?)|,(?=\s*[}\]])', lambda match: match[1] or "", kept)


def add_front_matter(fields: Mapping[str, str], body: str) -> str:
    """Return a Markdown file with a head."""
    head = "".join(f"{name}: {' '.join(value.split())}\n" for name, value in fields.items() if value)
    return f"---\n{head}---\n\n{body.strip()}\n"


def _members(table: Mapping[str, object]) -> str:
    """Encode members as TOML. Raises UsageError for values that it cannot express."""
    try:
        return toml_members(table)
    except ValueError as error:
        raise UsageError(f"{error}, so it cannot be imported.") from error
