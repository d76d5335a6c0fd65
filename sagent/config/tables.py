"""The tables of the person's file: providers they describe, prices they know."""

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from decimal import Decimal
from typing import cast

from sagent.config.files import File, GivenTable
from sagent.config.keyring import IN_KEYRING, kept_key
from sagent.config.settings import CustomProvider
from sagent.config.values import text_of, url
from sagent.errors import ConfigError
from sagent.plugin import ProviderRow, RefusedError, choice
from sagent.providers.rows import DECLARED, NAME, Quirks, Row, built_in_row, lacking, read_rows

_ROW = tuple(each.name for each in fields(Row) if each.name not in DECLARED)
_QUIRKS = tuple(each.name for each in fields(Quirks))
_KEYS = ("base_url", "api_key", *(name for name in (*_ROW, *_QUIRKS) if name != "base_url"))


def read_providers(given_table: GivenTable) -> Mapping[str, CustomProvider]:
    """Parse `[providers.NAME]`: any member of a row of providers.toml, and `api_key`. Raises ConfigError with file and
    line.

    One with the name of a provider of ours, or of a `plugged` plugin's, changes the given members of that one.
    """
    file, found = given_table.file, dict[str, CustomProvider]()
    for name, given in given_table.rows().items():
        if not NAME.fullmatch(name):
            raise file.error(
                ("providers", name), f"{name!r} is not a valid provider name: use a-z and 0-9, with . _ - in between"
            )
        for key in given:
            if key not in _KEYS:
                raise file.unknown(("providers", name, key), _KEYS)
        known = given_table.providers.get(name) or built_in_row(name)
        if "base_url" not in given and known is None:
            if of := lacking(name, given_table.gone(ProviderRow)):
                given_table.warn(f"{file.where('providers', name)}: providers.{name} is ignored{of}.")
                continue
            from sagent.providers.registry import nearest_rows

            hint = "".join(f", or is providers.{near} meant?" for near in nearest_rows(name)[:1]) or "."
            raise file.error(("providers", name), f"providers.{name} needs a base_url{hint}")
        members = {key: _member(file, name, key, value) for key, value in given.items() if key != "api_key"}
        row = read_rows({name: members}, str(file.path))[name]
        if known is not None:  # changes the given members of that one
            quirks = {key: getattr(row.quirks, key) for key in members if key in _QUIRKS}
            changed = {key: getattr(row, key) for key in members if key in _ROW}
            row = replace(known, quirks=replace(known.quirks, **quirks), plugin="", **changed)
        key = _text(file, name, "api_key", given.get("api_key", ""))
        if key == IN_KEYRING:
            key = kept_key(name)
        found[name] = CustomProvider(row, key, tuple(given))
    return found


def _member(file: File, name: str, key: str, value: object) -> object:
    """Return a member's value in a row's form. Raises ConfigError with the line of the member."""
    if key in ("base_url", "family"):
        text = _text(file, name, key, value)
        return "chat" if (key, text) == ("family", "openai") else text
    value = plain(value)
    try:
        read_rows({name: {key: value}}, "")
    except (ConfigError, TypeError) as error:
        said = str(error).partition(f"[{name}] ")[2] or f"{key}: {error}"
        raise file.error(("providers", name, key), f"providers.{name}.{said.rstrip('.')}") from None
    return value


def plain(value: object) -> object:
    """Return a value with its numbers in JSON's form: the file's are exact, for money."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list):
        return [plain(item) for item in cast("list[object]", value)]
    return value


def _text(file: File, name: str, key: str, value: object) -> str:
    """Return a text of a provider. A key is never quoted in a message."""
    family = choice("openai", "anthropic", "responses", "google", "chat")
    read = {"base_url": url, "family": family, "api_key": text_of}[key]
    try:
        return str(read(value))
    except RefusedError as error:
        shown = "" if key == "api_key" else f" = {value!r}"
        raise file.error(("providers", name, key), f"{key}{shown} is not accepted: {error}") from None


def read_prices(source: GivenTable) -> Mapping[str, Mapping[str, object]]:
    """`[prices."provider/model"]`, USD per million tokens. Raises ConfigError with file and line."""
    from sagent.cost.tariff import read_tariff

    file, table = source.file, source.rows()
    for name, row in table.items():
        if not re.fullmatch(r"[^/\s]+/\S+", name):
            raise file.error(("prices", name), f'{name!r} is not "provider/model"')
        try:
            read_tariff(name, row)
        except ConfigError as error:
            key = next((key for key in row if f"{key} =" in str(error) or f"{key!r}" in str(error)), None)
            keys = ("prices", name) if key is None else ("prices", name, key)
            raise file.error(keys, f"{error}") from None
    return table


def read_aliases(source: GivenTable) -> Mapping[str, str]:
    """`[aliases]`: short names of models, by themselves in lower case. Raises ConfigError with file and line."""
    file, table = source.file, source.values
    for name, model in table.items():
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
            raise file.error(("aliases", name), f"{name!r} is not a valid alias: use letters, digits, _ . and -")
        if not isinstance(model, str) or not model.strip():
            raise file.error(("aliases", name), f'aliases.{name}: give a model, as in "anthropic/claude-sonnet-5-5"')
    found = {name.lower(): str(model).strip() for name, model in table.items()}
    for name in found:
        at, seen = name, set[str]()
        while (at := found.get(at.lower(), "").lower()) in found:
            if at in seen:
                raise file.error(("aliases", name), f"aliases.{name} refers back to itself: give a model")
            seen.add(at)
    return found
