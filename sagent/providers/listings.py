"""Sizes of models from providers' own listings, and a file that caches them."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

from sagent.lib.json import as_array, as_int, as_object
from sagent.lib.money import EXACT, as_usd
from sagent.lib.regular import read_given
from sagent.model import ModelInfo, ModelLimits

MAX_AGE_SECONDS = 86_400.0  # after which a listing is requested again

_WINDOWS = (
    "loaded_context_length",  # LM Studio: as loaded, which may be less than the maximum
    "context_length",  # OpenRouter, Together, Fireworks, Moonshot
    "context_window",  # Groq
    "max_model_len",  # vLLM, SGLang
    "max_context_length",  # Mistral, LM Studio
    "max_input_tokens",  # GitHub Models, among its `limits`
    "n_ctx",  # llama.cpp, in `meta`
    "n_ctx_train",  # older llama.cpp: the size the model was trained for
)
_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,6}(?:\.\d{1,6})?)(b|m)(?![a-z0-9])", re.IGNORECASE)
_MIN_MILLIONS = 50  # a name that ends with -1m gives the size of a window
_Places: TypeAlias = Mapping[str, Mapping[str, object]]
_OUTPUTS = ("max_completion_tokens", "max_output_tokens")
# The billed buckets by a listing's names for the price of a token, and of a million (Together; Vercel writes text, and
# means one).
_PER_TOKEN = {"prompt": "input", "completion": "output", "input_cache_read": "cache_read"}  # OpenRouter
_BUCKETS = {"input": "input", "output": "output", "cached_input": "cache_read"}


def limits_in(entry: Mapping[str, object], known: ModelLimits) -> ModelLimits:
    """Return the sizes in a row of an OpenAI-like listing; the known ones if it has none."""
    places = [entry, *(as_object(entry.get(name)) for name in ("top_provider", "limits", "meta"))]
    window = next(_sizes(_WINDOWS, places), known.window)
    return ModelLimits(window, next(_sizes(_OUTPUTS, places[1:] + places[:1]), known.max_output))


def _sizes(names: Sequence[str], places: Sequence[Mapping[str, object]]) -> Iterator[int]:
    return (size for place in places for name in names if (size := as_int(place.get(name))) > 0)


def prices_in(entry: Mapping[str, object]) -> Mapping[str, Decimal]:
    """Return USD per million tokens by billed bucket; {} if there is no price, or a variable one (-1 at OpenRouter)."""
    found: dict[str, Decimal] = {}
    for name, value in as_object(entry.get("pricing")).items():
        bucket = _PER_TOKEN.get(name) or _BUCKETS.get(name)
        price = as_usd(value) if bucket else None
        if bucket and price is not None:
            found[bucket] = price.scaleb(6, EXACT) if name in _PER_TOKEN or isinstance(value, str) else price
    return {} if any(price < 0 for price in found.values()) else found


def weights_in_name(model_id: str) -> int | None:
    """Return the number of parameters in a name ("qwen2.5-coder:1.5b"); None if it has none."""
    sizes = [
        int(float(number) * (1e9 if unit in "bB" else 1e6))
        for number, unit in _SIZE.findall(model_id)
        if unit in "bB" or float(number) >= _MIN_MILLIONS
    ]
    return max(sizes, default=None)


class Listings:
    """Sizes from listings, by place (a provider and its address) and model, in a file with their age.

    Without a file they are kept in memory. An unreadable file counts as none, and an unwritable one is ignored:
    everything can be requested again.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._places: _Places | None = None

    def limits(self, place: str, model_id: str) -> ModelLimits:
        """Return the known limits of a model; empty limits if nothing is known."""
        models = as_object(self._read().get(place, {}).get("models"))
        sizes = [as_int(size) or None for size in as_array(models.get(model_id))]
        return ModelLimits(sizes[0], sizes[1]) if len(sizes) >= 2 else ModelLimits()

    def weights(self, place: str, model_id: str) -> int | None:
        """Return a model's number of parameters; None if unknown."""
        listed = as_array(as_object(self._read().get(place, {}).get("models")).get(model_id))
        return as_int(listed[2]) or None if len(listed) > 2 else None

    def models(self, place: str) -> Sequence[str]:
        """Return the ids of the models with sizes from a place."""
        return tuple(as_object(self._read().get(place, {}).get("models")))

    def server(self, place: str) -> str | None:
        """Return the program that serves there, "" if it is not named; None for a place never asked."""
        found = self._read().get(place, {}).get("server")
        return found if isinstance(found, str) else None

    def is_fresh(self, place: str) -> bool:
        """Return True if the place was asked recently."""
        age = time.time() - as_int(self._read().get(place, {}).get("at"))
        return 0 <= age < MAX_AGE_SECONDS

    def keep(self, place: str, models: Sequence[ModelInfo]) -> None:
        """Store a listing in place of the earlier one."""
        sizes = {
            info.id: [info.limits.window, info.limits.max_output, info.weights]
            for info in models
            if info.limits != ModelLimits() or info.weights or info.server
        }
        server = next((info.server for info in models), "")
        entry = {"at": int(time.time()), "models": sizes, "server": server}
        self._change(lambda places: {**places, place: entry})

    def rename(self, place: str, other: str) -> None:
        """Store a place's data under another name too."""
        self._change(lambda places: {**places, other: places[place]} if place in places else places)

    def _change(self, change: Callable[[_Places], _Places]) -> None:
        """Change the file's data. Other processes wait until it is written."""
        if self._file is None:
            self._places = change(self._read())
            return
        from sagent.lib.filelock import rewrite

        def changed() -> bytes:
            self._places = places = change(self._read(again=True))
            return json.dumps({"version": 1, "places": places}).encode()

        with contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            rewrite(self._file, self._file.with_suffix(".lock"), changed)

    def _read(self, *, again: bool = False) -> _Places:
        """Return the known places; with `again`, reread the file, which another process may have written."""
        if self._places is None or again:
            held = self._places or {}
            data: object = None
            if self._file is not None:
                with contextlib.suppress(OSError, ValueError, RecursionError):
                    data = json.loads(read_given(self._file))
            found = as_object(as_object(data).get("places"))
            self._places = {**held, **{place: as_object(sizes) for place, sizes in found.items()}}
        return self._places
