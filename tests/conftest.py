"""What every test may use, and the rule for what may be skipped."""

import gc
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import hypothesis
import pytest

from tests.deleted import deleted, lacked
from tests.depth import MAX_CASES, QUICK, SAME_EXAMPLES, deep, spread
from tests.forks import SHARED, Forks
from tests.left_out import list_left_out
from tests.roots import defer
from tests.surroundings import FOR_NPM, settle
from tests.walls import has_bubblewrap

hypothesis.settings.register_profile(
    "sagent",
    deadline=None,  # no test asserts a time
    max_examples=deep(20, 100),
    derandomize=SAME_EXAMPLES,
)
hypothesis.settings.load_profile("sagent")
pytest.register_assert_rewrite("sagent.testing.log_suite", "sagent.testing.model_suite", "sagent.testing.tool_suite")

CASES = pytest.StashKey[int]()
RECORDINGS = Path(__file__).parents[2] / "shared" / "wire"


def _has_network_namespaces() -> bool:
    import subprocess

    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode
    )


def _may_mount() -> bool:
    """Whether a disk can be made for a test."""
    import subprocess
    from tempfile import TemporaryDirectory

    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    with TemporaryDirectory() as place:
        argv = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]
        done = subprocess.run(argv, capture_output=True, check=False)
        return not done.returncode and not subprocess.run(["umount", place], check=False).returncode


def _may_make_machines() -> bool:
    """Whether machines can be made for a test that reach each other by cables which can be pulled."""
    import subprocess

    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("ip"):
        return False
    name = f"sagent{os.getpid()}"
    made = "ip netns add {0} && ip -n {0} link add v0 type veth peer name v1 && ip -n {0} link add b0 type bridge"
    done = subprocess.run(["sh", "-c", made.format(name)], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return not done.returncode


def _owns_machine() -> bool:
    """Whether root, if that is who we are, is root of the machine: it has every user's number, and all capabilities."""
    places = Path("/proc/self/uid_map")
    return os.geteuid() != 0 or (places.exists() and places.read_text().split()[-1:] == ["4294967295"])


def _is_unconfined() -> bool:
    """Return True if no container filters our system calls, or takes from root what it may do."""
    status = Path("/proc/self/status")
    if not status.exists():
        return True
    said = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
    is_admin = os.geteuid() != 0 or bool(int(said["CapEff"], 16) & 1 << 21)  # CAP_SYS_ADMIN
    return is_admin and said.get("Seccomp", "0") == "0"


def _has_landlock() -> bool:
    """Whether the kernel has all of it that is used, whatever we make of it."""
    import ctypes

    return sys.platform == "linux" and ctypes.CDLL(None).syscall(444, None, 0, 1) >= 6


def _has_native_typescript() -> bool:
    """Whether there is a `tsc` that is a language server."""
    import subprocess

    argv = ["tsc", "--version"]
    return bool(shutil.which("tsc")) and b"Version 7" in subprocess.run(argv, capture_output=True, check=False).stdout


def _has_playwright() -> bool:
    """Whether there are Playwright's server for browsers, which under CI=true is installed once, and a Chromium."""
    from tests.plugins.mcp.playwright import installed

    return has("chromium") and installed()


FACILITIES: dict[str, Callable[[], bool]] = {
    "rg": lambda: bool(shutil.which("rg")),
    "git": lambda: bool(shutil.which("git")),
    "bash": lambda: bool(shutil.which("bash")),
    "tmux": lambda: bool(shutil.which("tmux")),
    "zsh": lambda: bool(shutil.which("zsh")),
    "fish": lambda: bool(shutil.which("fish")),
    "bwrap": has_bubblewrap,
    "curl": lambda: bool(shutil.which("curl")),
    "ip": lambda: bool(shutil.which("ip")),
    "ssh-keygen": lambda: bool(shutil.which("ssh-keygen")),
    "node": lambda: bool(shutil.which("node")),
    "go": lambda: bool(shutil.which("go")),
    "chromium": lambda: any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome-stable"))),
    "axe": lambda: bool(find_spec("axe_core_python")),
    "linux": lambda: sys.platform == "linux",
    "landlock": _has_landlock,
    "root-of-machine": _owns_machine,
    "unconfined": _is_unconfined,
    "netns": _has_network_namespaces,
    "tmpfs": _may_mount,
    "veth": _may_make_machines,
    "recordings": lambda: (RECORDINGS / "dev").is_dir(),
    "not-root": lambda: os.geteuid() != 0,
    "torch": lambda: bool(find_spec("torch") and find_spec("transformers")),
    "cuda": lambda: bool(has("torch") and shutil.which("nvidia-smi")),
    "claude": lambda: bool(shutil.which("claude")),
    "codex": lambda: bool(shutil.which("codex")),
    "clangd": lambda: bool(shutil.which("clangd")),
    "tsc-7": _has_native_typescript,
    "playwright": _has_playwright,
    "llama-server": lambda: bool(shutil.which("llama-server")),
    "assemblers": lambda: os.uname().machine == "x86_64" and all(map(shutil.which, ("as", "aarch64-linux-gnu-as"))),
}
# What a machine may lack even under CI=true: not packages, but data and circumstances.
MAY_BE_MISSING = {
    "recordings",
    "chromium",
    "go",
    "netns",
    "tmpfs",
    "veth",
    "bwrap",
    "landlock",
    "root-of-machine",
    "unconfined",
    "ip",
    "linux",
    "not-root",
    "torch",
    "cuda",
    "claude",
    "codex",
    "clangd",
    "tsc-7",
    "playwright",
    "llama-server",
    "assemblers",
}


def pytest_xdist_auto_num_workers() -> int:
    """Six for two cores: half of what the tests do is to wait for processes, terminals and time limits."""
    cores = os.cpu_count() or 1
    return min(3 * cores, cores + 8)


@cache
def has(name: str) -> bool:
    """Whether this machine has a facility."""
    return FACILITIES[name]()


def pytest_collection() -> None:
    """What is imported stays: to look for garbage in it would be a fifth of what collecting the tests takes."""
    gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    """What tests leave among temporary files, as what the guard keeps for a person, goes with them. What pytest itself
    keeps stays where it was."""
    settle()
    defer()
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # it has the controller's
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    place = tempfile.TemporaryDirectory(prefix="sagent-tests-", ignore_cleanup_errors=True)
    Path(place.name).chmod(0o1777)  # as /tmp is: some programs run as another user
    os.environ["TMPDIR"] = tempfile.tempdir = place.name
    config.add_cleanup(place.cleanup)


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Iterator[None]:
    """Leave most cases of tests with many to `make test-all`, in a quick run. What is left out here is never made into
    a test: to make all of them would take a quarter of the time of collecting."""
    yield
    if QUICK:
        cases = metafunc._calls
        most = 1 if metafunc.definition.get_closest_marker("costly") else MAX_CASES
        kept = spread(cases, lambda case: case.marks, most)
        note_cases(metafunc.config, len(cases) - len(kept))
        cases[:] = kept


def note_cases(config: pytest.Config, number: int) -> None:
    """Note how many cases more a quick run does not take; a worker tells its controller when it ends."""
    config.stash[CASES] = number = config.stash.get(CASES, 0) + number
    if hasattr(config, "workeroutput"):
        config.workeroutput["cases"] = number  # pyright: ignore[reportAttributeAccessIssue] -- of xdist


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[object]) -> None:
    """Let the workers of a run of all tests be forks of what has imported them."""
    if sys.platform == "linux" and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        from tests.seeds import sow

        sow(config, len(specs))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Take what a worker notes: each has collected all tests."""
    output, config = getattr(node, "workeroutput", {}), getattr(node, "config", None)
    if isinstance(config, pytest.Config) and isinstance(number := output.get("cases"), int):
        config.stash[CASES] = number


def pytest_collection_finish() -> None:
    """From here on there is garbage; to look for it in what was imported would take a twentieth of the time."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List once what was left out."""
    skipped = (each.longrepr[2].removeprefix("Skipped: ") for each in terminalreporter.stats.get("skipped", ()))
    if lines := [*list_left_out(skipped, config.stash.get(CASES, 0))]:
        terminalreporter.section("left out")
        terminalreporter.write("\n".join((*lines, "")))


