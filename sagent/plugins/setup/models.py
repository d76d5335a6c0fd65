"""`sagent models`: show known data of models, without a network. With --check, compare them with the providers'
lists."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from sagent.cli.flags import Parser
from sagent.cli.render import report
from sagent.cli.settings import load_settings
from sagent.cli.tables import write
from sagent.config import Settings
from sagent.config.plugins import named_errors
from sagent.cost.prices import PriceBook
from sagent.cost.tariff import edition
from sagent.errors import ModelError, UsageError
from sagent.lib.text import Table
from sagent.model import ModelInfo
from sagent.plugin import resolve
from sagent.providers.abilities import accepts_images, can_converse, can_reason
from sagent.providers.limits import known_models, limits_of
from sagent.providers.listings import weights_in_name
from sagent.providers.registry import row_called
from sagent.providers.rows import Row, built_in, listed_by
from sagent.usage import Usage

if TYPE_CHECKING:
    from sagent.app.models import Choice

TITLES = ("model", "window", "output", "$ in, per million", "$ out, per million", "can")
_PAID = ("input", "output")
MAX_LIST_SECONDS = 60.0
_MANY = 40  # models of a provider; more are shown only if it is named


def run_models(argv: Sequence[str]) -> int:
    """List models for conversations, with window, output limit, abilities and price. Any other id works too."""
    parser = Parser("models", run_models.__doc__)
    parser.add_argument("provider", nargs="?", help="list only this provider's models")
    parser.add_argument(
        "--all",
        action="store_true",
        help="list every model that has a price, including those of marketplaces and those that do not chat",
    )
    check = "compare with the providers' own lists; exits with 1 if something differs"
    parser.add_argument("--check", action="store_true", help=check)
    parser.add_argument("--base-url", metavar="URL", help="list or check what the server at this URL has")
    parser.add_flags_of("models")
    parser.add_config()
    given = parser.parse_args(argv)
    settings = load_settings({"config": given.config, "base_url": given.base_url})
    for code in _added(settings, "models", vars(given)):
        return cast("int", code)
    rows = settings.rows
    # a person's own server: nearly every one speaks this protocol
    wanted = settings.row(given.provider).name if given.provider else "openai-compatible" if given.base_url else None
    if given.check:
        return _check(settings, wanted, given.base_url)
    if wanted and (given.base_url or _is_local(settings.row(wanted))):
        return _list_served(settings, wanted, given.base_url)
    usual = [name for name, row in built_in().items() if row.default]
    named = [name for name, row in rows.items() if row.default or not row.plugin]
    names = [wanted] if wanted else list(dict.fromkeys((*usual, *named)))
    return _list(settings, names, "all" if given.all else "named" if wanted else "usual")


def _list(settings: Settings, names: Sequence[str], which: Literal["all", "named", "usual"]) -> int:
    from sagent.app.models import price_book

    prices = price_book(settings)
    listed: list[tuple[str, ...]] = []
    for provider in names:
        priced = {row.id: row for row in prices.known_models(provider)}
        for model in _shown_of(row := settings.row(provider), priced, which):
            limits = limits_of(provider, model)
            price = priced.get(model)
            window = limits.window or (price.window if price else None)
            usd = (price.input, price.output) if price else (_rate(prices, provider, model, kind) for kind in _PAID)
            sizes = str(window or "-"), str(limits.max_output or "-")
            listed.append((f"{provider}/{model}", *sizes, *map(_price, usd), _abilities(row, model)))
    tables = [Table(tuple(listed), TITLES, right=(1, 2, 3, 4))]
    if which == "usual":
        tables += [Table(short, ("short", "is"))] if (short := _short_names(settings)) else []
        tables += cast("Iterator[Table]", _added(settings, "models list"))
    write(sys.stdout, tables)
    if listed and sys.stderr.isatty():
        if which == "usual":
            report("sagent models PROVIDER lists more of one provider; --all lists everything")
        source, version, made = edition()
        report(f"prices from {source} {version} as of {made}, and from your settings")
    if not listed:
        name = names[0]
        report(f"no models of {name} are known here: sagent models {name} --check asks the provider")
    return 0


def _added(settings: Settings, place: str, *given: object) -> Iterator[object]:
    """Yield what functions of plugins return for this command, except None. With its flags ("models") that is an exit
    code, and the list is left out. Below the list ("models list") it is a table."""
    for plugin, extra in settings.plugins.extras(place):
        with named_errors("What is added to sagent models", plugin):
            found = cast("Callable[..., object]", resolve(extra.add))(settings, *given)
        if found is not None:
            yield found


def _is_local(row: Row) -> bool:
    """Return True for a person's own server. Only the server knows its models."""
    return row.free and row.family == "chat" and not known_models(row.name)


def _list_served(settings: Settings, name: str, base_url: str | None) -> int:
    """List a server's models, or those in a file for our own server. Exits with 1 if no server answers."""
    import asyncio

    from sagent.app.models import Choice

    choice = Choice(settings)
    choice.home = (name, base_url or "")
    return asyncio.run(_served(choice, name))


