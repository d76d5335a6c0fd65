"""Definitions: the Markdown files of skills, agents, commands and output styles, and notices of files left out or not
understood."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, TypeVar

from sagent.context.frontmatter import MARKDOWN, Document, read_document
from sagent.context.places import Kind, Place, places
from sagent.lib.dataclass import dataclass
from sagent.lib.encoding import readable, text_in
from sagent.lib.regular import read_regular
from sagent.lib.text import why_unread

ValueKind: TypeAlias = Literal["text", "flag", "number"]
MAX_ENTRIES = 256  # of a folder that are looked at
_MAX_NAMED = 3  # in one notice
_TEXTS = MARKDOWN | {"", ".txt", ".text", ".rst", ".yaml", ".yml", ".toml", ".json"}
"""File name endings of definitions; other files may lie beside them."""
_ABOUT = frozenset(
    ("license", "compatibility", "metadata", "version", "author", "authors", "tags", "color", "homepage", "category")
)
"""Keys that describe a file and have no effect."""
_ELSEWHERE = frozenset(
    ("arguments", "allowed-tools", "disallowed-tools", "tools", "model", "mode", "effort", "skills", "memory", "hooks",
     "context", "agent", "background", "isolation", "permissionMode", "mcpServers", "initialPrompt", "shell", "paths")
)  # fmt: skip
"""Keys of other programs, which no key of ours can be a misspelling of."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one kind of file. `much`: the bytes to read; `head`: read only the head, whatever text follows."""

    what: str
    keys: Mapping[str, ValueKind]
    much: int
    head: bool = False


SKILL = Form(
    "skill",
    {
        **dict.fromkeys(("name", "description", "when_to_use", "argument-hint"), "text"),
        **dict.fromkeys(("disable-model-invocation", "user-invocable"), "flag"),
    },
    4_000,
    head=True,
)


