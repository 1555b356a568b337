"""What OpenTelemetry's own variables want of us."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Final, Literal, Protocol, TypeAlias, cast

from outlast.clock import Clock
from outlast.errors import BadSettings
from outlast.logs import logger
from outlast.tracing import Collector

Exporter: TypeAlias = Literal["otlp", "console"]

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
PROTOCOL: Final = "OTEL_EXPORTER_OTLP_PROTOCOL"
CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_WORDS: Final = frozenset({"true", "1", "span_only", "span_and_event"})
_MISSING: Final = (
    "the extra that sends to a collector of OpenTelemetry is not installed: pip install 'outlast[otel]'"
)

log = logger("outlast.telemetry")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be sent, and how."""

    traces: Exporter | None = None
    metrics: Exporter | None = None
    words: bool = False
    """What was asked and answered, too."""
    named: bool = False
    """An exporter is named, and not only an address that may be meant for another program."""


class _Open(Protocol):
    def __call__(self, wish: Wish, clock: Clock, instance: str) -> AbstractAsyncContextManager[Collector]: ...


def wish_of(environ: Mapping[str, str]) -> Wish | None:
    """What the environment wants; None: nothing is sent.

    Traces are sent where `OTEL_TRACES_EXPORTER` names an exporter, or an address of a collector is given; metrics
    likewise. `OTEL_SDK_DISABLED` turns all off.

    Raises:
        BadSettings: a variable wants what we cannot do.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    traces, metrics = _exporter(environ, "TRACES"), _exporter(environ, "METRICS")
    if traces is None and metrics is None:
        return None
    words = environ.get(CONTENT, "").strip().lower() in _WORDS
    named = any(environ.get(f"OTEL_{signal}_EXPORTER") for signal in ("TRACES", "METRICS"))
    return Wish(traces, metrics, words, named)


def _exporter(environ: Mapping[str, str], signal: str) -> Exporter | None:
    variable = f"OTEL_{signal}_EXPORTER"
    named = environ.get(variable, "").strip().lower()
    match named:
        case "none":
            return None
        case "console":
            return "console"
        case "" if not (environ.get(ENDPOINT) or environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")):
            return None
        case "" | "otlp":
            _check_protocol(environ, signal)
            return "otlp"
        case _:
            reason = "it must be otlp, console or none"
            raise BadSettings(name=variable, value=named, reason=reason, source="the environment")


def _check_protocol(environ: Mapping[str, str], signal: str) -> None:
    for variable in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", PROTOCOL):
        named = environ.get(variable, "").strip().lower()
        if named and named != "http/protobuf":
            reason = "outlast sends http/protobuf alone; a collector takes it at port 4318"
            raise BadSettings(name=variable, value=named, reason=reason, source="the environment")
        if named:
            return


@asynccontextmanager
async def open_collector(
    environ: Mapping[str, str], clock: Clock, instance: str
) -> AsyncGenerator[Collector | None]:
    """Whoever takes traces, as the environment has it, while the context lasts; None: nobody.

    Args:
        instance: the name of this process, which no other has; empty for one that lives too briefly to be a series of
            figures: it sends traces alone.

    Raises:
        BadSettings: a variable wants what cannot be done here.
    """
    wish = wish_of(environ)
    if wish is not None and not instance:
        wish = replace(wish, metrics=None) if wish.traces else None
    open_otlp = None if wish is None else _loaded(wish)
    if wish is None or open_otlp is None:
        yield None
        return
    async with open_otlp(wish, clock, instance) as collector:
        yield collector


def _loaded(wish: Wish) -> _Open | None:
    """What sends, loaded only where something is to be sent."""
    try:
        return cast("_Open", import_module("outlast.telemetry.otlp").open_otlp)
    except ImportError:
        if wish.named:
            name = "OTEL_TRACES_EXPORTER" if wish.traces else "OTEL_METRICS_EXPORTER"
            raise BadSettings(
                name=name, value=wish.traces or wish.metrics, reason=_MISSING, source="the environment"
            ) from None
        log.warning(_MISSING)
        return None
