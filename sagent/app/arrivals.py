"""Tools that arrive while a session lasts."""

from collections.abc import Callable
from typing import Protocol

from sagent.lib.dataclass import dataclass
from sagent.tool import Tool


@dataclass(frozen=True, slots=True)
class Intake:
    """The way of a new tool into a session: `take` gives it to the agents. If it is `found` by a search, a message only
    names it; otherwise the message describes it."""

    take: Callable[[Tool], None]
    found: bool


class ToolSource(Protocol):
    """Source of tools for a session."""

    @property
    def adds(self) -> bool:
        """True if it may add tools while the session lasts."""
        ...

    def take_in(self, intake: Intake) -> None:
        """Add new tools to the session from now on; otherwise they wait for the next session."""
        ...
