"""The program as forks of a process that has its modules loaded, for a part of what the start of a Python costs.

The server (`python -m tests.forks FD`) imports, forks, and tells how each fork ended. A fork is the program: with the
caller's streams, directory, arguments and environment it does what `python -m sagent.bin.cli` does, to the end of its
interpreter. Nothing of a run is left for the next. Where a variable is set that is read when an interpreter starts
(`AT_START`), `Forks.run` starts a new one.

Tests of a start itself (imports, signals, closed streams, terminals) start the program as a user does.
"""

import dataclasses
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import ssl
import subprocess
import sys
import termios
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from tests.roots import defer

P = ParamSpec("P")
T = TypeVar("T")
CHECKOUT = Path(__file__).parents[1]
PROGRAM = "sagent.bin.cli"
PACKAGES = (  # what most runs import
    "advisor", "agent", "app", "cli", "context", "cost", "engine", "lib", "policy", "providers.families", "sandbox",
    "repl", "session", "tools",
)  # fmt: skip
HEAVY = ("a2a", "clouds", "mcp", "papers")  # plugins that a few runs import, with what takes longest of all
OTHERS = ("nacl.signing", "nats.js", "pydantic_core")  # of other projects, which take longest
AT_START = ("DYLD_", "LANG", "LC_", "LD_", "MALLOC_", "PYTHON", "TZ")  # how the names of such variables begin
PATIENCE = 60.0  # seconds
SHARED: list["Forks"] = []  # what the workers of a run of all tests have in common


class Forks:
    """Runs of the program, as forks of one server. It has these modules loaded, too."""

    def __init__(self, *modules: str) -> None:
        self._control, theirs = socket.socketpair()
        self._started: dict[int, Sequence[str]] = {}
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.forks", str(theirs.fileno()), *modules],
                cwd=CHECKOUT, env={"PYTHONPATH": str(CHECKOUT)}, pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,  # streams find out what they are
                start_new_session=True,
            )  # fmt: skip

    def close(self, timeout: float = PATIENCE) -> None:
        """End the server, once its runs have ended. Raises where one does not, or where it had something to say: it
        failed."""
        self._control.close()
        try:
            said = self._server.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            left = [argv for child, argv in self._started.items() if _runs(child)]
            os.killpg(self._server.pid, signal.SIGKILL)
            self._server.communicate()
            raise AssertionError(f"these forks have not ended: {left}") from None
        assert said == (b"", b""), said

    def run(
        self,
        *argv: str,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: bytes = b"",
        file: Path | None = None,
        patience: float = PATIENCE,
    ) -> subprocess.CompletedProcess[bytes]:
        """What `subprocess.run` tells of the program run with these arguments, or of a file of Python's to which a
        warning is an error. Raises TimeoutExpired after so many seconds."""
        words = [sys.executable, *(("-m", PROGRAM) if file is None else ("-W", "error", str(file))), *argv]
        if needs_a_start(environment):
            return subprocess.run(
                words, cwd=cwd, env=environment, input=stdin, capture_output=True, timeout=patience, check=False
            )
        (input_, to_stdin), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
        child, mine = self.start(*argv, cwd=cwd, environment=environment, streams=(input_, stdout, stderr), file=file)
        said = [_later(_read, fd) for fd in (out, err, mine.detach())]
        _later(_write, to_stdin, stdin)
        try:
            printed, complained, code = (each.result(patience) for each in said)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            raise subprocess.TimeoutExpired(words, patience) from None
        return subprocess.CompletedProcess(words, int(code), printed, complained)

    def start(
        self,
        *argv: str,
        cwd: Path,
        environment: Mapping[str, str],
        streams: Sequence[int],
        file: Path | None = None,
        controls: bool = False,
    ) -> tuple[int, socket.socket]:
        """Start the program with these as its standard streams, which are closed here; its process id, and a socket
        that has its exit code in the end. Where it `controls` them, they are a terminal that no session has yet."""
        mine, theirs = socket.socketpair()
        socket.send_fds(self._control, [b"."], [*streams, theirs.fileno()])
        for fd in (*streams, theirs.detach()):
            os.close(fd)
        mine.sendall(json.dumps([file and str(file), argv, str(cwd), dict(environment), controls]).encode())
        mine.shutdown(socket.SHUT_WR)
        child = int.from_bytes(mine.recv(8))
        assert child, "the server of forks has ended"
        self._started[child] = argv if file is None else (str(file), *argv)
        return child, mine


def needs_a_start(environment: Mapping[str, str]) -> bool:
    """Return True if a fork would miss a variable that is read when an interpreter starts."""
    others = environment.keys() - {"PYTHONPATH"}
    return environment.get("PYTHONPATH") != str(CHECKOUT) or any(name.startswith(AT_START) for name in others)


