"""Providers by name, and the provider a model's id points to."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.providers.access import first_set
from sagent.providers.endpoint import Way, read_access
from sagent.providers.exchange import Timeouts
from sagent.providers.rows import Row, built_in

if TYPE_CHECKING:
    from sagent.model import Provider
    from sagent.providers.anthropic import Anthropic
    from sagent.providers.chat import ChatProvider
    from sagent.providers.google import Google
    from sagent.providers.llamacpp import LlamaCpp
    from sagent.providers.responses import ResponsesProvider
    from sagent.providers.transport import Transport


def provider_named(
    name: str,
    *,
    key: str | None = None,
    base_url: str | None = None,
    auth: str | None = None,
    rows: Mapping[str, Row] | None = None,
    environ: Mapping[str, str] | None = None,
    transport: "Transport | Way | None" = None,
    timeouts: Timeouts | None = None,
) -> "Provider":
    """A provider, by its key or else by the environment. `rows` are a user's own, which come first.

    `auth` is "key", "bearer" or "credentials"; `transport` "direct" or "sdk". Raises UsageError: for an unknown name
    with the nearest known ones, for a missing key with its variable.
    """
    row = row_named(name, rows)
    if row.name in _OWN_WAYS:
        own = _own_way(row.name)
        if key is not None:
            return own.from_key(key, base_url=base_url, transport=transport, timeouts=timeouts)
        return own.from_env(base_url=base_url, auth=auth, environ=environ, transport=transport, timeouts=timeouts)
    access = read_access(row, key=key, base_url=base_url, auth=auth, environ=environ)
    return _of_family(row)(row, access, transport=transport, timeouts=timeouts)


_OWN_WAYS = {"llamacpp": "LlamaCpp"}
"""Providers that are more than an address and a key, by the class that knows how they are reached."""


def _own_way(name: str) -> "type[LlamaCpp]":
    from sagent import providers

    return getattr(providers, _OWN_WAYS[name])


def _of_family(row: Row) -> "type[Anthropic | Google | ResponsesProvider | ChatProvider]":
    match row.family:
        case "anthropic":
            from sagent.providers.anthropic import Anthropic

            return Anthropic
        case "google":
            from sagent.providers.google import Google

            return Google
        case "responses":
            from sagent.providers.responses import ResponsesProvider

            return ResponsesProvider
        case _:
            from sagent.providers.chat import ChatProvider

            return ChatProvider


def row_named(name: str, rows: Mapping[str, Row] | None = None) -> Row:
    """A row by name, whatever its case. Raises UsageError with the nearest names."""
    known = {**built_in(), **(rows or {})}
    wanted = name.strip().lower().replace("_", "-")
    if row := known.get(name) or known.get(wanted):
        return row
    from difflib import get_close_matches

    near = get_close_matches(wanted, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known are {', '.join(sorted(known))}."
    raise UsageError(f"There is no provider {name!r}. {hint}")


def infer(model_id: str, rows: Mapping[str, Row] | None = None) -> str | None:
    """The provider that an id without one points to; None when none is known."""
    wanted = model_id.lower()
    best = max(
        (
            (len(start), row.name)
            for row in {**built_in(), **(rows or {})}.values()
            for start in row.models
            if wanted.startswith(start.lower())
        ),
        default=None,
    )
    return best[1] if best else None


def has_key(row: Row, environ: Mapping[str, str] | None = None) -> bool:
    """Whether the environment holds a key of this provider."""
    environ = os.environ if environ is None else environ
    return bool(first_set(f"{row.key} {row.token}", environ)[1])
