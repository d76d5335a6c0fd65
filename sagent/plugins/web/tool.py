"""The common part of the tools for the web."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sagent.plugins.web.access import WebAccess


class WebTool:
    """A tool for the web. `access` is shared with the others; by default this one has its own."""

    deferrable = True

    def __init__(self, access: "WebAccess | None" = None) -> None:
        self._access = access

    @property
    def access(self) -> "WebAccess":
        if self._access is None:
            from sagent.plugins.web.access import WebAccess

            self._access = WebAccess()
        return self._access
