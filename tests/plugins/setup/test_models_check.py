"""`sagent models --check`: our table against what a provider's listing says, over real HTTP."""

import json
import re
import threading
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sagent.cost.prices import PriceBook
from sagent.model import ModelInfo, ModelLimits
from sagent.plugins.setup.models import Finding, compare
from sagent.testing.server import Listed
from tests.cli.program import Shell
from tests.depth import later

PRICES = {"acme/big": {"input": 3, "output": 15, "cache_read": Decimal("0.3")}, "acme/gone": {"input": 1, "output": 1}}


def info(name: str, window: int | None = None, **usd: str) -> ModelInfo:
    return ModelInfo(name, ModelLimits(window), "", {bucket: Decimal(price) for bucket, price in usd.items()})


def test_figures_compared_if_both_known() -> None:
    listed = [info("big", input="3.000", output="12", cache_read="0.30"), info("big-fast", 4096), info("other")]
    assert list(compare("acme", listed, PriceBook(PRICES))) == [
        Finding("differs", "big", "$ output", "15", "12"),
        Finding("missing here", "big-fast", "", "-", "window 4096"),
        Finding("missing here", "other", "", "-", "-"),
        Finding("missing there", "gone", "", "-", "-"),
    ]


def test_missing_figure_reported() -> None:
    found = list(compare("acme", [info("big", 1000), info("gone")], PriceBook(PRICES)))
    assert found == [Finding("missing here", "big", "window", "-", "1000")]


def test_ids_match_by_prefix() -> None:
    listed = [ModelInfo("claude-opus-4-5-20251101", ModelLimits(200_000, 32_000))]
    found = list(compare("anthropic", listed, PriceBook()))
    assert [finding for finding in found if finding.kind != "missing there"] == [
        Finding("differs", "claude-opus-4-5-20251101", "output", "64000", "32000")
    ]
    assert "claude-opus-4-5" not in [finding.model for finding in found if finding.kind == "missing there"]


def listed(*rows: tuple[str, int, int]) -> list[Listed]:
    return [Listed(name, "", window, most) for name, window, most in rows]


def test_exit_code_tells_difference(shell: Shell) -> None:
    shell.serve([], models=listed(("claude-sonnet-4-6", 1_000_000, 64_000), ("claude-new-9", 5, 5)))
    same = shell.run("models", "--check", "anthropic", model="")
    assert same.code == 0, same.err
    assert re.search(r"^missing here +anthropic/claude-new-9 +- +- +window 5, output 5$", same.out, re.MULTILINE)
    assert "2 models listed; 0 figures differ" in same.out
    shell.serve([], models=listed(("claude-sonnet-4-6", 200_000, 64_000)))
    other = shell.run("models", "--check", model="")  # the only provider with a key
    assert other.code == 1
    assert re.search(r"^differs +anthropic/claude-sonnet-4-6 +window +1000000 +200000$", other.out, re.MULTILINE)


def test_missing_key_named(shell: Shell) -> None:
    named = shell.run("models", "--check", "groq", model="")
    assert (named.code, "GROQ_API_KEY" in named.err) == (2, True)
    none = shell.run("models", "--check", model="")
    assert (none.code, "key" in none.err) == (2, True)
    assert shell.run("models", "--check", "grok", model="").code == 2


def test_failed_listing_skips_provider(shell: Shell) -> None:
    shell.serve([], models=listed(("claude-sonnet-4-6", 1_000_000, 64_000)))
    shell.environment |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    done = shell.run("models", "--check", model="")
    assert done.code == 1
    assert "sagent: openai" in done.err
    assert "anthropic: 1 models listed" in done.out
    assert "Traceback" not in done.err


@pytest.fixture
def openrouter() -> Iterator[str]:
    """A listing with prices for each token, as text."""
    row = {
        "id": "anthropic/claude-sonnet-4.5",
        "name": "Claude",
        "context_length": 1_000_000,
        "top_provider": {"context_length": 1_000_000, "max_completion_tokens": 64_000},
        "pricing": {"prompt": "0.000009", "completion": "0.000015", "request": "0"},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"data": [row, {"id": "openrouter/auto", "pricing": {"prompt": "-1"}}]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/api/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def test_listed_prices_compared(shell: Shell, openrouter: str) -> None:
    shell.environment |= {"OPENROUTER_API_KEY": "k", "OPENROUTER_BASE_URL": openrouter}
    done = shell.run("models", "--check", "openrouter", model="")
    assert done.code == 1, done.err
    assert re.search(r"^differs .* \$ input +3 +9$", done.out, re.MULTILINE)
    assert "$ output" not in done.out, "the same on both sides"
    assert "openrouter/openrouter/auto" in done.out


def test_no_known_model_explained(shell: Shell) -> None:
    done = shell.run("models", "openai-compatible", model="")
    assert (done.code, len(done.out.splitlines())) == (0, 1)
    assert "sagent models openai-compatible --check" in done.err
    assert shell.run("models", "anthropic", model="").err == ""


def test_local_server_models_listed(shell: Shell) -> None:
    server = shell.serve([], models=("llama3", "qwen3:8b"))
    for argv, name in ((("ollama",), "ollama"), ((), "openai-compatible")):
        done = shell.run("models", *argv, "--check", "--base-url", server.url, model="")
        assert done.code == 0, done.err
        assert f"{name}/qwen3:8b" in done.out
        listed = shell.run("models", *argv, "--base-url", server.url, model="")
        assert (listed.code, listed.err) == (0, "")
        assert re.search(rf"^{name}/qwen3:8b +- +8.0 B +native$", listed.out, re.MULTILINE)


@later
def test_own_providers_listed(shell: Shell) -> None:
    mine = shell.cwd / "mine.toml"
    mine.write_text('[providers.acme]\nbase_url = "http://127.0.0.1:9"\n[prices."acme/big"]\ninput = 1\noutput = 2\n')
    done = shell.run("models", "--config", "mine.toml", model="")
    assert "acme/big" in done.out, done.err
    assert "google/gemini-" in done.out
    assert "google/claude-" not in done.out


@later
def test_default_list_short(shell: Shell) -> None:
    usual, one, everything = (shell.run("models", *argv, model="").out for argv in ((), ("openai",), ("--all",)))
    row = re.search(r"^anthropic/claude-sonnet-4-6 +1000000 +64000 +3 +15 +see, think$", usual, re.MULTILINE)
    assert row, usual
    assert len(usual.splitlines()) < 250 < len(everything.splitlines())
    assert len(re.findall("^openrouter/", usual, re.MULTILINE)) == 1, "a marketplace is shown where it is named"
    for listed in (usual, one):
        assert "gpt-5.5 " in listed and "gpt-4o-mini-tts" not in listed
    assert "openai/gpt-4o-mini " in one and "openai/gpt-4o-mini " not in usual
    assert "openai/gpt-4o-mini-tts" in everything and "openrouter/openai/" in everything
