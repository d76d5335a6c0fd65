"""Providers by name, and the provider a model's id points to."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sagent.errors import UsageError
from sagent.model import Provider
from sagent.providers.access import check_text, first_set
from sagent.providers.families.endpoint import Way, read_access
from sagent.providers.rows import MAKERS, Row, built_in, row_for_url
from sagent.providers.wire.exchange import Timeouts
from sagent.providers.wire.transport import Transport

if TYPE_CHECKING:
    from sagent.providers.families.anthropic.provider import Anthropic
    from sagent.providers.families.bedrock import Bedrock
    from sagent.providers.families.chat.provider import ChatProvider
    from sagent.providers.families.google.provider import Google
    from sagent.providers.families.responses.provider import ResponsesProvider


_OPEN_WEIGHTS = ("gemma", "gpt-oss")
"""How models are called that anybody can serve, though the maker's row speaks another API than Chat Completions."""


def provider_named(
    name: str,
    *,
    key: str | None = None,
    base_url: str | None = None,
    auth: str | None = None,
    rows: Mapping[str, Row] | None = None,
    environ: Mapping[str, str] | None = None,
    transport: Transport | Way | None = None,
    timeouts: Timeouts | None = None,
    source: str = "",
) -> Provider:
    """A provider, with its key or otherwise from the environment. `rows` are a user's own, which take precedence;
    `source` is where the key was found, for messages.

    `auth` is "key", "bearer" or "credentials"; `transport` "direct" or "sdk". Raises UsageError: for an unknown name
    with the nearest known ones, for a missing key with its variable.
    """
    check_text("name", name)
    row = row_named(name, rows)
    if row.name in _OWN_WAYS:
        return _own_way(row.name, key, base_url, environ, transport, timeouts)
    access = read_access(row, key=key, base_url=base_url, auth=auth, environ=environ, source=source)
    return _of_family(row)(row, access, transport=transport, timeouts=timeouts)


_OWN_WAYS = ("llamacpp", "selfhosted", "anthropic-cli", "copilot", "openai-subscription")
"""Providers that are more than an address and a key."""


def _own_way(
    name: str,
    key: str | None,
    base_url: str | None,
    environ: Mapping[str, str] | None,
    transport: Transport | Way | None,
    timeouts: Timeouts | None,
) -> Provider:
    if transport == "sdk" and name not in ("llamacpp", "selfhosted"):
        raise UsageError(f"{name} uses a login, not an SDK: leave --transport out.")
    match name:
        case "selfhosted":
            from sagent.providers.local.selfhosted import SelfHosted

            if key is not None:
                return SelfHosted.from_key(key, base_url=base_url)
            return SelfHosted.from_env(base_url=base_url, environ=environ)
        case "anthropic-cli":
            from sagent.providers.plans.anthropic_cli import AnthropicCLI

            if key is not None:
                return AnthropicCLI.from_key(key)
            return AnthropicCLI.from_env(base_url=base_url, environ=environ, timeouts=timeouts)
        case "llamacpp":
            from sagent.providers.local.llamacpp import LlamaCpp as Own
        case "copilot":
            from sagent.providers.plans.copilot import Copilot as Own
        case _:
            from sagent.providers.plans.openai_subscription import OpenAISubscription as Own
    if key is not None:
        return Own.from_key(key, base_url=base_url, transport=transport, timeouts=timeouts)
    return Own.from_env(base_url=base_url, environ=environ, transport=transport, timeouts=timeouts)


def _of_family(row: Row) -> "type[Anthropic | Bedrock | Google | ResponsesProvider | ChatProvider]":
    match row.family:
        case "anthropic" if row.via == "bedrock":
            from sagent.providers.families.bedrock import Bedrock as Family
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
    """A row by name, whatever its case, `_` for `-` too, or by the name of a class of ours (`OpenAISubscription`); None
    where there is none."""
    wanted = name.strip().lower()
    if (maker := MAKERS.get(wanted)) and wanted not in (rows or {}):
        return maker
    known = {**built_in(), **(rows or {})}
    if row := known.get(name) or known.get(wanted) or known.get(wanted.replace("_", "-")):
        return row
    return next((row for row in built_in().values() if row.name.replace("-", "") == wanted), None)


def row_named(name: str, rows: Mapping[str, Row] | None = None) -> Row:
    """A row by name, as `row_called` finds it. Raises UsageError with the nearest names."""
    if row := row_called(name, rows):
        return row
    known = {**built_in(), **(rows or {})}
    from sagent.lib.text import unlike

    near = nearest_rows(name, rows)
    hint = (
        f"Did you mean {' or '.join(near)}?{unlike(name, near)}"
        if near
        else f"The providers are {', '.join(sorted(known))}."
    )
    raise UsageError(f"There is no provider {name!r}. {hint}")


def nearest_rows(name: str, rows: Mapping[str, Row] | None = None) -> list[str]:
    """Whose models are called so ("gemini" is Google's), and whose own name is like it."""
    from difflib import get_close_matches

    known, wanted = {**built_in(), **(rows or {})}, name.strip().lower()
    makers = [row.name for row in known.values() if any(start.lower().startswith(wanted) for start in row.models)]
    makers = makers if len(wanted) > 2 else []  # "o" and "gp" name no maker
    like = get_close_matches(wanted.replace("_", "-"), known, n=3, cutoff=0.7 if makers else 0.5)
    return list(dict.fromkeys((*makers, *like)))[:3]


def infer(model_id: str, rows: Mapping[str, Row] | None = None, *, at: str = "") -> str | None:
    """The provider that an id without one points to; None if none is known.

    "vendor/model" is a name that several providers use, and "model:size" a name of weights that anybody can serve. The
    same applies to a Chat Completions name, and to open weights of other makers, `at` an address that is not their
    maker's, because that address must not be sent the maker's key.
    """
    wanted, own = model_id.lower(), rows or {}
    best = max(
        (
            (len(start), row.name)
            for row in {**built_in(), **own}.values()
            for start in row.models
            if wanted.startswith(start.lower())
            and ("/" in start or "/" not in wanted)
            and (row.name in own or not ((":" in wanted and ":" not in start) or _is_strange(row, wanted, at)))
        ),
        default=None,
    )
    return best[1] if best else None


def _is_strange(row: Row, wanted: str, at: str) -> bool:
    """Return True if an address is not the maker's, so that its server may have any open weights. Of makers with an API
    of their own that is so for a few models; at another address, the others are a proxy's that speaks that API."""
    if not at or (row.family != "chat" and not wanted.startswith(_OPEN_WEIGHTS)):
        return False
    return row.name not in (urlsplit(at).hostname or "") and row_for_url(at) != row


def has_key(row: Row) -> bool:
    """Whether the environment holds a key of this provider."""
    return bool(first_set(f"{row.key} {row.token}")[1])
