"""Providers by name, and the provider a model's id points to."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.providers.access import Access, Variables, access_from_env, access_from_key, either, first_set
from sagent.providers.exchange import Timeouts
from sagent.providers.rows import Row, built_in

if TYPE_CHECKING:
    from sagent.model import Provider
    from sagent.providers.transport import Transport

_OWN_HEADER = ("anthropic", "google")  # families with a header of their own for keys


def provider_named(
    name: str,
    *,
    key: str | None = None,
    base_url: str | None = None,
    auth: str | None = None,
    rows: Mapping[str, Row] | None = None,
    environ: Mapping[str, str] | None = None,
    transport: "Transport | None" = None,
    timeouts: Timeouts | None = None,
) -> "Provider":
    """A provider, by its key or else by the environment. `rows` are a user's own, which come first.

    Raises UsageError: for an unknown name with the nearest known ones, for a missing key with its variable.
    """
    row = row_named(name, rows)
    access = _access(row, key, base_url, auth, environ)
    if row.family == "anthropic":
        from sagent.providers.anthropic import Anthropic

        return Anthropic(access, transport=transport, timeouts=timeouts)
    if row.family == "google":
        from sagent.providers.google import Google

        return Google(access, transport=transport, timeouts=timeouts)
    if row.family == "responses":
        from sagent.providers.responses import ResponsesProvider

        return ResponsesProvider(row, access, transport=transport, timeouts=timeouts)
    from sagent.providers.chat import ChatProvider
    from sagent.providers.openai_endpoint import settled

    return ChatProvider(settled(row, access), access, transport=transport, timeouts=timeouts)


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


def _access(
    row: Row, key: str | None, base_url: str | None, auth: str | None, environ: Mapping[str, str] | None
) -> Access:
    if key is not None:
        bearer = row.family not in _OWN_HEADER or auth == "bearer"
        return access_from_key(row.name, key, base_url or row.base_url, variable=either(row.key), bearer=bearer)
    variables = Variables(row.key, row.base, row.token)
    auth = auth if row.family in _OWN_HEADER else "bearer"
    return access_from_env(row.name, variables, row.base_url, base_url=base_url, auth=auth, environ=environ)
