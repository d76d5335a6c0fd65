"""Providers by name, and the provider a model's id points to."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import urlsplit

from sagent.errors import SagentError, UsageError
from sagent.lib.raised import reason
from sagent.model import Provider
from sagent.plugin import resolve
from sagent.providers.access import Access, check_text, first_set
from sagent.providers.families.endpoint import Endpoint, GivenTransport, read_access
from sagent.providers.rows import Row, built_in, built_in_row, installed_rows, lacking, model_beginnings, row_for_url
from sagent.providers.wire.exchange import Timeouts

if TYPE_CHECKING:
    from sagent.providers.families.anthropic.provider import Anthropic
    from sagent.providers.families.chat.provider import ChatProvider
    from sagent.providers.families.google.provider import Google
    from sagent.providers.families.responses.provider import ResponsesProvider


_OPEN_WEIGHTS = ("gemma", "gpt-oss")
"""Prefixes of models that anybody can serve, though the maker's own API is not Chat Completions."""


def provider_named(
    name: str,
    *,
    key: str | None = None,
    base_url: str | None = None,
    auth: str | None = None,
    rows: Mapping[str, Row] | None = None,
    environ: Mapping[str, str] | None = None,
    transport: GivenTransport = None,
    timeouts: Timeouts | None = None,
    source: str = "",
) -> Provider:
    """Return a provider, with its key or otherwise from the environment. `rows` are a user's own, which take
    precedence; `source` is where the key was found, for messages.

    `auth` is "key", "bearer" or "credentials"; `transport` "direct" or "sdk". Raises UsageError: for an unknown name
    with the nearest known ones, for a missing key with its variable.
    """
    check_text("name", name)
    row = row_named(name, rows)
    if transport == "sdk" and row.make and row.credentials:
        raise UsageError(f"{row.name} uses a login, not an SDK: leave --transport out.")
    kind = class_of(row, rows)
    if issubclass(kind, Endpoint) and kind.__init__ is Endpoint.__init__:
        access = read_access(row, key=key, base_url=base_url, auth=auth, environ=environ, source=source)
        return cast("_Own", kind)(row, access, transport=transport, timeouts=timeouts)
    return _own_way(
        row, kind, key, {"base_url": base_url, "environ": environ, "transport": transport, "timeouts": timeouts}
    )


class _Own(Protocol):
    """A class of providers: made from a row and an access, or with its own constructor."""

    def __call__(
        self, row: Row, access: Access, *, transport: GivenTransport, timeouts: Timeouts | None
    ) -> Provider: ...

    from_env: Callable[..., Provider]
    from_key: Callable[..., Provider]


def class_of(row: Row, rows: Mapping[str, Row] | None = None) -> type[object]:
    """Return the class of a row's provider. Raises UsageError if its plugin is unavailable, or if the row's cloud has
    no such provider."""
    make = row.make or _made_as(row, {**built_in(), **(rows or {})} if row.via else {})
    if not make:
        return _of_family(row)
    try:
        kind = resolve(make)
        if not isinstance(kind, type):
            raise TypeError(f"{make} is no class")
    except Exception as error:
        raise _broken(row, error) from error
    return cast("type[object]", kind)


def _made_as(row: Row, known: Mapping[str, Row]) -> str:
    """Return the maker of the cloud's provider of the same family; "" if a row names no cloud."""
    if not row.via:
        return ""
    there = {each.via: each.make for each in known.values() if each.make and each.via and each.family == row.family}
    if make := there.get(row.via, ""):
        return make
    raise UsageError(
        f"The provider {row.name} has via = {row.via!r}{lacking(row.via)}. Models of the family {row.family} are "
        f"reached via {' or '.join(there) or 'no cloud'}."
    )


def _own_way(row: Row, kind: type[object], key: str | None, arguments: Mapping[str, object]) -> Provider:
    """Make a provider by its class's from_key or from_env, with the given arguments that it accepts."""
    from inspect import Parameter, signature

    own = cast("_Own", kind)
    make = own.from_env if key is None else partial(own.from_key, key)
    try:
        parameters = signature(make).parameters
        whole = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
        if arguments["base_url"] is not None and not whole and "base_url" not in parameters:
            raise UsageError(f"{row.name} has an address of its own: leave --base-url out.")
        taken = {name: value for name, value in arguments.items() if name in parameters or whole}
        if key is not None:
            taken.pop("environ", None)
        return make(**taken)
    except SagentError:
        raise
    except Exception as error:
        raise _broken(row, error) from error