class LeftOut(pytest.Collector):
    """Tests that cannot be collected, because a plugin that they need was deleted."""

    def collect(self) -> Iterator[pytest.Item]:
        """Skip them, and say the name of the plugin."""
        pytest.skip(f"the plugin {lacked(self.path)} was deleted")


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> LeftOut | None:
    """Leave out a folder of tests whose plugin was deleted."""
    return LeftOut.from_parent(parent, name=path.name, path=path) if lacked(path) else None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> LeftOut | None:
    """Leave out a file of tests that imports a plugin which was deleted."""
    return LeftOut.from_parent(parent, name=module_path.name, path=module_path) if lacked(module_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs something this machine lacks; under CI=true a missing package fails instead."""
    for mark in item.iter_markers("plugin"):
        if name := next(filter(None, map(deleted, mark.args)), ""):
            pytest.skip(f"the plugin {name} was deleted")
    for mark in item.iter_markers("needs"):
        name = mark.args[0]
        if has(name):
            continue
        if os.environ.get("CI") == "true" and name not in MAY_BE_MISSING:
            pytest.fail(f"needs {name}, which is not installed; under CI=true nothing is skipped", pytrace=False)
        pytest.skip(f"needs {name}")


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where homes are: `mktemp` of pytest reads all names there are in its directory to find the next."""
    return tmp_path_factory.mktemp("h", numbered=False)


@pytest.fixture(autouse=True)
def _own_home(_homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the person's configuration and sessions; variables with keys are left out for all (`settle`)."""
    home = mkdtemp(dir=_homes, prefix="")
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv(FOR_NPM, raising=False)


@pytest.fixture(scope="session", autouse=True)
def _listened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Somebody listens where tests have their files, for as long as they run: a sandbox does not show such a place.
    Where a test began to listen there later, the next command of each sandbox that shows it would get a new box."""
    with socket.socket(socket.AF_UNIX) as listener:
        if sys.platform == "linux":
            listener.bind(str(tmp_path_factory.getbasetemp() / "s"))
            listener.listen()
        yield


@pytest.fixture(scope="session", autouse=True)
def _means() -> Iterator[None]:
    """What confines commands here is tried once, until something changes that it depends on: each time takes 35 ms."""
    from sagent.sandbox import probe

    really_try, found = probe._try_all, dict[tuple[str, ...], probe.Confinement]()

    def try_once() -> probe.Confinement:
        key = tuple(probe._dependencies())
        if key in found:
            return found[key]
        means = really_try()
        if not means.why:  # it may be due to a busy moment
            found[key] = means
        return means

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "_try_all", try_once)
        yield


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """The program, loaded once: by the controller in a run of all tests, which ends it, or by each worker."""
    if SHARED:
        yield SHARED[0]
        return
    with closing(Forks()) as found:
        yield found
