"""The RepoMap tool: the definitions of a project, most important first; or all of one file."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, as_array, as_int, as_str, sha256_hex
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

if TYPE_CHECKING:
    from sagent.app.builder import AgentBuilder
    from sagent.plugins.code.map.parsing import Source
    from sagent.plugins.code.map.render import MapRequest
    from sagent.plugins.code.map.store import Store, StoreThread

MAX_FILES = 20_000
TOKENS, MAX_TOKENS = 2_000, 20_000
INDEX_TIMEOUT_SECONDS = 60.0  # for files that are new
_BATCH_FILES, _BATCH_BYTES = 500, 8_000_000
_AT_ONCE = 4


def make(builder: "AgentBuilder") -> "RepoMap":
    """Make the tool for an agent, with its cache in the state directory."""
    return RepoMap(builder.settings.state_dir / "maps")


class RepoMap:
    """Maps a project. Definitions are cached in `folder`; without one, only for the call."""

    name = "RepoMap"
    deferrable = True
    description = (
        "Map of a project: which classes and functions its files define, the most used first; with `focus`, what is"
        " near those files or names. Of a file: all that it defines."
    )
    parameters = arguments_schema(
        path={"type": "string", "description": "directory or file; default: the working directory"},
        focus={"type": "array", "items": {"type": "string"}, "description": "paths, or names of definitions"},
        tokens={"type": "integer", "minimum": 100, "maximum": MAX_TOKENS, "description": f"default: {TOKENS:,}"},
    )

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.tools.paths import foreseen

        return foreseen("read", workspace.resolve(as_str(arguments.get("path")) or "."), workspace, hides=True)

    def lacking(self) -> tuple[str, str]:
        """Return the extra that is not installed and the command that installs it, or empty strings."""
        command = _to_install()
        return ("code" if command else "", command)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Return the map. Raises ToolError if the path does not exist, and without the extra `code`."""
        from sagent.lib.regular import stat_real
        from sagent.plugins.code.map.render import MapRequest, outline
        from sagent.tools.paths import as_tool_errors, judged_path, prefix, short_path

        _check_installed()
        path = run.workspace.resolve(as_str(arguments.get("path")) or ".")
        real = judged_path(path, run)
        with as_tool_errors(path, run.workspace):
            found = stat_real(real)
        if stat.S_ISREG(found.st_mode):
            return await outline(real, short_path(path, run.workspace), as_int(arguments.get("tokens")) or MAX_TOKENS)
        focus = [as_str(each) for each in as_array(arguments.get("focus")) if each]
        near = [_below(run.workspace.resolve(each), path, real) or each for each in focus]
        wish = MapRequest(prefix(path, run.workspace), tuple(near), as_int(arguments.get("tokens")) or TOKENS)
        project = await _Project.look(self.name, path, real, run)
        try:
            return await self._map(project, wish, self._folder)
        except sqlite3.DatabaseError as error:
            if self._folder is not None and not isinstance(error, sqlite3.OperationalError):
                from sagent.plugins.code.map.store import discard_store

                discard_store(self._folder, str(real))
            return await self._map(project, wish, None)

    async def _map(self, project: "_Project", wish: "MapRequest", folder: Path | None) -> ToolOutput:
        from sagent.plugins.code.map.render import render
        from sagent.plugins.code.map.store import StoreThread

        store = StoreThread(folder, project.root)
        try:
            await project.read(store)
            return await store.do(lambda opened: render(opened, wish, project.others, project.notes))
        finally:
            store.close()


