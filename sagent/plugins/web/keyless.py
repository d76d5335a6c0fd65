"""A search without a key: DuckDuckGo through the library ddgs, in a separate process with a time limit."""

import json
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from sagent.errors import ToolError
from sagent.lib import isolated
from sagent.lib.json import as_array, as_object, as_str
from sagent.plugins.web.results import MAX_RESULTS, SearchResult

HOST = "html.duckduckgo.com"
_MAX_ANSWER_BYTES = 2_000_000


async def search_keyless(query: str, seconds: float, address: str = "") -> list[SearchResult]:
    """Search DuckDuckGo, at another `address` if given. Raises ToolError."""

    if find_spec("ddgs") is None:
        from sagent.lib.installed import install_command
        from sagent.plugins.web import PACKAGES

        raise ToolError(
            "No search service is configured. Set BRAVE_API_KEY, TAVILY_API_KEY, EXA_API_KEY or SEARXNG_URL, or "
            "install the "
            f"search without a key: {install_command('web', PACKAGES)}"
        )
    try:
        asked = json.dumps([query, address, seconds]).encode()
        done = await isolated.run_isolated(__name__, asked, seconds=seconds, max_bytes=_MAX_ANSWER_BYTES)
    except TimeoutError:
        raise ToolError(f"ddgs did not answer within {seconds:g} s.") from None
    if done is None or done.code:
        raise ToolError("ddgs could not be run.")
    answered = as_object(json.loads(done.output))
    if error := as_str(answered.get("error")):
        raise ToolError(f"ddgs found nothing: {error}")
    return [
        SearchResult(as_str(each.get("title")), as_str(each.get("href")), as_str(each.get("body")))
        for each in map(as_object, as_array(answered.get("found")))
    ]


class _Client(Protocol):
    def text(self, query: str, *, backend: str, max_results: int) -> list[dict[str, object]]: ...


class _Library(Protocol):
    """The part of ddgs that is used."""

    def __call__(self, *, timeout: int) -> _Client: ...


def answer() -> None:
    """Write the search results, or the error. Runs in the other process."""
    isolated.limit()
    query, address, seconds = json.loads(sys.stdin.buffer.read())
    library = cast("_Library", import_module("ddgs").DDGS)
    if address:
        import_module("ddgs.engines.duckduckgo").Duckduckgo.search_url = address
    try:
        found = library(timeout=max(1, int(seconds) - 1)).text(query, backend="duckduckgo", max_results=MAX_RESULTS)
    except Exception as error:
        sys.stdout.write(json.dumps({"error": " ".join(str(error).split())[:120] or type(error).__name__}))
        return
    sys.stdout.write(json.dumps({"found": found}))
