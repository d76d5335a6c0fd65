"""However the tests are started, what they start has the same signals, umask, streams, open files and variables."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.depth import later
from tests.surroundings import LETTERS_OF_NAMES, MIN_OPEN_FILES, SET, foreign, settle
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
REPORT = """
import json, os, resource, signal
print(json.dumps({
    "ignored": sorted(int(n) for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN),
    "blocked": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
    "umask": os.umask(0), "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "zone": os.environ.get("TZ"),
}))
"""
SETTLED = f"""
import subprocess, sys
from tests.surroundings import settle
settle()
print(subprocess.run([sys.executable, "-c", {REPORT!r}], capture_output=True, text=True, check=True).stdout)
"""
HOSTILE = """
import os, resource, signal, sys
for number in (1, 2, 3, 10, 14, 15, 17, 18, 20, 21, 22):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {1, 2, 15, 17})
os.umask(0o077)
os.closerange(0, 1)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
os.environ["TZ"] = "Asia/Kolkata"
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""


def reported(*programs: str) -> dict[str, object]:
    """Return what the last of these programs reports, which the others start."""
    done = subprocess.run([sys.executable, "-c", *programs], capture_output=True, cwd=ROOT, check=True)
    return json.loads(done.stdout)


def test_settled_process_starts_like_terminal() -> None:
    usual, hostile, settled = reported(REPORT), reported(HOSTILE, REPORT), reported(HOSTILE, SETTLED)
    assert [name for name in usual if usual[name] == hostile[name]] == []
    assert settled == {**usual, "umask": 0o022, "files": settled["files"], "zone": "UTC"}
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert settled["files"] == (MIN_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MIN_OPEN_FILES, hard))


@pytest.mark.parametrize("name", ["with space", "a&b", "é", "x" * 60, "plain"])
def test_temporary_paths_are_short_and_plain(name: str) -> None:
    asks = "import os, tempfile; from tests.surroundings import settle; settle();"
    asks += "print(tempfile.gettempdir() == os.environ['TMPDIR'] and os.environ['TMPDIR'])"
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as base:
        place = Path(base, name)
        place.mkdir()
        environment = {**os.environ, "TMPDIR": str(place)}
        done = subprocess.run([sys.executable, "-c", asks], capture_output=True, cwd=ROOT, env=environment, check=True)
    assert os.fsdecode(done.stdout).strip() == (str(place) if name == "plain" else "/tmp")


def test_random_names_hold_no_needle() -> None:
    """A test may look for "k1" in a text that has paths."""
    with tempfile.TemporaryDirectory(prefix="") as made:
        assert set(Path(made).name) <= set(LETTERS_OF_NAMES) and Path.home().name.isupper()
    assert not set("aeiouy0123456789") & set(LETTERS_OF_NAMES.lower())


def test_ignored_interrupt_is_python_again() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        settle()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "name",
    [
        "HTTP_PROXY", "https_proxy", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "GIT_DIR", "GIT_CONFIG_COUNT", "EDITOR",
        "PAGER", "SAGENT_MODEL", "XDG_CONFIG_HOME", "ANTHROPIC_API_KEY", "GITHUB_TOKEN", "LC_ALL", "PYTHONWARNINGS",
        "BASH_ENV", "TMUX", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "SUDO_USER", "NODE_OPTIONS",
        "A_NAME_THAT_NOBODY_KNOWS",
    ],
)  # fmt: skip
def test_callers_variable_is_not_seen(name: str) -> None:
    assert foreign([name, "PATH", "TMPDIR"]) == [name]


def test_this_test_has_its_surroundings() -> None:
    assert foreign(os.environ) == []
    assert {name: os.environ[name] for name in SET} == SET
    assert signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    assert time.tzname[0] == "UTC"


@later
@pytest.mark.costly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_to_suite_ends_its_tests(tmp_path: Path, number: signal.Signals) -> None:
    begun = tmp_path / "begun"
    lines = f"pathlib.Path({str(begun)!r}).write_text(str(os.getpid()))", "time.sleep(600)"
    (tmp_path / "test_long.py").write_text(f"import os, pathlib, time\ndef test():\n  {lines[0]}\n  {lines[1]}\n")
    pytest_ = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)]
    wait = f"import sys; sys.path[:0] = ['scripts']; import suite; sys.exit(suite.wait({pytest_!r}))"
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    argv = [sys.executable, "-c", wait]
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as waiting:
        try:
            pid = int(wait_until(lambda: begun.exists() and begun.read_text(), "the test to begin", child=waiting))
            waiting.send_signal(number)
            assert waiting.wait(60) == pytest.ExitCode.INTERRUPTED
        finally:
            waiting.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
