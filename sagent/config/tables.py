"""The tables of the person's file: providers they describe, prices they know."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sagent.config.fields import FIELDS, Place, RefusedError, choice, nearest
from sagent.config.files import File
from sagent.config.settings import CustomProvider
from sagent.errors import ConfigError

if TYPE_CHECKING:
    from sagent.config.settings import Family

_KEYS = ("base_url", "api_key", "family")
_NOWHERE = Place(Path("/"), Path("/"))


def read_providers(file: File, table: Mapping[str, Mapping[str, object]]) -> Mapping[str, CustomProvider]:
    """`[providers.NAME]`. Raises ConfigError with file and line."""
    found: dict[str, CustomProvider] = {}
    for name, row in table.items():
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
            raise ConfigError(
                f"{file.where('providers', name)}: {name!r} is no provider's name: use a-z, 0-9, and . _ - in between."
            )
        for key in row:
            if key not in _KEYS:
                hint = nearest(key, _KEYS)
                raise ConfigError(
                    f"{file.where('providers', name, key)}: there is no setting providers.{name}.{key}; "
                    f"accepted are {', '.join(_KEYS)}{hint or '.'}"
                )
        if "base_url" not in row:
            raise ConfigError(f"{file.where('providers', name)}: providers.{name} needs a base_url.")
        found[name] = CustomProvider(
            name,
            _value(file, name, "base_url", row["base_url"]),
            cast("Family", _value(file, name, "family", row.get("family", "openai"))),
            _value(file, name, "api_key", row.get("api_key", "")),
        )
    return found


def _value(file: File, name: str, key: str, value: object) -> str:
    """A value of a provider. A key is never quoted in a message."""
    readers = {field.name: field.read for field in FIELDS}
    read = {
        "base_url": readers["base_url"],
        "family": choice("openai", "anthropic", "responses", "google"),
        "api_key": readers["system"],
    }[key]
    try:
        return str(read(value, _NOWHERE))
    except RefusedError as error:
        shown = "" if key == "api_key" else f" = {value!r}"
        raise ConfigError(f"{file.where('providers', name, key)}: {key}{shown} is not accepted: {error}.") from None


def read_prices(file: File, table: Mapping[str, Mapping[str, object]]) -> Mapping[str, Mapping[str, object]]:
    """`[prices."provider/model"]`, USD per million tokens. Raises ConfigError with file and line."""
    from sagent.cost.tariff import read_tariff

    for name, row in table.items():
        if not re.fullmatch(r"[^/\s]+/\S+", name):
            raise ConfigError(f'{file.where("prices", name)}: {name!r} is not "provider/model".')
        try:
            read_tariff(name, row)
        except ConfigError as error:
            key = next((key for key in row if f"{key} =" in str(error) or f"{key!r}" in str(error)), None)
            keys = ("prices", name) if key is None else ("prices", name, key)
            raise ConfigError(f"{file.where(*keys)}: {error}.") from None
    return table
