"""A collector: takes OTLP over HTTP, decodes the protobuf and keeps it."""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collected:
    """What came. Metrics by name: the sum of a counter, or the number of values of a histogram."""

    url: str = ""
    spans: list[Span] = field(default_factory=list[Span])
    resource: dict[str, object] = field(default_factory=dict[str, object])
    metrics: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def names(self) -> list[str]:
        return sorted(span.name for span in self.spans)

    def one(self, name: str) -> Span:
        (found,) = [span for span in self.spans if span.name == name]
        return found


def values_of(attributes: Iterable[KeyValue]) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for each in attributes:
        found[each.key] = getattr(each.value, str(each.value.WhichOneof("value")))
    return found


@contextmanager
def collector() -> Generator[Collected]:
    """A collector on a free port of loopback."""
    collected = Collected()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            if self.path.endswith("/v1/traces"):
                _take_spans(collected, ExportTraceServiceRequest.FromString(body))
            else:
                _take_metrics(collected, ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name that it has there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    collected.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collected
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _take_spans(collected: Collected, request: ExportTraceServiceRequest) -> None:
    for resource in request.resource_spans:
        collected.resource |= values_of(resource.resource.attributes)
        collected.spans += [span for scope in resource.scope_spans for span in scope.spans]


def _take_metrics(collected: Collected, request: ExportMetricsServiceRequest) -> None:
    metrics = (metric for each in request.resource_metrics for scope in each.scope_metrics for metric in scope.metrics)
    for metric in metrics:
        points = [
            *(point.as_double or point.as_int for point in metric.sum.data_points),
            *(point.count for point in metric.histogram.data_points),
        ]
        collected.metrics[metric.name] = sum(points)
