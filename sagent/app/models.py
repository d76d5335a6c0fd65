"""Chooses provider and model: the requested ones, else one with a key, else one that answers on this machine."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import urlsplit

from sagent.config import Settings
from sagent.config.plugins import Installed, named_errors
from sagent.config.typed import Auth
from sagent.cost.prices import Billing, PriceBook
from sagent.errors import ModelError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.text import spelled, unlike
from sagent.model import Model, ModelInfo, ModelLimits, Provider, full_name
from sagent.plugin import ModelLayer, ProviderRow, resolve
from sagent.providers.access import NO_KEY, Access, either
from sagent.providers.families.endpoint import Endpoint
from sagent.providers.limits import known_models, limits_of
from sagent.providers.listings import Listings
from sagent.providers.registry import has_key, infer, nearest_rows, provider_named, row_called, row_named
from sagent.providers.rows import Row, built_in, built_in_row, lacking, listed_by, named_by_paths
from sagent.providers.wire.exchange import OnWaiting, ReportsWaiting, Timeouts, ignore_wait

if TYPE_CHECKING:
    from sagent.providers.wire.collecting import Collecting

LOCAL_SERVERS: Mapping[str, str] = {
    "Ollama": "http://127.0.0.1:11434/v1",
    "LM Studio": "http://127.0.0.1:1234/v1",
    "llama.cpp": "http://127.0.0.1:8080/v1",
}
_SERVERS = " or ".join(LOCAL_SERVERS)
LOCAL = "local"  # as a provider's name: a server on this machine, even if a provider has a key
LOCAL_SERVER_TIMEOUT_SECONDS = 0.5
LISTING_SECONDS = 15.0  # for a server to list its models, from which one is chosen
MEETING_SECONDS = 3.0  # for the person's own server to list its models, before the first request

UNKEYED = "no provider has an API key set"
NOTHING = """No model was named, {why}, and no server answers on this machine.

Run `sagent login`, or set one of these variables, then try again:
{variables}
or start {servers} on its usual port,
or give a server:  sagent --base-url http://HOST:PORT/v1 --model NAME "..."

To see it work without any of them:  sagent demo"""


Listing: TypeAlias = Sequence[ModelInfo]


def price_book(settings: Settings) -> PriceBook:
    """Return what calls cost, by the person's prices and rows too."""
    rows = settings.rows

    def billing(name: str) -> Billing:
        row = row_called(name, rows)
        return Billing() if row is None else Billing(row.prices, row.free, row.hour)

    return PriceBook(settings.prices, billing=billing)


