"""Workers of a run of all tests as forks of a process that has imported them: each would spend seconds to import them.

xdist asks execnet for workers, which are programs that execnet talks to over pipes. Here the controller imports the
tests before there are any, and forks as many processes as there will be workers. What execnet gets is one of these,
or, where one crashed and is replaced, a program as ever. A worker begins as it would by itself: it configures pytest
and collects, and finds its tests among the modules that are loaded. A file of tests that cannot be imported is left to
the workers, which say so.
"""

import atexit
import gc
import importlib
import logging
import os
import signal
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

import execnet
import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook
from _pytest.pathlib import ImportMode, import_path
from execnet import gateway_io
from execnet.gateway_base import ExecModel, Popen2IO
from hypothesis.internal.conjecture import providers

from tests.forks import SHARED, Forks

LATE = ("anthropic", "google.genai", "openai", "nats.js")  # what tests import when they run, which takes longest


@dataclass
class Seed:
    """A process that waits to become a worker, with what tests ask of a `subprocess.Popen`."""

    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]

    def wait(self) -> int:
        """Return its exit code when it has ended."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)


class _Pipes(gateway_io.Popen2IOMaster):
    """What execnet reads from a worker and writes to it."""

    def __init__(self, seed: Seed, execmodel: ExecModel) -> None:
        self.popen = seed
        Popen2IO.__init__(self, seed.stdin, seed.stdout, execmodel=execmodel)


def sow(config: pytest.Config, number: int) -> None:
    """Import all tests, and let so many workers that are started from here on be forks, which run the program as forks
    of one server. Does nothing where a module has started a thread, which no fork would have."""
    gc.disable()
    SHARED.append(Forks())  # it loads the program meanwhile
    config.add_cleanup(SHARED[0].close)
    _import_tests(config)
    with suppress(Exception):  # what Hypothesis works out when it is first used
        providers._get_local_constants()
    for name in LATE:
        with suppress(Exception):  # its tests say so
            importlib.import_module(name)
    if threading.active_count() == 1:
        gc.freeze()
        config.get_terminal_writer().flush()  # or each fork would write what waits there, too
        seeds: list[Seed] = []
        for _ in range(number):
            seeds.append(_fork(seeds))
        gateway_io.create_io = _taking(seeds, gateway_io.create_io)
    gc.enable()


def _import_tests(config: pytest.Config) -> None:
    """Import each, after those that say what else has its assertions rewritten: all have the same name."""
    tests, conftest = config.rootpath / "tests", sys.modules.get("conftest")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in (*sorted(tests.rglob("conftest.py")), *sorted(tests.rglob("test_*.py"))):
            sys.modules.pop("conftest", None)
            with suppress(Exception):
                import_path(path, mode=ImportMode.prepend, root=config.rootpath, consider_namespace_packages=False)
    if conftest:
        sys.modules["conftest"] = conftest


def _taking(seeds: list[Seed], otherwise: Callable[..., object]) -> Callable[..., object]:
    def create_io(spec: execnet.XSpec, execmodel: ExecModel) -> object:
        return _Pipes(seeds.pop(0), execmodel) if seeds and spec.popen else otherwise(spec, execmodel)

    return create_io


def _fork(others: Sequence[Seed]) -> Seed:
    (stdin, to_stdin), (out, stdout) = os.pipe(), os.pipe()
    if pid := os.fork():
        os.close(stdin)
        os.close(stdout)
        return Seed(pid, open(to_stdin, "wb"), open(out, "rb"))
    try:
        for each in others:
            each.stdin.close()
            each.stdout.close()
        os.close(to_stdin)
        os.close(out)
        _become_worker(stdin, stdout)
        atexit._run_exitfuncs()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _become_worker(stdin: int, stdout: int) -> None:
    """Forget the controller, and do what execnet says, as a Python does that execnet starts."""
    atexit._clear()  # the directory for temporary files is the controller's to remove
    for number, fd in enumerate((stdin, stdout)):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115 -- as long as it
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, AssertionRewritingHook)]
    sys.argv, sys.modules["__main__"] = ["-c"], types.ModuleType("__main__")
    logging.getLogger().handlers.clear()
    exec(eval(sys.stdin.readline()), {"__name__": "__main__"})
