"""`%load_ext sagent` in a real kernel: what cells show, cells that begin with %%sagent, and interruption."""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.deleted import copied_without
from tests.depth import later
from tests.waiting import SECONDS

pytestmark = pytest.mark.skipif(find_spec("ipykernel") is None, reason="needs the extra notebook")
SET_UP = """
%load_ext sagent
import asyncio, math
from sagent import Agent, tool
from sagent.messages import ToolCall
from sagent.testing import ScriptedModel
from sagent.tools import Edit, Read, Write

def made(*script, **more):
    return Agent(ScriptedModel(*script), tools=[Write(), Edit(), Read()], **more)
"""
HOSTILE = "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)> [x](javascript:alert(3))"


class Kernel:
    """A kernel, in a folder of its own."""

    def __init__(self, folder: Path, path: str = "") -> None:
        from jupyter_client.manager import KernelManager

        self.manager: Any = KernelManager(kernel_name="python3")
        self.manager.kernel_spec.argv[0] = sys.executable
        self.manager.start_kernel(
            cwd=str(folder), env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": path}
        )
        self.client: Any = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=SECONDS)

    def run(self, code: str) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
        """Run a cell; return its status and its messages."""
        said: list[tuple[str, dict[str, Any]]] = []

        def hear(message: dict[str, Any]) -> None:
            said.append((message["msg_type"], message["content"]))

        reply = self.client.execute_interactive(code, timeout=SECONDS, output_hook=hear)
        return reply["content"]["status"], said

    def shown(self, code: str) -> dict[str, str]:
        """Run a cell; return its value, by media type."""
        status, said = self.run(code)
        assert status == "ok", said
        return next(content["data"] for kind, content in said if kind == "execute_result")

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    root = str(Path(__file__).parents[3])
    kernel = Kernel(tmp_path, root)
    yield kernel
    kernel.close()


class Elements(HTMLParser):
    """The elements of a page, with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.found}


def test_results_are_shown_with_calls_changes_and_costs(kernel: Kernel, tmp_path: Path) -> None:
    assert kernel.run(SET_UP)[0] == "ok"
    write = "ToolCall('1', 'Write', {'file_path': 'a.py', 'content': 'x = 1\\n'})"
    read = "ToolCall('2', 'Read', {'file_path': 'none.py'})"
    shown = kernel.shown(
        f"agent = made(('I write.', {write}, {read}), 'It is **done**.', 'Again.')\nawait agent.run('Go.')"
    )
    page = Elements(shown["text/html"])
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert {"strong", "ins", "details"} <= page.tags and "I write." in page.text and "+x = 1" in page.text
    assert "2 turns" in page.text and "scripted/scripted" in page.text
    assert shown["text/plain"].startswith("It is **done**.\n")

    status, said = kernel.run("%%sagent\nAnd now?\nOn two lines, 'quoted'.")
    [value] = [content["data"] for kind, content in said if kind == "execute_result"]
    page = Elements(value["text/html"])
    assert status == "ok" and "Again." in page.text and "I write." not in page.text  # an earlier run's
    assert kernel.shown("agent.messages[-2].content")["text/plain"] == repr("And now?\nOn two lines, 'quoted'.\n")
    assert "total" in Elements(kernel.shown("agent.ledger.cost()")["text/html"]).text


def test_text_of_models_and_tools_is_no_markup(kernel: Kernel) -> None:
    assert kernel.run(SET_UP)[0] == "ok"
    kernel.run(f"hostile = {HOSTILE!r} + '\\x1b]0;title\\x07'")
    write = "ToolCall('1', 'Write', {'file_path': '<b>.md', 'content': hostile})"
    shown = kernel.shown(
        f"agent = made((hostile, {write}, ToolCall('2', '<i>', {{}})), hostile)\nawait agent.run(hostile)"
    )
    page = Elements(shown["text/html"])
    assert not page.tags & {"script", "img", "b", "i", "a"} and "alert(1)" in page.text
    assert all(not name.startswith("on") for _, attributes in page.found for name in attributes)
    assert "\x1b" not in shown["text/plain"] + shown["text/html"]
    failed = kernel.shown("other = made('x' * 50)\nresult = await other.run('Go.')\nresult")
    assert Elements(failed["text/html"]).text.count("x" * 50) == 1


def test_interrupted_cell_ends_the_run_and_the_agent_goes_on(kernel: Kernel) -> None:
    assert kernel.run(SET_UP)[0] == "ok"
    kernel.run(
        "agent = made(('Hel', math.inf), 'Hello.')\nstop = agent.listen(lambda event: print(type(event).__name__))"
    )
    kernel.client.execute("await agent.run('Go.')")
    while "TextDelta" not in str(kernel.client.get_iopub_msg(timeout=SECONDS)["content"]):
        pass
    kernel.manager.interrupt_kernel()
    while (kind := kernel.client.get_iopub_msg(timeout=SECONDS))["msg_type"] != "execute_result":
        pass
    assert "Hel" in kind["content"]["data"]["text/plain"] and "interrupted" in kind["content"]["data"]["text/plain"]
    assert kernel.shown("(await agent.run('Go on.')).content")["text/plain"] == "'Hello.'"


def test_cell_without_its_agent_says_so(kernel: Kernel) -> None:
    assert kernel.run(SET_UP)[0] == "ok"
    status, said = kernel.run("%%sagent nobody\nGo.")
    assert status == "error"
    assert [content["evalue"] for kind, content in said if kind == "error"] == [
        'there is no agent nobody to ask: nobody = Agent("...") makes it'
    ]
    assert kernel.run("%unload_ext sagent")[0] == "ok"
    assert "text/html" not in kernel.shown("await made('Hello.').run('Go.')")


@later
def test_deleted_plugin_is_one_sentence(tmp_path: Path) -> None:
    copied_without("jupyter", tmp_path / "copy")
    kernel = Kernel(tmp_path, str(tmp_path / "copy"))
    try:
        status, said = kernel.run("%load_ext sagent\nimport sagent\nprint(sagent.__file__)")
    finally:
        kernel.close()
    text = "".join(content["text"] for kind, content in said if kind == "stream")
    sentence, place = text.splitlines()
    assert (status, sentence) == ("ok", "This needs the plugin jupyter, which is not loaded.")
    assert place.startswith(str(tmp_path / "copy"))
