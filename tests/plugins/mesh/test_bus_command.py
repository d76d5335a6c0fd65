"""`sagent bus`: a server that lives as long as the command."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import Shell
from tests.depth import later
from tests.waiting import wait_until

BUS = ("bus", "--port", "0", "--output-format", "json")


def _listens(port: object) -> bool:
    assert isinstance(port, int)
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.costly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_bus_leaves_nothing_behind(shell: Shell, number: signal.Signals) -> None:
    child, shown = shell.announced(*BUS, "--dir", "here")
    assert _listens(shown["port"])
    assert shown["directory"] == str(shell.cwd / "here")
    child.send_signal(number)
    assert child.wait() == (-9 if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: not _listens(shown["port"]), "the end of the server")


def test_bus_key_stays_private(shell: Shell) -> None:
    _, shown = shell.announced(*BUS)
    key = Path(str(shown["url"]).partition("?key=")[2])
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.parent.stat().st_mode & 0o777 == 0o700
    assert key.read_text().strip() not in json.dumps(shown)
    configuration = (key.parent / "server.conf").read_text()
    assert key.read_text().strip() not in configuration
    assert "sync_interval: always" in configuration


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--host", "0.0.0.0"], "--tls-cert"),
        (["--tls-cert", "none.pem"], "no such file"),
        (["--port", "70000"], "0 to 65535"),
        (["--port", "x"], "invalid int"),
        (["--users", "none.conf"], "no such file"),
        (["--output-format", "yaml"], "invalid choice"),
    ],
)
def test_unservable_bus_explained(shell: Shell, argv: list[str], said: str) -> None:
    done = shell.run("bus", *argv, model="")
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@later
def test_killed_server_ends_command(shell: Shell) -> None:
    child, shown = shell.announced(*BUS, "--dir", "here")
    path = next((shell.cwd / "here" / "ports").glob("*.ports"))
    pid = int(path.stem.rpartition("_")[2])
    assert pid != child.pid
    subprocess.run(["kill", "-9", str(pid)], check=True)
    assert child.wait() == 1
    assert not _listens(shown["port"])


def test_missing_server_names_install_step(shell: Shell) -> None:
    elsewhere = "import sysconfig, sys; sysconfig.get_path = lambda _: '/none'"
    code = f"{elsewhere}; from sagent.cli.main import run; sys.exit(run(sys.argv[1:]))"
    environment = {**shell.environment, "PATH": "/none"}
    argv = [sys.executable, "-c", code, "bus", "--port", "0"]
    done = subprocess.run(argv, env=environment, cwd=shell.cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "nats-server" in done.stderr
    assert "pip install" in done.stderr
