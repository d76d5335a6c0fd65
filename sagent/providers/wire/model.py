"""What the models of every family are: a name, sizes, and calls that are prepared without a network."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import ClassVar, Protocol

from sagent.errors import ModelError
from sagent.model import Delta, ModelLimits, Reply, Request, RequestDigest
from sagent.providers.limits import limits_of
from sagent.providers.wire.encoding import EncodedConversation, EncodingCache, schema_tokens
from sagent.providers.wire.exchange import Call, Timeouts, exchange
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.reply import ReplyReader, frozen
from sagent.providers.wire.transport import Transport


class Carrier(Protocol):
    """What a model needs of its provider to make a call."""

    transport: Transport
    timeouts: Timeouts

    @property
    def name(self) -> str:
        """The provider's name."""
        ...

    def headers(self) -> dict[str, str]:
        """What every request carries."""
        ...

    def origin(self, model_id: str) -> Origin:
        """Who is named in errors."""
        ...


class WireModel(ABC):
    """One model of one provider. `listed_as` and `known_as` name the rows of limits.json, and the one among them."""

    overhead: ClassVar[int]
    """Tokens of what frames messages and tools, and of what follows them."""
    unrecorded: ClassVar[tuple[str, ...]] = ("model", "stream")
    """Members of a body that are no parameters of the answer."""

    def __init__(self, carrier: Carrier, model_id: str, *, listed_as: str, known_as: str = "") -> None:
        self._carrier = carrier
        self.provider, self.id = carrier.name, model_id
        self._limits = limits_of(listed_as, known_as or model_id)

    @property
    def limits(self) -> ModelLimits:
        """Sizes, where known."""
        return self._limits

    def max_input_tokens(self, request: Request) -> int:
        """An upper bound of the input's tokens: its bytes, with images and pages of PDFs as the most they can be."""
        return self._overhead(request) + self._conversation(request).max_input_tokens()

    @abstractmethod
    def prepare(self, request: Request) -> Call:
        """The request as it goes out, and what will read its answer. No network."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        """Make the call; once more where the provider refuses something that can be left out."""
        while True:
            heard = False
            try:
                async with aclosing(exchange(self._carrier.transport, lambda: self.prepare(request))) as items:
                    async for item in items:
                        if not heard:
                            heard = True
                            self._heard()
                        yield item
            except ModelError as error:
                if heard or not self._learn(error, request):
                    raise
            else:
                return

    def _heard(self) -> None:  # noqa: B027 -- few models want to know
        """The provider has begun to answer."""

    def _learn(self, error: ModelError, request: Request) -> bool:
        """Whether an error names something that can be left out, so that the call may succeed when made again.

        May raise a better error.
        """
        del error, request
        return False

    @abstractmethod
    def _encodings(self, request: Request) -> EncodingCache:
        """Where the request's conversation is kept as this model may be shown it."""

    def _conversation(self, request: Request) -> EncodedConversation:
        return self._encodings(request).conversation(request)

    def _overhead(self, request: Request) -> int:
        return self.overhead + schema_tokens(request)

    def _call(
        self,
        request: Request,
        url: str,
        members: Mapping[str, object],
        reader: ReplyReader,
        notes: Sequence[str],
        headers: Mapping[str, str] | None = None,
    ) -> Call:
        """A call whose body ends with these members."""
        body = self._conversation(request).write(members, self._overhead(request))
        parameters = {name: value for name, value in members.items() if name not in self.unrecorded}
        accepted = {"content-type": "application/json", "accept": "text/event-stream"}
        return Call(
            url,
            {**self._carrier.headers(), **accepted, **(headers or {})},
            body,
            RequestDigest(body.sha256, body.size, self.id, frozen(parameters)),
            reader,
            self._carrier.origin(self.id),
            self._carrier.timeouts,
            tuple(notes),
        )
