"""Money, tokens and times as a person reads them."""

from decimal import Decimal


def duration(seconds: float) -> str:
    """Return a duration as text: "0.4 s", "12 s", "3 min 20 s", "2 h 5 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def money(usd: Decimal | None) -> str:
    """Return USD for a person: four decimals for small sums, two for others; "?" for an unknown price."""
    if usd is None:
        return "$?"
    if usd == 0:
        return "$0"
    return f"${usd:.4f}" if usd < 1 else f"${usd:.2f}"


def bill(usd: Decimal, unbilled: Decimal, *, least: bool = False) -> str:
    """Return a sum of USD with what it lacks: "≥" if prices are unknown (`least`), and after + how much more calls may
    have cost whose bill is unknown."""
    return f"{'≥' * least}{money(usd)}{f' +{money(unbilled)}?' if unbilled else ''}"


def count(tokens: int) -> str:
    """Return tokens for a person: "980", "12.3k", "1.2M"."""
    if tokens < 1000:
        return str(tokens)
    if tokens < 999_500:
        return f"{tokens / 1000:.1f}k".replace(".0k", "k") if tokens < 99_950 else f"{tokens / 1000:.0f}k"
    return f"{tokens / 1_000_000:.1f}M".replace(".0M", "M")