def _broken(row: Row, error: Exception) -> UsageError:
    return UsageError(f"The provider {row.name} of the plugin {row.plugin} cannot be used: {reason(error)}.")


def _of_family(row: Row) -> "type[Anthropic | Google | ResponsesProvider | ChatProvider]":
    match row.family:
        case "anthropic":
            from sagent.providers.families.anthropic.provider import Anthropic as Family
        case "google":
            from sagent.providers.families.google.provider import Google as Family
        case "responses":
            from sagent.providers.families.responses.provider import ResponsesProvider as Family
        case _:
            from sagent.providers.families.chat.provider import ChatProvider as Family
    return Family


def row_called(name: str, rows: Mapping[str, Row] | None = None) -> Row | None:
    """Return a row by name, ignoring case, with `_` for `-`, or by the name of a class (`OpenAISubscription`); None if
    there is none."""
    wanted, own = name.strip().lower(), rows or {}
    for each in dict.fromkeys((name, wanted, wanted.replace("_", "-"))):
        if row := own.get(each) or built_in_row(each):
            return row
    return next((row for row in built_in().values() if row.name.replace("-", "") == wanted), None)


def row_named(name: str, rows: Mapping[str, Row] | None = None, gone: Mapping[str, str] = {}) -> Row:
    """Return a row by name, as `row_called` finds it. Raises UsageError with its missing plugin, of which `gone` names
    others', or with the nearest names."""
    if row := row_called(name, rows) or (rows is None and row_called(name, installed_rows())):
        return row  # of those that are installed, for a program without settings
    if ending := lacking(name, gone):
        raise UsageError(f"The provider {name} is not known{ending}.")
    from sagent.lib.text import unlike

    near, known = nearest_rows(name, rows), ", ".join(sorted({**built_in(), **(rows or {})}))
    hint = f"Did you mean {' or '.join(near)}?{unlike(name, near)}" if near else f"The providers are {known}."
    raise UsageError(f"There is no provider {name!r}. {hint}")


def nearest_rows(name: str, rows: Mapping[str, Row] | None = None) -> list[str]:
    """Return the makers of models of this name ("gemini" is Google's), and providers with a similar name."""
    from difflib import get_close_matches

    known, wanted = {**built_in(), **(rows or {})}, name.strip().lower()
    makers = [row.name for row in known.values() if any(start.lower().startswith(wanted) for start in row.models)]
    makers = makers if len(wanted) > 2 else []  # "o" and "gp" name no maker
    like = get_close_matches(wanted.replace("_", "-"), known, n=3, cutoff=0.7 if makers else 0.5)
    return list(dict.fromkeys((*makers, *like)))[:3]


def infer(model_id: str, rows: Mapping[str, Row] | None = None, *, at: str = "") -> str | None:
    """Return the provider that a model id without one implies; None if none is known.

    "vendor/model" is a name that several providers use, and "model:size" one of weights that anybody can serve. The
    same applies to a Chat Completions name, and to other makers' open weights, `at` an address that is not the maker's,
    because that address must not get the maker's key.
    """
    wanted, own = model_id.lower(), rows or {}
    theirs = [(start, name) for name, row in own.items() for start in row.models]
    fitting = (
        (len(start), name)
        for start, name in (*(each for each in model_beginnings() if each[1] not in own), *theirs)
        if wanted.startswith(start.lower()) and ("/" in start or "/" not in wanted)
        if (name in own and not own[name].plugin)  # described by the person
        or not ((":" in wanted and ":" not in start) or _is_strange(name, own, wanted, at))
    )
    best = max(fitting, default=None)
    return best[1] if best else None


def _is_strange(name: str, rows: Mapping[str, Row], model: str, at: str) -> bool:
    """Return True if an address is not the maker's, so that its server may have any open weights. For makers with their
    own API that applies to a few models; the others are a proxy's that uses that API."""
    row = (rows.get(name) or built_in_row(name)) if at else None
    if row is None or (row.family != "chat" and not model.startswith(_OPEN_WEIGHTS)):
        return False
    return row.name not in (urlsplit(at).hostname or "") and row_for_url(at) != row


def has_key(row: Row) -> bool:
    """Return True if the environment has a key of this provider."""
    return bool(first_set(f"{row.key} {row.token}")[1])
