"""Agents behind web front ends: the streams of the Vercel AI SDK and of AG-UI. Needs sagent[serve]."""

from typing import TYPE_CHECKING

from sagent.plugin import Plugin

if TYPE_CHECKING:
    from sagent.plugins.frontends.agui import AGUIEvents as AGUIEvents
    from sagent.plugins.frontends.requests import AGUIRequest as AGUIRequest
    from sagent.plugins.frontends.requests import UIRequest as UIRequest
    from sagent.plugins.frontends.response import RunResponse as RunResponse
    from sagent.plugins.frontends.response import respond as respond
    from sagent.plugins.frontends.ui import UIChunks as UIChunks

__all__ = ["AGUIEvents", "AGUIRequest", "RunResponse", "UIChunks", "UIRequest", "plugin", "respond"]

PACKAGES = "starlette uvicorn"
"""Packages of the extra serve, which `respond` needs."""
plugin = Plugin(
    "frontends", "agents behind web front ends that speak the AI SDK's protocol or AG-UI", needs=("pauses",)
)


def __getattr__(name: str) -> object:
    match name:
        case "UIChunks":
            from sagent.plugins.frontends.ui import UIChunks

            return UIChunks
        case "AGUIEvents":
            from sagent.plugins.frontends.agui import AGUIEvents

            return AGUIEvents
        case "AGUIRequest" | "UIRequest":
            from sagent.plugins.frontends import requests

            return getattr(requests, name)
        case "RunResponse" | "respond":
            try:
                from sagent.plugins.frontends import response
            except ModuleNotFoundError as error:
                if not (error.name or "").startswith("starlette"):
                    raise
                from sagent.errors import UsageError
                from sagent.lib.installed import install_command

                raise UsageError(f"A web front end needs packages: {install_command('serve', PACKAGES)}") from None
            return getattr(response, name)
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
