"""A rename planned by a server: its changes of files, made completely or not at all."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.encoding import Text, decode
from sagent.lib.json import as_array, as_int, as_object, as_str, valid_text
from sagent.lib.names import quote_path
from sagent.lib.regular import read_regular
from sagent.lib.text import count
from sagent.plugins.code.lsp.checks import read_text
from sagent.plugins.code.lsp.server import LanguageServer, path_of
from sagent.plugins.code.lsp.text import Lines, apply_edits, read_edits
from sagent.tool import ToolOutput, Workspace
from sagent.tools.paths import as_tool_errors, short_path
from sagent.tools.textfile import broken_link, check_writable, encode, write_atomic
from sagent.tools.walk import walk

_MAX_FILES = 200
_MAX_NAMED_FILES = 10
_MAX_DIFF_LINES = 60  # of the diff, to the model
_SEARCH_TIMEOUT_SECONDS = 3.0  # to search for unchanged uses
_MAX_FILE_BYTES = 10_000_000  # of a file


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file's bytes and text as they are and as they would be. `path` leads through no link."""

    path: Path
    data: bytes
    new_data: bytes
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class RenamePlan:
    """`left` are other files of the language with the old name as a word: of another thing, or in files that the server
    does not know. Servers do not report that they have not seen all files."""

    changes: tuple[FileChange, ...]
    left: tuple[Path, ...] = ()

    def text(self, workspace: Workspace) -> str:
        """Return the changes for a person to judge."""
        return self.diff(workspace) + self.note(workspace)

    def note(self, workspace: Workspace) -> str:
        """Return a note for the model and the person on unchanged files."""
        if not self.left:
            return ""
        names = ", ".join(quote_path(short_path(path, workspace)) for path in self.left[:_MAX_NAMED_FILES])
        more = (
            f" and {count(len(self.left) - _MAX_NAMED_FILES, 'more file')}" if len(self.left) > _MAX_NAMED_FILES else ""
        )
        return f"Not changed, although the old name occurs there: {names}{more}. Check whether it is the same symbol.\n"

    def diff(self, workspace: Workspace) -> str:
        """Return the whole renaming as a unified diff."""
        return valid_text("".join(line for change in self.changes for line in _diff(change, workspace)))

    def make(self, workspace: Workspace) -> ToolOutput:
        """Write the files. Raises ToolError if one has changed since: then nothing is written."""
        for change in self.changes:
            with as_tool_errors(change.path):
                if read_regular(change.path, max_bytes=_MAX_FILE_BYTES) != change.data:
                    raise ToolError(f"{change.path} has changed since the rename was planned. Call it again.")
        done: list[str] = []
        broken = ""
        for change in self.changes:
            link = broken_link(change.path)
            try:
                self._write(change, workspace)
            except OSError as error:
                written = f" Written before: {', '.join(done)}." if done else ""
                raise ToolError(f"{change.path}: {error.strerror or error}.{written}") from None
            done.append(quote_path(short_path(change.path, workspace)))
            broken += f" {done[-1]}:{link}" if link else ""
        text = f"Renamed in {len(done)} file{'s' if len(done) > 1 else ''}: {', '.join(done)}.{broken}"
        diff = self.diff(workspace)
        lines = diff.splitlines(keepends=True)
        cut = "... the rest of the diff is left out\n" if len(lines) > _MAX_DIFF_LINES else ""
        shown = "".join(lines[:_MAX_DIFF_LINES]) + cut
        return ToolOutput.of(f"{text}\n{self.note(workspace)}{shown}", summary=text, diff=diff)

    def _write(self, change: FileChange, workspace: Workspace) -> None:
        with workspace.changing(change.path):
            try:
                workspace.check_unchanged(change.path)
                seen = True
            except ToolError:
                seen = False  # unread files stay unread: an edit of them is refused
            stat = write_atomic(change.path, change.new_data)
            if seen:
                workspace.saw(change.path, change.new_data, stat)


def read_plan(answer: object, server: LanguageServer, old: str) -> RenamePlan:
    """Parse a WorkspaceEdit as a rename of an `old` name. Raises ToolError for anything but edits of existing files."""
    edits: dict[Path, list[object]] = {}
    for path, items, version in _file_edits(as_object(answer)):
        known = server.documents.get(path)
        if version is not None and known is not None and version != known.version:
            raise ToolError(f"{path} has changed while the rename was planned. Call it again.")
        edits.setdefault(path.resolve(), []).extend(items)
    if len(edits) > _MAX_FILES:
        raise ToolError(f"The rename would change {len(edits)} files, more than the limit of {_MAX_FILES}.")
    changes = [change for path, items in sorted(edits.items()) if (change := _read_change(path, items)) is not None]
    if not changes:
        raise ToolError("The language server found nothing to change.")
    return RenamePlan(tuple(changes), tuple(_left(server, old, {change.path for change in changes})))


def _left(server: LanguageServer, old: str, changed: Collection[Path]) -> Iterator[Path]:
    until = time.monotonic() + _SEARCH_TIMEOUT_SECONDS
    for name in sorted(walk(str(server.root), lambda: time.monotonic() > until)):
        path = server.root / name
        if server.row.language(path) and path not in changed and time.monotonic() < until:
            text = read_text(path)
            if text is not None and Lines(text).find(old, None) is not None:
                yield path


def _file_edits(answer: Mapping[str, object]) -> Iterator[tuple[Path, Sequence[object], int | None]]:
    for change in map(as_object, as_array(answer.get("documentChanges"))):
        if "kind" in change:
            raise ToolError(f"The rename would also {as_str(change['kind'])} a file. Do that with a command first.")
        document = as_object(change.get("textDocument"))
        version = document.get("version")
        path = path_of(as_str(document.get("uri")))
        yield path, as_array(change.get("edits")), as_int(version) if isinstance(version, int) else None
    for uri, items in as_object(answer.get("changes")).items() if "documentChanges" not in answer else ():
        yield path_of(uri), as_array(items), None


def _read_change(path: Path, items: Sequence[object]) -> FileChange | None:
    with as_tool_errors(path):
        data = read_regular(path, max_bytes=_MAX_FILE_BYTES)
        check_writable(path)
    decoded = decode(data)
    if not isinstance(decoded, Text):
        raise ToolError(f"{path} is not text: it is {decoded.kind}.")
    try:
        after = apply_edits(decoded.text, list(read_edits(items, Lines(decoded.text))))
    except ValueError as error:
        raise ToolError(f"The language server's edits do not fit {path}: {error}. Call it again.") from None
    if after == decoded.text:
        return None
    return FileChange(path, data, encode(after, decoded.encoding), decoded.text, after)


def _diff(change: FileChange, workspace: Workspace) -> Iterator[str]:
    name = quote_path(short_path(change.path, workspace))
    before, after = change.before.split("\n"), change.after.split("\n")
    yield from (f"{line}\n" for line in unified_diff(before, after, f"a/{name}", f"b/{name}", n=0, lineterm=""))
