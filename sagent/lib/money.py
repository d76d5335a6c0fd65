"""Sums of USD, exact whatever the decimal context of the host program."""

from collections.abc import Iterable
from decimal import Context, Decimal

EXACT = Context(prec=60)
"""Sixty digits hold every product and sum that occurs here, so nothing is ever rounded."""

ZERO = Decimal(0)
TOO_MUCH = Decimal(10) ** 18
"""An amount that nobody means: what is as large is refused, since not every sum with it would be exact."""
UNBILLED = "calls that were lost, cut or interrupted: what they cost was not reported"
"""Why more may count towards a budget than was billed."""
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
    """Return a cost for people; a price that is not known is no zero."""
    return "price unknown" if usd is None else f"{usd:.6f} USD"


def number(usd: Decimal | None) -> float | None:
    """USD as JSON has them; null where they are not known."""
    return None if usd is None else float(usd)


def as_usd(value: object) -> Decimal | None:
    """USD from a number or a text; None for anything else. A float's are the digits that stood where it was read."""
    try:
        usd = Decimal(str(value)) if isinstance(value, int | float | str | Decimal) else None
    except ArithmeticError:
        return None
    return usd if usd is None or usd.is_finite() else None
