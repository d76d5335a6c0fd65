"""The tools for the web where nobody has chosen tools: found before they are called, and of no bytes in a request."""

from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from sagent.lib.json import as_array, as_object, as_str
from sagent.testing.server import Call, Received, Turn
from tests.cli.program import Shell

pytestmark = pytest.mark.plugin("toolsearch")
FULL = ("--permission-mode", "full")


def names(received: Received) -> list[str]:
    return [as_str(as_object(tool)["name"]) for tool in as_array(received.json["tools"])]


def first(shell: Shell, *flags: str, model: str = "anthropic/claude-sonnet-4-6") -> Received:
    """The first request of a run."""
    server = shell.serve([Turn(text="done")])
    done = shell.run(*flags, "what is new in ripgrep?", model=model)
    assert done.code == 0, done.err
    return server.requests[0]


def test_unasked_tools_add_no_bytes(shell: Shell) -> None:
    before, after = (first(shell, *FULL, "--web-tools", each) for each in ("off", "auto"))
    assert "find_tools" in names(after) and "find_tools" not in names(before)
    assert not {"WebFetch", "WebSearch"} & {*names(after), *names(before)}
    assert len(after.body) <= len(before.body)


@pytest.mark.parametrize(
    "flags",
    [(), (*FULL, "--tools", "default"), (*FULL, "--web-tools", "off"), ("--permission-mode", "ask")],
    ids=["nobody to ask", "chosen", "off", "mode ask"],
)
def test_they_are_not_offered(flags: Sequence[str], shell: Shell) -> None:
    assert "find_tools" not in names(first(shell, *flags))


def test_rule_that_lets_a_page_be_read_offers(shell: Shell) -> None:
    assert "find_tools" in names(first(shell, "--allow", "Network(docs.python.org)"))


def test_project_may_turn_them_off_alone(shell: Shell) -> None:
    file = shell.cwd / ".sagent" / "config.toml"
    file.parent.mkdir()
    file.write_text('web_tools = "off"\n')
    assert "find_tools" not in names(first(shell, *FULL))
    file.write_text('web_tools = "auto"\n')
    shell.environment["SAGENT_WEB_TOOLS"] = "off"
    assert "find_tools" not in names(first(shell, *FULL))


def test_model_on_this_machine_gets_none(shell: Shell) -> None:
    server = shell.serve([Turn(text="done")])
    flags = ("--base-url", f"{server.url}/v1", "--provider", "openai-compatible")
    done = shell.run(*flags, *FULL, "what is new in ripgrep?", model="qwen3:8b")
    assert done.code == 0, done.err
    tools = as_array(server.requests[-1].json["tools"])
    sent = [as_str(as_object(as_object(tool)["function"])["name"]) for tool in tools]
    assert "Read" in sent and not {"find_tools", "WebFetch"} & {*sent}


def test_found_tool_reads_a_page(shell: Shell) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/plain")
            self.end_headers()
            self.wfile.write(b"High water is at noon.")

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 -- as there
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        url = f"http://localhost:{site.server_port}/"
        server = shell.serve(
            [
                Turn(calls=(Call("find_tools", {"query": "read a page of the web"}),)),
                Turn(calls=(Call("call_tool", {"name": "WebFetch", "arguments": {"url": url}}),)),
                Turn(text="At noon."),
            ]
        )
        done = shell.run("--allow", f"Network(localhost:{site.server_port})", "when is high water?")
        site.shutdown()
    assert (done.code, done.out.strip()) == (0, "At noon."), done.err
    assert "WebFetch: Fetch a URL" in str(server.requests[1].json)
    assert "High water is at noon." in str(server.requests[2].json)
