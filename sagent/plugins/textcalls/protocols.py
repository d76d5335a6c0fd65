"""Choose the protocol of a model's calls, native or text, and keep a file of what each model was seen to use."""

import contextlib
import json
import time
from collections.abc import AsyncGenerator, Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from sagent.app.models import Choice
from sagent.engine.state import AgentState
from sagent.events import Failure
from sagent.lib.json import as_object, as_str
from sagent.lib.regular import read_given
from sagent.messages import Message
from sagent.model import Counting, Delta, Model, ModelInfo, ModelLimits, Reply, Request, Structuring, closing
from sagent.plugins.textcalls import TOOL_CALLS
from sagent.providers.listings import weights_in_name
from sagent.providers.registry import row_called

if TYPE_CHECKING:
    from sagent.plugins.textcalls.model import TextModel

Protocol: TypeAlias = Literal["native", "text"]

FILE = "protocols.json"
"""File in the state directory with the protocols that were learned."""
MAX_SMALL_WEIGHTS = 4_000_000_000
"""Models with at most this many parameters begin with the text protocol: docs/local-models.md."""


def is_small(model_id: str, weights: int | None) -> bool:
    """Return True for a model that is known to be too small for its provider's native calls."""
    known = weights or weights_in_name(model_id)
    return known is not None and known <= MAX_SMALL_WEIGHTS


def layer(choice: Choice) -> Callable[[Model], Model]:
    """Return a function that wraps a model for the protocol that it is known to use.

    A server may serve a model whose calls it does not know. A maker's own API knows its models' calls.
    """
    wish = choice.settings.of(TOOL_CALLS)
    learned = LearnedProtocols(None if choice.settings.ephemeral else choice.settings.state_dir / FILE)

    def adaptive(model: Model) -> Model:
        row = row_called(model.provider, choice.rows)
        if wish == "native" or (wish == "auto" and (row is None or row.family != "chat")):
            return model
        place = choice.place_of(model)
        name = _served_name(choice, place, model)
        small = is_small(name, choice.listings.weights(place, name))
        protocol: Protocol = (
            "text" if wish == "text" else learned.of(place, model.id) or ("text" if small else "native")
        )
        asked = (*(choice.settings.tools or ()), *(() if small else ("Edit", "advisor")))  # of no use to the small
        return AdaptiveModel(model, protocol, lambda: learned.keep(place, model.id, "text"), asked)

    return adaptive


def _served_name(choice: Choice, place: str, model: Model) -> str:
    """Return the model name that a server answers with: a llama-server with one model answers to any name."""
    loads = getattr(getattr(model, "source", None), "unloaded", None)
    if isinstance(loads, ModelInfo):
        return loads.id
    names = choice.listings.models(place)
    return names[0] if len(names) == 1 and choice.listings.server(place) == "llamacpp" else model.id


class LearnedProtocols:
    """The protocols that models were seen to use, by place (a provider and its address) and model, in a file.

    Without a file they are kept until the process ends. A file that cannot be read counts as empty.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._models: dict[str, Mapping[str, object]] | None = None

    def of(self, place: str, model_id: str) -> Protocol | None:
        """Return the protocol that a model was seen to use; None if none was seen."""
        found = as_str(self._read().get(f"{place} {model_id}", {}).get("protocol"))
        return found if found in ("native", "text") else None

    def every(self) -> Mapping[str, Protocol]:
        """Return the protocols by "PROVIDER ADDRESS MODEL"."""
        names = {name: as_str(entry.get("protocol")) for name, entry in self._read().items()}
        return {name: found for name, found in names.items() if found in ("native", "text")}

    def keep(self, place: str, model_id: str, protocol: Protocol) -> None:
        """Remember a model's protocol."""
        entry = {"protocol": protocol, "at": int(time.time())}
        self._change(lambda models: models.update({f"{place} {model_id}": entry}))

    def forget(self, model_id: str) -> int:
        """Forget a model's protocol, at every place. Returns how many entries were removed."""
        gone = list[str]()

        def forget(models: dict[str, Mapping[str, object]]) -> None:
            gone[:] = [name for name in models if model_id in (name.partition(" ")[2], split_place(name)[1])]
            for name in gone:
                del models[name]

        self._change(forget)
        return len(gone)

    def _change(self, change: Callable[[dict[str, Mapping[str, object]]], None]) -> None:
        """Change the entries as the file has them. Other processes wait until they are written."""
        if self._file is None:
            change(self._read())
            return
        from sagent.lib.filelock import rewrite

        def changed() -> bytes | None:
            models = self._read(again=True)
            before = dict(models)
            change(models)
            return None if models == before else json.dumps({"version": 1, "models": models}).encode()

        with contextlib.suppress(OSError):  # all of it can be learned again
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            rewrite(self._file, self._file.with_suffix(".lock"), changed)

    def _read(self, *, again: bool = False) -> dict[str, Mapping[str, object]]:
        """Return the entries. With `again`, read the file, which another process may have changed."""
        if self._models is None or (again and self._file is not None):
            data: object = None
            if self._file is not None:
                with contextlib.suppress(OSError, ValueError, RecursionError):
                    data = json.loads(read_given(self._file))
            found = as_object(as_object(data).get("models"))
            self._models = {name: as_object(entry) for name, entry in found.items()}
        return self._models


