"""The checks of a session, shared by its tools and its policy; made on demand."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.plugins.code.lsp.checks import Checks


class CodeAccess:
    """`checks` makes them on first access, which imports their modules; `begun` is None until then."""

    def __init__(self, make: "Callable[[], Checks]") -> None:
        self._make = make
        self.begun: Checks | None = None

    @property
    def checks(self) -> "Checks":
        if self.begun is None:
            self.begun = self._make()
        return self.begun

    async def aclose(self) -> None:
        """End servers and checks."""
        if self.begun is not None:
            await self.begun.aclose()
