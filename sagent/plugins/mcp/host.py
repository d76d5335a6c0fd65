"""The host of MCP servers in a session: a sandbox for programs, its directories, and a person to ask."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.sandbox import Confined
from sagent.tools.ask import Answerer

if TYPE_CHECKING:
    from mcp.types import Implementation

    from sagent.sandbox.profile import Need

Confine: TypeAlias = Callable[[Sequence[str], "Sequence[Need]"], Awaitable[Confined]]
"""The sandboxing of a server's command line, with its grants."""


async def unconfined(argv: Sequence[str], needs: "Sequence[Need]") -> Confined:
    """Run a program in no sandbox."""
    del needs
    return Confined(argv)


@dataclass(frozen=True, slots=True)
class Host:
    """`state` is the directory of logins and of approved definitions, `roots` what servers of the earlier protocol are
    given as the directories of the work, `answer` puts their questions to a person: without it all are declined."""

    confine: Confine = unconfined
    state: Path | None = None
    roots: tuple[Path, ...] = ()
    answer: Answerer | None = None


def client_info() -> "Implementation":
    """Return the name and version that servers are told."""
    from mcp.types import Implementation

    from sagent.version import __version__

    return Implementation(name="sagent", version=__version__)
