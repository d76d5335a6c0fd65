"""Checks of a provider's keys."""

from collections.abc import Mapping
from contextlib import aclosing

from sagent.errors import ModelError
from sagent.model import Provider
from sagent.providers.families.endpoint import Endpoint
from sagent.providers.registry import provider_named
from sagent.providers.rows import Row

_KEY_PAGES = {"openrouter": "/key"}
"""Pages that check a key, of providers whose list of models is public."""


async def prove_key(name: str, provider: Provider, rows: Mapping[str, Row] | None = None) -> bool:
    """Check each key of a provider with a request; return False if it may accept any key. Raises ModelError."""
    if not isinstance(provider, Endpoint):
        await provider.models()
        return True

    async def ask(endpoint: Provider) -> None:
        if isinstance(endpoint, Endpoint) and (page := _KEY_PAGES.get(name)):
            await endpoint.fetch(endpoint.access.base_url.rstrip("/") + page)
        else:
            await endpoint.models()

    access, number, of = provider.access, 1, len(provider.access.others) + 1
    await ask(provider)
    try:
        for number, key in enumerate((*access.others, "sagent-doctor-tries-a-wrong-key"), 2):
            source = f"{access.variable} (key {number} of {of})"
            alone = provider_named(name, key=key, base_url=access.base_url or None, rows=rows or {}, source=source)
            async with aclosing(alone):
                await ask(alone)
    except ModelError as error:
        if number <= of:
            raise
        return not access.key or error.kind in ("auth", "permission")
    return not access.key
