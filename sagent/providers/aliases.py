"""Short names of models ("sonnet"): those in aliases.toml and the person's own. Requests and logs use full names."""

import re
from collections.abc import Container, Mapping
from functools import cache
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.lib.toml import toml_beside
from sagent.providers import rows
from sagent.providers.registry import has_key, infer

if TYPE_CHECKING:
    from sagent.cost.prices import PriceBook

_VERSION = r"(\d{1,2}(?:[.-]\d{1,2})*)"


@cache
def shipped() -> Mapping[str, str]:
    """Return the families by their short names, as aliases.toml has them."""
    return toml_beside(rows.__file__, "aliases.toml")


def own_alias(name: str, aliases: Mapping[str, str]) -> str:
    """Resolve a name by the person's own aliases, which may refer to each other; return other names unchanged."""
    seen: set[str] = set()
    while (word := name.lower()) in aliases and word not in seen:
        seen.add(word)
        name = aliases[word]
    return name


def newest(name: str, prices: "PriceBook", usable: Container[str]) -> str:
    """Resolve a shipped short name to the newest such model, as "provider/model"; "" for any other name.

    `usable` are the providers with a key; if none of them has such a model, the first provider that has one is used.
    """
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    for pattern in shipped().get(name.lower(), "").split():
        provider, _, model = pattern.partition("/")
        fits = re.compile(re.escape(model).replace(r"\*", _VERSION), re.IGNORECASE).fullmatch
        for row in prices.known_models(provider):
            if match := fits(row.id):
                each = _version(match[1]), f"{provider}/{row.id}"
                found[provider] = max(found.get(provider, each), each)
    best = next((each for provider, each in found.items() if provider in usable), None)
    return (best or next(iter(found.values()), ((), "")))[1]


def spelled_out(chosen: str) -> str:
    """Return the full name of a model, for its own id or a short name such as "sonnet". Raises UsageError."""
    provider, slash, model = chosen.partition("/")
    if not slash:
        provider, model = infer(chosen) or "", chosen
    if provider and model:
        return f"{provider}/{model}"
    from sagent.cost.prices import PriceBook

    known = rows.built_in()
    if full := newest(chosen, PriceBook(), [name for name, row in known.items() if has_key(row)]):
        return full
    named, _, rest = chosen.partition(":")
    example = f', as in "{named}/{rest}"' if rest and named in known else ""
    raise UsageError(f'{chosen!r} does not name a provider: give "provider/model"{example}')


def _version(text: str) -> tuple[int, ...]:
    """(5, 5) for "5-5" and "5.5"; 4.20 is before 4.3."""
    first, *rest = re.split("[.-]", text)
    return (int(first), *(int(part.rstrip("0") or "0") for part in rest))
