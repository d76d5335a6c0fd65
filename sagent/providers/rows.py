"""Providers as data: one row each, from providers.toml or from a user's settings."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, replace
from functools import cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from sagent.errors import ConfigError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_array, as_object, as_str, json_freeze
from sagent.lib.raised import reason
from sagent.model import EFFORTS, Effort
from sagent.plugin import Plugin, ProviderRow, extra_of_ours, of_installed, of_ours

FAMILIES = ("anthropic", "chat", "responses", "google")
STYLES = (
    *("", "openai", "reasoning", "level", "switch", "thinking", "adaptive", "enable_thinking", "template", "always"),
)
"""Encodings of an effort (families/chat/efforts.py); "" for none."""
STRUCTURES = ("", "json_schema", "json_object")
"""Values of `response_format`; "" for none."""
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "family": FAMILIES,
    "effort": STYLES,
    "reasoning_back": (
        *("", "reasoning_content", "reasoning_details", "reasoning", "reasoning_text", "thinking", "content", "same"),
    ),
    "documents": ("", "file"),
    "structured": STRUCTURES,
}
"""Members with a fixed set of values."""
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_OWN_HEADERS = {
    *("authorization", "x-api-key", "x-goog-api-key", "anthropic-version", "content-type", "content-length", "host"),
    *("accept", "accept-encoding", "connection", "transfer-encoding"),
}
_SAID: Mapping[type, str] = {str: "string", bool: "true or false", int: "number", list: "list", dict: "table"}

DECLARED = ("name", "quirks", "make", "login", "about", "plugin")
"""Members of a row that its data do not have."""
_TABLE = re.compile(r"^\[([a-z0-9-]+)\]$", re.MULTILINE)
_MODELS = re.compile(r"^models = \[.*\]$", re.MULTILINE)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EffortParameter:
    """Effort parameter of the models whose ids begin with `of`: its style, and its levels if it has some."""

    of: str
    style: str
    levels: tuple[Effort, ...] = ()


@dataclass(frozen=True, slots=True)
class Abilities:
    """Abilities of the models whose ids begin with `of`. None means the default by the model's name, or by the one it
    is `like`; `efforts` are the levels it takes, () for a model that does not reason."""

    of: str = ""
    like: str = ""
    efforts: tuple[Effort, ...] | None = None
    images: bool | None = None
    audio: bool | None = None  # it accepts recordings; None is no
    tools: bool | None = None
    structured: bool | None = None  # answers are held to a schema, if the provider can do that
    tool_search: bool | None = None  # the provider's own search finds deferred tools


@dataclass(frozen=True, slots=True)
class Quirks:
    """Differences of a Chat Completions provider from the others. The defaults suit most servers."""

    max_tokens: str = "max_tokens"  # the name of the output limit
    effort: str = ""  # encoding of an effort, one of STYLES
    efforts: tuple[EffortParameter, ...] = ()  # how it is sent to some of the models
    reasoning_back: str = ""  # member for reasoning sent back; "same" as received; "" for none
    reasoning_filler: str = ""  # reasoning_content of a message with calls but without reasoning
    documents: str = ""  # file: PDFs go in as they are; "" is not at all
    images: bool = True
    stream_usage: bool = True  # stream_options.include_usage is understood
    cache_key: bool = False  # prompt_cache_key is understood
    cache_marks: tuple[str, ...] = ()  # prefixes of ids of models that only cache marked prefixes
    longest_id: int = 40  # of a tool call: OpenAI refuses longer ones
    id_length: int = 0  # exact number of letters and digits of a tool call's id; 0: any
    structured: str = ""  # how an answer is held to a schema (the model also reads it), one of STRUCTURES
    structured_tools: bool = False  # also with tools: most servers then suppress calls
    place_in_message: bool = False  # text that differs by project goes into the first message, for the prompt cache
    bridge: str = ""  # text in the model's name between results and the user's next message
    body: JsonObject = field(default=EMPTY)  # sent with every request


@dataclass(frozen=True, slots=True)
class Row:
    """One provider. `key` and `base` name environment variables (alternatives separated by a space); `models` has the
    prefixes of its model ids."""

    name: str
    family: str = "chat"
    base_url: str = ""
    key: str = ""
    base: str = ""
    token: str = ""  # the variable of a key that is sent as a bearer token
    models: tuple[str, ...] = ()
    default: str = ""  # the default model
    free: bool = False  # a server of the user's own: calls cost nothing
    via: str = ""  # the cloud that it is reached by, through the SDK of the provider with that cloud
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)  # sent with every request
    abilities: tuple[Abilities, ...] = ()
    quirks: Quirks = Quirks()
    prices: str = ""  # its name in price lists (genai-prices), if different
    hour: bool = False  # a request may ask for cache writes of an hour by itself
    own_models: str = ""  # part of its models' ids that tells them from others in price lists
    owned_by: str = ""  # what its servers say so in their listing: a server at --base-url that does is this provider
    paths: bool = False  # its models are named by folders, or by a repository with options after a "+"
    credentials: bool = False  # it has a login stored elsewhere: --auth credentials is possible
    make: str = ""  # "module:Class" of a provider that needs more than an address and a key
    login: str = ""  # "module:function" that logs a person in
    about: str = ""  # what that needs
    plugin: str = ""  # the plugin that declares the row

    def able(self, model: str) -> Abilities:
        """Return the abilities under the longest matching prefix of a model's id; empty if there is none."""
        fitting = [ability for ability in self.abilities if model.lower().startswith(ability.of.lower())]
        return max(fitting, key=lambda each: len(each.of), default=Abilities())


