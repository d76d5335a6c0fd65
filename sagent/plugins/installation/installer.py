"""The program that installed this sagent, and its commands for an update and a removal."""

import json
import re
import shlex
import shutil
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit

import sagent
from sagent.lib.dataclass import dataclass
from sagent.lib.installed import NAME
from sagent.lib.json import as_object

Words: TypeAlias = tuple[str, ...]
Installer: TypeAlias = Literal["checkout", "pipx", "uv", "homebrew", "conda", "single file", "pip"]


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation. `update` and `remove` are commands in their order; empty if sagent cannot do it. The notes say
    what else is to be done."""

    installer: Installer
    place: Path
    source: str = ""
    update: tuple[Words, ...] = ()
    remove: tuple[Words, ...] = ()
    update_note: str = ""
    remove_note: str = ""


def find_installation(package: Path | None = None, prefix: Path | None = None) -> Installation:
    """Return the installation that this process runs from, or the one of a package in a prefix."""
    package, prefix = package or Path(sagent.__file__).parent, prefix or Path(sys.prefix)
    if (package.parent / "pyproject.toml").is_file():
        return _checkout(package.parent)
    if (archive := _single_file(package)) is not None:
        where = f"{archive} is one file: put a newer one in its place."
        return Installation("single file", archive, update_note=where, remove_note=f"Delete {archive}.")
    source, wheel = _source()
    if (prefix / "pipx_metadata.json").is_file():
        again = () if wheel else (("pipx", "upgrade", NAME),)
        return Installation("pipx", prefix, source, again, (("pipx", "uninstall", NAME),), _newer(wheel))
    if (prefix / "uv-receipt.toml").is_file():
        again = () if wheel else (("uv", "tool", "upgrade", NAME),)
        return Installation("uv", prefix, source, again, (("uv", "tool", "uninstall", NAME),), _newer(wheel))
    if "Cellar" in prefix.resolve().parts:
        return Installation("homebrew", prefix, "", (("brew", "upgrade", NAME),), (("brew", "uninstall", NAME),))
    if _tool() == "conda":
        return Installation("conda", prefix, "", (("conda", "update", NAME),), (("conda", "remove", NAME),))
    if (pip := _pip()) is None:
        note = f"{prefix} has no pip, and there is no uv: install sagent again in the way in which you did."
        return Installation("pip", prefix, source, update_note=note, remove_note=f"Delete {prefix}.")
    wanted = f"{NAME}[{','.join(extras)}]" if (extras := present_extras()) else NAME
    again = ((*pip, "install", "--upgrade", f"{wanted} @ {source}"),) if source and not wheel else ()
    by_name = f"{shlex.join((*pip, 'install', '--upgrade', wanted))} updates it. Name the same index as before with "
    by_name += "--index-url if it was not the usual one: there this name may be another program's."
    note = _newer(wheel) if source else by_name
    removal = (*pip, "uninstall", *(("--yes",) if pip[0] == sys.executable else ()), NAME)
    rest = f"What sagent needed stays in {prefix}: if nothing else is there, delete that directory too."
    return Installation("pip", prefix, source, again, (removal,), note, rest)


def _checkout(folder: Path) -> Installation:
    pulled = (("git", "-C", str(folder), "pull", "--ff-only"),) if (folder / ".git").exists() else ()
    pip, extras = _pip(), present_extras()
    wanted = f"{folder}[{','.join(extras)}]" if extras else str(folder)
    again = ((*pip, "install", "--editable", wanted),) if pip else ()
    note = "" if pulled and again else f"{folder} is no git repository: put the newer files there."
    update = (*pulled, *again) if pulled else ()
    return Installation("checkout", folder, update=update, update_note=note, remove_note=f"Delete {folder}.")


def _single_file(package: Path) -> Path | None:
    """Return the archive that this program was started from, if it was: shiv unpacks it, zipapp does not."""
    started = Path(sys.argv[0])
    inside = any(parent.is_file() for parent in package.parents)
    return started if inside or (package.is_relative_to(Path.home() / ".shiv") and started.is_file()) else None


def _source() -> tuple[str, str]:
    """Return the address that it was installed from, "" for an index, and the wheel or archive if it is one."""
    try:
        found = as_object(json.loads(metadata.distribution(NAME).read_text("direct_url.json") or "{}"))
    except (metadata.PackageNotFoundError, ValueError):
        return "", ""
    url = str(found.get("url", ""))
    git = as_object(found.get("vcs_info"))
    if git:
        revision = git.get("requested_revision")
        return f"{git.get('vcs')}+{url}{f'@{revision}' if revision else ''}", ""
    path = unquote(urlsplit(url).path)
    return url, path if Path(path).suffix in (".whl", ".gz", ".zip") else ""


def _newer(wheel: str) -> str:
    return f"It was installed from the file {wheel}: get a newer one, and install that." if wheel else ""


def _tool() -> str:
    """Return the program that wrote the installation, as it names itself."""
    try:
        return (metadata.distribution(NAME).read_text("INSTALLER") or "").strip()
    except metadata.PackageNotFoundError:
        return ""


def _pip() -> Words | None:
    """Return the words that begin a command of pip for this Python; None if there is none."""
    if util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip")
    return ("uv", "pip") if shutil.which("uv") else None


def present_extras() -> tuple[str, ...]:
    """Return the extras whose packages are all installed. Installers do not record which were chosen."""
    try:
        found = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        return ()
    needed: dict[str, list[str]] = {}
    for requirement in found.requires or ():
        if marked := re.search(r"""\bextra\s*==\s*['"]([\w-]+)['"]""", requirement):
            needed.setdefault(marked[1], []).append(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
    return tuple(
        sorted(extra for extra, names in needed.items() if NAME not in names and all(map(_is_installed, names)))
    )


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
