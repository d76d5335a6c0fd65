"""Sizes and prices in the listings of servers, and the file that keeps them."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.lib.json import as_object
from sagent.model import ModelInfo, ModelLimits
from sagent.providers.listings import MAX_AGE_SECONDS, Listings, limits_in, prices_in
from tests.depth import few


@pytest.mark.parametrize(
    ("entry", "window", "most"),
    [
        ({"context_length": 200_000, "top_provider": {"context_length": 190_000, "max_completion_tokens": 64_000}},
         200_000, 64_000),  # OpenRouter
        ({"context_length": 8192, "top_provider": {"max_completion_tokens": None}}, 8192, None),
        ({"context_window": 131_072, "max_completion_tokens": 32_768}, 131_072, 32_768),  # Groq
        ({"max_context_length": 32_768}, 32_768, None),  # Mistral
        ({"max_model_len": 4096}, 4096, None),  # vLLM
        ({"meta": {"n_ctx_train": 131_072, "n_ctx": 8192}}, 8192, None),  # llama.cpp
        ({"meta": {"n_ctx_train": 131_072}}, 131_072, None),
        ({"max_context_length": 32_768, "loaded_context_length": 4096}, 4096, None),  # LM Studio
        ({"limits": {"max_input_tokens": 128_000, "max_output_tokens": 4096}}, 128_000, 4096),  # GitHub Models
        ({"context_length": 0, "meta": None}, None, None),
        ({"context_length": "many"}, None, None),
        ({}, None, None),
    ],
)  # fmt: skip
def test_sizes(entry: dict[str, object], window: int | None, most: int | None) -> None:
    assert limits_in(entry, ModelLimits()) == ModelLimits(window, most)
    assert limits_in(entry, ModelLimits(7, 5)) == ModelLimits(window or 7, most or 5), (
        "where nothing is told, what is known"
    )


@pytest.mark.parametrize(
    ("pricing", "expected"),
    [
        ({"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003", "image": "0.1"},
         {"input": "3", "output": "15", "cache_read": "0.3"}),  # OpenRouter
        ({"hourly": 0, "input": 0.88, "output": 0.9, "base": 0}, {"input": "0.88", "output": "0.9"}),  # Together
        ({"input": "0.000003", "output": "0.00001"}, {"input": "3", "output": "10"}),  # Vercel
        ({"prompt": "-1", "completion": "-1"}, {}),
        ({"prompt": "free", "completion": None}, {}),
        ({"prompt": "NaN"}, {}),
        ("1 USD", {}),
    ],
)  # fmt: skip
def test_prices(pricing: object, expected: dict[str, str]) -> None:
    assert prices_in({"pricing": pricing}) == {bucket: Decimal(price) for bucket, price in expected.items()}


def test_listing_is_shared_between_processes(tmp_path: Path) -> None:
    file = tmp_path / "state" / "listings.json"
    listings = Listings(file)
    assert listings.limits("acme", "m") == ModelLimits() and not listings.is_fresh("acme")
    listings.keep("acme", [ModelInfo("m", ModelLimits(8192, None)), ModelInfo("n")])
    other = Listings(file)
    assert other.limits("acme", "m") == listings.limits("acme", "m") == ModelLimits(8192, None)
    assert other.limits("acme", "n") == other.limits("else", "m") == ModelLimits()
    assert other.is_fresh("acme") and not other.is_fresh("else")
    assert file.stat().st_mode & 0o777 == 0o600
    assert {*os.listdir(file.parent)} == {"listings.json", "listings.lock"}
    other.keep("else", [ModelInfo("x", ModelLimits(1, 1))])
    listings.keep("third", [])
    assert Listings(file).limits("else", "x") == ModelLimits(1, 1), "what another process wrote stays"


def test_old_listing_is_better_than_none(tmp_path: Path) -> None:
    file = tmp_path / "listings.json"
    Listings(file).keep("acme", [ModelInfo("m", ModelLimits(8192, None))])
    data = as_object(json.loads(file.read_bytes()))
    places = {"acme": {**as_object(as_object(data["places"])["acme"]), "at": time.time() - MAX_AGE_SECONDS - 1}}
    file.write_text(json.dumps({**data, "places": places}))
    old = Listings(file)
    assert not old.is_fresh("acme") and old.limits("acme", "m") == ModelLimits(8192, None)


@pytest.mark.parametrize("text", ["", "[]", '{"places": 3}', '{"places": {"acme": {"models": {"m": [1]}}}}', "\xff"])
def test_damaged_listing_counts_as_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "listings.json"
    file.write_bytes(text.encode("latin-1"))
    listings = Listings(file)
    assert listings.limits("acme", "m") == ModelLimits()
    listings.keep("acme", [ModelInfo("m", ModelLimits(2, 1))])
    assert Listings(file).limits("acme", "m") == ModelLimits(2, 1)


def test_unwritable_listing_stays_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    listings = Listings(tmp_path / "file" / "listings.json")
    listings.keep("acme", [ModelInfo("m", ModelLimits(2, 1))])
    assert listings.limits("acme", "m") == ModelLimits(2, 1)
    assert os.listdir(tmp_path) == ["file"]
    memory = Listings()
    memory.keep("acme", [ModelInfo("m", ModelLimits(2, 1))])
    assert memory.limits("acme", "m") == ModelLimits(2, 1)


KEEPS = """
import sys
import threading
from pathlib import Path
from sagent.model import ModelInfo, ModelLimits
from sagent.providers.listings import Listings
for number in range(20):
    listings = Listings(Path(sys.argv[1]))
    listings.keep(f"{sys.argv[2]} {number}", [ModelInfo("m", ModelLimits(1, 1))])
    listings.rename(f"{sys.argv[2]} {number}", f"{sys.argv[2]} {number} too")
"""


def test_concurrent_listings_keep_all(tmp_path: Path) -> None:
    file = tmp_path / "state" / "listings.json"
    names = few("abcd")
    running = [subprocess.Popen([sys.executable, "-c", KEEPS, str(file), each]) for each in names]
    assert [each.wait() for each in running] == [0] * len(names)
    kept = as_object(as_object(json.loads(file.read_bytes())).get("places"))
    assert {*kept} == {f"{each} {number}{end}" for each in names for number in range(20) for end in ("", " too")}


def test_process_that_was_overtaken_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stands still in its turn is not waited for; when it goes on, it takes in what others have written."""
    monkeypatch.setattr("sagent.lib.filelock._MAX_TURN_SECONDS", 0.1)
    file, entered, goes_on = tmp_path / "listings.json", threading.Event(), threading.Event()
    Listings(file).keep("first", [ModelInfo("m", ModelLimits(1, 1))])

    def slow(places: Mapping[str, Mapping[str, object]]) -> Mapping[str, Mapping[str, object]]:
        entered.set()
        assert goes_on.wait(60)
        return {**places, "slow": {}}

    stopped = threading.Thread(target=Listings(file)._change, args=(slow,))
    stopped.start()
    assert entered.wait(60)
    Listings(file).keep("second", [ModelInfo("m", ModelLimits(1, 1))])
    goes_on.set()
    stopped.join(20)
    assert {*as_object(as_object(json.loads(file.read_bytes())).get("places"))} == {"first", "second", "slow"}
