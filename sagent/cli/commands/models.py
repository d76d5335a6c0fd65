"""`sagent models`: what is known of models, without a network; with --check, against what the providers list."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, NamedTuple

from sagent.cli.flags import Parser
from sagent.cli.settings import load_settings
from sagent.cli.tables import write
from sagent.config import Settings
from sagent.cost.catalog import edition
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, UsageError
from sagent.lib.text import Table
from sagent.model import ModelInfo
from sagent.providers.limits import limits_of
from sagent.providers.registry import row_called, row_named
from sagent.providers.rows import built_in
from sagent.usage import Usage

if TYPE_CHECKING:
    from sagent.app.models import Choice

TITLES = ("model", "window", "output", "USD in, per million", "USD out, per million")


def run_models(argv: Sequence[str]) -> int:
    """List known models with window, output limit and price. Any other id works too."""
    parser = Parser("models", run_models.__doc__)
    parser.add_argument("provider", nargs="?", help="only this provider's")
    check = "compare with what the providers list; 1 if something differs"
    parser.add_argument("--check", action="store_true", help=check)
    parser.add_argument("--base-url", metavar="URL", help="with --check: ask the server there")
    parser.add_config()
    given = parser.parse_args(argv)
    settings = load_settings({"config": given.config, "base_url": given.base_url})
    if given.base_url and not given.check:
        raise UsageError("--base-url names a server that is asked for its models: give --check too.")
    rows = {name: own.row for name, own in settings.providers.items()}
    # a server of one's own: the protocol nearly every one speaks
    wanted = row_named(given.provider, rows).name if given.provider else "openai-compatible" if given.base_url else None
    if given.check:
        return _check(settings, wanted, given.base_url)
    usual = [name for name, row in built_in().items() if row.default]
    return _list(settings, [wanted] if wanted else list(dict.fromkeys((*usual, *rows))))


def _list(settings: Settings, names: Sequence[str]) -> int:
    from sagent.app.models import spoken

    prices = PriceBook(settings.prices)
    rows = {name: own.row for name, own in settings.providers.items()}
    listed: list[tuple[str, ...]] = []
    for provider in names:
        priced = {row.id: row for row in prices.known_models(provider)}
        for model in spoken(row_named(provider, rows), priced):
            limits = limits_of(provider, model)
            row = priced.get(model)
            window = limits.window or (row.window if row else None)
            usd = (_price(row.input), _price(row.output)) if row else ("-", "-")
            listed.append((f"{provider}/{model}", str(window or "-"), str(limits.max_output or "-"), *usd))
    write(sys.stdout, [Table(tuple(listed), TITLES, right=(1, 2, 3, 4))])
    if listed and sys.stderr.isatty():
        source, version, made = edition()
        sys.stderr.write(f"sagent: prices from {source} {version} as of {made}, and from your settings\n")
    if not listed:
        name = names[0]
        sys.stderr.write(f"sagent: no model of {name} is known here: sagent models {name} --check asks for them\n")
    return 0


def _price(usd: object) -> str:
    return f"{usd:.3f}".rstrip("0").rstrip(".") if usd is not None else "-"


class Finding(NamedTuple):
    """One way in which our table and a listing are not the same; `ours` and `theirs` as shown, "-" for nothing."""

    kind: Literal["differs", "missing here", "missing there"]
    model: str
    what: str
    ours: str
    theirs: str


def compare(provider: str, listed: Sequence[ModelInfo], prices: PriceBook) -> Iterator[Finding]:
    """Window, output limit and prices of each listed model, ours against theirs; then what we know and they do not.

    A figure that only one side has is no difference. Ids of ours may be beginnings of theirs.
    """
    from sagent.app.models import spoken

    windows = {row.id: row.window for row in prices.known_models(provider)}
    for info in sorted(listed, key=lambda info: info.id):
        known = limits_of(provider, info.id)
        window = "window", known.window or windows.get(info.id), info.limits.window
        rows: list[tuple[str, object, object]] = [window, ("output", known.max_output, info.limits.max_output)]
        rows += [(f"USD {bucket}", _rate(prices, provider, info.id, bucket), usd) for bucket, usd in info.usd.items()]
        if all(ours is None for _, ours, _ in rows) and not _rate(prices, provider, info.id, "input"):
            figures = ", ".join(f"{what} {_shown(theirs)}" for what, _, theirs in rows if theirs is not None)
            yield Finding("missing here", info.id, "", "-", figures or "-")
            continue
        for what, ours, theirs in rows:
            if ours is None and theirs is not None:
                yield Finding("missing here", info.id, what, "-", _shown(theirs))
            elif theirs is not None and ours != theirs:
                yield Finding("differs", info.id, what, _shown(ours), _shown(theirs))
    theirs = [info.id.lower().rpartition("/")[2] for info in listed] + [info.id.lower() for info in listed]
    row = row_called(provider)
    for model in spoken(row, windows) if row else sorted(windows):
        if not any(name.startswith(model.lower()) for name in theirs):
            yield Finding("missing there", model, "", "-", "-")


def _rate(prices: PriceBook, provider: str, model: str, bucket: str) -> Decimal | None:
    """Our USD per million tokens of a bucket, for a small request; a fee for each call is no part of it."""
    once, twice = (prices.price(provider, model, replace(Usage(), **{bucket: count})) for count in (1_000, 2_000))
    return None if once is None or twice is None else (twice - once) * 1_000


def _shown(value: object) -> str:
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return "-" if value is None else str(value)


def _check(settings: Settings, wanted: str | None, base_url: str | None) -> int:
    import asyncio

    from sagent.app.models import Choice

    choice = Choice(settings)
    choice.home = (wanted or "", base_url or "")
    names = [wanted] if wanted else list(choice.with_keys())
    if not names:
        raise UsageError("No provider's key is set, so that no listing can be asked for. Name one, or set its key.")
    for name in names:
        choice.provider(name)  # says which key is missing, before any is asked
    return asyncio.run(_check_all(choice, names, PriceBook(settings.prices, free=choice.free())))


async def _check_all(choice: "Choice", names: Sequence[str], prices: PriceBook) -> int:
    """1 when a figure differs or a listing could not be had."""
    code = 0
    try:
        for name in names:
            try:
                listed = await choice.provider(name).models()
            except ModelError as error:
                sys.stderr.write(f"sagent: {error}\n")
                code = 1
                continue
            choice.keep(name, listed)
            code = max(code, _report(name, len(listed), list(compare(name, listed, prices))))
    finally:
        await choice.aclose()
    return code


def _report(provider: str, listed: int, findings: Sequence[Finding]) -> int:
    rows = tuple((one.kind, f"{provider}/{one.model}", one.what or "-", one.ours, one.theirs) for one in findings)
    write(sys.stdout, [Table(rows, ("finding", "model", "figure", "ours", "theirs"))] if rows else [])
    count = Counter(finding.kind for finding in findings)
    sys.stdout.write(
        f"{provider}: {listed} models listed; {count['differs']} figures differ, {count['missing here']} are missing "
        f"here, {count['missing there']} models are missing there\n"
    )
    return 1 if count["differs"] else 0
