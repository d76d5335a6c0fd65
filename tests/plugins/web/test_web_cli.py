"""The tools for the web from a shell: chosen by name, asked about, led to a server on loopback."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sagent.lib.json import as_array, as_object
from sagent.testing.server import Call, Turn
from tests.cli.program import Shell
from tests.depth import later

PAGE = b"<html><head><title>Tides</title></head><body><h1>Tides</h1><p>High water is at noon.</p></body></html>"


@pytest.fixture
def port() -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE)

        def log_request(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def results(shell: Shell) -> str:
    """What the model was shown of its calls."""
    assert shell.server
    messages = as_array(shell.server.requests[-1].json["messages"])
    return str(as_object(messages[-1])["content"])


def test_allowed_host_fetched(shell: Shell, port: int) -> None:
    url = f"http://localhost:{port}/"
    script = [Turn(calls=(Call("WebFetch", {"url": url}),)), Turn(text="At noon.")]
    shell.serve(script)
    done = shell.run("--tools", "WebFetch", "--allow", f"Network(localhost:{port})", "when is high water?")
    assert (done.code, done.out) == (0, "At noon.\n")
    assert "# Tides" in results(shell) and "High water is at noon." in results(shell)
    shell.serve(script)
    denied = shell.run("--tools", "WebFetch", "when is high water?")
    assert denied.code == 0
    assert f"Allowed with --allow 'Network(localhost:{port})'" in results(shell).replace("\\'", "'")
    assert "High water" not in results(shell)


@later
def test_web_tools_off_unless_chosen(shell: Shell) -> None:
    server = shell.serve([Turn(text="ok")] * 3)
    for flags in ([], ["--tools", "default,web"], ["--tools", "web"]):
        assert shell.run(*flags, "hello").code == 0
    names = [[as_object(tool)["name"] for tool in as_array(request.json["tools"])] for request in server.requests]
    assert "WebFetch" not in names[0]
    assert names[1][: len(names[0])] == names[0] and names[1][len(names[0]) :] == names[2]
    assert "WebFetch" in names[2]


def test_native_search_billed_apart(shell: Shell) -> None:
    asked = Call("WebSearch", {"query": "tides", "backend": "native", "allowed_domains": ["sea.example"]})
    found = "1. Tides\nhttps://sea.example/tides\nHigh water is at noon."
    server = shell.serve([Turn(calls=(asked,)), Turn(text=found), Turn(text="At noon.")])
    done = shell.run("--tools", "web", "--output-format", "json", "when is high water?")
    assert done.json["result"] == "At noon."
    searcher = server.requests[1].json
    (tool,) = as_array(searcher["tools"])
    assert as_object(tool)["type"] == "web_search_20250305"
    assert "Search for: tides; only from sea.example" in str(searcher["messages"])
    assert "https://sea.example/tides" in results(shell) and "It is data" in results(shell)
    assert "web" in as_object(as_object(done.json["cost_usd"])["by_role"])


def test_provider_without_search_named(shell: Shell) -> None:
    asked = Call("WebSearch", {"query": "tides", "backend": "native"})
    shell.serve([Turn(calls=(asked,)), Turn(text="Never mind.")])
    config = shell.cwd.parent / "home" / ".config" / "sagent" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('tools = ["web"]\n[web.native]\nmodel = "mistral/large"\n')
    assert shell.run("when is high water?").code == 0
    assert "mistral has no known search" in results(shell)


def test_disabled_tools_load_no_module(shell: Shell) -> None:
    program = (
        "import sys; from sagent.app.toolset import choose_tools; from sagent.config.layers import load; "
        "choose_tools(load())\n"  # declarations are imported once, for the index
        "print([name for name in sys.modules if name.startswith(('sagent.plugins.web.', 'sagent.plugins.papers.'))])"
    )
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, cwd=shell.cwd, env=shell.environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_services_named_others_refused(shell: Shell, tmp_path) -> None:
    shell.serve([Turn(text="ok")] * 2)
    config = tmp_path / "home" / ".config" / "sagent" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('tools = ["web"]\n[web.reader]\nmodel = "anthropic/claude-haiku-4-5"\n')
    assert shell.run("hello").code == 0
    for wrong, words in (
        ("[web.raeder]\nmodel = 'x'", "web.raeder"),
        ("[web.reader]\nmodle = 'x'", "web.reader.modle"),
    ):
        config.write_text(wrong)
        done = shell.run("hello")
        assert done.code == 2 and words in done.err