def split_place(name: str) -> tuple[str, str]:
    """Return the address and the model in "PROVIDER ADDRESS MODEL"; a model's name may have spaces."""
    address, _, model = name.partition(" ")[2].partition(" ")
    return address, model


class AdaptiveModel:
    """A model that begins in one protocol, and changes to text with its first call that comes as text."""

    def __init__(
        self, model: Model, protocol: Protocol, learned: Callable[[], None], described: Container[str] = ()
    ) -> None:
        """`learned` is called when the protocol changes. `described` are tools for the text protocol to describe."""
        self._model, self._learned, self._asked = model, learned, described
        self._text: TextModel | None = None
        self.protocol: Protocol = protocol
        self._sent: tuple[tuple[object, ...], Protocol] = (), protocol  # the last request, and how it was sent
        self.provider, self.id = model.provider, model.id

    @property
    def source(self) -> object:
        return getattr(self._model, "source", self._model)

    @property
    def limits(self) -> ModelLimits:
        return self._model.limits

    def protocol_of(self, request: Request) -> Protocol:
        """Return the protocol in which a request is or was sent. The last request may have changed the protocol."""
        return self._sent[1] if self._sent[0] == _name_of(request) else self.protocol

    def _in(self, protocol: Protocol) -> Model:
        if protocol == "native":
            return self._model
        if self._text is None:
            from sagent.plugins.textcalls.model import TextModel

            self._text = TextModel(self._model, self._asked)
        return self._text

    def written(self, request: Request) -> Request:
        """Return a request as it goes out in the text protocol, or as it is."""
        spoken = self._in(self.protocol)
        return request if spoken is self._model else cast("TextModel", spoken).written(request)

    def wrote_call_as_text(self) -> None:
        """Speak text from now on, and let it be remembered."""
        if self.protocol == "native":
            self.protocol = "text"
            self._learned()

    async def admit(
        self, state: AgentState, prompt: Message | None, read: Sequence[Message] | Failure
    ) -> Sequence[Message] | Failure:
        """Return the messages that an agent reads, with the files that its prompt names."""
        from sagent.plugins.textcalls import enclosing

        return await enclosing.admit(state, prompt, read)

    def max_input_tokens(self, request: Request) -> int:
        return self._in(self.protocol_of(request)).max_input_tokens(request)

    async def count_tokens(self, request: Request) -> int | None:
        spoken = self._in(self.protocol_of(request))
        return await spoken.count_tokens(request) if isinstance(spoken, Counting) else None

    def structures(self, request: Request) -> bool:
        spoken = self._in(self.protocol)
        return isinstance(spoken, Structuring) and spoken.structures(request)

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        self._sent = _name_of(request), self.protocol
        async with closing(self._in(self.protocol).stream(request)) as items:
            async for item in items:
                yield item

    def __getattr__(self, name: str) -> object:
        return getattr(self._model, name)


def _name_of(request: Request) -> tuple[object, ...]:
    """Return a key that tells a request from others of its conversation."""
    return request.conversation, len(request.messages), *request.messages[-1:]