@dataclass(slots=True)
class Choice:
    """The model chosen, and how to get another while the program runs. Providers are opened once each."""

    settings: Settings
    wrap: Callable[[Model], Model] | None = None  # wraps each model
    batches: "Collecting | None" = None  # sends requests to models with a batch API
    on_waiting: OnWaiting = ignore_wait  # receives why calls to the person's own servers wait
    model: Model = field(init=False)
    rows: Mapping[str, Row] = field(init=False)  # the person's own providers
    opened: dict[tuple[str, str], Provider] = field(default_factory=dict[tuple[str, str], Provider])
    home: tuple[str, str] = ("", "")  # the provider that an address was given for, or found, and the address
    listings: Listings = field(default_factory=Listings)
    layers: dict[str, Callable[[Model], Model]] = field(default_factory=dict[str, Callable[[Model], Model]])
    asked: set[str] = field(default_factory=set[str])  # listings requested by this process, by place

    def __post_init__(self) -> None:
        self.rows = self.settings.rows
        if not self.settings.ephemeral:
            self.listings = Listings(self.settings.state_dir / "listings.json")

    def resolve(self, name: str) -> Model:
        """Return a model by "provider/id", "id" or a short name. Raises UsageError, also for a provider not allowed."""
        name = self.spelled_out(name, elsewhere=bool(self.home[1]))
        provider, model_id = split_model(name, None, self.rows, self.home[1])
        if provider is None and self.home[1] and row_called(name, self.rows) is None:
            provider = self.home[0]  # the named server has other models too
        if provider is None:
            raise UsageError(_unresolved(name, self.rows, self.settings.plugins))
        return self.wrapped(self.provider(provider).model(model_id))

    def wrapped(self, model: Model) -> Model:
        """Return a model wrapped by `wrap` and by the layers of plugins. Raises UsageError."""
        row = row_called(model.provider, self.rows)
        model = model if self.wrap is None else self.wrap(model)
        for plugin, layer in self.settings.plugins.owned(ModelLayer):
            if not any(map(self.settings.says, layer.when)) and not (row and f"family {row.family}" in layer.when):
                continue
            with named_errors("A layer around models", plugin):
                if layer.layer not in self.layers:
                    make = cast("Callable[[Choice], Callable[[Model], Model]]", resolve(layer.layer))
                    self.layers[layer.layer] = make(self)
                model = self.layers[layer.layer](model)
                if not callable(getattr(model, "stream", None)):
                    raise TypeError("it returned no model")
        return model

    def spelled_out(self, name: str, *, at: str | None = None, elsewhere: bool = False) -> str:
        """Return a model's full name; `at` is the provider it must belong to. At an address of the person's own
        (`elsewhere`) only the person's aliases apply: the server may have its own model of a shipped short name."""
        own = self.settings.aliases
        if not (name.isalpha() or own):  # as most are: what follows is not even imported
            return name
        from sagent.providers.aliases import newest, own_alias, shipped

        name = own_alias(name, own)
        if elsewhere or name.lower() not in shipped():
            return name
        full = newest(name, self.prices(), (at,) if at else tuple(self.with_keys()))
        return full if full and at in (None, full.partition("/")[0]) else name

    def resolve_at(self, name: str, base_url: str | None, key: str | None) -> Model:
        """Resolve a model at a given address with its own key. Without a provider the server is taken to be
        OpenAI-compatible, as nearly all are."""
        name = self.spelled_out(name, elsewhere=base_url is not None)
        provider, model_id = split_model(name, None, self.rows, base_url or "")
        return self.wrapped(self.provider(provider or "openai-compatible", base_url=base_url, key=key).model(model_id))

    def provider(self, name: str, *, base_url: str | None = None, key: str | None = None) -> Provider:
        """Return a provider by name, opened on first use."""
        row = self.settings.row(name)
        allowed = self.allowed()
        if allowed is not None and row.name not in allowed:
            those = f"among those allowed: {', '.join(allowed)}" if allowed else "allowed: none is"
            raise UsageError(f"provider {row.name} is not {those} (--allow-providers)")
        base_url = base_url or (self.home[1] if row.name == self.home[0] else None)
        place = (row.name, f"{base_url or ''} {key or ''}".strip())
        if place not in self.opened:
            self.opened[place] = self._open(row, base_url, key)
        return self.opened[place]

    def _open(self, row: Row, base_url: str | None, key: str | None) -> Provider:
        custom, source = self.settings.providers.get(row.name), ""
        if custom is not None and not base_url:
            source = f"api_key in [providers.{row.name}]" if custom.api_key and not key else ""
            base_url, key = custom.base_url or None, key or custom.api_key or None
        settings = self.settings
        if custom is not None and custom.row.quirks.body:
            from sagent.agent.options import check_body

            check_body(row.name, custom.row.quirks.body, capped=settings.max_budget_usd is not None)
        timeouts = Timeouts(stall=settings.stall_seconds, reasoning_stall=settings.reasoning_stall_seconds)
        transport = settings.transport if "transport" in settings.origins else None
        if self.batches is not None and row.name in self.batches.providers:
            transport, timeouts = self.batches, self.batches.timeouts
        provider = provider_named(
            row.name,
            key=key,
            base_url=base_url,
            auth=_auth(settings, row, self.home[0], self.rows),
            rows=self.rows,
            transport=transport,
            timeouts=timeouts,
            source=source,
        )
        if isinstance(provider, ReportsWaiting):
            provider.on_waiting = self.on_waiting
        return provider

    def fallbacks(self) -> tuple[Model, ...]:
        """Return the models in `fallback`. Raises UsageError for an unavailable one."""
        return tuple(self._resolve_for(f"--fallback {name}", name) for name in self.settings.fallback)

    def compactor(self) -> Model | None:
        """Return the summarizing model if it is a different one. Raises UsageError if it is unavailable."""
        name = self.settings.compactor
        return None if name is None else self._resolve_for(f"compactor = {name!r}", name)

    def _resolve_for(self, setting: str, name: str) -> Model:
        try:
            return self.resolve(name)
        except UsageError as error:
            raise UsageError(f"{setting}: {error}") from error

    def allowed(self) -> tuple[str, ...] | None:
        """Return the names of the allowed providers; None for all. Raises UsageError for an unknown one."""
        given = self.settings.allow_providers
        return None if given is None else tuple(dict.fromkeys(self.settings.row(name).name for name in given))

    def with_keys(self, *, narrowed: bool = True) -> Iterator[str]:
        """Yield the providers with a key, `narrowed` to the allowed ones; the person's own first."""
        allowed = self.allowed() if narrowed else None
        own = {name: row for name, row in self.rows.items() if not row.plugin}
        for name, row in {**own, **built_in(), **self.rows}.items():
            own = self.settings.providers.get(name)
            if (allowed is None or name in allowed) and (has_key(row) or (own is not None and own.api_key)):
                yield name

    def prices(self) -> PriceBook:
        """Return the prices of calls, including the person's own prices and rows."""
        return price_book(self.settings)

    def limits(self, model: Model) -> ModelLimits:
        """Return a model's limits. The provider's listing overrides shipped data, which may be older."""
        listed, known = self.listings.limits(self.place_of(model), model.id), model.limits
        return replace(known, window=listed.window or known.window, max_output=listed.max_output or known.max_output)

    def wants_listing(self, model: Model) -> bool:
        """Return True if the model's listing should be fetched: its window is unknown, or its address is the person's.

        A listing is fetched once per process, and only if the cached one is stale.
        """
        own, home = self.settings.providers.get(model.provider), self.home[1] and self.home[0]
        if model.limits.window is not None and model.provider != home and not (own and own.base_url):
            return False
        place = self.place(model.provider)
        return bool(place) and place not in self.asked and not self.listings.is_fresh(place)

    async def study(self, name: str) -> None:
        """Save the sizes in the listing of a provider in use. If there is no listing, nothing is saved."""
        self.asked.add(self.place(name))
        with suppress(ModelError):
            self.keep(name, await self.provider(name).models())

    def keep(self, name: str, listed: Sequence[ModelInfo]) -> None:
        """Prefer a provider's listing to shipped data, from now on and in later runs."""
        owners = {info.server: row.name for info in listed if (row := listed_by(info.server, self.rows))}
        named = [replace(info, server=owners.get(info.server, "")) for info in listed]
        differing = [info for info in named if info.weights or info.server or info.limits != limits_of(name, info.id)]
        self.listings.keep(self.place(name), differing)

    def place_of(self, model: Model) -> str:
        """Return a model's provider with the address that it is reached at."""
        source = getattr(model, "source", None)
        return _place_of(model.provider, source.base_url) if isinstance(source, Access) else self.place(model.provider)

    def place(self, name: str) -> str:
        """Return the address of a provider in use, without any secret part; "" if no row describes it."""
        try:
            provider = self.provider(name)
        except UsageError:
            return ""
        return _place_of(name, provider.access.base_url if isinstance(provider, Endpoint) else "")

    def address(self, name: str) -> str:
        """Return a provider in use with its address, "NAME at HOST/PATH"; "" for its well-known address."""
        place, known = self.place(name).partition(" ")[2], _shipped(name, self.rows)
        own = urlsplit(known.base_url) if known is not None else None
        return "" if not place or (own and place == f"{own.netloc}{own.path}") else f"{name} at {place}"

    def check_address(self, before: str) -> None:
        """Refuse to move a conversation away from the person's own address unless requested now: yesterday's user of an
        own server may have forgotten the flag. Raises UsageError."""
        if not before:
            return
        now = self.address(self.model.provider)
        origins = (self.settings.origins.get(name, "") for name in ("model", "provider", "base_url"))
        name, _, address = before.partition(" at ")
        known = all(self.is_of_any_server(each) for each in (name, self.model.provider))
        if known and address == self.place(self.model.provider).partition(" ")[2]:
            return  # renamed since its listing has identified it
        if now != before and not any(origin == "/model" or origin.startswith("--") for origin in origins):
            raise UsageError(
                f"This session last used {spelled(before)}, and would be sent to {now or self.model.provider} now. "
                f"Give that address again with --base-url, or allow this with --model {full_name(self.model)}."
            )

    def is_of_any_server(self, name: str) -> bool:
        """Return True for a name of the server at the person's own address: before it is identified, and after."""
        row = row_called(name, self.rows)
        return row is not None and (row.name == "openai-compatible" or bool(row.owned_by))

    def rename(self, name: str, new: str) -> Provider:
        """Open the server at the given address as provider `new`, with the same key, and use it from now on."""
        url, access = self.home[1], self.provider(name)
        key = access.access.key if isinstance(access, Endpoint) else ""
        before, self.home = self.place(name), (new, url)
        self.opened[new, url] = self._open(row_named(new, self.rows), url, None if key in ("", NO_KEY) else key)
        self.listings.rename(before, self.place(new))
        return self.opened[new, url]

    async def aclose(self) -> None:
        for provider in self.opened.values():
            await provider.aclose()


