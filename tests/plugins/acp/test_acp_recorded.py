"""What clients of others have sent in a session each, recorded and sent again: the same comes of it without them.

$CWD and $SESSION stand for what differs. A request is sent when those before it are answered, an answer when the agent
has asked, and a cancel when the command runs that it is to stop.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from sagent.plugins.acp.command import AcpHost
from sagent.plugins.acp.server import Server
from sagent.testing.script import Call, Turn
from sagent.testing.server import FakeProviderServer
from tests.waiting import until

RECORDED = sorted(Path(__file__).with_name("recorded").glob("*.jsonl"))
SCRIPT = [
    Turn("I write.", calls=(Call("Write", {"file_path": "a.txt", "content": "hello\n"}),)),
    Turn("Done."),
    Turn("I wait.", calls=(Call("Bash", {"command": "sleep 60"}),)),
]


class Replay:
    """A client of recorded lines. Files are written by it as they were then."""

    def __init__(self, cwd: Path) -> None:
        self._cwd, self._session = cwd, ""
        self.answers: dict[object, dict[str, Any]] = {}
        self._asked: list[dict[str, Any]] = []
        self._running = False
        self.server = Server(
            AcpHost({"model": "anthropic/claude-sonnet-4-6", "permission_mode": "ask", "sandbox": "off"}), self._take
        )

    def _take(self, line: bytes) -> None:
        message = json.loads(line)
        if "method" not in message:
            assert message["id"] not in self.answers
            self.answers[message["id"]] = message
            self._session = message.get("result", {}).get("sessionId", self._session)
        elif "id" in message:
            self._asked.append(message)
            if message["method"] == "fs/write_text_file":
                Path(message["params"]["path"]).write_text(message["params"]["content"])
        else:
            update = message.get("params", {}).get("update", {})
            self._running |= update.get("kind") == "execute"

    async def send(self, lines: list[str]) -> None:
        open_: set[object] = set()
        for line in lines:
            message = json.loads(line)
            match message:
                case {"method": "session/cancel"}:
                    await until(lambda: self._running, "the command")
                case {"method": _, "id": number}:
                    await until(lambda: open_ <= self.answers.keys(), "the answers")
                    open_.add(number)
                case {"id": None}:
                    pass  # what a client has to say against an update that it does not know
                case _:
                    await until(lambda: self._asked, "a request of the agent")
                    message["id"] = self._asked.pop(0)["id"]
            text = json.dumps(message).replace("$CWD", str(self._cwd)).replace("$SESSION", self._session)
            self.server.connection.receive(text.encode())
        await until(lambda: open_ <= self.answers.keys(), "the answers")


@pytest.mark.costly
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
async def test_recorded_session_reproduces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: Path) -> None:
    lines = file.read_text().splitlines()
    async with FakeProviderServer(SCRIPT, repeat_last=True) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        replay = Replay(tmp_path)
        try:
            await asyncio.wait_for(replay.send(lines), 60)
        finally:
            await replay.server.aclose()
    assert tmp_path.joinpath("a.txt").read_text() == "hello\n"
    prompts = [message["id"] for message in map(json.loads, lines) if message.get("method") == "session/prompt"]
    ends = [replay.answers[number]["result"]["stopReason"] for number in prompts]
    assert ends == ["end_turn", "cancelled"][: len(prompts)]
    unknown = [message["id"] for message in map(json.loads, lines) if message.get("method", "").startswith("_")]
    errors = {number: each["error"]["code"] for number, each in replay.answers.items() if "error" in each}
    assert errors == dict.fromkeys(unknown, -32601)


def test_one_recording_per_client() -> None:
    clients = ["acpx", "agent-shell", "python-sdk", "toad", "typescript-sdk"]
    assert [file.stem.rpartition("-")[0] for file in RECORDED] == clients