def _runs(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def _later(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> Future[T]:
    """What a function returns, from a thread that nobody waits for: who holds a stream open may outlive the program."""
    result: Future[T] = Future()
    threading.Thread(target=lambda: result.set_result(function(*args, **options)), daemon=True).start()
    return result


def _read(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()


def _write(fd: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(fd, "wb") as file:
        file.write(data)


def load(*more: str) -> None:
    """What most runs import, and other modules, for all that come."""
    defer()
    ssl.create_default_context()  # read once, and by no fork again
    found = (each.name for each in pkgutil.iter_modules([str(CHECKOUT / "sagent/plugins")]) if each.ispkg)
    plugins = (f"plugins.{name}" for name in found if name not in HEAVY)
    for package in (*PACKAGES, *plugins):
        home = importlib.import_module(f"sagent.{package}")
        for module in pkgutil.walk_packages(home.__path__, f"{home.__name__}."):
            if "demo_" not in module.name and not module.name.endswith("_suite"):
                importlib.import_module(module.name)
    for name in (*OTHERS, *more):
        importlib.import_module(name)
    _use_first()
    for kind in gc.get_objects():
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            kind.__init__  # noqa: B018 -- it is written when it is first looked up, which each fork would do again
    gc.freeze()  # a fork that looked for garbage in what is loaded would copy all of it, at its end at the latest
    assert threading.active_count() == 1, "a module that is imported has started a thread"


def _use_first() -> None:
    """Work out once what most runs cache when they first need it: patterns, prices, a grammar, types of records."""
    from sagent.cost.prices import PriceBook
    from sagent.lib.secrets import redact
    from sagent.policy.shell import split
    from sagent.providers.wire import overflow, reply
    from sagent.sandbox.places import known_places

    overflow.is_overflow(400, (), "an input of 2 tokens", window=1, most_input=1)
    reply.stop_of("end", {})
    redact("key = value")
    split("true")
    known_places()
    PriceBook().ceiling("anthropic", "claude-sonnet-4-6")
    with suppress(ImportError):  # of plugins that were deleted
        from sagent.plugins.hosting.typed import adapter
        from sagent.plugins.mesh.records import InboxMessage, SessionRecord

        for kind in (InboxMessage, SessionRecord):
            adapter(kind)


def requests(control: socket.socket) -> list[int]:
    """Fork for each request: the streams and the socket that came with it, in the fork. Nothing where nobody can ask
    any more, and all forks have ended."""
    ends: dict[int, int] = {}  # of forks that run: sockets that wait for their exit codes
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda _, frame: None)  # who ended is asked when the byte comes
    signal.set_wakeup_fd(wakes.fileno())
    watched = {control, woken}
    while control in watched or ends:
        ready = select.select(watched, (), ())[0]
        if woken in ready:
            woken.recv(4096)
            _tell_ended(ends)
        if control not in ready:
            continue
        if not (fds := socket.recv_fds(control, 1, 4)[1]):
            watched.remove(control)
        elif child := os.fork():
            ends[child] = fds.pop()
            _close(*fds)
        else:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _close(*ends.values(), *(each.detach() for each in (control, woken, wakes)))
            return fds
    return []


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def _tell_ended(ends: dict[int, int]) -> None:
    while ends and (ended := os.waitpid(-1, os.WNOHANG))[0]:
        with socket.socket(fileno=ends.pop(ended[0])) as caller, suppress(BrokenPipeError):
            caller.sendall(b"%d" % os.waitstatus_to_exitcode(ended[1]))


def answer(stdin: int, stdout: int, stderr: int, request: int) -> None:
    """Run the program as a request says, and tell its process id first. Its exit code is the server's to tell."""
    with socket.socket(fileno=request) as caller, caller.makefile("rb") as file:
        program, argv, cwd, environment, controls = json.load(file)
        caller.sendall(os.getpid().to_bytes(8))
    for number, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd, number)
        os.close(fd)
    if controls:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        assert isinstance(sys.stdout, io.TextIOWrapper)
        sys.stdout.reconfigure(line_buffering=True)
    os.chdir(cwd)
    os.environ.update(environment)
    sys.path[0], sys.argv[1:] = os.path.dirname(program) if program else os.getcwd(), argv
    if program is None:
        runpy.run_module(PROGRAM, run_name="__main__", alter_sys=True)
    else:
        warnings.simplefilter("error")
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    asked: list[int] = []
    with suppress(KeyboardInterrupt):
        load(*sys.argv[2:])
        asked = requests(socket.socket(fileno=int(sys.argv[1])))
    if asked:
        answer(*asked)
