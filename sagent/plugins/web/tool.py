"""The common part of the tools for the web."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.app.builder import AgentBuilder
    from sagent.plugins.web.access import WebAccess


class WebTool:
    """A tool for the web. `access` is shared with the others, and may be made at the first use; by default this one has
    its own. `unasked`: nobody chose it, so it is not sent but found."""

    deferrable = True
    unasked = False

    def __init__(self, access: "WebAccess | Callable[[], WebAccess] | None" = None) -> None:
        self._access = access

    @property
    def access(self) -> "WebAccess":
        if self._access is None:
            from sagent.plugins.web.access import WebAccess

            self._access = WebAccess()
        elif callable(self._access):
            self._access = self._access()
        return self._access


def access_for(builder: "AgentBuilder") -> "WebAccess":
    """Return the web access that the tools of an agent share."""
    from sagent.plugins.web.access import access_of

    return builder.once(access_of)
