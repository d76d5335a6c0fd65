"""What a call can cost at most."""

from decimal import Decimal

from sagent.cost.prices import PriceBook


def bound_of(book: PriceBook, provider: str, model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
    """USD of the dearest call with so many tokens; None where a price is unknown."""
    ceiling = book.ceiling(provider, model)
    return None if ceiling is None else ceiling.cost(input_tokens, output_tokens)
