"""A signal that the caller ignores, as nohup and the background of a script do, ends nothing; SIGTERM does."""

import signal
import socket
import subprocess

import pytest
from program import PROGRAM, Shell

from sagent.testing.script import Call, Turn
from tests.depth import later
from tests.waiting import wait_until

SHIELDED = ["sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh", *PROGRAM]
IGNORED = (signal.SIGINT, signal.SIGHUP)


def send_ignored(child: subprocess.Popen[bytes]) -> None:
    for number in IGNORED:
        child.send_signal(number)


@later
def test_ignored_signals_do_not_stop_a_run(shell: Shell) -> None:
    command = "touch begun; until [ -e go ]; do sleep 0.05; done; echo went on"
    shell.serve([Turn(calls=(Call("Bash", {"command": command}),)), Turn(text="Done.")])
    child = shell.start("--permission-mode", "full", "--sandbox", "off", "work", program=SHIELDED)
    wait_until((shell.cwd / "begun").exists, "the command to begin", child=child)
    send_ignored(child)
    (shell.cwd / "go").touch()
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, b"Done.\n"), err


def check_server(shell: Shell, *argv: str) -> None:
    """Check that a server that says its port goes on after ignored signals, and ends with SIGTERM."""
    child = shell.start(*argv, "--output-format", "json", model="", stderr=subprocess.DEVNULL, program=SHIELDED)
    assert child.stdout is not None
    said = child.stdout.readline()
    port = int(said.split(b"127.0.0.1:")[1].split(b"/")[0].split(b'"')[0].split(b"?")[0])
    for _ in range(2):  # before the second the first was heard
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert connection.recv(1)
        send_ignored(child)
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 128 + signal.SIGTERM


@later
@pytest.mark.plugin("serve")
def test_ignored_signals_do_not_stop_server(shell: Shell) -> None:
    check_server(shell, "serve")


@later
@pytest.mark.plugin("mcp")
def test_ignored_signals_do_not_stop_mcp(shell: Shell) -> None:
    child = shell.start("mcp", "serve", model="", stdin=subprocess.PIPE, program=SHIELDED)
    assert child.stdin is not None and child.stdout is not None
    for number in (1, 2):
        child.stdin.write(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number)
        child.stdin.flush()
        assert b'"id":%d' % number in child.stdout.readline().replace(b" ", b"")
        send_ignored(child)
    child.communicate(timeout=60)
    assert child.returncode == 0