def _shipped(name: str, rows: Mapping[str, Row]) -> Row | None:
    """Return the row of a provider as sagent or a plugin has it."""
    own = rows.get(name)
    return built_in_row(name) or (own if own is not None and own.plugin else None)


def _place_of(name: str, base_url: str) -> str:
    parts = urlsplit(base_url)
    return f"{name} {parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/ ")


async def choose_model(
    settings: Settings,
    earlier: str = "",
    wrap: Callable[[Model], Model] | None = None,
    batches: "Collecting | None" = None,
    on_waiting: OnWaiting = ignore_wait,
) -> Choice:
    """Return the initial model. `earlier` is the one a resumed session used last; `wrap` wraps each model; requests go
    out through `batches`; `on_waiting` receives why calls wait. Raises UsageError."""
    choice = Choice(settings, wrap, batches, on_waiting)
    try:
        choice.allowed()  # raises for unknown names
        choice.model = await _begin(choice, earlier)
        choice.model = choice.wrapped(await _ask_server(choice, choice.model))
    except BaseException:
        await choice.aclose()
        raise
    return choice


async def _begin(choice: Choice, earlier: str) -> Model:
    settings = choice.settings
    if settings.provider == LOCAL and row_called(LOCAL, choice.rows) is None:
        choice.settings = replace(settings, provider=None)
        local = await _local(choice)
        if local is None:
            raise UsageError(f"No server answers on this machine. Start {_SERVERS} on its usual port, then try again.")
        return choice.provider(local.provider).model(settings.model) if settings.model else local
    if settings.model:
        return _named(choice, settings.model)
    if settings.provider or settings.base_url:
        return await _default_of(choice)
    if not earlier:
        if local := _default_model(choice) or await _local(choice):
            return local
        raise UsageError(_explain_no_model(choice))
    try:
        return _named(choice, earlier)
    except UsageError as error:
        cause = str(error).rstrip(".")
        raise UsageError(f"The session last used {earlier}: {cause}. Or choose another model with --model.") from error


