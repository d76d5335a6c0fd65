"""The first minutes: no key, a key that is wrong and one that is right, a server on this machine."""

import json
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from console import Console

from sagent.testing.server import FakeProviderServer, Turn
from tests.depth import later

pytestmark = [pytest.mark.needs("tmux"), pytest.mark.plugin("setup")]

STARTED = """
import sys
from sagent.app import models as choice
from sagent.bin.cli import main
choice.LOCAL_SERVERS = {servers!r}
sys.argv[0] = "sagent"
sys.exit(main())
"""


def unset(console: Console, servers: dict[str, str] | None = None) -> None:
    """Have the program find no model by name, and no servers on this machine but these."""
    del console.environment["SAGENT_MODEL"]
    console.program = [sys.executable, "-c", STARTED.format(servers=servers or {})]


def place(console: Console, url: str) -> None:
    """Say in the settings where Anthropic is."""
    config = Path(console.environment["HOME"]) / ".config" / "sagent" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[providers.anthropic]\nbase_url = "{url}"\n')


class Door(BaseHTTPRequestHandler):
    """Lists one model for whoever has the key."""

    def do_GET(self) -> None:
        good = self.headers.get("x-api-key") == "the-right-key"
        error = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
        body = json.dumps({"data": [{"id": "claude-sonnet-4-6", "type": "model"}]} if good else error).encode()
        self.send_response(200 if good else 401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
        """Nothing."""


@pytest.fixture
def door() -> Iterator[str]:
    """The address of a provider that knows a key."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@later
def test_early_message_is_never_sent_by_itself(console: Console) -> None:
    unset(console)
    console.start(ready="1 Enter an API key")
    console.type("a message too early")
    console.until("› a message too early", "not sent")
    console.until("Tab: answer this", gone="not sent")
    console.keys("Tab")
    console.until("Esc leaves it")
    console.keys("1")
    console.until("❯ anthropic", "› a message too early")  # the next list takes keys at once
    console.keys("Escape")
    console.until("1 Enter an API key")
    console.keys("2")
    console.until("No server answers", "1 Enter an API key", "› a message too early")
    console.keys("Escape")
    console.until("no session", "/setup brings this list back", gone="Esc leaves it")
    console.keys("C-a")
    console.tmux("send-keys", "-l", "and ")
    console.until("› and a message too early")


@pytest.mark.plugin("logins")
def test_login_of_another_program_is_offered(console: Console) -> None:
    unset(console)
    file = Path(console.environment["HOME"]) / ".codex" / "auth.json"
    file.parent.mkdir()
    file.write_text('{"tokens": {"access_token": "a.e30.c", "refresh_token": "r", "account_id": "x"}}')
    console.start(ready="1 Use your ChatGPT plan")
    console.until("2 Enter an API key")


def test_login_guide_tests_and_keeps_key(console: Console, door: str) -> None:
    unset(console)
    place(console, door)
    console.start(ready="Welcome to sagent.")
    console.until("no session")
    console.type("/login anthropic")
    console.until("Key for anthropic (not shown):")
    console.type("a-wrong-key")
    console.until("The key was not saved", "invalid x-api-key")
    console.type("/login anthropic")
    console.until("(not shown): ")
    console.type("the-right-key")
    screen = console.until("The key works; it was saved in", "│ $0")
    assert "right-key" not in screen
    file = Path(console.environment["HOME"]) / ".config" / "sagent" / "config.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    console.keys("C-d")
    console.until("ended 0")
    console.leave()
    console.start(ready="│ $0")
    assert "Welcome" not in console.screen


def test_key_tested_at_environment_address(console: Console, door: str) -> None:
    unset(console)
    console.environment["ANTHROPIC_BASE_URL"] = door
    config = Path(console.environment["HOME"]) / ".config" / "sagent" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[providers.anthropic]\napi_key = "an-old-one"  # mine\n\n[providers.openai]\napi_key = ""\n')
    config.chmod(0o644)
    console.start("--model", "anthropic/claude-sonnet-4-6", ready="│ $0")
    console.type("/login anthropic")
    console.until("(not shown): ")
    console.type("the-right-key")
    console.until("The key works; it was saved in", "only")
    assert config.stat().st_mode & 0o777 == 0o600
    kept = tomllib.loads(config.read_text())["providers"]
    assert kept == {"anthropic": {"base_url": door, "api_key": "the-right-key"}, "openai": {"api_key": ""}}


@later
def test_login_resumes_the_conversation(console: Console) -> None:
    steps = [Turn(text="First."), Turn(text="Second.")]
    server = FakeProviderServer(steps, models=["claude-sonnet-4-6"], strict=False)
    url = console.stack.enter_context(server.in_thread()).url
    console.environment |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "old"}
    console.start("--model", "anthropic/claude-sonnet-4-6", ready="│ $0")
    console.type("remember this")
    console.until("First.")
    console.type("/login anthropic")
    console.until("(not shown): ")
    console.type("new")
    console.until("so the key could not be tested", "saved in")
    console.type("and this")
    console.until("Second.")
    sent = json.dumps(server.requests[-1].json["messages"])
    assert "remember this" in sent and "First." in sent


def test_keyring_keeps_key_where_there_is_one(console: Console, door: str, tmp_path: Path) -> None:
    unset(console)
    library = tmp_path / "library"
    library.mkdir()
    (library / "keyring.py").write_text(
        "import os\nclass Backend:\n    priority = 5\ndef get_keyring(): return Backend()\n"
        f"FILE = {str(tmp_path / 'kept')!r}\n"
        "def get_password(service, name): return open(FILE).read() if os.path.exists(FILE) else None\n"
        "def set_password(service, name, key): open(FILE, 'w').write(key)\n"
    )
    place(console, door)
    console.environment["PYTHONPATH"] += f":{library}"
    console.start(ready="Welcome to sagent.")
    console.type("/login anthropic")
    console.until("(not shown): ")
    console.type("the-right-key")
    console.until("Where should it be saved?", "❯ in the keyring")
    console.keys("Enter")
    console.until("it was saved in the keyring", "│ $0")
    assert (tmp_path / "kept").read_text() == "the-right-key"
    config = Path(console.environment["HOME"]) / ".config" / "sagent" / "config.toml"
    assert "the-right-key" not in config.read_text()


def test_local_server_is_found(console: Console) -> None:
    server = FakeProviderServer([Turn(text="From near.")], models=["local-model"], strict=False, require_key=False)
    address = console.stack.enter_context(server.in_thread()).url
    unset(console, {"Ollama": f"{address}/v1"})
    console.start(ready="local-model")
    console.type("hello")
    console.until("From near.")


def test_local_means_a_server_though_a_key_is_set(console: Console) -> None:
    server = FakeProviderServer([Turn(text="From near.")], models=["local-model"], strict=False, require_key=False)
    address = console.stack.enter_context(server.in_thread()).url
    unset(console, {"Ollama": f"{address}/v1"})
    console.environment |= {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": address}
    console.start("--provider", "local", ready="local-model │")
    console.type("/model anthropic/claude-sonnet-4-6")
    console.until("claude-sonnet-4-6 │")
    console.type("/login local")
    console.until("local-model │")


def test_other_model_named_without_session(console: Console) -> None:
    unset(console)
    server = console.stack.enter_context(FakeProviderServer([Turn(text="Here I am.")], require_key=False).in_thread())
    console.environment |= {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
    console.start("--model", "antropic/claude-x", ready="Did you mean anthropic")
    console.type("/model anthropic/claude-sonnet-4-6")
    console.until("claude-sonnet-4-6 │", gone="no session")
    console.type("hello")
    console.until("Here I am.")


@pytest.mark.parametrize(
    ("key", "code", "said"), [("C-c", 130, ""), ("C-d", 1, ""), ("nope", 2, "'nope' is not in the list: give a number")]
)
def test_login_can_be_left_at_once(console: Console, key: str, code: int, said: str) -> None:
    console.start("login", ready="number:")
    console.keys(key, *(["Enter"] if said else []))
    console.until(f"\nended {code}", said)
