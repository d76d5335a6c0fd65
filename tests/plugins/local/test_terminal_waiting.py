"""What a local server does before its first word, on terminals of every kind."""

import json
import sys
from typing import Any

import pytest

from tests.depth import later
from tests.repl.console import CHECKOUT, Console

STAND_IN = CHECKOUT / "tests" / "providers" / "llama_server.py"


def use_server(console: Console, **conduct: Any) -> None:
    """Have the session use a llama-server of its own, which behaves as told."""
    (console.cwd / "tiny.gguf").write_bytes(b"GGUF" + bytes(28))
    program = console.cwd.parent / "llama-server"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
    program.chmod(0o755)
    console.environment |= {
        "LLAMA_CPP_MODEL": str(console.cwd / "tiny.gguf"),
        "LLAMA_CPP_SERVER": str(program),
        "SAGENT_MODEL": "llamacpp/tiny",
        "STAND_IN": json.dumps(conduct),
    }


@later
@pytest.mark.plugin("plain")
def test_plain_lines_show_loading(console: Console) -> None:
    use_server(console, loading=3)
    console.environment["TERM"] = "dumb"
    console.start(ready=">")
    console.type("hello")
    screen = console.until("Hello from the stand-in.")
    assert screen.count("Loading tiny") == 1, "a line that stays is written once in a while"


@later
@pytest.mark.plugin("plain")
@pytest.mark.parametrize("term", ["dumb", ""])
def test_plain_lines_show_prompt_reading(console: Console, term: str) -> None:
    use_server(console, queue=1.5, reading={"steps": 4, "seconds": 0.4})
    console.environment["TERM"] = term
    console.start(ready=">")
    console.type("hello")
    screen = console.until("Hello from the stand-in.")
    places = [screen.index(text) for text in ("Waiting for the server", "Reading the prompt: ", "Hello from the stand")]
    assert places == sorted(places)
    assert screen.count("Reading the prompt: ") == 1


@later
def test_each_agent_shows_its_wait(console: Console) -> None:
    spawn = {"name": "AgentSpawn", "arguments": {"name": "worker", "prompt": "Say hi"}}
    script = [{"calls": [spawn]}, {"text": "Hi."}, {"text": "All done."}]
    use_server(console, script=script, reading={"steps": 8, "seconds": 0.4})
    console.start("--permission-mode", "edit")
    console.type("go")
    screen = console.until("worker", "Reading the prompt")
    row = next(line for line in screen.split("\n") if "worker" in line and "Reading the prompt" in line)
    assert "working" in row
    console.until("All done.", gone="Reading the prompt")
