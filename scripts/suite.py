"""Run tests, side by side, and what failed once more by itself: `suite.py [PART | PYTEST ARGUMENTS]`.

A part is a package or a plugin, as `mesh`: its folder in tests/ or tests/plugins/. Without one, all are run, but only
some cases of tests with many (`tests/depth.py`).

A test that fails only beside others is a fault too, most often a race that a busy machine shows, and is in the output.
But it does not hold up a change that has nothing to do with it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

FAILED = 1  # pytest's exit code where tests ran and some failed
PYTEST = (sys.executable, "-m", "pytest")
ENOUGH = 8 * 2**30  # bytes of memory; what the tests of a whole run write is about 1.5 GB


def compile_tests() -> None:
    """Compile every test once: workers begin at the same time with the same one, and each would compile all of them."""
    files, cores = sorted(map(str, Path("tests").rglob("test_*.py"))), os.cpu_count() or 1
    argv = [*PYTEST, "--collect-only", "-qq", "-p", "no:cacheprovider"]
    parts = [subprocess.Popen([*argv, *files[part::cores]], stdout=subprocess.DEVNULL) for part in range(cores)]
    for part in parts:
        part.wait()


def in_memory(place: str) -> tuple[str, ...]:
    """What a command begins with to have a file system in memory at a place, which is its own and ends with it: files
    are made and removed there in a tenth of the time, and a log that is flushed waits for no disk. Nothing where this
    machine has too little memory, or does not let us."""
    if sys.platform != "linux" or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < ENOUGH:
        return ()
    script = 'mount -t tmpfs -o mode=1777 tmpfs "$0" && exec "$@"'
    words = ("unshare", "--mount", "sh", "-c", script, place)
    may = shutil.which("unshare") and not subprocess.run([*words, "true"], capture_output=True, check=False).returncode
    return words if may else ()


def main() -> int:
    """The exit code of pytest."""
    choose_language()
    if not sys.argv[1:]:
        os.environ.setdefault("DEPTH", "quick")
    usual = "/tmp" if os.access("/tmp", os.W_OK) else None  # noqa: S108 -- TMPDIR may be long: sockets' names may not
    vars(tempfile)["_RandomNameSequence"].characters = "BCDFGHJKLMNPQRSTVWXZ"  # as in tests/surroundings.py
    with tempfile.TemporaryDirectory(prefix="s", dir=usual) as place:
        if pytest := in_memory(place):
            os.environ["TMPDIR"] = place
        return suite((*pytest, *PYTEST))


def suite(pytest: tuple[str, ...]) -> int:
    """Run it; the exit code."""
    if not any(Path("tests").rglob(f"test_*.{sys.implementation.cache_tag}-pytest-*.pyc")):
        compile_tests()
    # A worker has neighbouring tests, which share servers, and takes those of others when it has no more of its own.
    code = wait([*pytest, "-n", "auto", "--dist", "worksteal", *map(locate, sys.argv[1:])])
    if code != FAILED:
        return code
    sys.stdout.write("What failed, once more and one after the other:\n")
    sys.stdout.flush()
    return wait([*pytest, "-v", "--last-failed", "--last-failed-no-failures", "none"])


def locate(word: str) -> str:
    """Return the folder of a part, or an argument of pytest as it is. Exits where a word may be a part and is none."""
    if not word.isidentifier() or Path(word).exists():
        return word
    found = (*Path("tests").glob("[a-z]*/"), *Path("tests/plugins").glob("[a-z]*/"))
    folders = {path.name: path for path in found if path.is_dir()}
    if word not in folders:
        sys.exit(f"There are no tests of {word!r}: give one of {', '.join(sorted(folders))}")
    return str(folders[word])


def choose_language() -> None:
    """Leave out the caller's variables for Python and its texts, which are read when it starts. `tests/surroundings.py`
    does the rest, which a `pytest` that is run by itself needs, too."""
    for name in list(os.environ):
        if name.startswith(("LC_", "PYTHON")) or name == "LANGUAGE":
            del os.environ[name]
    os.environ["LANG"] = "C.UTF-8"


def wait(argv: list[str]) -> int:
    """Run a command without a terminal, which could stop it in the background; its exit code. A signal that would end
    this process ends the command first, and one that is ignored, as under nohup, ends neither."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, umask=0o022) as command:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: command.send_signal(signal.SIGINT))
        return command.wait()


if __name__ == "__main__":
    sys.exit(main())
