"""Interface to a vendor's client for the SDK transport, and the parameters to open one."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from sagent.lib.dataclass import dataclass

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True)
class ClientParameters:
    """Parameters to open a client. `base_url` and `key` are None if the SDK finds its own; `connect` is seconds.

    With an `own` login, no value of the environment for the SDK's vendor may be sent: this may be another service.
    """

    via: str
    base_url: str | None
    key: str | None
    own: bool
    connect: float


class SdkClient(ABC):
    """One vendor's client. `send` gives a response of any status, its body unread or read whole."""

    @abstractmethod
    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> "httpx2.Response":
        """Make one request. A URL without a host is below the SDK's own address. May raise any of the SDK's
        exceptions."""

    def decode(self, response: "httpx2.Response") -> AsyncIterator[bytes]:
        """Yield the body as it comes, as the server of the API itself would have sent it."""
        return response.aiter_bytes()

    @abstractmethod
    async def aclose(self) -> None:
        """Close its connections."""
