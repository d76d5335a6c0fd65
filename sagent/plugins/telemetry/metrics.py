"""The instruments: durations of model calls, tools and runs, and costs."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from opentelemetry.metrics import MeterProvider

from sagent.plugins.telemetry import names
from sagent.usage import Charge
from sagent.version import __version__

Attributes: TypeAlias = Mapping[str, str]


_SECONDS = (0.05, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256)
_NUMBERS = (0, 1, 2, 4, 8, 16, 32, 64, 128)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_HISTOGRAMS: Mapping[str, tuple[str, str, Sequence[float]]] = {
    names.INFERENCE_SECONDS: ("s", "duration of a model call", _SECONDS),
    names.FIRST_CHUNK_SECONDS: ("s", "time until the first piece of a reply", _SECONDS),
    names.AGENT_SECONDS: ("s", "duration of a run of an agent", _SECONDS),
    names.TOOL_SECONDS: ("s", "duration of a tool call", _SECONDS),
    names.AGENT_CALLS: ("{call}", "model calls of a run", _NUMBERS),
    names.AGENT_TOOL_CALLS: ("{call}", "tool calls of a run", _NUMBERS),
    names.CACHE_SHARE: ("1", "share of a call's input that came from a cache", _SHARES),
}
_COUNTERS: Mapping[str, tuple[str, str]] = {
    names.INPUT_COUNT: ("{token}", "input tokens, those from and to a cache included"),
    names.OUTPUT_COUNT: ("{token}", "output tokens, reasoning included"),
    names.CACHE_READ_COUNT: ("{token}", "input tokens that were read from a cache"),
    names.CACHE_WRITE_COUNT: ("{token}", "input tokens that were written to a cache"),
    names.REASONING_COUNT: ("{token}", "output tokens that were reasoning"),
    names.USD_COUNT: ("USD", "what was billed, at list prices"),
    names.UNPRICED_COUNT: ("{call}", "charges whose price is not known"),
}


class Instruments:
    """No attribute names a session or an agent: each would make its own time series."""

    def __init__(self, meters: MeterProvider) -> None:
        meter = meters.get_meter("sagent", __version__)
        self._histograms = {
            name: meter.create_histogram(name, unit, what, explicit_bucket_boundaries_advisory=bounds)
            for name, (unit, what, bounds) in _HISTOGRAMS.items()
        }
        self._counters = {name: meter.create_counter(name, unit, what) for name, (unit, what) in _COUNTERS.items()}

    def observe(self, name: str, value: float, attributes: Attributes) -> None:
        """Record a value of a histogram, by its name."""
        self._histograms[name].record(value, attributes)

    def count(self, charge: Charge) -> None:
        """Count a charge: together these are the ledger's sums."""
        usage = charge.usage
        attributes = {**model_of(charge.provider, charge.model), names.ROLE: charge.role}
        amounts = (
            (names.INPUT_COUNT, usage.total_input),
            (names.OUTPUT_COUNT, usage.output),
            (names.CACHE_READ_COUNT, usage.cache_read),
            (names.CACHE_WRITE_COUNT, usage.cache_write + usage.cache_write_1h),
            (names.REASONING_COUNT, usage.reasoning),
            (names.USD_COUNT, float(charge.usd or 0)),
            (names.UNPRICED_COUNT, int(charge.usd is None)),
        )
        for name, amount in amounts:
            if amount:
                self._counters[name].add(amount, attributes)
        if usage.total_input:
            self.observe(names.CACHE_SHARE, usage.cache_read / usage.total_input, attributes)


def model_of(provider: str, model: str) -> dict[str, str]:
    """Return the attributes that name a model."""
    return {
        names.OPERATION: names.operation_name(provider),
        names.PROVIDER: names.provider_name(provider),
        names.REQUEST_MODEL: model,
    }
