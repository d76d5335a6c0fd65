"""A database of a project's files, in the state directory: tags by the hash of a content, and the graph.

An unusable file is replaced: everything in it can be computed again.
"""

import asyncio
import json
import sqlite3
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from sagent.lib.json import sha256_hex
from sagent.plugins.code.map.parsing import Dumped, Tags
from sagent.plugins.code.map.ranking import Graph, Weights
from sagent.session.log import make_directory

T = TypeVar("T")
FORMAT = 2
MAX_PROJECTS = 20
_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, stamp TEXT, key TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tags (key TEXT PRIMARY KEY, defined TEXT, named TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS graph (
  one INTEGER PRIMARY KEY, print TEXT, starts BLOB, targets BLOB, shares BLOB, ranks BLOB
);
CREATE TABLE IF NOT EXISTS weights (path TEXT PRIMARY KEY, names TEXT, key TEXT, held TEXT, ranked TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS homes (name TEXT, path TEXT, PRIMARY KEY (name, path)) WITHOUT ROWID;
"""
_GONE = "SELECT EXISTS (SELECT 1 FROM weights LEFT JOIN files USING (path) WHERE files.path IS NULL)"
_COME = """
SELECT EXISTS (
  SELECT 1 FROM files JOIN tags USING (key) LEFT JOIN weights USING (path)
  WHERE weights.path IS NULL AND defined != ''
)
"""


class Store:
    """The database of one project, used by the thread that has opened it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ask = connection.execute

    def files(self) -> Mapping[str, tuple[str, str]]:
        """Return each file's stamp, and the key of its tags."""
        return {path: (stamp, key) for path, stamp, key in self._ask("SELECT path, stamp, key FROM files")}

    def known(self, keys: Iterable[str]) -> set[str]:
        """Return the keys that have tags."""
        listed = json.dumps(list(keys))
        return {
            key for (key,) in self._ask("SELECT tags.key FROM tags JOIN json_each(?) ON tags.key = value", [listed])
        }

    def add(self, files: Mapping[str, tuple[str, str]], tags: Mapping[str, Dumped | None]) -> None:
        """Save the tags of some files. No tags: it is unreadable, and not tried again."""
        rows = [(key, *(found or ("", ""))) for key, found in tags.items()]
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO tags VALUES (?, ?, ?)", rows)
            entries = [(path, *state) for path, state in files.items()]
            self._connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", entries)

    def forget(self, paths: Iterable[str]) -> None:
        """Forget deleted files, and tags without a file."""
        with self._connection:
            self._connection.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in paths])
            self._ask("DELETE FROM tags WHERE key NOT IN (SELECT key FROM files)")

    def words(self) -> Iterator[tuple[tuple[str, str], Sequence[str], Sequence[str]]]:
        """Yield each readable file and the key of its tags, with the names it defines and uses, by path."""
        rows = self._ask(
            "SELECT path, key, defined, named FROM files JOIN tags USING (key) WHERE defined != '' ORDER BY path"
        )
        for path, key, defined, named in rows:
            yield (path, key), [row[0] for row in json.loads(defined)], named.split()

    def tags(self, path: str) -> Tags:
        """Return the definitions of a file."""
        row = self._ask("SELECT defined FROM files JOIN tags USING (key) WHERE path = ?", [path]).fetchone()
        return Tags.load(row[0]) if row and row[0] else Tags()

    def paths(self) -> Sequence[str]:
        """Return the files of the graph, by their numbers."""
        return [path for (path,) in self._ask("SELECT path FROM weights ORDER BY path")]

    def mappable(self) -> int:
        """Count the files with definitions."""
        return self._ask("SELECT count(*) FROM weights WHERE names != '[]'").fetchone()[0]

    def homes(self, name: str) -> Sequence[str]:
        """Return the files that define a name."""
        return [path for (path,) in self._ask("SELECT path FROM homes WHERE name = ? ORDER BY path", [name])]

    def ranked(self) -> tuple[str, int, Sequence[str]]:
        """Return the graph's fingerprint, the number of files changed since it was made, and the files with outdated
        tags. The fingerprint is "" if the graph has other files."""
        kept = self._ask("SELECT print FROM graph").fetchone()
        if kept is None or any(self._ask(each).fetchone()[0] for each in (_GONE, _COME)):
            return "", 0, ()
        rows = self._ask(
            "SELECT path, files.key != weights.key, files.key != held FROM weights JOIN files USING (path)"
        )
        found = [(path, changed, older) for path, changed, older in rows if changed or older]
        return kept[0], sum(changed for _, changed, _ in found), [path for path, _, older in found if older]

    def follow(self, paths: Iterable[str]) -> None:
        """Update the definitions of these files; known names keep their weight in the file."""
        with self._connection:
            for path in paths:
                names = {each.name for each in self.tags(path).defined}
                row = self._ask("SELECT coalesce(ranked, names) FROM weights WHERE path = ?", [path]).fetchone()
                ranked = dict[str, float](json.loads(row[0]))
                found = json.dumps([(name, ranked.get(name, 0.0)) for name in sorted(names)])
                self._ask(
                    "UPDATE weights SET names = ?, ranked = ?, held = (SELECT key FROM files WHERE files.path = ?)"
                    " WHERE path = ?",
                    [found, row[0], path, path],
                )
                self._ask("DELETE FROM homes WHERE path = ?", [path])
                homes = ((name, path) for name in names)
                self._connection.executemany("INSERT INTO homes VALUES (?, ?)", homes)

    def weights(self, path: str) -> Weights:
        """Return the weight of each definition of a file, by its uses in others."""
        row = self._ask("SELECT names FROM weights WHERE path = ?", [path]).fetchone()
        return dict(json.loads(row[0])) if row else {}

    @contextmanager
    def held(self) -> Generator[None]:
        """Read a single state of the store within the block."""
        self._ask("BEGIN")
        try:
            yield
        finally:
            self._ask("ROLLBACK")

    def graph(self, fingerprint: str) -> "tuple[Graph, array[float]] | None":
        """Return the graph of just these files, with their ranks."""
        row = self._ask("SELECT starts, targets, shares, ranks FROM graph WHERE print = ?", [fingerprint]).fetchone()
        if row is None:
            return None
        starts, targets, shares, ranks = array("i"), array("i"), array("d"), array("d")
        for kept, data in zip((starts, targets, shares, ranks), row, strict=True):
            kept.frombytes(data)
        return Graph(starts, targets, shares), ranks

    def keep_graph(
        self, fingerprint: str, graph: Graph, ranks: "array[float]", weights: Mapping[tuple[str, str], Weights]
    ) -> None:
        """Save a graph, replacing the earlier one, with the weights by files and the keys of their tags."""
        arrays = (kept.tobytes() for kept in (graph.starts, graph.targets, graph.shares, ranks))
        with self._connection:
            for table in ("graph", "weights", "homes"):
                self._ask(f"DELETE FROM {table}")  # noqa: S608 -- one of three names
            self._ask("INSERT INTO graph VALUES (1, ?, ?, ?, ?, ?)", [fingerprint, *arrays])
            names = [(path, json.dumps(sorted(found.items())), key, key) for (path, key), found in weights.items()]
            self._connection.executemany("INSERT INTO weights VALUES (?, ?, ?, ?, NULL)", names)
            homes = ((name, path) for (path, _), found in weights.items() for name in found)
            self._connection.executemany("INSERT INTO homes VALUES (?, ?)", homes)

    def close(self) -> None:
        self._connection.close()