async def _served(choice: "Choice", name: str) -> int:
    from sagent.app.models import listing_of
    from sagent.providers.wire.waiting import Loading

    try:
        provider = choice.provider(name)
        if isinstance(provider, Loading) and (info := provider.unloaded) is not None:
            listed: Sequence[ModelInfo] = (info,)
            report(f"{info.id} is loaded by the first call: sagent --provider {name} PROMPT")
        else:
            listed = await listing_of(choice, name)
            choice.keep(name, listed)
            server = listed_by(listed[0].server, choice.rows) if listed else None
            if name == "openai-compatible" and server is not None:
                provider = choice.rename(name, server.name)
    except ModelError as error:
        report(str(error))
        return 1
    finally:
        await choice.aclose()
    rows = tuple(
        (
            f"{provider.name}/{info.id}",
            str(info.limits.window or "-"),
            _parameters(info),
            str(getattr(choice.wrapped(provider.model(info.id)), "protocol", "native")),
        )
        for info in listed
    )
    write(sys.stdout, [Table(rows, ("model", "window", "parameters", "tool calls"), right=(1, 2))])
    if not listed:
        report(f"the server of {name} lists no models: load one there")
    return 0


def _parameters(info: ModelInfo) -> str:
    """Return the size of a model, by what its server says or its name; "-" if neither does."""
    weights = info.weights or weights_in_name(info.id)
    if not weights:
        return "-"
    return f"{weights / 1e9:.1f} B" if weights >= 1e9 else f"{weights / 1e6:.0f} M"


def _short_names(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Short names and the models they stand for, the person's own first."""
    from sagent.app.models import Choice
    from sagent.providers.aliases import shipped

    choice = Choice(settings)
    return tuple((name, choice.spelled_out(name)) for name in dict.fromkeys((*settings.aliases, *shipped())))


def _shown_of(row: Row, priced: Mapping[str, object], which: Literal["all", "named", "usual"]) -> Sequence[str]:
    """Return the models of a provider to show. If the provider has very many and is not named, only models we have data
    for are shown. Data for beginnings of names do not count as models."""
    from sagent.app.models import offered_models

    known = {info.id for info in known_models(row.name)}
    if which == "all":
        return sorted({*priced, *known})
    beginnings = {name for name in known - {*priced} if any(other.startswith(name) for other in priced)}
    models = [name for name in offered_models(row, priced) if name not in beginnings]
    if which == "named" or len(models) <= _MANY:
        return models
    return sorted({*filter(known.__contains__, models), *filter(None, [row.default])})


def _abilities(row: Row, model: str) -> str:
    able = {"see": accepts_images(row, model), "hear": row.able(model).audio, "think": can_reason(row, model)}
    return ", ".join(name for name, is_so in able.items() if is_so and can_converse(model)) or "-"


def _price(usd: object) -> str:
    return f"{usd:.3f}".rstrip("0").rstrip(".") if usd is not None else "-"


class Finding(NamedTuple):
    """A difference between our table and a listing. `ours` and `theirs` are shown as they are, "-" means nothing."""

    kind: Literal["differs", "missing here", "missing there"]
    model: str
    what: str
    ours: str
    theirs: str


def compare(provider: str, listed: Sequence[ModelInfo], prices: PriceBook) -> Iterator[Finding]:
    """Compare window, output limit and prices of each listed model. Then list the models that only we know.

    A figure that only one side has is no difference. Our ids may be beginnings of theirs.
    """
    from sagent.app.models import offered_models

    windows = {row.id: row.window for row in prices.known_models(provider)}
    for info in sorted(listed, key=lambda info: info.id):
        known = limits_of(provider, info.id)
        window = "window", known.window or windows.get(info.id), info.limits.window
        rows: list[tuple[str, object, object]] = [window, ("output", known.max_output, info.limits.max_output)]
        rows += [(f"$ {bucket}", _rate(prices, provider, info.id, bucket), usd) for bucket, usd in info.usd.items()]
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
    for model in offered_models(row, windows) if row else sorted(windows):
        if not any(name.startswith(model.lower()) for name in theirs):
            yield Finding("missing there", model, "", "-", "-")


def _rate(prices: PriceBook, provider: str, model: str, bucket: str) -> Decimal | None:
    """Our USD per million tokens of a bucket, for a small request, without a fee for each call."""
    once, twice = (prices.price(provider, model, replace(Usage(), **{bucket: count})) for count in (1_000, 2_000))
    return None if once is None or twice is None else (twice - once) * 1_000


def _shown(value: object) -> str:
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return "-" if value is None else str(value)


def _check(settings: Settings, provider: str | None, base_url: str | None) -> int:
    import asyncio

    from sagent.app.models import Choice

    choice = Choice(settings)
    choice.home = (provider or "", base_url or "")
    names = [provider] if provider else list(choice.with_keys())
    if not names:
        raise UsageError(
            "No provider's key is set, so there is no list to compare with. Name a provider, or set its key."
        )
    for name in names:
        choice.provider(name)  # names a missing key before any provider is asked
    return asyncio.run(_check_all(choice, names, choice.prices()))


async def _check_all(choice: "Choice", names: Sequence[str], prices: PriceBook) -> int:
    """Return 1 if a figure differs or a listing is missing."""
    import asyncio

    code = 0
    try:
        for name in names:
            try:
                async with asyncio.timeout(MAX_LIST_SECONDS):
                    listed = await choice.provider(name).models()
            except (ModelError, TimeoutError) as error:
                report(str(error) or f"{name} did not answer within {MAX_LIST_SECONDS:.0f} s")
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
