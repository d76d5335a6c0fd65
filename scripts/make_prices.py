"""Write sagent/cost/catalog.jsonl: the prices of the installed genai-prices, and the corrections of prices.toml.

Run it with `make prices`, after an update of genai-prices or a change of prices.toml. The first line says where the
data come from, the second has the corrections; then each provider has a line of its own, followed by one line for each
of its models. Every figure is a text, so that no digit is lost. sagent/cost/tariff.py reads the file.
"""

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import genai_prices
from genai_prices import types
from genai_prices.data import providers

COST = Path(__file__).parent.parent / "sagent" / "cost"
UNITS = {
    "input_mtok": "input",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "input_audio_mtok": "audio_input",
    "cache_audio_read_mtok": "audio_cache_read",
    "output_mtok": "output",
    "output_audio_mtok": "audio_output",
    "output_image_mtok": "image_output",
    "output_reasoning_mtok": "reasoning",
    "requests_kcount": "requests",
    "web_searches_kcount": "web_search",
    "storage_searches_kcount": "file_search",
}
"""Their names of what has a price, and ours: USD per million tokens, or per thousand calls."""


def lines(made: date) -> Iterator[str]:
    """The file, line by line."""
    yield _json({"source": "genai-prices", "version": genai_prices.__version__, "made": made.isoformat()})
    rows = tomllib.loads((COST / "prices.toml").read_text(encoding="utf-8"), parse_float=str)
    yield _json({"corrections": {key.lower(): _texts(row) for key, row in rows.items()}})
    for provider in providers:
        lenders = list(provider.fallback_model_providers or ())
        yield _json({"provider": provider.id, **({"lenders": lenders} if lenders else {})})
        yield from (_json(_model(model)) for model in provider.models)


def _texts(value: object) -> object:
    """A row of prices.toml; sizes in tokens stay numbers."""
    if isinstance(value, dict):
        return {key: each if key in ("window", "over") else _texts(each) for key, each in value.items()}
    return [_texts(each) for each in value] if isinstance(value, list) else str(value)


def _model(model: types.ModelInfo) -> dict[str, object]:
    match = _match(model.match)
    listed = model.prices if isinstance(model.prices, list) else [types.ConditionalPrice(prices=model.prices)]
    spoken = any(key.startswith(("output_audio", "output_image", "output_video")) for key in vars(listed[-1].prices))
    row: dict[str, object] = {"id": model.id}
    if match != model.id.lower():
        row["match"] = match
    if model.context_window is not None:
        row["window"] = model.context_window
    if model.deprecated or spoken or "embed" in model.id:
        row["hidden"] = True  # retired, or its answer is not text: it is not offered
    row["prices"] = [_conditional(price) for price in listed]
    if model.price_variants:
        row["variants"] = [{"when": dict(each.when), **_conditional(each)} for each in model.price_variants]
    return row


def _conditional(price: types.ConditionalPrice | types.PriceVariant) -> dict[str, object]:
    """Prices, and when they hold. A base price, then [tokens above which it holds, price]."""
    row: dict[str, object] = {}
    match price.constraint:
        case types.StartDateConstraint(start_date=day):
            row["from"] = day.isoformat()
        case types.TimeOfDateConstraint(start_time=start, end_time=end):
            row["between"] = [_utc(start), _utc(end)]
        case None:
            pass
    for unit, value in vars(price.prices).items():
        if unit in UNITS and isinstance(value, Decimal):
            row[UNITS[unit]] = str(value)
        elif unit in UNITS and value is not None:
            row[UNITS[unit]] = [str(value.base), *([tier.start, str(tier.price)] for tier in value.tiers)]
    return row


def _utc(value: time) -> str:
    if value.tzinfo is not None:
        value = datetime.combine(date(1970, 1, 1), value).astimezone(UTC).time()
    return value.isoformat()


def _match(clause: object) -> object:
    """A text is a name; a list has several clauses of which one is enough."""
    match clause:
        case types.ClauseEquals(equals=text):
            return text.lower()
        case types.ClauseStartsWith(starts_with=text):
            return {"starts": text.lower()}
        case types.ClauseEndsWith(ends_with=text):
            return {"ends": text.lower()}
        case types.ClauseContains(contains=text):
            return {"contains": text.lower()}
        case types.ClauseRegex(regex=text):
            return {"regex": text}
        case types.ClauseOr(or_=several):
            return [_match(each) for each in several]
        case types.ClauseAnd(and_=several):
            return {"all": [_match(each) for each in several]}
        case _:
            raise TypeError(f"a clause that is not known: {clause!r}")


def _json(row: Mapping[str, object]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    (COST / "catalog.jsonl").write_text("".join(lines(datetime.now(UTC).date())), encoding="utf-8")
    sys.stdout.write(f"wrote {COST / 'catalog.jsonl'}: genai-prices {genai_prices.__version__}\n")
