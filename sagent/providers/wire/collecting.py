"""A transport that collects requests of several agents in order to send them together."""

from collections.abc import Container
from typing import Protocol

from sagent.providers.wire.exchange import Timeouts
from sagent.providers.wire.transport import Transport


class Collecting(Transport, Protocol):
    """A slower transport for the requests to some providers."""

    @property
    def providers(self) -> Container[str]:
        """The names of the providers that it is for."""
        ...

    @property
    def timeouts(self) -> Timeouts:
        """Time limits for an answer."""
        ...

    def expect(self, change: int) -> None:
        """Change the number of agents that may make a request."""