async def _ask_server(choice: Choice, model: Model) -> Model:
    """Ask a server of the person's own for its models, unless it has listed them today. If it is a llama-server and no
    provider was named, return its model under that provider and its own name."""
    name, url = choice.home
    if not url or model.provider != name or not choice.is_of_any_server(name):
        return model
    place = choice.place(name)
    if choice.listings.server(place) is None or not choice.listings.is_fresh(place):
        from sagent.providers.wire.waiting import when_loaded

        choice.asked.add(place)
        with suppress(ModelError):
            choice.keep(name, await when_loaded(lambda: listing_of(choice, name), choice.on_waiting))
    server = choice.listings.server(place)
    if not server or name == server or choice.settings.provider or row_called(server, choice.rows) is None:
        return model
    served = choice.listings.models(place)
    return choice.rename(name, server).model(served[0] if len(served) == 1 else model.id)


async def listing_of(choice: Choice, name: str, url: str | None = None, seconds: float = MEETING_SECONDS) -> Listing:
    """Return a server's models. Raises ModelError, also on a timeout of `seconds`."""
    provider = choice.provider(name, base_url=url)
    try:
        async with asyncio.timeout(seconds):
            return await provider.models()
    except TimeoutError as error:
        raise ModelError("stalled", f"no answer within {seconds:g} s", provider=name) from error


def _default_model(choice: Choice) -> Model | None:
    """Return the default model of the first provider with a key. A project's file may exclude that provider, but must
    not thereby send the conversation to another: then UsageError is raised."""
    origin = choice.settings.origins.get("allow_providers", "")
    by_project = origin == str(choice.settings.project_file)
    usual = ((name, row_named(name, choice.rows).default) for name in choice.with_keys(narrowed=not by_project))
    name, model = next((each for each in usual if each[1]), ("", ""))
    if by_project and model and name not in (choice.allowed() or ()):
        raise UsageError(f"{origin} does not allow {name}, the default here: choose another model with --model.")
    return choice.provider(name).model(model) if model else None


