"""Traces and metrics of agents for OpenTelemetry. Needs sagent[otel]."""

from typing import TYPE_CHECKING

from sagent.config.declared import SESSION
from sagent.config.values import switch
from sagent.plugin import Part, Plugin, Setting

if TYPE_CHECKING:
    from sagent.plugins.telemetry.spans import Capture as Capture
    from sagent.plugins.telemetry.spans import Telemetry as Telemetry

__all__ = ["Capture", "Telemetry", "plugin"]

TELEMETRY = Setting(
    "telemetry",
    switch,
    default=False,
    type="bool",
    group=SESSION,
    help="send OpenTelemetry spans and metrics, as its variables (OTEL_...) say",
)
PACKAGES = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
"""Packages of the extra otel."""
plugin = Plugin(
    "telemetry",
    "traces and metrics of agents, for OpenTelemetry",
    parts=(Part("sagent.plugins.telemetry.part:add", ("telemetry",)),),
    settings=(TELEMETRY,),
)


def __getattr__(name: str) -> object:
    if name in ("Capture", "Telemetry"):
        from sagent.plugins.telemetry import spans

        return getattr(spans, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
