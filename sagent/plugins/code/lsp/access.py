"""The checks of a session, shared by its tools and its policy; made on demand."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.plugins.code.lsp.checks import Checks


class CodeAccess:
    """`checks` makes them on first access, which imports their modules; `started` is None until then."""

    def __init__(self, make: "Callable[[], Checks]") -> None:
        self._make = make
        self.started: Checks | None = None

    @property
    def checks(self) -> "Checks":
        if self.started is None:
            self.started = self._make()
        return self.started

    async def aclose(self) -> None:
        """End servers and checks."""
        if self.started is not None:
            await self.started.aclose()
