"""Cache marks of Claude's API (`cache_control`), and lifetimes of caches."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from sagent.cost.prices import keeps_an_hour

CacheLife: TypeAlias = Literal["", "5m", "1h"]
"""Lifetime of a cache after its last use; "" for no cache."""
MARKS: Mapping[CacheLife, Mapping[str, object]] = {
    "5m": {"type": "ephemeral"},
    "1h": {"type": "ephemeral", "ttl": "1h"},
}
"""The values of `cache_control`."""


def cache_life(options: Mapping[str, object]) -> CacheLife:
    """Return the cache lifetime that a request's `cache_control` option chooses; five minutes by default."""
    return "1h" if keeps_an_hour(options) else "5m"
