"""Windows and output limits of well-known models, from data."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.model import Effort, ModelInfo, ModelLimits

UNKNOWN = ModelLimits()
USUAL_OUTPUT, LARGE_OUTPUT = 32_000, 64_000  # default tokens of output

OWN_OUTPUT = 16_000
"""Tokens to request from a server of the user's own, which might never stop."""


def limits_of(provider: str, model_id: str) -> ModelLimits:
    """Return a model's sizes by the longest known prefix of its id; a vendor's prefix ("vendor/id") is ignored."""
    name = model_id.rpartition("/")[2].lower().replace("claude-3.", "claude-3-").replace("claude-4.", "claude-4-")
    best = max((known for known in _table(provider) if name.startswith(known.lower())), key=len, default=None)
    return UNKNOWN if best is None else _table(provider)[best]


def limits_like(model_id: str) -> ModelLimits:
    """Return the sizes of a model by its name alone, whoever makes it."""
    found = (limits_of(provider, model_id) for provider in _tables())
    return next((limits for limits in found if limits != UNKNOWN), UNKNOWN)


def output_limit(
    model: str, limits: ModelLimits, requested: int | None, usual: int = USUAL_OUTPUT
) -> tuple[int | None, tuple[str, ...]]:
    """Return the output limit to send (None: none), and a note if it is not the wanted one. `usual` tokens are
    requested by default if the model's own limit is known."""
    most = limits.max_output
    if requested is None:
        return min(most, usual) if most else None, ()
    if most and requested > most:
        return most, (f"{model} writes at most {most} tokens: {requested} were asked for",)
    return max(1, requested), ()


def own_output(limits: ModelLimits) -> int:
    """Return the tokens to request if a server has no limit of its own and the model's is unknown."""
    return min(OWN_OUTPUT, max(1, limits.window // 2)) if limits.window else OWN_OUTPUT


def usual_output(effort: Effort | None) -> int:
    """Return the tokens to request if thinking counts as output."""
    return LARGE_OUTPUT if effort in ("high", "xhigh", "max") else USUAL_OUTPUT


def model_info(provider: str, model_id: str, row: Mapping[str, object], names: tuple[str, str, str]) -> ModelInfo:
    """Return a listed model; `names` are the members of its row for its name for people, window and output limit."""
    known = limits_of(provider, model_id)
    name, window, output = (row.get(each) for each in names)
    return ModelInfo(
        model_id, ModelLimits(as_int(window) or known.window, as_int(output) or known.max_output), as_str(name)
    )


def known_models(provider: str) -> tuple[ModelInfo, ...]:
    """Return the models we have data for."""
    return tuple(ModelInfo(name, limits) for name, limits in _table(provider).items())


@cache
def _tables() -> Mapping[str, object]:
    data: object = json.loads(Path(__file__).with_name("limits.json").read_bytes())
    return as_object(data)


@cache
def _table(provider: str) -> dict[str, ModelLimits]:
    rows = (as_array(row) for row in as_array(_tables().get(provider)))
    return {as_str(name): ModelLimits(as_int(window) or None, as_int(output) or None) for name, window, output in rows}
