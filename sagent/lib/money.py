"""Sums of USD, exact whatever the decimal context of the host program."""

from collections.abc import Iterable
from decimal import Context, Decimal

EXACT = Context(prec=60)
"""Sixty digits hold every product and sum here, so nothing is ever rounded."""

ZERO = Decimal(0)
TOO_MUCH = Decimal(10) ** 18
"""An implausible amount: larger ones are refused, because sums with them might not be exact."""
UNBILLED = "lost, cut or interrupted calls, whose cost was not reported"
"""Reason why more counts towards a budget than was billed."""
_MIN_SHOWN = Decimal("0.000001")


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum."""
    result = ZERO
    for amount in amounts:
        result = EXACT.add(result, amount)
    return result


def show(usd: Decimal) -> str:
    """Format USD for people: "$0.05", "$0.001234"; two to six decimals."""
    if 0 < usd < _MIN_SHOWN:
        return f"<${_MIN_SHOWN}"
    whole, _, cents = f"{usd.quantize(_MIN_SHOWN, context=EXACT):f}".partition(".")
    return f"${whole}.{cents.rstrip('0').ljust(2, '0')}"


def in_words(usd: Decimal | None) -> str:
    """Describe a cost for people; an unknown price is not zero."""
    return "price unknown" if usd is None else show(usd)


def number(usd: Decimal | None) -> float | None:
    """Return USD for JSON; null if unknown."""
    return None if usd is None else float(usd)


def as_usd(value: object) -> Decimal | None:
    """Parse USD from a number or a string; None for anything else. A float's digits are those of its source."""
    try:
        usd = Decimal(str(value)) if isinstance(value, int | float | str | Decimal) else None
    except ArithmeticError:
        return None
    return usd if usd is None or usd.is_finite() else None
