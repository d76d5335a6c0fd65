"""Providers and addresses of `api_base` settings."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from sagent.config.advisors import Placed
from sagent.config.settings import Address, CustomProvider, rows_by_name
from sagent.providers.access import first_set
from sagent.providers.rows import Row, built_in_row


def provider_of(model: str, custom: Mapping[str, CustomProvider], at: str = "") -> str:
    """Return the provider in "provider/model", or the one that a name implies `at` an address; "" for neither."""
    from sagent.providers.registry import infer, row_called

    rows = _rows(custom)
    head, slash, rest = model.partition("/")
    if slash and rest and (row := row_called(head, rows)):
        return row.name
    return infer(model, rows, at=at) or ""


def with_path(base_url: str, provider: str, custom: Mapping[str, CustomProvider]) -> str:
    """Return an address in the form the provider needs: one without a path gets the provider's, `/v1` for most.

    People usually give Ollama's address as http://localhost:11434, but the API is at http://localhost:11434/v1.
    """
    row = custom[provider].row if provider in custom else built_in_row(provider)
    path = urlsplit(row.base_url).path if row else ""
    return base_url + path if urlsplit(base_url).path in ("", "/") else base_url


def own_address(provider: str, providers: Mapping[str, CustomProvider], environ: Mapping[str, str]) -> Address:
    """Return a provider's own address and key, for those who do not share the executor's server."""
    custom, row = providers.get(provider), built_in_row(provider)
    if custom is not None and custom.base_url:
        return Address(custom.base_url, custom.api_key)
    known = row or (custom.row if custom else None)
    base = (first_set(known.base, environ)[1] or known.base_url) if known else ""
    return Address(base, custom.api_key if custom else "")


def addresses(
    placed: Iterable[Placed], custom: Mapping[str, CustomProvider], apart: tuple[str, Address] | None
) -> Iterator[tuple[str, Address]]:
    """Yield, by name, the addresses of advisors that are not at their provider's default. `apart` is the executor's
    provider if it has its own address, with that provider's address for others: the executor's address and key are not
    shared."""
    for advisor, address in placed:
        provider = provider_of(advisor.model, custom, address.base_url)
        if address.base_url:
            yield advisor.name, replace(address, base_url=with_path(address.base_url, provider, custom))
        elif apart is not None and provider == apart[0]:
            yield advisor.name, Address(apart[1].base_url, address.api_key or apart[1].api_key)
        elif address.api_key:
            yield advisor.name, address


def place_executor(provider: str, address: Address, providers: Mapping[str, CustomProvider]) -> CustomProvider:
    """Return executor's provider, reached at its address and by its key. Raises UsageError for an unknown provider."""
    from sagent.providers.registry import row_named

    custom = providers.get(provider) or CustomProvider(row_named(provider, _rows(providers)))
    row, given, key = custom.row, custom.given, custom.api_key
    if address.base_url:
        key = ""  # it is of another server
        row, given = replace(row, base_url=with_path(address.base_url, provider, providers)), (*given, "base_url")
    if address.api_key:
        given = (*given, "api_key")
    return CustomProvider(row, address.api_key or key, tuple(dict.fromkeys(given)))


def _rows(custom: Mapping[str, CustomProvider]) -> Mapping[str, Row]:
    return rows_by_name(custom)
