"""The surface of a session: where its person is, and what parts of the agent add to what they have there."""

from collections.abc import Callable
from dataclasses import field
from typing import Literal, TypeAlias

from sagent.lib.dataclass import dataclass

Where: TypeAlias = Literal["", "terminal", "editor"]
"""Where the person is; "" where nobody is, or it is not known."""


@dataclass(slots=True)
class Surface:
    """Given to the agent that is put together, and read by whoever shows its session.

    `selections` return what the person has selected in another program since they were last asked, "" for nothing.
    """

    where: Where = ""
    selections: list[Callable[[], str]] = field(default_factory=list[Callable[[], str]])

    def selected(self) -> str:
        """Return what the person has selected elsewhere, for the model to read with the next prompt; "" for nothing."""
        return "\n\n".join(filter(None, (selection() for selection in self.selections)))
