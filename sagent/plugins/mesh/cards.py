"""Cards: self-descriptions of agents and nodes, and queries that select them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Literal, TypeAlias

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import (
    GIVEN_EMPTY,
    GivenObject,
    JsonObject,
    as_array,
    as_int,
    as_number,
    as_object,
    as_str,
    json_freeze_object,
)
from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import WrongVersion

Kind: TypeAlias = Literal["agent", "node"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}(\.[A-Za-z0-9_-]{1,100}){0,9}")


@dataclass(frozen=True, slots=True)
class Card:
    """A card of an agent or a node: its address and purpose. `takes` and `gives` are JSON Schemas of its messages'
    bodies; `load` is from 0 (idle) to 1. `details` depend on its kind: a node's host, pid, slots and sessions."""

    address: str
    description: str = ""
    kind: Kind = "agent"
    takes: GivenObject = GIVEN_EMPTY
    gives: GivenObject = GIVEN_EMPTY
    labels: tuple[str, ...] = ()
    load: float = 0.0
    models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    details: GivenObject = GIVEN_EMPTY


@dataclass(frozen=True, slots=True)
class Query:
    """A query for cards: those of a namespace, with all of these labels. "a" has `a`, `a.b` and, `recursive`,
    `a.b.c`; never `ab`. "" has every address."""

    namespace: str = ""
    recursive: bool = True
    labels: tuple[str, ...] = ()
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A new or changed card; None if the address is gone."""

    address: str
    card: Card | None = None


def matches(query: Query, card: Card) -> bool:
    """Return True if a query selects a card."""
    space, parts = (query.namespace.split(".") if query.namespace else []), card.address.split(".")
    within = parts[: len(space)] == space and (query.recursive or len(parts) <= len(space) + 1)
    kind = query.kind in (None, card.kind)
    return within and kind and set(query.labels) <= set(card.labels)


def matching(queries: Sequence[Query], cards: Iterable[Card]) -> list[Card]:
    """Return the cards that one of the queries selects; without queries all."""
    return [card for card in cards if not queries or any(matches(query, card) for query in queries)]


def patterns(queries: Iterable[Query]) -> list[str]:
    """Return the addresses that queries can mean, as subjects with the wildcards of NATS; no two of them overlap."""
    found = set[tuple[str, ...]]()
    for query in queries:
        if not query.namespace or _NAME.fullmatch(query.namespace):  # otherwise no address can match
            space = tuple(query.namespace.split(".")) if query.namespace else ()
            found |= {(*space, ">" if query.recursive else "*"), *([space] if space else [])}
    return sorted(".".join(each) for each in found if not _wider(each) & found)


def _wider(pattern: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Return the patterns that have all that a pattern has, and more."""
    levels = {(*pattern[:count], ">") for count in range(len(pattern))} - {pattern}
    return levels if pattern[-1] in (">", "*") else {*levels, (*pattern[:-1], "*")}


def select(queries: Sequence[Query], cards: Iterable[Card]) -> list[list[Card]]:
    """Return the cards that match each query, sorted by address."""
    known = sorted(cards, key=lambda card: card.address)
    return [[card for card in known if matches(query, card)] for query in queries]


def check_name(name: str) -> str:
    """Return the name of an agent or node, as it was. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not an address: use letters, digits, _ and -, in at most ten parts with dots between."
        )
    return name


def encode_card(card: Card) -> JsonObject:
    """Encode a card as JSON. Optional members that are empty are left out."""
    members = {field.name: getattr(card, field.name) for field in fields(card)}
    known = {name: value for name, value in members.items() if value or name in ("description", "load")}
    return json_freeze_object({"version": names.VERSION, **known})


def decode_card(value: object) -> Card:
    """Decode a card from JSON. Raises WrongVersion, and ValueError for anything else."""
    members = as_object(value)
    if (version := as_int(members.get("version"))) != names.VERSION:
        raise WrongVersion(f"A card is of version {version}; this sagent knows {names.VERSION}.")
    if not _NAME.fullmatch(address := as_str(members.get("address"))):
        raise ValueError(f"not the address of a card: {address!r}")
    takes, gives, details = (json_freeze_object(as_object(members.get(name))) for name in ("takes", "gives", "details"))
    labels, models, tools = (tuple(map(str, as_array(members.get(name)))) for name in ("labels", "models", "tools"))
    return Card(
        address,
        as_str(members.get("description")),
        "node" if members.get("kind") == "node" else "agent",
        takes,
        gives,
        labels,
        min(1.0, max(0.0, as_number(members.get("load")))),
        models,
        tools,
        details,
    )
