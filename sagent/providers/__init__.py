"""Providers of models. A provider's module is imported when its name is first used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.providers.families.anthropic.provider import Anthropic
    from sagent.providers.families.chat.provider import ChatProvider, DashScope, MiniMax, Moonshot, OpenAICompatible
    from sagent.providers.families.google.provider import Google
    from sagent.providers.families.responses.provider import OpenAI, ResponsesProvider
    from sagent.providers.registry import infer, provider_named, row_named
    from sagent.providers.rows import Row, built_in, read_rows
    from sagent.providers.wire.exchange import Timeouts

__all__ = [
    "Anthropic", "ChatProvider", "DashScope", "Google", "MiniMax", "Moonshot", "OpenAI", "OpenAICompatible",
    "ResponsesProvider", "Row", "Timeouts", "built_in", "infer", "provider_named", "read_rows", "row_named",
]  # fmt: skip


_HOMES = {
    "Anthropic": "families.anthropic.provider",
    **dict.fromkeys(("ChatProvider", "DashScope", "MiniMax", "Moonshot", "OpenAICompatible"), "families.chat.provider"),
    "Google": "families.google.provider",
    **dict.fromkeys(("OpenAI", "ResponsesProvider"), "families.responses.provider"),
    **dict.fromkeys(("infer", "provider_named", "row_named"), "registry"),
    **dict.fromkeys(("Row", "built_in", "read_rows"), "rows"),
    "Timeouts": "wire.exchange",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        from sagent.lib.foreign import plugin_with

        if home := plugin_with(name):
            raise ImportError(
                f"cannot import name {name!r} from {__name__!r}. Here: from {home} import {name}", name=__name__
            )
        row = name.lower() if name[:1].isupper() else ""
        if row and row in import_module(f"{__name__}.rows").built_in():
            here = f'provider_named("{row}"), or Agent("{row}/MODEL")'
            raise ImportError(f"cannot import name {name!r} from {__name__!r}. Here: {here}", name=__name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