def split_model(name: str, provider: str | None, rows: Mapping[str, Row], at: str = "") -> tuple[str | None, str]:
    """Split "provider/model" or "model" into provider and id; an id may have slashes of its own. `at` is the address
    that goes with it."""
    head, slash, rest = name.partition("/")
    named = row_called(head, rows) if slash and rest else None
    if named is not None and provider in (None, named.name):
        return named.name, rest
    if provider is None and (("/" in name and "+" in name) or name.startswith(("/", "./", "../", "~"))):
        provider = named_by_paths(rows)  # weights, with options ("Qwen/Qwen3-0.6B+cuda") or in a folder
    return provider or infer(name, rows, at=at), name


def _named(choice: Choice, name: str) -> Model:
    settings = choice.settings
    asked = settings.provider and settings.row(settings.provider).name
    name = choice.spelled_out(name, at=asked or None, elsewhere=bool(settings.base_url))
    provider, model_id = split_model(name, asked, choice.rows, settings.base_url or "")
    if provider is None and settings.base_url:
        provider = "openai-compatible"  # the protocol nearly every server speaks
    if provider is None:
        return choice.resolve(name)
    choice.home = (row_named(provider, choice.rows).name, settings.base_url or "")
    return choice.provider(provider).model(model_id)


async def _default_of(choice: Choice) -> Model:
    """Return the provider's default model; for an unknown server, the first it lists."""
    settings = choice.settings
    row = settings.row(settings.provider or "openai-compatible")
    name = row.name
    choice.home = (name, settings.base_url or "")
    provider = choice.provider(name)
    if row.default and not settings.base_url:
        return provider.model(row.default)
    from sagent.providers.wire.waiting import Loading, when_loaded

    is_child = isinstance(provider, Loading) and not settings.base_url
    ask = provider.models if is_child else partial(listing_of, choice, name, None, LISTING_SECONDS)
    choice.on_waiting("", f"Asking {choice.place(name)} which models it has…")
    try:
        listed = await when_loaded(ask, choice.on_waiting)
    except ModelError as error:
        cause = str(error).rstrip(".")
        if error.kind == "invalid_request" and is_child:
            raise UsageError(f"{cause}.") from error  # a child cannot be started: another name would not help
        raise UsageError(f"The models of {name} could not be listed: {cause}. Or choose one with --model.") from error
    if not listed:
        raise UsageError(f"--model is needed: {name} lists no models")
    return provider.model(listed[0].id)


async def _local(choice: Choice) -> Model | None:
    """Return a model of a server on this machine, at one of the usual ports; None if no server answers."""
    from sagent.providers.wire.waiting import when_loaded

    urls, name = tuple(LOCAL_SERVERS.values()), "openai-compatible"
    answers = await asyncio.gather(*(_ask(choice, url) for url in urls))
    for url, answer in zip(urls, answers, strict=True):
        models = answer
        if models is None and not any(answers):  # no other server answers: wait for the one that is loading
            with suppress(ModelError):
                models = await when_loaded(partial(listing_of, choice, name, url), choice.on_waiting)
        if models:
            choice.home = (name, url)
            return choice.provider(name, base_url=url).model(models[0].id)
    return None


def _explain_no_model(choice: Choice) -> str:
    """Explain why no model could be chosen, and what would help."""
    keyed, allowed = list(choice.with_keys()), choice.allowed()
    if allowed is not None and not allowed:
        return "No model was named, and --allow-providers allows no provider: give those that may be used."
    if allowed is not None and not keyed:
        rows = [choice.settings.row(name) for name in allowed]
        keys = [f"{either(row.key)} for {row.name}" for row in rows if row.key and not row.free]
        remedy = f"Set {', or '.join(keys)}, or give" if keys else "Give"
        return (
            f"No model was named, and no provider that is allowed has its key set: {', '.join(allowed)} "
            f"(--allow-providers). {remedy} --model PROVIDER/MODEL."
        )
    variables = "\n".join(f"  {either(row.key):34} for {name}" for name, row in built_in().items() if row.default)
    why = f"{keyed[0]} has a key but no default model (give --model {keyed[0]}/MODEL)" if keyed else UNKEYED
    return NOTHING.format(why=why, variables=variables, servers=_SERVERS)