MAKERS: Mapping[str, Row] = {
    "anthropic": Row(
        "anthropic",
        family="anthropic",
        base_url="https://api.anthropic.com",
        key="ANTHROPIC_API_KEY",
        base="ANTHROPIC_BASE_URL",
        token="ANTHROPIC_AUTH_TOKEN",  # noqa: S106 -- the name of a variable
        models=("claude-",),
        default="claude-sonnet-5-5",
        credentials=True,  # found by the SDK; any other address would get them, too
        abilities=(  # platform.claude.com, tool search tool: not for models before 4, whose names begin with a number
            *(
                Abilities(f"claude-{name}-", tool_search=True)
                for name in ("sonnet", "opus", "haiku", "fable", "mythos")
            ),
        ),
    ),
    "openai": Row(
        "openai",
        family="responses",
        base_url="https://api.openai.com/v1",
        key="OPENAI_API_KEY",
        base="OPENAI_BASE_URL",
        models=("gpt-", "chatgpt-", "codex-", "ft:", "o1", "o3", "o4", "o5", "o6"),
        default="gpt-5.6-terra",
        credentials=True,
        abilities=(  # platform.openai.com, tool search: from gpt-5.4 on
            *(Abilities(f"gpt-5.{minor}", tool_search=True) for minor in (4, 5, 6)),
            *(Abilities(f"gpt-5.{minor}-nano", tool_search=False) for minor in (4, 5, 6)),
        ),
        quirks=Quirks(  # for users of openai-compatible
            max_tokens="max_completion_tokens",
            effort="openai",
            documents="file",
            cache_key=True,
            structured="json_schema",
            structured_tools=True,
        ),
    ),
    "google": Row(
        "google",
        family="google",
        base_url="https://generativelanguage.googleapis.com",
        key="GOOGLE_API_KEY GEMINI_API_KEY",  # the first that is set
        base="GOOGLE_GEMINI_BASE_URL GEMINI_BASE_URL",
        models=("gemini-", "gemma-"),
        default="gemini-3.8-flash",
        own_models="gem",
        abilities=(Abilities("gemini-", audio=True),),  # ai.google.dev, audio understanding
    ),
}
"""Makers with a protocol of their own. They are not in providers.toml because reading it takes 8 ms at every start."""