class DefinitionReader:
    """Reads files of one form. `finish` adds to `notices` what was left out, a line for each reason."""

    def __init__(self, form: Form, notices: list[str]) -> None:
        self._form, self._notices = form, notices
        self._left_out: dict[str, list[Path]] = {}  # files by why
        self._said: dict[str, list[Path]] = {}
        self._idle: dict[str, list[Path]] = {}  # files by keys without effect
        self._twins: dict[str, list[tuple[str, Path, Path]]] = {}  # name, file and earlier file, by owner

    def leave_out(self, file: Path, reason: str) -> None:
        """Leave out a file for a reason; its other faults go into the same notice."""
        faults = [fault for fault, files in self._said.items() if file in files]
        for fault in faults:
            self._said[fault].remove(file)
        self._left_out.setdefault("; ".join((reason, *faults)), []).append(file)

    def say(self, file: Path, fault: str) -> None:
        """Report a fault in a file that is used all the same."""
        self._said.setdefault(fault, []).append(file)

    def leave_out_twin(self, name: str, file: Path, first: Path, place: Place) -> None:
        """Leave out the second file of a name; silently if both are the same file."""
        if os.path.realpath(file) != os.path.realpath(first):
            whose = "project's " if place.source == "project" else ""
            self._twins.setdefault(whose, []).append((name, file, first))

    def files(self, folder: Path, depth: int = 1) -> Iterator[Path]:
        """Return the `.md` files of a folder by name, then those of its folders; `depth` limits nesting."""
        folders: list[Path] = []
        for entry in self.entries(folder):
            if entry.is_dir() and entry.suffix != ".md":
                folders.append(entry)
            elif entry.suffix == ".md":
                yield entry
            elif entry.suffix.lower().strip() in _TEXTS:
                self.leave_out(entry, f"its name must end in .md, as in {entry.stem.removesuffix('.md') or 'NAME'}.md")
        for below in folders:
            if depth > 1:
                yield from self.files(below, depth - 1)
            elif stray := sorted(each for each in self.entries(below) if each.suffix == ".md"):
                self.leave_out(stray[0], f"it lies too deep: move it into {folder}")

    def entries(self, folder: Path) -> Sequence[Path]:
        """Return the entries of a folder without hidden ones."""
        try:
            found = sorted(islice(folder.iterdir(), MAX_ENTRIES + 1))
        except OSError as error:
            self._notices.append(f"{folder} could not be read: {why_unread(error)}.")
            return ()
        if len(found) > MAX_ENTRIES:
            self._notices.append(f"{folder} has more than {MAX_ENTRIES} entries: the others are left out.")
        return [each for each in found[:MAX_ENTRIES] if not each.name.startswith(".")]

    def read(self, file: Path, place: Place) -> Document | None:
        """Return a file's head and body; None, with a notice, if it is left out."""
        form = self._form
        try:
            data = read_regular(file, place.border, max_bytes=form.much, cut=form.head)
        except OSError as error:
            is_dangling = isinstance(error, FileNotFoundError) and file.is_symlink()
            why = "it is a link that leads nowhere" if is_dangling else why_unread(error)
            self._notices.append(f"{file} could not be read: {why}.")
            return None
        whole = data
        if len(data) == form.much:  # it is cut: part of a character may be at its end
            whole = data[: len(data) // 4 * 4] if b"\0" in data else data[: data.rfind(b"\n") + 1] or data
        text = text_in(whole) if b"\0" in whole else readable(whole)
        if text is None or not text.strip():
            self.leave_out(file, "it is not text" if text is None else "it is empty")
            return None
        document = read_document(text)
        if document.fault and form.head and len(data) == form.much:
            self.leave_out(file, f"its head has no end in the first {form.much:,} bytes")
            return None
        if document.fault:
            self.say(file, document.fault)
        self._check(file, document)
        return document

    def _check(self, file: Path, document: Document) -> None:
        from difflib import get_close_matches

        for key, value in document.fields.items():
            kind = self._form.keys.get(key)
            if kind is None and key not in _ELSEWHERE and (near := get_close_matches(key, self._form.keys, 1)):
                self.say(file, f"there is no key {key}, {near[0]} may be meant")
            elif kind is None and key not in _ABOUT:
                self._idle.setdefault(key, []).append(file)
            elif kind == "flag" and value.lower() not in ("true", "false"):
                self.say(file, f"{key} is {value!r:.40}, which is ignored: give true or false")
            elif kind == "number" and not (value.isdecimal() and len(value) < 10 and int(value)):
                self.say(file, f"{key} is {value!r:.40}, which is ignored: give a whole number above 0")

    def finish(self) -> None:
        """Report all findings, each reason once with its files."""
        what = self._form.what
        for why, files in self._left_out.items():
            plural, verb = ("s", "are") if len(files) > 1 else ("", "is")
            self._notices.append(f"The {what}{plural} {_some(files)} {verb} left out: {why}.")
        self._notices.extend(f"{_some(files)}: {said}." for said, files in self._said.items() if files)
        for whose, twins in self._twins.items():
            name, file, first = twins[0]
            if len(twins) == 1:
                text = f"The {whose}{what} {name} ({file}) is not used: {first} has the same name."
            else:
                names = _some([name for name, *_ in twins])
                text = (
                    f"The {whose}{what}s {names} are not used: others have their names, as {first} has that of {file}."
                )
            self._notices.append(text)
        if self._idle:
            files = sorted({file for found in self._idle.values() for file in found})
            keys = ", ".join(sorted(self._idle))
            self._notices.append(f"Keys of {what}s that have no effect here: {keys} (in {_some(files, 1)}).")


def _some(things: Sequence[object], limit: int = _MAX_NAMED) -> str:
    """Return the first few names, and the number of the others."""
    named = ", ".join(map(str, things[:limit]))
    return f"{named} and {len(things) - limit} more" if len(things) > limit else named


class Definition(Protocol):
    """A thing that a file defines."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...


D = TypeVar("D", bound=Definition)


def find_definitions(
    kind: Kind,
    form: Form,
    read: Callable[[Place, DefinitionReader], Iterator[D]],
    cwd: Path,
    user_dir: Path,
    notices: list[str],
) -> dict[str, D]:
    """Return all definitions of a kind by name: the first of a name counts. Notices say what was left out."""
    found: dict[str, D] = {}
    reader = DefinitionReader(form, notices)
    for place in places(kind, cwd, user_dir, notices):
        for each in read(place, reader):
            if (first := found.setdefault(each.name, each)) is not each:
                reader.leave_out_twin(each.name, each.path, first.path, place)
    reader.finish()
    return found


def first_names(noun: str, names: Collection[str], limit: int, notices: list[str]) -> Sequence[str]:
    """Return the names up to a limit; notices list the others."""
    if len(names) > limit:
        notices.append(f"Only {limit} {noun}s are used. Left out: {', '.join(islice(names, limit, None))}.")
    return [*islice(names, limit)]