async def _ask(choice: Choice, url: str) -> Listing | None:
    """Return a server's models; () if it does not answer, None if it is still loading its model."""
    try:
        return await listing_of(choice, "openai-compatible", url, LOCAL_SERVER_TIMEOUT_SECONDS)
    except ModelError as error:
        from sagent.providers.wire.waiting import is_loading

        return None if is_loading(error) else ()
    except UsageError:
        return ()


def _unresolved(name: str, rows: Mapping[str, Row], plugins: Installed) -> str:
    """Explain why a model's provider is unknown."""
    head, slash, rest = name.partition("/")
    if ending := lacking(head, plugins.gone(ProviderRow)):
        return f"The provider {head} is not known{ending}."
    if row := row_called(head, rows):
        ways = f"give {row.name}/MODEL, or --provider {row.name} alone; sagent models {row.name} lists them."
        return f"{name!r} is a provider, not a model: {ways}"
    if not (slash and rest):
        head, colon, rest = name.partition(":")
        if colon and rest and (row := row_called(head, rows)):
            return f"{name!r} does not name its provider: give {row.name}/{rest}."
        example = f"ollama/{name}" if colon and rest else _match_model(name, rows) or "openai/gpt-5.5"
        return f"{name!r} does not name its provider. Give provider/model, as in {example}."
    near, maker = nearest_rows(head, rows), infer(rest, rows)
    strange = unlike(head, near)
    if maker in near:
        near = [f"{maker}/{rest}"]
    known = ", ".join(sorted({**built_in(), **rows}))
    hint = f"Did you mean {' or '.join(near)}?{strange}" if near else f"The providers are {known}."
    return (
        f"There is no provider {head!r}. {hint} If {name!r} is the model's full name, put its provider first: "
        f"PROVIDER/{name}."
    )


def _match_model(word: str, rows: Mapping[str, Row]) -> str:
    """Return provider and id of the model that a part of a name stands for ("sonnet"): a default model, else the last
    match; "" for none."""
    usual = {name: row.default for name, row in {**rows, **built_in()}.items() if row.default}
    named = (f"{name}/{model}" for name, model in usual.items() if word.lower() in model.lower())
    known = (
        f"{name}/{model}"
        for name in usual
        for model in sorted((info.id for info in known_models(name)), reverse=True)
        if word.lower() in model.lower()
    )
    return next(named, "") or next(known, "")


def _auth(settings: Settings, row: Row, chosen: str, rows: Mapping[str, Row]) -> Auth | None:
    """Choose how to authenticate with a provider. The setting is for the chosen provider; another one without a login
    is called with its own key, so that its SDK does not send it somebody else's. Raises UsageError if the chosen one
    has no login."""
    if "auth" not in settings.origins:
        return None
    if settings.auth != "credentials" or row.via or row.credentials:
        return settings.auth
    if row.name == chosen:
        raise UsageError(
            f"{row.name} has no login other than its API key: leave out --auth credentials. Providers with a login: "
            f"{', '.join(name for name, known in {**built_in(), **rows}.items() if known.via or known.credentials)}."
        )
    return None


def catalog(choice: Choice, prices: PriceBook) -> str:
    """Return the models to switch to, with window and price, as text for a model; loads the prices."""
    lines: list[str] = []
    for provider in choice.with_keys():
        priced = {row.id: row for row in prices.known_models(provider)}
        for model in offered_models(row_named(provider, choice.rows), priced):
            row, window = priced.get(model), limits_of(provider, model).window
            cost = f", ${row.input:g} in and ${row.output:g} out per million tokens" if row else ", price unknown"
            lines.append(f"{provider}/{model}: window {window or 'unknown'}{cost}")
    return "\n".join(lines) or "No other provider has a key."


def offered_models(row: Row, priced: Iterable[str]) -> Sequence[str]:
    """Return a provider's models for conversations that are known or have a price. Price lists cover a whole company,
    but Claude is not reached as Gemini is on Google's clouds."""
    from sagent.providers.abilities import can_converse

    known = {*priced, *(info.id for info in known_models(row.name))}
    return sorted(model for model in known if row.own_models in model.lower() and can_converse(model))
