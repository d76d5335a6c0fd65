"""The settings as rows for a screen: name, value, source."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, cast

from sagent.config.declared import BY_NAME, RULES
from sagent.config.plugins import named_errors
from sagent.config.settings import Settings, Wanted, Wish
from sagent.plugin import Setting, Table, resolve


class Row(NamedTuple):
    """One setting as text. `origin` is a file, a variable, a flag, or "default"."""

    name: str
    value: str
    origin: str


def show(settings: Settings) -> tuple[Row, ...]:
    """Return every setting, keys and passwords masked."""
    return tuple(_rows(settings))


def _rows(settings: Settings) -> Iterator[Row]:
    waits = {each.name: each for each in settings.wish.wanted} if settings.wish else {}
    for field in settings.plugins.every(Setting):
        value: object = getattr(settings, field.name) if field.name in BY_NAME else settings.of(field)
        origin = settings.origins.get(field.name, "default")
        if settings.wish and (wanted := waits.get(field.name)):
            origin += f"; {_wanted(settings.wish, wanted, wanted.text)}"
        yield Row(field.name, _text(value), origin)
    origin = settings.origins.get("advisors", "default")
    for name, address in settings.advisor_addresses.items():
        yield Row(f"advisors.{name}.api_base", _text(address.base_url), origin)
        yield Row(f"advisors.{name}.api_key", _masked(address.api_key), origin)
    for rule in RULES.values():
        if rule.name in settings.origins:
            value: object = getattr(settings.advisor_rules, rule.member)
            yield Row(rule.name, _text(value), settings.origins[rule.name])
    yield from _provider_rows(settings)
    for table in settings.plugins.every(Table):
        yield from table_rows(settings, table)
    for name, model in settings.aliases.items():
        yield Row(f"aliases.{name}", model, settings.origins.get("aliases", "default"))
    for name, prices in settings.prices.items():
        for key, value in prices.items():
            yield Row(f'prices."{name}".{key}', _text(value), settings.origins.get("prices", "default"))


def _provider_rows(settings: Settings) -> Iterator[Row]:
    """Yield the members of each provider that the person describes."""
    origin = settings.origins.get("providers", "default")
    described = ((name, provider) for name, provider in settings.providers.items() if not provider.row.plugin)
    for name, provider in described:
        yield Row(f"providers.{name}.base_url", _text(provider.row.base_url), origin)
        yield Row(f"providers.{name}.family", provider.family, origin)
        yield Row(f"providers.{name}.api_key", _masked(provider.api_key), origin)
        for key in provider.given:
            if key not in ("base_url", "family", "api_key"):
                value: object = getattr(provider.row if hasattr(provider.row, key) else provider.row.quirks, key)
                yield Row(f"providers.{name}.{key}", _text(value), origin)


def table_rows(settings: Settings, table: Table) -> Iterator[Row]:
    """Yield a table's rows, and a project's rows that are not in effect."""
    if table.show and table.name in settings.origins:
        show = cast("Callable[[object], Iterable[tuple[str, ...]]]", resolve(table.show))
        value: object = getattr(settings, table.name, None) or settings.of(table)
        with named_errors(f"The table {table.name}", settings.plugins.owner(Table, table.name)):
            rows = tuple(show(value))
        for name, text, *origin in rows:
            yield Row(f"{table.name}.{name}", text, origin[0] if origin else settings.origins[table.name])
    if (wish := settings.wish) is not None:
        for wanted in (each for each in wish.wanted if each.name == table.name):
            yield from (Row(table.name, "none", _wanted(wish, wanted, text)) for text in wanted.value)


def _wanted(wish: Wish, requested: Wanted, text: str) -> str:
    """Describe a project file's wish, and why it is not in effect."""
    why = "you declined it" if wish.refused else "waits for your trust"
    return f"{wish.file}:{requested.line} wants {text}: {why}"


def _text(value: object) -> str:
    if value == ():
        return "none"
    if value is None or value == "":
        return "-"
    if isinstance(value, tuple):
        return ", ".join(map(str, cast("tuple[object, ...]", value)))
    if isinstance(value, bool):
        return str(value).lower()
    return re.sub(r"(://)[^/@\s]+@", r"\1****@", str(value))


def _masked(key: str) -> str:
    if not key:
        return "-"
    return f"****{key[-4:]}" if len(key) >= 20 else "****"
