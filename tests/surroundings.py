"""The surroundings of a test: the same however the tests were started, as from cron, a CI runner or an editor."""

import json
import os
import re
import resource
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterable

PYTHON = shlex.quote(sys.executable)
"""This Python as a word of a shell's line: the path of a checkout may have spaces and other characters of shells."""

# A test sees these of the variables that the tests were started with, and no others: it sets what it is about.
KEPT = {"CI", "DEPTH", "DRAW_LOOKS", "HOME", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER", "VIRTUAL_ENV"}
KEPT_BEGINNINGS = ("COV_", "CUDA_", "DYLD_", "GOCACHE", "LD_", "NVIDIA_", "PYTEST_", "PYENV_")
SET = {"LANG": "C.UTF-8", "TERM": "xterm", "TZ": "UTC"}
KEPT_IGNORED = {signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)}  # Python ignores them itself
MIN_OPEN_FILES = 4096
PLAIN_PLACE = re.compile(r"[\w./+-]{1,60}", re.ASCII)
"""Names of a directory for temporary files that tests can bear: below longer ones no socket has a name (107 bytes), and
tests put paths into lines for shells, patterns and rules."""
USUAL_TMPDIR = "/tmp"
LETTERS_OF_NAMES = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters of random names of temporary files. No word, number, key or hash consists of them: a test may look for a
short one in a text that has paths."""
FOR_NPM = "PYTEST_GIVEN_TO_NPM"
"""A variable with those that npm needs to install what tests run, as JSON: proxies, certificates, its own settings."""
_NPM_NAMES = {"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "XDG_CACHE_HOME"}


def settle() -> None:
    """Undo what this process inherited: ignored and blocked signals, umask, closed streams, few open files, variables.

    A hangup that was to be ignored does nothing here still; programs that are started from here get its default."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    own = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: lambda *_: None}
    for number in signal.valid_signals() - KEPT_IGNORED:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, own.get(number, signal.SIG_DFL))
    os.umask(0o022)
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MIN_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MIN_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if FOR_NPM not in os.environ:
        os.environ[FOR_NPM] = json.dumps({name: os.environ[name] for name in os.environ if _is_for_npm(name)})
    for name in foreign(os.environ):
        del os.environ[name]
    os.environ.update(SET)
    if not PLAIN_PLACE.fullmatch(tempfile.gettempdir()) and os.access(USUAL_TMPDIR, os.W_OK | os.X_OK):
        os.environ["TMPDIR"] = tempfile.tempdir = USUAL_TMPDIR
    vars(tempfile)["_RandomNameSequence"].characters = LETTERS_OF_NAMES
    time.tzset()


def given_to_npm() -> dict[str, str]:
    """Return what npm is to know of the environment that the tests were started with."""
    return json.loads(os.environ.get(FOR_NPM, "{}"))


def _is_for_npm(name: str) -> bool:
    lower = name.lower()
    return lower.endswith("_proxy") or lower.startswith("npm_") or name in _NPM_NAMES


def foreign(names: Iterable[str]) -> list[str]:
    """Return the names of the variables that no test sees."""
    return [name for name in names if name not in KEPT | SET.keys() and not name.startswith(KEPT_BEGINNINGS)]
