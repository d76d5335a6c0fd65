"""Runs of the program with a model that writes its calls as text: one known to, and one that is seen to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sagent.testing.script import Listed, Turn
from sagent.testing.server import Call, FakeProviderServer
from tests.cli.program import Shell
from tests.depth import later

SMALL = [Listed("tiny-q4", window=16_384, owner="llamacpp", weights=1_777_088_000)]
FIX = Turn(text="I fix it.\n\ncalc.py\n```python\ndef add(a, b):\n    return a + b\n```\n")
RUN = Turn(text="```bash\ncat calc.py\n```\n")
BROKEN = "def add(a, b):\n    return a - b\n"


def _serve(shell: Shell, turns: list[Turn], models: list[Listed]) -> tuple[FakeProviderServer, tuple[str, ...]]:
    server = shell.serve(turns, models=models, require_key=False)
    return server, ("--base-url", f"{server.url}/v1", "--model", "qwen", "--permission-mode", "full")


def _bodies(server: FakeProviderServer) -> list[Mapping[str, Any]]:
    return [request.json for request in server.requests if request.method == "POST"]


def test_small_model_edits_named_file(shell: Shell) -> None:
    server, flags = _serve(shell, [FIX, RUN, Turn(text="Done.")], SMALL)
    (shell.cwd / "calc.py").write_text(BROKEN)
    done = shell.run(*flags, "Fix the function add in calc.py, which subtracts", model="")
    assert (done.code, done.out) == (0, "Done.\n")
    assert (shell.cwd / "calc.py").read_text() == BROKEN.replace("-", "+")
    first, second, third = _bodies(server)
    assert "tools" not in first and first["model"] == "tiny-q4"
    assert BROKEN in json.dumps(first).encode().decode("unicode_escape")
    assert len(json.dumps(first["messages"])) < 700 * 4
    for before, after in ((first, second), (second, third)):
        sent = after["messages"]
        assert isinstance(sent, list) and sent[: len(before["messages"])] == before["messages"]
    assert {str(each["role"]) for each in third["messages"]} == {"system", "user", "assistant"}


@later
def test_denied_file_is_not_enclosed(shell: Shell) -> None:
    server, flags = _serve(shell, [Turn(text="No.")], SMALL)
    (shell.cwd / "keys.txt").write_text("opensesame\n")
    (shell.cwd / "big.txt").write_text("x" * 9_000)
    (shell.cwd / "data.bin").write_bytes(bytes(range(256)))
    outside = Path(shell.environment["HOME"]).parent / "outside.txt"
    outside.write_text("foreign\n")
    (shell.cwd / "link.txt").symlink_to(outside)
    prompt = f"Compare keys.txt, big.txt, data.bin, link.txt, ../outside.txt and {outside}"
    done = shell.run(*flags[:-2], "--deny", "Read(keys.txt)", prompt, model="")
    assert done.code == 0
    sent = json.dumps(_bodies(server)[0])
    assert "opensesame" not in sent and "xxxx" not in sent and "foreign" not in sent and "```\\n\\u0000" not in sent


@later
def test_command_names_no_files(shell: Shell) -> None:
    server, flags = _serve(shell, [Turn(text="```bash\ncat calc.py\n```"), Turn(text="Yes.")], SMALL)
    (shell.cwd / "calc.py").write_text(BROKEN)
    (shell.cwd / "a.txt").write_text("marked\n")
    assert shell.run(*flags, "Run `python3 calc.py` and compare with `a.txt`", model="").code == 0
    first, second = map(json.dumps, _bodies(server))
    assert "return a - b" not in first and "marked" in first and "return a - b" in second


@later
def test_unseen_file_shown_before_overwrite(shell: Shell) -> None:
    server, flags = _serve(shell, [FIX, FIX, Turn(text="Done.")], SMALL)
    (shell.cwd / "calc.py").write_text("VERSION = 7\n" + BROKEN)
    done = shell.run(*flags, "The sum is wrong. Fix it", model="")
    assert done.code == 0
    assert "VERSION = 7" in json.dumps(_bodies(server)[1])
    assert (shell.cwd / "calc.py").read_text() == BROKEN.replace("-", "+")


@later
@pytest.mark.plugin("setup")
def test_big_model_native_until_text_call(shell: Shell) -> None:
    written = Turn(text='```json\n{"name": "Read", "arguments": {"file_path": "calc.py"}}\n```')
    turns = [Turn(text="", calls=(Call("Read", {"file_path": "calc.py"}),)), written, Turn(text="It subtracts.")]
    server, flags = _serve(shell, turns, [Listed("some-70b")])
    (shell.cwd / "calc.py").write_text(BROKEN)
    done = shell.run(*flags, "What does calc.py do?", model="")
    assert (done.code, done.out) == (0, "It subtracts.\n")
    first, second, third = _bodies(server)
    assert "tools" in first and "tools" in second and "tools" not in third
    assert "return a - b" in json.dumps(third["messages"]), "what was called natively is still there"
    listed = shell.run("models", model="")
    assert "openai-compatible/qwen" in listed.out and "text" in listed.out
    again = _serve(shell, [Turn(text="ok")], [Listed("some-70b")])
    assert "tools" in _body_of(shell, again), "another server is another place"
    assert shell.run("models", "--forget", "qwen", model="").code == 0
    assert shell.run("models", "--forget", "qwen", model="").code == 1


def _body_of(shell: Shell, place: tuple[FakeProviderServer, tuple[str, ...]]) -> Mapping[str, Any]:
    assert shell.run(*place[1], "hi", model="").code == 0
    return _bodies(place[0])[0]


@later
def test_repeated_block_runs_once(shell: Shell) -> None:
    again = Turn(text="```bash\necho x >> log.txt\n```\n\n" * 25, pieces=100)
    server, flags = _serve(shell, [again, again, Turn(text="Done.")], SMALL)
    assert shell.run(*flags, "Write x into log.txt twice", model="").code == 0
    assert (shell.cwd / "log.txt").read_text() == "x\nx\n"
    said = [each["content"] for each in _bodies(server)[-1]["messages"] if each["role"] == "assistant"]
    assert said == ["```bash\necho x >> log.txt\n```\n"] * 2
