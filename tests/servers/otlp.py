"""A collector of OpenTelemetry as small as it gets: takes OTLP over HTTP, in protobuf, and keeps what it was sent."""

import gzip
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


@dataclass(frozen=True, slots=True)
class TakenSpan:
    """A span as it came over the wire."""

    name: str
    trace: int
    id: int
    parent: int
    began_ns: int
    ended_ns: int
    error: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    links: tuple[int, ...]


@dataclass
class Otlp:
    """What has come, and how it is answered."""

    url: str = ""
    status: int = 200
    hang: threading.Event | None = None
    """Nothing is answered until it is set."""
    asked: threading.Event = field(default_factory=threading.Event)
    """Something was posted."""
    bodies: list[bytes] = field(default_factory=list[bytes])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    traces: list[ExportTraceServiceRequest] = field(default_factory=list[ExportTraceServiceRequest])
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list[ExportMetricsServiceRequest])

    @property
    def spans(self) -> list[TakenSpan]:
        """Every span, as often as it came."""
        return [span for request in self.traces for span in _spans(request)]

    def figures(self, name: str) -> list[tuple[dict[str, Any], float]]:
        """The newest of a metric, by attributes: of a histogram its sum, else the value."""
        found: list[tuple[dict[str, Any], float]] = []
        for request in self.metrics:
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        if metric.name != name:
                            continue
                        found += [(_said(one.attributes), one.sum) for one in metric.histogram.data_points]
                        found += [
                            (_said(one.attributes), one.as_double or one.as_int)
                            for one in metric.sum.data_points
                        ]
        return found

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Keep what was posted to a path."""
        plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        self.bodies.append(plain)
        self.headers.append(headers)
        if path.endswith("/v1/traces"):
            self.traces.append(ExportTraceServiceRequest.FromString(plain))
        elif path.endswith("/v1/metrics"):
            self.metrics.append(ExportMetricsServiceRequest.FromString(plain))


@contextmanager
def collecting() -> Generator[Otlp]:
    """It listens while the context lasts."""
    otlp = Otlp()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            otlp.asked.set()
            hang = otlp.hang
            if hang is not None:
                hang.wait()
            if otlp.status == 200:
                otlp.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(otlp.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that it has
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    otlp.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield otlp
    finally:
        if otlp.hang is not None:
            otlp.hang.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _spans(request: ExportTraceServiceRequest) -> Iterator[TakenSpan]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield TakenSpan(
                    span.name,
                    int.from_bytes(span.trace_id, "big"),
                    int.from_bytes(span.span_id, "big"),
                    int.from_bytes(span.parent_span_id, "big"),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.status.message,
                    _said(span.attributes),
                    _said(resource.resource.attributes),
                    tuple(int.from_bytes(link.span_id, "big") for link in span.links),
                )


def _said(attributes: "Any") -> dict[str, Any]:
    pairs: list[KeyValue] = list(attributes)
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return None if kind is None else getattr(value, kind)
