"""Highest cost of a provider's own tools (search, fetching, running code) inside one call."""

from collections.abc import Mapping

from sagent.cost.prices import MAX_CALLS, is_advisor
from sagent.lib.json import as_array, as_int, as_object, as_str

_BY_TOOL = {"web_search_20250305": "web_search", "web_fetch_20250910": ""}
"""Anthropic's tools that `max_uses` limits, with the fee of a use. Newer ones are called by code, without a limit."""
_BY_CALL = {
    "web_search": "web_search",
    "web_search_2025_08_26": "web_search",
    "web_search_preview": "web_search_preview",
    "web_search_preview_2025_03_11": "web_search_preview",
    "file_search": "file_search",
}
"""OpenAI's that `max_tool_calls` of the request bounds."""


def most_uses(options: Mapping[str, object]) -> Mapping[str, int]:
    """Return the most times that each fee may be due inside one call ("" is a use without one): each use is one more
    round, which reads everything again. Raises ValueError, with what to do, for a tool that may run without end."""
    uses: dict[str, int] = {}
    calls = as_int(options.get(MAX_CALLS)) or 0
    for tool in as_array(options.get("tools")):
        kind, own = _kind(tool), as_int(as_object(tool).get("max_uses")) or 0
        if kind in _BY_TOOL and own > 0:
            uses[_BY_TOOL[kind]] = uses.get(_BY_TOOL[kind], 0) + own
        elif kind in _BY_CALL and calls > 0:
            uses[_BY_CALL[kind]] = calls
        elif kind in _BY_TOOL or kind in _BY_CALL:
            needed = "give it max_uses" if kind in _BY_TOOL else f"give the option {MAX_CALLS} too"
            raise ValueError(f"nothing bounds how often {kind} runs: {needed}")
        elif not is_advisor(tool):
            raise ValueError(f"nothing bounds how often {kind or 'a tool of the provider'} runs inside a call")
    return uses


def _kind(tool: object) -> str:
    """Return the type of a tool; Google's have none: then the name of their only member."""
    fields = as_object(tool)
    return as_str(fields.get("type")) or next(iter(fields), "")
