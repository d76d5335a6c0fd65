"""The tools for the web where nobody has chosen tools: found by a search, so that requests do not grow."""

import os
from functools import partial
from importlib.util import find_spec

from sagent.app.builder import AgentBuilder
from sagent.plugin import ToolEntry
from sagent.plugins.web import WEB, WEB_TOOLS
from sagent.providers.access import Access, loopback
from sagent.providers.registry import row_called

_REACHING = ("WebFetch", "WebSearch", "Network")  # beginnings of rules by which a page may be read unasked


async def add(builder: AgentBuilder) -> None:
    """Offer the tools, unless a person has chosen others, each call would be refused, or the model is on this machine:
    it is small, and every tool costs it attention."""
    settings, model = builder.settings, builder.choice.model
    if settings.of(WEB_TOOLS) == "off":
        return
    row, source = row_called(model.provider, builder.choice.rows), getattr(model, "source", None)
    here = isinstance(source, Access) and loopback(source.base_url)
    if settings.tools is not None or not _may_reach(builder) or row is None or (here and row.family == "chat"):
        return
    if not any(entry.name == "find_tools" for entry in settings.plugins.every(ToolEntry)):
        return
    from sagent.plugins.web.fetch import WebFetch
    from sagent.plugins.web.native import SEARCHING
    from sagent.plugins.web.search import KEYLESS, NATIVE, WebSearch
    from sagent.plugins.web.services import is_configured
    from sagent.plugins.web.tool import access_for

    access = partial(access_for, builder)
    keyless = is_configured(settings.of(WEB), os.environ) or find_spec("ddgs") is not None
    found: list[WebSearch | WebFetch] = [WebFetch(access)]
    if keyless or (model.provider in SEARCHING and not here):
        found = [WebSearch(access, KEYLESS if keyless else NATIVE), *found]
    for tool in found:
        tool.unasked = True
    builder.tools = [*builder.tools, *found]


def _may_reach(builder: AgentBuilder) -> bool:
    """Return True if a page can be read: by a person's answer, by the mode, or by a rule."""
    settings = builder.settings
    named = any(rule.startswith(_REACHING) for rule in settings.allow)
    return builder.ask is not None or settings.permission_mode == "full" or named
