"""What the models of every family are: a name, sizes, and calls that are prepared without a network."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import Protocol

from sagent.model import Delta, ModelLimits, Reply, Request
from sagent.providers.limits import limits_of
from sagent.providers.wire.exchange import Call, exchange
from sagent.providers.wire.transport import Transport


class Carrier(Protocol):
    """What a model needs of its provider to make a call."""

    transport: Transport

    @property
    def name(self) -> str:
        """The provider's name."""
        ...


class WireModel(ABC):
    """One model of one provider. `listed_as` and `known_as` name the rows of limits.json, and the one among them."""

    def __init__(self, carrier: Carrier, model_id: str, *, listed_as: str, known_as: str = "") -> None:
        self._carrier = carrier
        self._id = model_id
        self._limits = limits_of(listed_as, known_as or model_id)

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._carrier.name

    @property
    def id(self) -> str:
        """The model's id."""
        return self._id

    @property
    def limits(self) -> ModelLimits:
        """Sizes, where known."""
        return self._limits

    @abstractmethod
    def prepare(self, request: Request) -> Call:
        """The request as it goes out, and what will read its answer. No network."""

    def stream(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        """Make the call."""
        return exchange(self._carrier.transport, lambda: self.prepare(request))