@cache
def _tables() -> Mapping[str, str]:
    """Return the tables of providers.toml by name, as text: parsing all of them takes 8 ms."""
    _, *parts = _TABLE.split(Path(__file__).with_name("providers.toml").read_text("utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


@cache
def _core_row(name: str) -> Row | None:
    """Return one of the core's rows, without parsing others."""
    if name in MAKERS or (text := _tables().get(name)) is None:
        return MAKERS.get(name)
    import tomllib

    return _row(name, tomllib.loads(text), f"providers.toml: [{name}]")


@cache
def _our_rows() -> Mapping[str, Row]:
    """Return the rows of sagent's own plugins."""
    return _read(of_ours(ProviderRow))


@cache
def installed_rows() -> Mapping[str, Row]:
    """Return the rows of plugins in installed distributions, which are imported, for programs without settings."""
    return _read(of_installed(ProviderRow))


def _read(declared: Iterable[tuple[Plugin, ProviderRow]]) -> Mapping[str, Row]:
    rows: dict[str, Row] = {}
    for plugin, row in declared:
        with suppress(Exception):  # reported by the index of plugins
            rows.setdefault(row.name, declared_row(row, plugin.name))
    return rows


def transport_by_sdk() -> object:
    """Return the class of the transport through official SDKs. Raises UsageError if no plugin has one."""
    if made := extra_of_ours("sdk"):
        return made
    of = owners().get("./sdk")
    raise UsageError(f"--transport sdk, clouds and --auth credentials need the plugin {of}, which is not loaded.")


@cache
def built_in() -> Mapping[str, Row]:
    """Return the makers' rows, those of providers.toml and those of sagent's own plugins, by name."""
    core = {name: row for name in (*MAKERS, *_tables()) if (row := _core_row(name))}
    return {**core, **{name: row for name, row in _our_rows().items() if name not in core}}


def built_in_row(name: str) -> Row | None:
    """Return one of them, without reading others."""
    return _core_row(name) or _our_rows().get(name)


def row_of(name: str) -> Row:
    """Return the row of one of our classes. Raises UsageError if its plugin is missing."""
    if row := built_in_row(name):
        return row
    raise UsageError(f"There is no provider {name}{lacking(name)}.")


@cache
def model_beginnings() -> Sequence[tuple[str, str]]:
    """Return the beginnings of models' ids that the core's rows name, each with its provider."""
    import tomllib

    made = [(start, row.name) for row in MAKERS.values() for start in row.models]
    for name, text in _tables().items():
        if match := _MODELS.search(text):
            made += [(str(start), name) for start in as_array(tomllib.loads(match[0])["models"])]
    return made


@cache
def owners() -> Mapping[str, str]:
    """Return the providers of sagent's own plugins, each with its plugin, for messages if that is missing; at "./" the
    provider whose models are named by paths, at "./sdk" the plugin with the SDKs. Written by
    scripts/make_settings.py."""
    import json

    return json.loads(Path(__file__).with_name("owners.json").read_text("utf-8"))


def lacking(name: str, gone: Mapping[str, str] = {}) -> str:
    """Return the end of a sentence that names a provider's missing plugin; `gone` are those of others' plugins."""
    name = name.strip().lower().replace("_", "-")
    owner = "" if name in _our_rows() else owners().get(name) or gone.get(name)
    return f": it is of the plugin {owner}, which is not loaded" if owner else ""


def named_by_paths(rows: Mapping[str, Row]) -> str | None:
    """Return the provider whose models are named by paths, also if it is missing."""
    return next((row.name for row in {**built_in(), **rows}.values() if row.paths), owners().get("./"))


def listed_by(owner: str, rows: Mapping[str, Row]) -> Row | None:
    """Return the provider of servers that name this owner of their models."""
    return next((row for row in {**built_in(), **rows}.values() if owner and row.owned_by == owner), None)


def declared_row(row: ProviderRow, plugin: str) -> Row:
    """Return the row of a provider that a plugin declares. Raises ConfigError."""
    if not NAME.fullmatch(row.name):
        raise ConfigError(f"{row.name!r} is not a valid provider name: use a-z and 0-9, with . _ - in between")
    try:
        data = as_object(row.read())
    except (OSError, ValueError, LookupError) as error:
        raise ConfigError(f"The data of the provider {row.name} cannot be read: {reason(error)}.") from error
    read = _row(row.name, data, f"the plugin {plugin}: [{row.name}]")
    return replace(read, make=row.make, login=row.login, about=row.about, plugin=plugin)


class DeclaredRows(Mapping[str, Row]):
    """Rows declared by plugins, by name. Each is read on demand."""

    def __init__(self, declared: Mapping[str, tuple[str, ProviderRow]]) -> None:
        self._declared = declared
        self._read: dict[str, Row] = {}

    def __getitem__(self, name: str) -> Row:
        if name not in self._read:
            plugin, row = self._declared[name]
            self._read[name] = declared_row(row, plugin)
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._declared

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


def read_rows(tables: Mapping[str, object], location: str) -> Mapping[str, Row]:
    """Parse rows from TOML, {name: {...}}. Raises ConfigError with the place, the member and the accepted values."""
    return {name: _row(name, as_object(table), f"{location}: [{name}]") for name, table in tables.items()}


def maker_abilities(name: str) -> tuple[Abilities, ...]:
    """Return the built-in abilities of a maker's models, which the row's own data may override."""
    return MAKERS[name].abilities if name in MAKERS else ()


def is_own_address(name: str, url: str) -> bool:
    """Return True if a URL is the maker's own address, not a proxy or a gateway."""
    return name in MAKERS and _place(url) == _place(MAKERS[name].base_url)


def row_for_url(url: str) -> Row | None:
    """Return the built-in row whose own address has this host, for its quirks as a server of Chat Completions.

    On this machine the port decides.
    """
    place = _place(url)
    for row in built_in().values():
        if row.family in ("chat", "responses") and place[0] and _place(row.base_url) == place:
            return row
    return None


def _place(url: str) -> tuple[str, int | None]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    here = host in ("localhost", "127.0.0.1", "::1")
    return ("localhost", parts.port) if here else (host, None)


def _row(name: str, table: Mapping[str, object], location: str) -> Row:
    accepted = [each.name for kind in (Row, Quirks) for each in fields(kind) if each.name not in DECLARED]
    if unknown := next((member for member in table if member not in accepted), None):
        raise ConfigError(f"{location} {unknown}: unknown; accepted are {', '.join(accepted)}")

    def take(member: str, default: T) -> T:
        value = table.get(member, default)
        if not isinstance(value, type(default)):
            raise ConfigError(f"{location} {member}: a {_SAID[type(default)]} is needed, not {value!r}")
        return value

    variable = name.upper().replace("-", "_")
    usual = {each.name: each.default for each in fields(Quirks)}
    given = {
        "efforts": _knobs(take("efforts", list[object]()), location),
        "cache_marks": _texts(take("cache_marks", list[object]()), f"{location} cache_marks"),
        "body": JsonObject({key: json_freeze(value) for key, value in take("body", dict[str, object]()).items()}),
    }
    quirks = {member: take(member, default) for member, default in usual.items() if member not in given}
    row = Row(
        name,
        family=take("family", "chat"),
        base_url=take("base_url", ""),
        key=take("key", f"{variable}_API_KEY"),
        base=take("base", f"{variable}_BASE_URL"),
        token=take("token", ""),
        models=_texts(take("models", list[object]()), f"{location} models"),
        default=take("default", ""),
        free=take("free", False),  # noqa: FBT003 -- a default, like the others
        via=take("via", ""),
        prices=take("prices", ""),
        hour=take("hour", False),  # noqa: FBT003 -- a default, like the others
        own_models=take("own_models", ""),
        owned_by=take("owned_by", ""),
        paths=take("paths", False),  # noqa: FBT003 -- a default, like the others
        credentials=take("credentials", False),  # noqa: FBT003 -- a default, like the others
        headers=_headers(take("headers", dict[str, object]()), location),
        abilities=tuple(_abilities(each, location) for each in take("abilities", list[object]())),
        quirks=replace(Quirks(), **quirks, **given),
    )
    _check(row, location)
    return row


def _texts(values: Sequence[object], location: str) -> tuple[str, ...]:
    texts = tuple([value for value in values if isinstance(value, str)])
    if len(texts) < len(values):
        raise ConfigError(f"{location}: a list of strings is needed, not {list(values)!r}")
    return texts


def _headers(headers: Mapping[str, object], location: str) -> Mapping[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name) or name.lower() in _OWN_HEADERS:
            raise ConfigError(f"{location} headers: {name!r} is set by sagent itself, or is not a header name")
        if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
            raise ConfigError(f"{location} headers: {name} needs a string of printable ASCII")  # it may be a key
    return {name: str(value) for name, value in headers.items()}


def _check(row: Row, location: str) -> None:
    """Raise ConfigError for a meaningless member, which would only lead to wrong requests."""
    chosen = {name: str(getattr(row if hasattr(row, name) else row.quirks, name)) for name in _CHOICES}
    for name, value in (*chosen.items(), *(("effort", knob.style) for knob in row.quirks.efforts)):
        if value not in _CHOICES[name]:
            accepted = (choice or "''" for choice in _CHOICES[name])
            raise ConfigError(f"{location} {name}: {value!r} is not one of {', '.join(accepted)}")
    if not row.quirks.max_tokens:
        raise ConfigError(f"{location} max_tokens: the name of the output limit is needed, as in max_completion_tokens")
    if row.quirks.id_length < 0 or row.quirks.longest_id < 1:
        name = "id_length" if row.quirks.id_length < 0 else "longest_id"
        raise ConfigError(f"{location} {name}: a number of characters is needed, not {getattr(row.quirks, name)}")


def _abilities(raw: object, place: str) -> Abilities:
    table = as_object(raw)
    names, levels = {each.name for each in fields(Abilities)}, table.get("efforts")
    listed: tuple[Effort, ...] = tuple([level for level in EFFORTS if as_array(levels).count(level)])
    fits = all(
        isinstance(value, str if name in ("of", "like") else bool if name != "efforts" else list)
        for name, value in table.items()
    )
    if not table or not fits or len(listed) < len(as_array(levels)) or {*table} - names:
        raise ConfigError(
            f'{place} abilities: each is {{ of = "prod", like = "gpt-5.6-terra" }}, or says itself what models can do: '
            f"efforts = [...] of {', '.join(EFFORTS)}; images, audio, tools, structured, tool_search as true or false"
        )
    said = {name: value for name, value in table.items() if name != "efforts"}
    return replace(Abilities(efforts=None if levels is None else listed), **said)


def _knobs(tables: Sequence[object], location: str) -> tuple[EffortParameter, ...]:
    knobs: list[EffortParameter] = []
    for table in map(as_object, tables):
        listed = as_array(table.get("levels"))
        levels: tuple[Effort, ...] = tuple([level for level in EFFORTS if listed.count(level)])
        if not isinstance(table.get("style"), str) or len(levels) < len(listed):
            raise ConfigError(
                f'{location} efforts: each is {{ of = "gpt-oss", style = "level", levels = [...] }}, with levels of '
                + ", ".join(EFFORTS)
            )
        knobs.append(EffortParameter(as_str(table.get("of")), as_str(table["style"]), levels))
    return tuple(knobs)
