"""Places that need a question in every mode but full: those with keys, and files that run by themselves."""

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.lib.names import lies_in
from sagent.policy.rules import is_inside

if TYPE_CHECKING:
    from sagent.sandbox.survey import Survey

_MAX_DIRECTORIES = 300  # to look into for .env files: some 10 ms
_ENV = re.compile(r"\.env(?![a-zA-Z*]|[._-](?:example|sample|template|dist|defaults)\Z)")


class Places:
    """The special places in one person's home. `private` are more directories with keys or conversations (sagent's
    own), and `obeyed` more files that set sagent's permissions. Absolute paths below `exposed` may be read all the
    same, and those below `notes` by file tools, which may also write Markdown files there."""

    def __init__(self, home: Path, private: Sequence[Path] = (), obeyed: Sequence[Path] = ()) -> None:
        self.home = str(home)
        self._private = private
        self.obeyed = frozenset(os.path.realpath(path) for path in obeyed)
        self.exposed: tuple[str, ...] = ()
        self.session: frozenset[str] = frozenset()  # the session's directory, one of the exposed
        self.notes: frozenset[str] = frozenset()
        self._surveys: dict[str, tuple[Sequence[str], Survey]] = {}  # by the directory

    def survey(self, root: str, key: Sequence[str], counts: Callable[[str], bool]) -> "Survey":
        """Return the survey of a directory, cached by `key`, which identifies the names that it looks for."""
        from sagent.sandbox.survey import Survey

        if self._surveys.get(root, ((), None))[0] != key:
            self._surveys[root] = key, Survey(root, counts)
        return self._surveys[root][1]

    @cached_property
    def secrets(self) -> frozenset[str]:
        from sagent.sandbox import places

        known = places.known_places()
        below = (places.really_below(home, known.secrets) for home in places.homes(self.home, os.environ))
        variables = (*known.secret_variables, *places.in_variables(known.secrets))
        named = places.paths_in_variables(variables, os.environ)
        elsewhere = (place for place in named if not is_inside(self.home, place))
        absolute = (*known.secret_files, *map(str, self._private), *elsewhere)
        listed = frozenset(place.rstrip("/") or "/" for place in (*absolute, *map(os.path.realpath, absolute)))
        found = listed.union(*below)
        return found.union(filter(os.path.lexists, places.other_names(found)))

    @cached_property
    def _guarded(self) -> frozenset[str]:
        from sagent.sandbox import places

        names = places.known_places().run_by_themselves
        below = (places.really_below(home, names) for home in places.homes(self.home, os.environ))
        return self.obeyed.union(*below, places.paths_in_variables(places.in_variables(names), os.environ))

    @cached_property
    def _guarded_names(self) -> re.Pattern[str]:
        from sagent.sandbox.places import known_places

        known = known_places()
        names = sorted({*known.repositories, *known.protected})
        return re.compile(f"/(?:{'|'.join(map(re.escape, names))})/", re.IGNORECASE)

    def what_lies_at(self, path: str) -> str:
        """Name the possible contents of a secret place, for a question about it."""
        sessions = [f"{os.path.realpath(place)}/sessions" for place in self._private]
        own = any(is_inside(os.path.realpath(path), place) for place in sessions)
        return "the conversation of another session" if own else "keys or passwords"

    def is_secret(self, path: str) -> bool:
        """Return True if an absolute path holds keys or passwords, as spelled or resolved."""
        return any(map(self._has_keys, spellings(path)))

    def _has_keys(self, path: str) -> bool:
        if is_env(path.rpartition("/")[2]):
            return True
        if re.fullmatch(r"/proc/[^/]+(/task/[^/]+)?/(environ|mem)", path):
            return True
        return self._is_listed(path, self.secrets)

    def _is_listed(self, path: str, places: AbstractSet[str]) -> bool:
        return lies_in(path, places) and not any(is_inside(path, place) for place in self.exposed)

    def is_note(self, path: str, *, writes: bool) -> bool:
        """Return True if an absolute path, as spelled and resolved, is a file in `notes` that may be written there."""
        for spelled in spellings(path):
            folder, _, name = spelled.rpartition("/")
            if not (folder in self.notes and is_note_name(name)) and (writes or not lies_in(spelled, self.notes)):
                return False
        return True

    def holds_secrets(self, path: str) -> bool:
        """Return True if a recursive search of a directory would meet a secret place."""
        real = os.path.realpath(path)
        return (
            self.is_secret(path)
            or real == "/proc"
            or any(is_inside(place, real) and os.access(place, os.R_OK) for place in self.secrets)
        )

    def keys_below(self, directory: str) -> Callable[[str], bool]:
        """Return a fast `is_secret` for many absolute paths below a directory; no path may contain a symlink."""
        if is_inside("/proc", directory) or is_inside(directory, "/proc"):
            return self._has_keys
        places = frozenset(
            place for place in self.secrets if is_inside(place, directory) or is_inside(directory, place)
        )
        return lambda path: is_env(path.rpartition("/")[2]) or self._is_listed(path, places)

    def is_guarded(self, path: str) -> bool:
        """Return True if writing a path plants what runs by itself, changes sagent's permissions, or touches keys."""
        for spelled in spellings(path):
            if self._guarded_names.search(f"{spelled}/"):
                return True
            if any(lies_in(spelled, places) for places in (self._guarded, self.secrets, self.session)):
                return True
        return self.is_secret(path)


def spellings(path: str) -> tuple[str, str]:
    """Return a path as spelled, without dots, and resolved."""
    return os.path.normpath(path), os.path.realpath(path)


def is_note_name(name: str) -> bool:
    """Return True if a file of the memory may have this name."""
    return re.fullmatch(r"\w[\w .-]{0,90}\.md", name) is not None


def is_env(name: str) -> bool:
    """Return True if a file of this name holds environment variables, and so perhaps keys."""
    return _ENV.match(name) is not None


def env_files(directory: str) -> Iterator[str]:
    """Yield .env files below a directory, the nearest first, without following links. At most some hundred directories
    are searched; installed packages and git's directories are skipped."""
    waiting = deque([directory])
    for _ in range(_MAX_DIRECTORIES):
        if not waiting:
            return
        try:
            entries = list(os.scandir(waiting.popleft()))
        except OSError:
            continue
        for entry in entries:
            if is_env(entry.name):
                yield entry.path
            if entry.name not in (".git", "node_modules") and entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
