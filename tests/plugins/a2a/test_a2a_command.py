"""`sagent a2a serve` as a program: what it says, what a kill leaves behind, and how it ends."""

import json
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx2
import pytest

from sagent.errors import UsageError
from sagent.plugins.a2a.command import run_a2a
from sagent.plugins.hosting import listening
from sagent.testing.script import Call, Turn
from tests.cli.program import Shell
from tests.depth import later
from tests.forked import Forked

HEADERS = {"a2a-version": "1.0"}
Started = tuple[Forked, dict, httpx2.Client]


def start(shell: Shell, *argv: str) -> Started:
    model = ("--model", "anthropic/claude-sonnet-4-6")
    words = ("a2a", "serve", "--output-format", "json", *model, *argv)
    child = shell.stack.enter_context(Forked(shell.forks, *words, cwd=shell.cwd, environment=shell.environment))
    said = json.loads(child.stdout.readline())
    headers = {**HEADERS, "authorization": f"Bearer {said.get('token', '')}"}
    return child, said, httpx2.Client(base_url=f"{said['url']}/rest", headers=headers, timeout=30)


def send(http: httpx2.Client, text: str, name: str, **more: object) -> dict:
    message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": text}], **more}
    body = {"message": message, "configuration": {"returnImmediately": True}}
    answer = http.post("/message:send", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["task"]


def until(http: httpx2.Client, task: str, state: str) -> dict:
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        found = http.get(f"/tasks/{task}").json()
        if found["status"]["state"] == f"TASK_STATE_{state}":
            return found
        time.sleep(0.05)
    raise AssertionError(found)


@later
@pytest.mark.plugin("audit")
def test_killed_server_settles_tasks_from_log(shell: Shell) -> None:
    shell.environment["SAGENT_A2A_TOKEN"] = "a-token-of-my-own"
    slow = Turn("I begin.", calls=(Call("Bash", {"command": "touch began; sleep 300"}),))
    shell.serve([Turn("One."), slow, Turn("went on")])
    child, _, http = start(shell, "--permission-mode", "full")
    with http:
        done = send(http, "first", "m1")
        until(http, done["id"], "COMPLETED")
        cut = send(http, "second", "m2", contextId=done["contextId"])
        waits = send(http, "third", "m3", contextId=done["contextId"])
        while not (shell.cwd / "began").exists():
            time.sleep(0.05)
        child.kill()
        child.wait(60)
    child, _, http = start(shell)
    with http:
        first, second, third = (http.get(f"/tasks/{each['id']}").json() for each in (done, cut, waits))
        assert first["artifacts"][0]["parts"][0]["text"] == "One."
        assert second["status"]["state"] == third["status"]["state"] == "TASK_STATE_FAILED"
        assert "while it worked" in second["status"]["message"]["parts"][0]["text"]
        assert "I begin." in json.dumps(second["history"])
        assert "before it began" in third["status"]["message"]["parts"][0]["text"]
        gone = http.get(f"/tasks/{cut['id']}:subscribe")
        assert gone.status_code >= 400 and "TASK_STATE_FAILED" in gone.text
        assert len(http.get("/tasks").json()["tasks"]) == 3
        assert send(http, "second", "m2", contextId=done["contextId"])["id"] == cut["id"]
        on = send(http, "go on", "m4", contextId=done["contextId"])
        assert until(http, on["id"], "COMPLETED")["artifacts"][0]["parts"][0]["text"] == "went on"
        assert http.get(f"/tasks/{cut['id']}").json() == second
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 128 + signal.SIGTERM
    assert child.stderr is not None and child.stderr.read() == b""
    assert shell.run("verify", done["contextId"], model="").code == 0


class Posted(BaseHTTPRequestHandler):
    """A receiver of notifications; `got` are the tokens and states."""

    got: list[tuple[str, str]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.got.append((self.headers["x-a2a-notification-token"], body["task"]["status"]["state"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def posted() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The address of a receiver, and what was posted to it."""
    got: list[tuple[str, str]] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Receiver", (Posted,), {"got": got})) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", got
        server.shutdown()


def stopped(child: subprocess.Popen[bytes] | Forked, how: signal.Signals) -> None:
    child.send_signal(how)
    child.wait(60)


@later
def test_killed_server_still_notifies(shell: Shell, posted: tuple[str, list[tuple[str, str]]]) -> None:
    address, got = posted
    state = Path(shell.environment["HOME"], ".local/state/sagent")
    shell.environment["SAGENT_A2A_TOKEN"] = "a-token-of-my-own"
    shell.serve([Turn("I begin.", calls=(Call("Bash", {"command": "touch began; sleep 300"}),))])
    child, _, http = start(shell, "--permission-mode", "full", "--push-to", address)
    with http:
        task = send(http, "go", "m1")
        path = f"/tasks/{task['id']}/pushNotificationConfigs"
        config = {"url": f"http://{address}/", "id": "mine", "token": "t0ken"}
        assert http.post(path, json=config).status_code == 200
        while not (shell.cwd / "began").exists():
            time.sleep(0.05)
        stopped(child, signal.SIGKILL)
    before = len(got)
    (kept,) = state.glob("a2a/*.push.json")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    files = [file for file in state.rglob("*") if file.is_file() and "before" not in file.parts]  # the guard's copies
    having = [file for file in files if b"t0ken" in file.read_bytes()]
    assert having == [kept]

    child, _, http = start(shell)  # which may not reach that address any more
    with http:
        assert [each["token"] for each in http.get(path).json()["configs"]] == ["t0ken"]
    stopped(child, signal.SIGTERM)
    assert len(got) == before

    child, _, http = start(shell, "--push-to", address)
    with http:
        while len(got) == before:
            time.sleep(0.05)
    stopped(child, signal.SIGTERM)
    assert got[before:] == [("t0ken", "TASK_STATE_FAILED")]

    child, _, http = start(shell, "--push-to", address)  # it knows, and is sent nothing more
    with http:
        assert http.get(f"{path}/mine").json()["token"] == "t0ken"
        assert http.delete(f"{path}/mine").status_code < 300
        assert not kept.exists()
    stopped(child, signal.SIGTERM)
    assert len(got) == before + 1


@later
def test_team_answer_kept_over_restart(shell: Shell) -> None:
    (shell.cwd / "pair.toml").write_text(
        'name = "pair"\ndescription = "Writes and checks."\n'
        '[[roles]]\nname = "writer"\nprompt = "Write."\n[[roles]]\nname = "checker"\nprompt = "Check."\n'
    )
    shell.environment["SAGENT_A2A_TOKEN"] = "a-token-of-my-own"
    shell.serve([Turn("A draft."), Turn("Checked: fine.")])
    child, said, http = start(shell, "--team", "pair.toml")
    card = httpx2.get(f"{said['url']}/.well-known/agent-card.json").json()
    assert (card["name"], card["description"]) == ("pair", "Writes and checks.")
    assert card["skills"][0]["tags"] == ["writer", "checker"]
    with http:
        task = send(http, "Write it.", "m1")
        done = until(http, task["id"], "COMPLETED")
        assert done["artifacts"][-1]["parts"][0]["text"] == "Checked: fine."
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 128 + signal.SIGTERM
    child, _, http = start(shell, "--team", "pair.toml")
    with http:
        assert http.get(f"/tasks/{task['id']}").json() == done
    assert shell.run("a2a", "serve", "--team", "nobody", model="").code == 2


def test_invalid_flags_refused_at_once(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for flags, word in (
        (["--push-to", "http://x"], "--push-to"),
        (["--push-to", "localhost"], "HOST:PORT"),
        (["--url", "agent.example.org"], "--url"),
        (["--user", "a b"], "--user"),
        (["--port", "x"], "--port"),
        (["--output-format", "xml"], "--output-format"),
    ):
        done = shell.run("a2a", "serve", *flags, model="")
        assert done.code == 2 and word in done.err
    monkeypatch.setattr(listening, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"a2a\]"):
        run_a2a(["serve", "--cwd", str(Path.cwd())])
