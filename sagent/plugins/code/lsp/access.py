"""The checks of a session as its tools and its policy share them: there are none before one is needed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.plugins.code.lsp.checks import Checks


class CodeAccess:
    """`checks` makes them when it is first read, which loads what they need; `begun` is None until then."""

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
