"""Which provider and model: what was asked for, else what there is a key for, else what answers on this machine."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from sagent.config import Settings
from sagent.errors import ModelError, UsageError
from sagent.model import Model, Provider
from sagent.providers.access import either
from sagent.providers.exchange import Timeouts
from sagent.providers.registry import has_key, infer, provider_named, row_named
from sagent.providers.rows import Row, built_in

LOCAL_SERVERS: Mapping[str, str] = {
    "Ollama": "http://127.0.0.1:11434/v1",
    "LM Studio": "http://127.0.0.1:1234/v1",
    "llama.cpp": "http://127.0.0.1:8080/v1",
}
PATIENCE = 0.5  # seconds for a server on this machine to answer

NOTHING = """No model was named, no provider's key is set, and no server answers on this machine.

Set one of these variables, then try again:
{variables}
or start {servers} on its usual port,
or name a server:  sagent --base-url http://HOST:PORT/v1 --model NAME "..."

To see it work without any of them:  sagent demo"""


@dataclass(slots=True)
class Choice:
    """The model chosen, and how to get another while the program runs. Providers are opened once each."""

    settings: Settings
    model: Model = field(init=False)
    opened: dict[tuple[str, str], Provider] = field(default_factory=dict[tuple[str, str], Provider])

    def resolve(self, name: str) -> Model:
        """A model by "provider/id" or "id". Raises UsageError, for a provider that is not allowed too."""
        provider, model_id = split_model(name, None, _rows(self.settings))
        if provider is None:
            head, slash, rest = name.partition("/")
            if slash and rest:
                row_named(head, _rows(self.settings))  # says which providers there are
            raise UsageError(
                f"{name!r} does not tell its provider. Say provider/model, as in openai/gpt-5.5, or give --provider."
            )
        return self.provider(provider).model(model_id)

    def provider(self, name: str, *, base_url: str | None = None, key: str | None = None) -> Provider:
        """A provider by name, opened on first use."""
        row = row_named(name, _rows(self.settings))
        _check_allowed(self.settings, row.name)
        place = (row.name, base_url or "")
        if place not in self.opened:
            self.opened[place] = self._open(row, base_url, key)
        return self.opened[place]

    def _open(self, row: Row, base_url: str | None, key: str | None) -> Provider:
        custom = self.settings.providers.get(row.name)
        if custom is not None and not base_url:
            base_url, key = custom.base_url, key or custom.api_key or None
        timeouts = Timeouts(stall=self.settings.stall_seconds, reasoning_stall=self.settings.reasoning_stall_seconds)
        auth = self.settings.auth if "auth" in self.settings.origins else None
        return provider_named(
            row.name, key=key, base_url=base_url, auth=auth, rows=_rows(self.settings), timeouts=timeouts
        )

    async def aclose(self) -> None:
        """Close every provider."""
        for provider in self.opened.values():
            await provider.aclose()


async def choose_model(settings: Settings, earlier: str = "") -> Choice:
    """The model to begin with; `earlier` is the one a resumed session used last. Raises UsageError."""
    choice = Choice(settings)
    for allowed in settings.allow_providers or ():
        row_named(allowed, _rows(settings))
    name = settings.model or ("" if settings.provider or settings.base_url else earlier)
    if name:
        choice.model = _named(choice, name)
    elif settings.provider or settings.base_url:
        choice.model = await _default_of(choice)
    else:
        choice.model = _first_with_key(choice) or await _local(choice)
    return choice


def split_model(name: str, provider: str | None, rows: Mapping[str, Row]) -> tuple[str | None, str]:
    """The provider and the id in "provider/model" or "model"; an id may have slashes of its own."""
    head, slash, rest = name.partition("/")
    if slash and rest and (head.lower() == provider or (provider is None and head.lower() in {**built_in(), **rows})):
        return head.lower(), rest
    return provider or infer(name, rows), name


def _named(choice: Choice, name: str) -> Model:
    settings = choice.settings
    provider = settings.provider and settings.provider.lower()
    provider, model_id = split_model(name, provider, _rows(settings))
    if provider is None and settings.base_url:
        provider = "openai-compatible"  # the protocol nearly every server speaks
    if provider is None:
        return choice.resolve(name)
    return choice.provider(provider, base_url=settings.base_url).model(model_id)


async def _default_of(choice: Choice) -> Model:
    """The provider's usual model; of a server nobody knows, the first it lists."""
    settings = choice.settings
    name = settings.provider or "openai-compatible"
    provider = choice.provider(name, base_url=settings.base_url)
    default = row_named(name, _rows(settings)).default
    if default and not settings.base_url:
        return provider.model(default)
    try:
        listed = await provider.models()
    except ModelError as error:
        raise UsageError(f"--model is needed: the models of {name} could not be listed ({error})") from error
    if not listed:
        raise UsageError(f"--model is needed: {name} lists no models")
    return provider.model(listed[0].id)


def _first_with_key(choice: Choice) -> Model | None:
    for name, row in {**_rows(choice.settings), **built_in()}.items():
        allowed = choice.settings.allow_providers
        own = choice.settings.providers.get(name)
        if row.default and (allowed is None or name in allowed) and (has_key(row) or (own is not None and own.api_key)):
            return choice.provider(name).model(row.default)
    return None


async def _local(choice: Choice) -> Model:
    """A model of a server on this machine, at one of the usual ports."""
    finds = [_ask(choice, url) for url in LOCAL_SERVERS.values()]
    for model in await asyncio.gather(*finds):
        if model is not None:
            return model
    variables = "\n".join(f"  {either(row.key):34} for {name}" for name, row in built_in().items() if row.default)
    raise UsageError(NOTHING.format(variables=variables, servers=" or ".join(LOCAL_SERVERS)))


async def _ask(choice: Choice, url: str) -> Model | None:
    try:
        provider = choice.provider("openai-compatible", base_url=url)
        async with asyncio.timeout(PATIENCE):
            listed = await provider.models()
    except (ModelError, UsageError, TimeoutError):
        return None
    return provider.model(listed[0].id) if listed else None


def _check_allowed(settings: Settings, name: str) -> None:
    allowed = settings.allow_providers
    if allowed is not None and name not in allowed:
        raise UsageError(f"provider {name} is not among those allowed: {', '.join(allowed)} (--allow-providers)")


def _rows(settings: Settings) -> Mapping[str, Row]:
    """The person's own providers, as rows."""
    return {
        name: Row(
            name,
            "chat" if own.family == "openai" else own.family,
            own.base_url,
            key=f"{name.upper().replace('-', '_')}_API_KEY",
        )
        for name, own in settings.providers.items()
    }
