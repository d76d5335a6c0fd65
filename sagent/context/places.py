"""Directories of settings and state, and directories of skills, agents, commands and output styles: the person's, those
of plugins, and a project's."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from sagent.context.instructions import repository_root
from sagent.errors import ConfigError
from sagent.lib.dataclass import dataclass
from sagent.lib.text import why_unread

Kind: TypeAlias = Literal["skills", "agents", "commands", "output-styles"]
FOLDERS = (".sagent", ".agents", ".claude")
"""Folders of a project that hold them; a person's home may have the last two as well."""
PLUGINS = "plugins"
"""Folder of the person's directory with installed plugins, each in a folder of its name."""


@dataclass(frozen=True, slots=True)
class Place:
    """A directory. None of its files may really be outside `border`; None for the person's own."""

    path: Path
    border: Path | None
    source: Literal["person", "plugin", "project"] = "person"
    plugin: str = ""


def directory(kind: str, environ: Mapping[str, str], home: Path) -> Path:
    """Return sagent's directory for "config" or "state", by SAGENT_STATE_DIR, XDG's variables or platformdirs."""
    for variable, name in (("SAGENT_STATE_DIR" * (kind == "state"), ""), (f"XDG_{kind.upper()}_HOME", "sagent")):
        base = environ.get(variable, "")
        if base.startswith("/") and not base.endswith("\n"):
            return Path(base, name)
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "sagent"
    return home / (".config" if kind == "config" else ".local/state") / "sagent"


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the person's home directory. Raises ConfigError for an account without one, as in some containers."""
    try:
        home = Path(environ.get("HOME") or Path("~").expanduser())
        if home.is_absolute() and not home.name.endswith("\n"):
            return home
        raise ConfigError(f"HOME is {environ.get('HOME')!r}, which is no absolute path: set it to your home directory.")
    except RuntimeError:
        raise ConfigError(
            "This user has no home directory: set HOME to a directory for settings and sessions."
        ) from None


def places(kind: Kind, cwd: Path, user_dir: Path, notices: list[str] | None = None) -> Iterator[Place]:
    """Yield the existing places of one kind. The first definition of a name counts: the person's before a project's, a
    nearer directory's before one further up. `notices` lists unusable places."""
    for place in _places(kind, cwd, user_dir):
        if why := _why_not(place):
            if notices is not None:
                notices.append(f"{place.path} is not read: {why}.")
        elif place.path.is_dir():
            yield place
        if notices is not None:
            notices += (f"{each} is not read: its name must be {kind}." for each in _misnamed(place))


def is_any(kind: Kind, cwd: Path, user_dir: Path) -> bool:
    """Return True if anything exists at one of the places."""
    return any(os.path.lexists(place.path) or _misnamed(place) for place in _places(kind, cwd, user_dir))


def _misnamed(place: Place) -> list[Path]:
    """Return directories beside a place that have its name but for capitals, blanks, - or _, and a plural."""
    plain, kind = re.compile(r"s?[\s_-]*$|[\s_-]"), place.path.name
    with suppress(OSError):
        alike = [
            each for each in place.path.parent.iterdir() if plain.sub("", each.name.lower()) == plain.sub("", kind)
        ]
        own = (path := place.path).exists()  # where capitals do not count
        return [each for each in alike if each.name != kind and each.is_dir() and not (own and each.samefile(path))]
    return []


def _why_not(place: Place) -> str:
    """Return why a place is not read; "" if it can be read or does not exist."""
    try:
        place.path.lstat()
        if not _is_inside(place):
            return f"it leads out of {place.border}"
        if place.path.is_dir():
            return ""
        return "it is not a directory" if place.path.exists() else "it is a link that leads nowhere"
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as error:
        return why_unread(error)


def plugin_folders(user_dir: Path) -> list[Path]:
    """Installed plugins."""
    with suppress(OSError), os.scandir(user_dir / PLUGINS) as found:  # says what is a directory without another look
        folders = [each.path for each in found if each.is_dir(follow_symlinks=False)]
        return sorted(path for path in map(Path, folders) if not path.name.startswith((".", "__")))
    return []


def _is_inside(place: Place) -> bool:
    """Return True if a place does not lie beyond its border: a link may lead to all that a machine has."""
    return place.border is None or Path(os.path.realpath(place.path)).is_relative_to(os.path.realpath(place.border))


def _places(kind: Kind, cwd: Path, user_dir: Path) -> Iterator[Place]:
    yield Place(user_dir / kind, None)
    for folder in plugin_folders(user_dir):
        yield Place(folder / kind, folder, "plugin", folder.name)
    with suppress(RuntimeError):  # the home directory is unknown
        home = Path("~").expanduser()
        yield from (Place(home / name / kind, None) for name in FOLDERS[1:])
    root = repository_root(cwd) or cwd
    for at in (cwd, *cwd.parents):
        if not at.is_relative_to(root):
            return
        yield from (Place(at / name / kind, root, "project") for name in FOLDERS)
