"""The W3C trace context of a session on the bus, from its requester to the working node."""

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

_HEADERS = ("traceparent", "tracestate")


def current_context() -> Mapping[str, str]:
    """Return the current trace context: OpenTelemetry's current span, if it is in use, else TRACEPARENT."""
    found: dict[str, str] = {}
    if "opentelemetry.context" in sys.modules:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(found)
    return found or {name: os.environ[name.upper()] for name in _HEADERS if name.upper() in os.environ}


@contextmanager
def attached_context(carrier: Mapping[str, str]) -> Generator[None]:
    """Work below a span of another process."""
    if not carrier or find_spec("opentelemetry") is None:
        yield
        return
    from opentelemetry.context import attach, detach
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    token = attach(TraceContextTextMapPropagator().extract(carrier))
    try:
        yield
    finally:
        detach(token)
