"""`sagent models`: what is known of models, without a network."""

import sys
from collections.abc import Sequence

from sagent.cli.flags import Parser
from sagent.cli.settings import load_settings
from sagent.cost.prices import PriceBook
from sagent.providers.limits import known_models, limits_of
from sagent.providers.registry import row_named
from sagent.providers.rows import built_in


def run_models(argv: Sequence[str]) -> int:
    """List known models with window, output limit and price. Any other id works too."""
    parser = Parser(prog="sagent models", description=run_models.__doc__, allow_abbrev=False)
    parser.add_argument("provider", nargs="?", help="only this provider's")
    wanted: str | None = parser.parse_args(argv).provider
    settings = load_settings({})
    names = [row_named(wanted).name] if wanted else [name for name, row in built_in().items() if row.default]
    prices = PriceBook(settings.prices)
    sys.stdout.write(f"{'model':48} {'window':>9} {'output':>8} {'in':>9} {'out':>9}  USD per million tokens\n")
    for provider in names:
        priced = {row.id: row for row in prices.known_models(provider)}
        for model in sorted({*priced, *(info.id for info in known_models(provider))}):
            limits = limits_of(provider, model)
            row = priced.get(model)
            window = limits.window or (row.window if row else None)
            price = f"{_price(row.input):>9} {_price(row.output):>9}" if row else f"{'-':>9} {'-':>9}"
            sys.stdout.write(f"{f'{provider}/{model}':48} {window or '-':>9} {limits.max_output or '-':>8} {price}\n")
    return 0


def _price(usd: object) -> str:
    return f"{usd:.3f}".rstrip("0").rstrip(".") if usd is not None else "-"
