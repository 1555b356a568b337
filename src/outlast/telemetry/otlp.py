"""Sends traces and metrics with OpenTelemetry's own SDK, as its variables say (extra `otel`)."""

import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

import anyio
import anyio.to_thread
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from outlast.clock import Clock
from outlast.telemetry import names
from outlast.telemetry.content import complete
from outlast.telemetry.measures import COUNTERS, HISTOGRAMS, Measure, measures_of
from outlast.telemetry.reading import read_story
from outlast.telemetry.spans import Kind, Span, spans_of
from outlast.telemetry.wishes import Wish
from outlast.tracing import Settled, SpanRef
from outlast.world import World

ANSWER_S: Final = 2.0
"""How long a collector may take, and a second more for each `CHUNK` of spans: a session is held for it meanwhile."""
REST_S: Final = (10.0, 20.0, 40.0, 60.0)
"""How long one that took nothing is left alone, from time to time longer. Meanwhile no session waits for it."""
AT_ONCE: Final = 4
"""Turns that are sent at once."""
CLOSE_S: Final = 5.0
"""How long the end waits for the last figures."""
CHUNK: Final = 512
"""Spans in one request."""
RESTING: Final = "the collector did not answer a moment ago"
LATE: Final = "the collector did not answer in time"
REFUSED: Final = "the collector did not take the spans"
_SECONDS: Final = [0.01 * 2**step for step in range(14)]
_TOKENS: Final = [4**step for step in range(14)]
_KINDS: Final[Mapping[Kind, SpanKind]] = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class OtlpCollector:
    """See `outlast.tracing.Collector`.

    Args:
        exporter: None: no spans are sent.
        meters: None: nothing is counted.
        words: whether what was asked and answered goes along.
        answer_s: how long the collector may take for a small turn.
    """

    def __init__(  # noqa: PLR0913 - each keyword is a part of its own
        self,
        clock: Clock,
        resource: Resource,
        *,
        exporter: SpanExporter | None,
        sampler: Sampler,
        meters: "Meters | None",
        words: bool,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._clock = clock
        self._resource = resource
        self._exporter = exporter
        self._sampler = sampler
        self._meters = meters
        self._words = words
        self._answer_s = answer_s
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._down_until_s = 0.0
        self._failures = 0

    async def collect(self, world: World, settled: Settled) -> str:
        if self._clock.elapsed() < self._down_until_s:
            return RESTING
        story = await read_story(world, settled)
        if story is None:
            return ""
        spans = await anyio.to_thread.run_sync(spans_of, story)  # of a long turn it takes a while
        if self._exporter is not None and self._is_sampled(spans[0]):
            spans = await complete(world, story, spans, words=self._words)
            error = await self._send(self._exporter, spans)
            if error:
                return error
        if self._meters is not None:
            self._meters.count(measures_of(story, spans))
        return ""

    async def _send(self, exporter: SpanExporter, spans: Sequence[Span]) -> str:
        if self._failures:
            self._rest()  # one asks whether it is well again, and the others go on resting
        taken, late = False, True
        with anyio.move_on_after(self._answer_s + len(spans) / CHUNK):
            taken = await anyio.to_thread.run_sync(
                self._export, exporter, spans, abandon_on_cancel=True, limiter=self._limiter
            )
            late = False
        if taken:
            self._failures, self._down_until_s = 0, 0.0
            return ""
        self._failures += 1
        self._rest()
        return LATE if late else REFUSED

    def _rest(self) -> None:
        self._down_until_s = self._clock.elapsed() + REST_S[min(self._failures, len(REST_S)) - 1]

    def _export(self, exporter: SpanExporter, spans: Sequence[Span]) -> bool:
        """In a thread: it is another's code, and waits."""
        for at in range(0, len(spans), CHUNK):
            made = [readable(span, self._resource) for span in spans[at : at + CHUNK]]
            if exporter.export(made) is not SpanExportResult.SUCCESS:
                return False
        return True

    def _is_sampled(self, root: Span) -> bool:
        above = (
            Context() if root.parent is None else set_span_in_context(NonRecordingSpan(_context(root.parent)))
        )
        found = self._sampler.should_sample(above, root.trace, root.name, SpanKind.INTERNAL, root.attributes)
        return found.decision is Decision.RECORD_AND_SAMPLE


class Meters:
    """The instruments of one process."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter(names.SCOPE, names.CONVENTIONS)
        self._counters = {
            name: meter.create_counter(name, description=text) for name, text in COUNTERS.items()
        }
        self._histograms = {
            name: meter.create_histogram(
                name,
                unit,
                text,
                explicit_bucket_boundaries_advisory=_SECONDS if unit == "s" else _TOKENS,
            )
            for name, (unit, text) in HISTOGRAMS.items()
        }

    def count(self, measures: Iterable[Measure]) -> None:
        """Take in some figures."""
        for one in measures:
            if one.name in self._counters:
                self._counters[one.name].add(one.value, one.attributes)
            else:
                self._histograms[one.name].record(one.value, one.attributes)


@asynccontextmanager
async def open_otlp(
    wish: Wish, clock: Clock, instance: str, *, answer_s: float = ANSWER_S
) -> AsyncGenerator[OtlpCollector]:
    """A collector as the variables want it, while the context lasts.

    Args:
        instance: the name of this process, which no other has: figures of two processes are two series.
        answer_s: see `OtlpCollector`.
    """
    resource = resource_of(os.environ, instance)
    provider = None if wish.metrics is None else _meter_provider(wish.metrics, resource)
    exporter = None if wish.traces is None else _span_exporter(wish.traces)
    sampler = TracerProvider(resource=resource, shutdown_on_exit=False).sampler
    meters = None if provider is None else Meters(provider)
    try:
        yield OtlpCollector(
            clock,
            resource,
            exporter=exporter,
            sampler=sampler,
            meters=meters,
            words=wish.words,
            answer_s=answer_s,
        )
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            for end in (exporter, provider):
                if end is not None:
                    await anyio.to_thread.run_sync(end.shutdown, abandon_on_cancel=True)


def resource_of(environ: Mapping[str, str], instance: str) -> Resource:
    """What stands for this process: by `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`, else by our own names."""
    said = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    ours = {SERVICE_NAME: "outlast", SERVICE_VERSION: version("outlast"), SERVICE_INSTANCE_ID: instance}
    left = {name: value for name, value in ours.items() if value and f"{name}=" not in said}
    if environ.get("OTEL_SERVICE_NAME"):
        left.pop(SERVICE_NAME, None)
    return Resource.create(left)


def readable(span: Span, resource: Resource) -> ReadableSpan:
    """The span as the SDK has spans."""
    within = SpanRef(span.trace, span.id)
    return ReadableSpan(
        span.name,
        context=_context(within),
        parent=None if span.parent is None else _context(span.parent),
        resource=resource,
        attributes={**span.attributes, **({names.ERROR: span.error} if span.error else {})},
        links=[Link(_context(link)) for link in span.links],
        kind=_KINDS[span.kind],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=_ns(span.began_s),
        end_time=_ns(max(span.ended_s, span.began_s)),
        instrumentation_scope=InstrumentationScope(names.SCOPE, version("outlast"), attributes=_SCOPE),
    )


_SCOPE: Final = {"gen_ai.conventions": names.CONVENTIONS}


def _context(ref: SpanRef) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if ref.sampled else TraceFlags.DEFAULT)
    return SpanContext(ref.trace, ref.span, is_remote=False, trace_flags=flags)


def _ns(at_s: float) -> int:
    return round(at_s * 1e6) * 1000


def _span_exporter(kind: str) -> SpanExporter:
    return ConsoleSpanExporter() if kind == "console" else OTLPSpanExporter()


def _meter_provider(kind: str, resource: Resource) -> MeterProvider:
    exporter: MetricExporter = ConsoleMetricExporter() if kind == "console" else OTLPMetricExporter()
    return MeterProvider([PeriodicExportingMetricReader(exporter)], resource, shutdown_on_exit=False)
