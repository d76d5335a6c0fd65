"""What a slash command works with, on a terminal and without one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.repl.opening import Opened

T = TypeVar("T")
Manner = Literal["theme", "vim"]


class CommandContext(Protocol):
    """A session and the person at it. Without a terminal nothing can be picked, and no display setting to change."""

    @property
    def settings(self) -> "Settings":
        """Those in force. Raises UsageError while they load."""
        ...

    @property
    def opened(self) -> "Opened":
        """The session. Raises UsageError while there is none."""
        ...

    def write(self, lines: Sequence[Line]) -> None:
        """Show lines to the person."""
        ...

    def say(self, text: str) -> None:
        """Show a sentence to the person."""
        ...

    async def pick(self, title: str, options: Sequence[Option[T]]) -> T | None:
        """Have the person choose; None for nothing. Raises UsageError where nobody can."""
        ...

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        """Have the person type a line. Raises UsageError where nobody can."""
        ...

    def prompt(self, text: str) -> None:
        """Send a message as if the person had typed it."""
        ...

    def rewound(self, text: str) -> None:
        """The conversation went back: put `text` into the input, to be said differently."""
        ...

    def copy(self, text: str) -> None:
        """Put a text into the person's clipboard."""
        ...

    def reopen(self, settings: "Settings") -> None:
        """Close the session and open another. Raises UsageError where that cannot be."""
        ...

    def set_display(self, what: Manner, value: str) -> None:
        """Change how the terminal looks ("theme") or is typed at ("vim": "on", "off", "" for the other)."""
        ...

    def leave(self) -> None:
        """End."""
        ...
