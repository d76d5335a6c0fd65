"""Telemetry of the program itself: exporters from OpenTelemetry's own variables, and an end that does not wait for a
slow collector.

See opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables.
"""

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.metadata import entry_points
from typing import TypeVar, cast

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sagent.errors import ConfigError
from sagent.lib.text import one_line, printable
from sagent.plugins.telemetry import names
from sagent.plugins.telemetry.spans import Capture, Telemetry
from sagent.version import __version__

FLUSH_TIMEOUT_SECONDS = 1.5  # time for sending the last spans; later ones are dropped
_PROTOCOLS = {"http/protobuf": "otlp_proto_http", "http/json": "otlp_json_http", "grpc": "otlp_proto_grpc"}
_PACKAGES = {name: f"opentelemetry-exporter-{name.replace('_', '-')}" for name in _PROTOCOLS.values()}
_CAPTURES: Mapping[str, Capture] = {
    **dict.fromkeys(("", "no_content", "false"), "none"),
    **dict.fromkeys(("span_only", "span_and_event", "true"), "content"),
}

Exporter = TypeVar("Exporter")


@asynccontextmanager
async def open_telemetry(environ: Mapping[str, str], warn: Callable[[str], None]) -> AsyncGenerator[Telemetry]:
    """Telemetry to where OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER say, by default by OTLP to OTEL_EXPORTER_OTLP_
    ENDPOINT; below the span of TRACEPARENT, where that is set.

    `warn` is called once when something cannot be exported. Raises ConfigError for an exporter that is not there.
    """
    faults = _Faults(asyncio.get_running_loop(), warn)
    with _followed(faults):
        spans, readers = [*_span_exporters(environ)], [*_metric_readers(environ)]
        resource = Resource.create({"service.version": __version__, **_service(environ)})
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for exporter in spans:
            tracers.add_span_processor(BatchSpanProcessor(exporter))
        meters = MeterProvider(readers, resource, shutdown_on_exit=False)
        carried = {name: environ[name.upper()] for name in ("traceparent", "tracestate") if name.upper() in environ}
        parent = TraceContextTextMapPropagator().extract(carried)
        given = environ.get(names.CAPTURE_VARIABLE, "").strip()
        if (capture := _CAPTURES.get(given.lower())) is None:
            how = "Give SPAN_ONLY for content in spans, or NO_CONTENT"
            warn(f"{names.CAPTURE_VARIABLE}={one_line(printable(given), 60)}: no content is exported. {how}.")
        faults.exporting = True
        try:
            yield Telemetry(tracers, meters, capture=capture or "none", parent=parent)
        finally:
            if not await _shut_down(tracers.shutdown, meters.shutdown):
                faults.report("the collector does not answer")


@contextmanager
def _followed(faults: logging.Handler) -> Generator[None]:
    """Give `faults` the SDK's log records, and keep them from stderr for good."""
    logger = logging.getLogger("opentelemetry")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    logger.addHandler(faults)
    try:
        yield
    finally:
        logger.removeHandler(faults)


def _service(environ: Mapping[str, str]) -> Mapping[str, str]:
    named = "OTEL_SERVICE_NAME" in environ or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return {} if named else {"service.name": "sagent"}


def _span_exporters(environ: Mapping[str, str]) -> Iterator[SpanExporter]:
    for name in _chosen(environ, "TRACES"):
        if name == "console":
            yield ConsoleSpanExporter(out=sys.stderr)
        else:
            yield _load("opentelemetry_traces_exporter", name, SpanExporter)()


def _metric_readers(environ: Mapping[str, str]) -> Iterator[MetricReader]:
    for name in _chosen(environ, "METRICS"):
        if name == "console":
            yield PeriodicExportingMetricReader(ConsoleMetricExporter(out=sys.stderr))
            continue
        made = _load("opentelemetry_metrics_exporter", name, object)()
        yield made if isinstance(made, MetricReader) else PeriodicExportingMetricReader(cast("MetricExporter", made))


def _chosen(environ: Mapping[str, str], signal: str) -> Sequence[str]:
    """Return the exporters of a signal, by the names of their entry points. Raises ConfigError."""
    wanted = environ.get(f"OTEL_{signal}_EXPORTER") or "otlp"
    found = [name.strip() for name in wanted.split(",") if name.strip() not in ("", "none")]
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    if "otlp" not in found:
        return found
    variables = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next(filter(None, map(environ.get, variables)), "http/protobuf").strip()
    if protocol not in _PROTOCOLS:
        raise ConfigError(f"{variables[1]}={protocol!r}: there is {', '.join(_PROTOCOLS)}.")
    return [_PROTOCOLS[protocol] if name == "otlp" else name for name in found]


def _load(group: str, name: str, kind: type[Exporter]) -> type[Exporter]:
    """Return an exporter's class from any installed package. Raises ConfigError if there is none."""
    del kind
    for point in entry_points(group=group, name=name):
        return point.load()
    package = _PACKAGES.get(name, "the package that has it")
    raise ConfigError(f"OpenTelemetry's exporter {name!r} is not installed: install {package}.")


class _Faults(logging.Handler):
    """Handler for the SDK's log records: each doubt about a variable, and one line about failed exports."""

    def __init__(self, loop: asyncio.AbstractEventLoop, warn: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._loop, self._warn, self._done = loop, warn, False
        self.exporting = False  # until then, log records are about the variables

    def emit(self, record: logging.LogRecord) -> None:
        if not self.exporting:
            self._warn(f"Telemetry: {one_line(printable(record.getMessage()), 300)}")
            return
        with suppress(RuntimeError):  # the loop is closed; and this is a thread of the SDK
            self._loop.call_soon_threadsafe(self.report, record.getMessage())

    def report(self, reason: str) -> None:
        if not self._done:
            self._done = True
            self._warn(f"Telemetry is not exported, or not all of it: {one_line(printable(reason), 300)}")


async def _shut_down(*ends: Callable[[], object]) -> bool:
    """End everything at once. Returns whether that was done in time. A thread that still waits for a collector is left
    alone: it does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    threads = [threading.Thread(target=end, daemon=True) for end in ends]
    done = loop.create_future()

    def wait() -> None:
        for thread in threads:
            thread.join()
        with suppress(RuntimeError):  # nobody waits any more, and the loop is closed
            loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))

    waiter = threading.Thread(target=wait, daemon=True)
    for thread in (*threads, waiter):
        thread.start()
    try:
        await asyncio.wait_for(done, FLUSH_TIMEOUT_SECONDS)
    except TimeoutError:
        return False
    return True