def open_store(folder: Path | None, root: str) -> Store:
    """Return the store of a project; in memory without a folder, or if it is unusable."""
    if file := _file(folder, root) if folder else None:
        with suppress(sqlite3.OperationalError):  # it is locked for long, or not writable
            return Store(_open(str(file)))
    return Store(_open(":memory:"))


class StoreThread:
    """A store in its own thread, closed there after all requests: a cancelled call does not wait for that."""

    def __init__(self, folder: Path | None, root: str) -> None:
        self._folder, self._root = folder, root
        self._thread = ThreadPoolExecutor(1, "sagent-map")
        self._store: Store | None = None

    async def do(self, work: Callable[[Store], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    def close(self) -> None:
        self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    def _do(self, work: Callable[[Store], T]) -> T:
        self._store = self._store or open_store(self._folder, self._root)
        return work(self._store)

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()


def discard_store(folder: Path, root: str) -> None:
    """Remove a damaged store."""
    if file := _file(folder, root):
        with suppress(OSError):
            file.unlink(missing_ok=True)


def _file(folder: Path, root: str) -> Path | None:
    try:
        make_directory(folder)
        others = sorted(folder.glob("*.sqlite"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in others[MAX_PROJECTS:]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return folder / f"{sha256_hex(root.encode('utf-8', 'surrogateescape'))[:24]}-{FORMAT}.sqlite"


def _open(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(name, timeout=10.0)
    try:
        connection.execute("PRAGMA synchronous = OFF")  # it can be computed again
        connection.executescript(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection
