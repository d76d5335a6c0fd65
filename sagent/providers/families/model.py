"""What the models of every family are: a name, sizes, and calls that are prepared without a network."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import ClassVar, Generic, TypeAlias, TypeVar

from sagent.cost.prices import keeps_an_hour
from sagent.errors import ModelError
from sagent.lib.json import EMPTY, as_int, as_object
from sagent.model import Delta, ModelLimits, Reply, Request, RequestDigest
from sagent.providers.families.endpoint import Endpoint
from sagent.providers.limits import limits_of
from sagent.providers.wire.encoding import EncodedConversation, EncodingCache, schema_tokens
from sagent.providers.wire.exchange import Call, Timeouts, exchange, fetch
from sagent.providers.wire.reply import ReplyReader, count_of, frozen

Counted: TypeAlias = tuple[str, Mapping[str, str], Sequence[bytes], str]
"""A URL, headers beyond the provider's, a body, and the member of the answer that is the count."""
_COUNTING = Timeouts(stall=5.0)
E_co = TypeVar("E_co", bound=Endpoint, covariant=True)


class WireModel(ABC, Generic[E_co]):
    """One model of one provider. `listed_as` and `known_as` name the rows of limits.json, and the one among them."""

    overhead: ClassVar[int]
    """Tokens of what frames messages and tools, and of what follows them."""
    unrecorded: ClassVar[tuple[str, ...]] = ("model", "stream")
    """Members of a body that are no parameters of the answer."""
    reader: ClassVar[type[ReplyReader]]

    def __init__(self, provider: E_co, model_id: str, *, listed_as: str = "", known_as: str = "") -> None:
        self._provider = provider
        self.provider, self.id = provider.name, model_id
        self._limits = limits_of(listed_as or provider.name, known_as or model_id)

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
                async with aclosing(exchange(self._provider.transport, lambda: self.prepare(request))) as items:
                    async for item in items:
                        if not heard:
                            heard = True
                            self._heard()
                        yield item
            except ModelError as error:
                if heard or error.sent or not self._learn(error, request):
                    raise
            else:
                return

    async def count_tokens(self, request: Request) -> int | None:
        """The provider's own count, with something on top: Anthropic calls its own an estimate, and it is asked without
        sampling, reasoning and identifiers. Where it gives none it is not asked again, unless that may pass."""
        provider, asked = self._provider, self._counting(request) if self._provider.counts else None
        if asked is None:
            return None
        url, headers, body, name = asked
        origin, sent = provider.origin(self.id), {**provider.headers(), "content-type": "application/json", **headers}
        try:
            found = count_of(as_object(await fetch(provider.transport, url, sent, origin, _COUNTING, body)).get(name))
        except ModelError as error:
            provider.counts = error.kind in ("rate_limit", "overloaded", "server")
            return None
        provider.counts = found > 0
        return found + found // 50 + 256 if found else None

    def _counting(self, request: Request) -> Counted | None:
        """How the provider is asked for its count; None where it has none."""
        del request
        return None

    def _heard(self) -> None:
        """The provider has begun to answer."""

    def _learn(self, error: ModelError, request: Request) -> bool:
        """Whether an error names something that can be left out, so that the call may succeed when made again.

        May raise a better error.
        """
        del error, request
        return False

    def _encodings(self, request: Request) -> EncodingCache:
        """Where the request's conversation is kept as this model may be shown it."""
        del request
        return self._provider.encodings

    def _conversation(self, request: Request) -> EncodedConversation:
        return self._encodings(request).conversation(request)

    def _overhead(self, request: Request) -> int:
        return self.overhead + schema_tokens(request)

    def _call(
        self,
        request: Request,
        url: str,
        members: Mapping[str, object],
        notes: Sequence[str],
        max_output: object,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, object] = EMPTY,
    ) -> Call:
        """A call whose body ends with these members, one of which is the output limit. `parameters` are worth reading
        too, and are elsewhere in it."""
        origin = self._provider.origin(self.id)
        body = self._conversation(request).write(members, self._overhead(request))
        reader = self.reader(origin, self._provider.encodings.family)
        reader.hourly = keeps_an_hour(request.options)
        said = {name: value for name, value in members.items() if name not in self.unrecorded}
        accepted = {"content-type": "application/json", "accept": "text/event-stream"}
        return Call(
            url,
            {**self._provider.headers(), **accepted, **(headers or {})},
            body,
            RequestDigest(body.sha256, body.size, self.id, frozen({**said, **parameters})),
            reader,
            origin,
            self._provider.timeouts,
            tuple(notes),
            as_int(max_output),
        )
