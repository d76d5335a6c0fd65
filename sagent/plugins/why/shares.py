"""Sums that are divided without a rest: every part is exact, and all parts together are the whole."""

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import TypeVar

from sagent.lib.money import EXACT, ZERO

_K = TypeVar("_K")
_DIGITS = Decimal("1e-9")
"""Precision of all parts but the largest, which takes the rest."""


def share_usd(whole: Decimal, weights: Mapping[_K, float]) -> dict[_K, Decimal]:
    """Divide a sum by weights above 0; the largest part takes the rest. Without weights there are no parts."""
    above = {key: Decimal(weight) for key, weight in weights.items() if weight > 0}
    if not above:
        return {}
    sum_of_weights = sum(above.values(), ZERO)
    parts = {
        key: EXACT.divide(EXACT.multiply(whole, weight), sum_of_weights).quantize(_DIGITS, ROUND_FLOOR, EXACT)
        for key, weight in above.items()
    }
    largest = max(parts, key=lambda key: above[key])
    for part in parts.values():
        whole = EXACT.subtract(whole, part)
    parts[largest] = EXACT.add(parts[largest], whole)
    return parts


def share_tokens(whole: int, weights: Mapping[_K, float]) -> dict[_K, int]:
    """Divide a number of tokens by weights above 0; the largest part takes the rest."""
    above = {key: weight for key, weight in weights.items() if weight > 0}
    if not above:
        return {}
    sum_of_weights = sum(above.values())
    parts = {key: int(whole * weight / sum_of_weights) for key, weight in above.items()}
    largest = max(parts, key=lambda key: above[key])
    parts[largest] += whole - sum(parts.values())
    return parts
