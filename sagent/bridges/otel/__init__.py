"""Traces and metrics of agents for OpenTelemetry. Needs sagent[otel]."""

from sagent.bridges.otel.telemetry import Capture, Telemetry

__all__ = ["Capture", "Telemetry"]