@dataclass(slots=True)
class _Project:
    """The files of a directory: those in supported languages, and other code."""

    root: str
    sources: Sequence[str]
    others: Sequence[str]
    notes: list[str]

    @classmethod
    async def look(cls, tool: str, path: Path, real: Path, run: RunContext) -> "_Project":
        """Find them, as Glob does."""
        from sagent.tools.listing import list_files
        from sagent.tools.paths import hidden_filter
        from sagent.tools.search import INCOMPLETE_NOTE

        listing = await list_files(str(real))
        is_hidden = hidden_filter(tool, path, real, run.workspace)
        notes = [INCOMPLETE_NOTE] if listing.cut else []
        return await asyncio.to_thread(_sorted, str(real), listing.files, is_hidden, notes)

    async def read(self, store: "StoreThread") -> None:
        """Store the definitions of these files, and of no others; files beyond the time limit wait for the next
        call."""
        from sagent.plugins.code.map.parsing import parse

        fresh = await store.do(self._fresh)
        end, turns, left = monotonic() + INDEX_TIMEOUT_SECONDS, asyncio.Semaphore(min(_AT_ONCE, os.cpu_count() or 1)), 0

        async def take(batch: Sequence[tuple[str, str]]) -> None:
            nonlocal left
            async with turns:
                files, sources = await asyncio.to_thread(_load, self.root, batch)
                known = await store.do(lambda opened: opened.known(sources))
                asked = {key: source for key, source in sources.items() if key not in known}
                if monotonic() > end:
                    left += len(batch)
                    return
                try:
                    tags = dict(zip(asked, await parse([*asked.values()]), strict=True)) if asked else {}
                except (TimeoutError, OSError):
                    left += len(batch)
                    return
                await store.do(lambda opened: opened.add(files, tags))

        tasks = [asyncio.create_task(take(batch)) for batch in _batches(fresh)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if left:
            self.notes.append(f"({left} files were not read in time. Call it again to continue with them.)")

    def _fresh(self, store: "Store") -> list[tuple[str, str, int]]:
        """Return new and changed files, with their stamps and sizes; deleted ones are forgotten."""
        from sagent.plugins.code.map.parsing import MAX_PARSED_BYTES

        known, fresh, there = store.files(), list[tuple[str, str, int]](), set[str]()
        for path in self.sources:
            try:
                found = os.lstat(f"{self.root}/{path}")
            except OSError:
                continue
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_PARSED_BYTES:
                continue
            there.add(path)
            stamp = f"{found.st_mtime_ns} {found.st_ctime_ns} {found.st_size} {found.st_ino}"
            if known.get(path, ("", ""))[0] != stamp:
                fresh.append((path, stamp, found.st_size))
        if gone := known.keys() - there:
            store.forget(gone)
        return fresh


def _sorted(root: str, files: Iterable[str], is_hidden: Callable[[str], bool], notes: list[str]) -> _Project:
    from sagent.plugins.code.map.languages import is_unread, language_of

    sources: list[str] = []
    others: list[str] = []
    for path in sorted(files):
        spoken = language_of(path)
        if (spoken or is_unread(path)) and path.isprintable() and not is_hidden(path):
            (sources if spoken else others).append(path)
    if len(sources) > MAX_FILES:
        notes.append(
            f"({len(sources) - MAX_FILES} of {len(sources)} files are left out. Map a directory further down.)"
        )
    return _Project(root, sources[:MAX_FILES], others, notes)


def _batches(fresh: Sequence[tuple[str, str, int]]) -> Iterable[Sequence[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    size = 0
    for path, stamp, length in fresh:
        batch.append((path, stamp))
        size += length
        if size > _BATCH_BYTES or len(batch) >= _BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _load(root: str, batch: Iterable[tuple[str, str]]) -> "tuple[Mapping[str, tuple[str, str]], Mapping[str, Source]]":
    """Return the files with their stamps and keys, and by key the texts to parse."""
    from sagent.lib.regular import open_regular
    from sagent.plugins.code.map.languages import language_of
    from sagent.plugins.code.map.parsing import MAX_PARSED_BYTES, Source

    files: dict[str, tuple[str, str]] = {}
    sources: dict[str, Source] = {}
    for path, stamp in batch:
        try:
            with open_regular(f"{root}/{path}") as file:
                data = file.read(MAX_PARSED_BYTES)
        except OSError:
            continue
        language = language_of(path) or ""
        key = sha256_hex(f"{language}\0".encode() + data)
        files[path], sources[key] = (stamp, key), Source(language, data)
    return files, sources


def _below(wanted: Path, path: Path, real: Path) -> str:
    """Return a path relative to a directory; "" if it is not below it, or does not exist."""
    if not os.path.lexists(wanted):
        return ""
    for root in (path, real):
        if wanted.is_relative_to(root):
            return f"./{wanted.relative_to(root)}"
    return ""


def _check_installed() -> None:
    if command := _to_install():
        raise ToolError(f"RepoMap needs packages that are not installed: {command}. Use Grep and Read.")


def _to_install() -> str:
    """Return the command that installs the grammars, if only sagent's own one is present."""
    from importlib.util import find_spec

    from sagent.plugins.code.map.languages import GRAMMARS

    modules = {grammar.module for grammar in GRAMMARS.values()} - {"tree_sitter_bash"}
    if find_spec("tree_sitter") is not None and any(find_spec(module) is not None for module in modules):
        return ""
    from sagent.lib.installed import install_command
    from sagent.plugins.code import PACKAGES

    return install_command("code", PACKAGES)
