"""What sends traces, with OpenTelemetry's own SDK: its variables, its samplers, and collectors that are no good."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager

import pytest

from outlast.clock import ManualClock, SystemClock
from outlast.errors import BadSettings
from outlast.session import Session
from outlast.telemetry import names
from outlast.telemetry.otlp import LATE, REFUSED, REST_S, RESTING, OtlpCollector, open_otlp
from outlast.telemetry.wishes import Wish, open_collector, wish_of
from outlast.tracing import Collector, Settled
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.servers.otlp import Otlp, collecting
from tests.traced import Kept
from tests.unit.engine_desk import Desk, agent_of, call, opened, say
from tests.unit.test_traces import CALLER, look, scripted

BOTH = Wish("otlp", "otlp")


@pytest.fixture
def otlp(monkeypatch: pytest.MonkeyPatch) -> Generator[Otlp]:
    with collecting() as otlp:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlp.url)
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        yield otlp


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    async with open_memory() as world:
        yield world


async def _told(world: World, collector: Collector | None, traceparent: str = "") -> None:
    """A turn, with whoever takes its trace."""
    session = await Session.open(world, "s-1", agent=scripted())
    await session.send("go", traceparent=traceparent)
    await Desk(world, collector=collector).work(scripted())


@asynccontextmanager
async def _settled() -> AsyncGenerator[tuple[World, Settled]]:
    """A turn that is over, with nobody told."""
    async with open_memory() as world:
        kept = Kept()
        await opened(world, scripted())
        await Desk(world, collector=kept).work(scripted())
        yield world, kept.stories[0].settled


async def test_spans_and_figures_come_over_the_wire(world: World, otlp: Otlp) -> None:
    async with open_otlp(BOTH, SystemClock(), "w-1", answer_s=30.0) as collector:
        await _told(world, collector, CALLER)
    spans = otlp.spans
    assert [span.name for span in spans] == [
        *("invoke_agent tester", "attempt 1", "chat scripted", "execute_tool look"),
        *("chat scripted", "execute_tool wire", "chat scripted"),
    ]
    assert f"{spans[0].trace:032x}-{spans[0].parent:016x}" == CALLER[3:-3]
    assert [span.parent for span in spans[1:]] == [spans[0].id, *[spans[1].id] * 5]
    chat = next(span for span in spans if span.name == "chat scripted")
    assert (chat.attributes[names.INPUT_TOKENS], chat.attributes[names.OUTPUT_TOKENS]) == (110, 3)
    assert chat.attributes[names.COST] == 0.5
    tokens = {about[names.TOKEN_TYPE]: value for about, value in otlp.figures(names.CLIENT_TOKENS)}
    assert tokens == {"input": 330, "output": 9}
    assert len(otlp.figures(names.TOOL_DURATION)) == 2
    assert len(otlp.figures(names.CLIENT_DURATION)) == 1


async def test_a_sampler_of_the_environment_is_heard(
    world: World, otlp: Otlp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    async with open_otlp(BOTH, SystemClock(), "w-1", answer_s=30.0) as collector:
        await _told(world, collector)
    assert not otlp.spans
    assert otlp.figures(names.AGENT_DURATION), "figures are of every turn"


async def test_who_asks_says_whether_it_is_sampled(world: World, otlp: Otlp) -> None:
    async with open_otlp(BOTH, SystemClock(), "w-1", answer_s=30.0) as collector:
        await _told(world, collector, CALLER[:-2] + "00")
    assert not otlp.spans


@asynccontextmanager
async def _impatient(clock: ManualClock) -> AsyncGenerator[OtlpCollector]:
    async with open_otlp(Wish("otlp"), clock, "w-1", answer_s=0.2) as collector:
        yield collector


async def test_for_a_collector_that_hangs_nobody_waits_but_whoever_asks_whether_it_is_well(
    otlp: Otlp,
) -> None:
    otlp.hang = threading.Event()
    clock = ManualClock()
    async with _settled() as (world, settled), _impatient(clock) as collector:
        assert await collector.collect(world, settled) == LATE
        async with asyncio.timeout(0.1):
            for _ in range(100):
                assert await collector.collect(world, settled) == RESTING
        clock.turn(REST_S[0])
        assert await collector.collect(world, settled) == LATE
        clock.turn(REST_S[0])
        assert await collector.collect(world, settled) == RESTING, "it is left alone for longer"
        otlp.hang.set()
        otlp.hang = None
        clock.turn(REST_S[1])
        assert await collector.collect(world, settled) == ""
        assert await collector.collect(world, settled) == ""


async def test_a_collector_that_refuses_or_is_gone_is_left_alone(otlp: Otlp) -> None:
    otlp.status = 400
    clock = ManualClock()
    async with _settled() as (world, settled), _impatient(clock) as collector:
        assert await collector.collect(world, settled) == REFUSED
        assert await collector.collect(world, settled) == RESTING
        otlp.status = 200
        clock.turn(REST_S[0])
        assert await collector.collect(world, settled) == ""
    assert otlp.spans


async def test_a_turn_of_many_calls_is_sent_in_pieces(world: World, otlp: Otlp) -> None:
    agent = agent_of([say("one", *[call("look")] * 600)], look)
    async with open_otlp(BOTH, SystemClock(), "w-1", answer_s=30.0) as collector:
        await opened(world, agent)
        await Desk(world, collector=collector).work(agent)
    assert len(otlp.traces) == 2
    assert len({span.id for span in otlp.spans}) == len(otlp.spans) == 603


@pytest.mark.parametrize(
    ("environ", "wish"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, BOTH),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, Wish("otlp")),
        ({"OTEL_TRACES_EXPORTER": "console"}, Wish("console", named=True)),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "TRUE"}, None),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"},
            Wish(None, "otlp", named=True),
        ),
        (
            {
                "OTEL_TRACES_EXPORTER": "otlp",
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
            },
            Wish("otlp", words=True, named=True),
        ),
        (
            {
                "OTEL_TRACES_EXPORTER": "otlp",
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "NO_CONTENT",
            },
            Wish("otlp", named=True),
        ),
    ],
)
def test_the_environment_says_what_is_sent(environ: dict[str, str], wish: Wish | None) -> None:
    assert wish_of(environ) == wish


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_variable(variable: str, value: str) -> None:
    with pytest.raises(BadSettings, match=variable):
        wish_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", variable: value})


async def test_a_process_that_lives_briefly_sends_traces_alone(
    world: World, otlp: Otlp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_collector({"OTEL_EXPORTER_OTLP_ENDPOINT": otlp.url}, SystemClock(), "") as collector:
        await _told(world, collector)
    assert otlp.spans
    assert not otlp.metrics


async def test_nothing_is_loaded_where_nothing_is_wanted() -> None:
    async with open_collector({}, SystemClock(), "w-1") as collector:
        assert collector is None
