"""Runs of the program with a llama-server that takes its time, and lists of what such servers have."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import CHECKOUT, Shell
from tests.depth import later

STAND_IN = CHECKOUT / "tests" / "providers" / "llama_server.py"
CONDUCT = {"loading": 1.5, "reading": {"steps": 4, "seconds": 0.2}}


@pytest.fixture
def slow(shell: Shell) -> Shell:
    """A shell whose variables name a file, and a program that loads and reads slowly."""
    (shell.cwd / "tiny.gguf").write_bytes(b"GGUF" + bytes(28))
    program = shell.cwd.parent / "llama-server"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
    program.chmod(0o755)
    shell.environment |= {
        "LLAMA_CPP_MODEL": str(shell.cwd / "tiny.gguf"),
        "LLAMA_CPP_SERVER": str(program),
        "STAND_IN": json.dumps(CONDUCT),
    }
    return shell


def test_terminal_shows_wait(slow: Shell) -> None:
    said = slow.on_terminal("--provider", "llamacpp", "hi", columns=40)
    assert "\rLoading tiny… 1 s" in said
    assert "\rReading the prompt: 50 % (500 of 1,000" in said
    assert all(
        len(line) < 40 for line in said.replace("\n", "\r").split("\r") if "Reading" in line or "Loading" in line
    )
    last = said.rindex("Reading")
    assert said[last:].split("\r")[1].strip(" ") == "", "the line goes again"
    assert "Hello from the stand-in." in said[last:]


@later
@pytest.mark.plugin("teams")
def test_team_roles_show_wait(slow: Shell) -> None:
    roles = "".join(f'[[roles]]\nname = "{name}"\nprompt = "You {name}."\n' for name in ("find", "write"))
    (slow.cwd / "crew.toml").write_text(f'name = "crew"\nmode = "sequential"\n{roles}')
    said = slow.on_terminal("team", "run", "crew.toml", "--model", "llamacpp/tiny", "hi", columns=90)
    assert "\rfind: Reading the prompt: 50 % (500 of 1,000" in said
    assert "\rwrite: Reading the prompt" in said
    assert "Hello from the stand-in." in said[said.rindex("Reading") :]


@later
def test_waits_only_for_terminals(slow: Shell) -> None:
    flags = ("--provider", "llamacpp", "hi")
    for said in (slow.run(*flags, model="").err, slow.on_terminal(*flags, "--output-format", "stream-json")):
        assert "Loading" not in said
        assert "Reading the prompt" not in said


@pytest.mark.plugin("setup")
def test_server_models_listed_unloaded(slow: Shell) -> None:
    slow.environment |= {"LLAMA_CPP_CONTEXT": "2048", "STAND_IN": json.dumps({"starts": str(slow.cwd / "starts")})}
    done = slow.run("models", "llamacpp", model="")
    assert (done.code, done.out.split()[-4:]) == (0, ["llamacpp/tiny", "2048", "-", "native"])
    assert not (slow.cwd / "starts").exists()


@pytest.mark.costly
@pytest.mark.plugin("setup")
@pytest.mark.parametrize("flags", [("--base-url", "{url}"), ("llamacpp", "--base-url", "{url}"), ("llamacpp",)])
def test_models_of_running_server(shell: Shell, flags: tuple[str, ...]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    words = [sys.executable, str(STAND_IN), "--host", "127.0.0.1", "--port", str(port), "-m", "x", "-a", "coder-1.5b"]
    environment = {**os.environ, "LLAMA_API_KEY": ""}
    server = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)
    shell.children.append(server)
    assert server.stdout is not None and server.stdout.readline()
    shell.environment["LLAMA_CPP_BASE_URL"] = url
    done = shell.run("models", *(flag.format(url=url) for flag in flags), model="")
    assert (done.code, done.out.split()[-5:]) == (0, ["llamacpp/coder-1.5b", "4096", "1.5", "B", "text"])


@pytest.mark.plugin("setup")
@pytest.mark.parametrize("name", ["llamacpp", "ollama", "lmstudio"])
def test_models_of_stopped_server(shell: Shell, name: str) -> None:
    done = shell.run("models", name, "--base-url", "http://127.0.0.1:9/v1", model="")
    assert (done.code, done.out) == (1, "")
    assert len(done.err.splitlines()) == 1
    assert "http://127.0.0.1:9" in done.err or "127.0.0.1:9" in done.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LLAMA_CPP_MODEL", "gone.gguf"),
        ("LLAMA_CPP_MODEL", "."),
        ("LLAMA_CPP_MODEL", "short.gguf"),
        ("LLAMA_CPP_MODEL", "notes.gguf"),
        ("LLAMA_CPP_SERVER", "./gone"),
        ("LLAMA_CPP_SERVER", "./tiny.gguf"),
        ("LLAMA_CPP_SERVER", "."),
        ("LLAMA_CPP_SERVER", "/bin/true"),
    ],
)
def test_each_variable_fault_one_line(slow: Shell, name: str, value: str) -> None:
    (slow.cwd / "short.gguf").write_bytes(b"GG")
    (slow.cwd / "notes.gguf").write_text("hello, world")
    slow.environment[name] = value
    done = slow.run("--provider", "llamacpp", "--ephemeral", "hi", model="")
    assert done.code in (1, 2)
    lines = [line for line in done.err.splitlines() if not line.startswith("sagent: session")]
    assert len(lines) == 1
    assert name in lines[0] and Path(value).name in lines[0]
    assert "Traceback" not in done.err
