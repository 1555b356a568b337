"""Traces as a collector gets them: over the wire, from real workers that are really killed."""

import asyncio
import os
import signal
import threading
from collections.abc import Generator

import pytest

from outlast.fold import records_of
from outlast.opening import open_world
from outlast.records import NoticeDue, NoticeTried
from outlast.session import Session
from outlast.telemetry import names
from outlast.telemetry.reading import read_story
from outlast.telemetry.spans import Span, spans_of
from outlast.tracing import Settled
from tests.acceptance.counter import TILL, Counter, opened, rings, says, script
from tests.acceptance.terminals import LIMIT_S
from tests.servers.otlp import Otlp, TakenSpan, collecting

pytestmark = pytest.mark.crash
SECRETS = ("a-secret-prompt", "a-secret-answer", "a-secret-result")


@pytest.fixture
def counter() -> Generator[Counter]:
    with opened() as counter:
        yield counter


@pytest.fixture
def otlp(counter: Counter) -> Generator[Otlp]:
    with collecting() as otlp:
        counter.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = otlp.url
        yield otlp


async def _of_the_log(counter: Counter, session: str = "s1") -> list[Span]:
    """The spans that its log amounts to."""
    async with open_world(counter.environ["OUTLAST_WORLD"]) as world:
        state = await (await Session.find(world, session)).state()
        assert state.opened is not None
        commits = await world.commits(session)
        (due,) = [
            record
            for commit in commits
            for record in records_of(session, commit)
            if isinstance(record, NoticeDue)
        ]
        story = await read_story(world, Settled(world.tenant, session, state.opened, due))
        assert story is not None
        return spans_of(story)


def _as_taken(span: Span) -> tuple[object, ...]:
    parent = 0 if span.parent is None else span.parent.span
    began, ended = round(span.began_s * 1e6) * 1000, round(max(span.ended_s, span.began_s) * 1e6) * 1000
    return (span.name, span.trace, span.id, parent, began, ended, span.error)


def _as_it_came(span: TakenSpan) -> tuple[object, ...]:
    return (span.name, span.trace, span.id, span.parent, span.began_ns, span.ended_ns, span.error)


def test_a_turn_killed_twice_is_one_trace_whose_spans_are_those_of_its_log(
    counter: Counter, otlp: Otlp
) -> None:
    prompt = script(says(SECRETS[1]), rings(counter), says("done"), says(SECRETS[0]))
    counter.outlast("run", TILL, prompt, "--session", "s1", "--detach")
    for _ in range(2):
        with counter.started("work", TILL) as work:
            os.kill(counter.bell.rung().pid, signal.SIGKILL)
            work.wait(LIMIT_S)
    assert not otlp.spans
    with counter.started("work", TILL, "--until-idle") as work:
        counter.bell.rung().answer(SECRETS[2])
        assert work.wait(LIMIT_S) == 0
    assert [_as_it_came(span) for span in otlp.spans] == [
        _as_taken(span) for span in asyncio.run(_of_the_log(counter))
    ]
    assert len({span.trace for span in otlp.spans}) == 1
    assert [span.name for span in otlp.spans if span.name.startswith("attempt")] == [
        "attempt 1",
        "attempt 2",
        "attempt 3",
    ]
    assert [span.error for span in otlp.spans if span.name.startswith("attempt")] == ["worker_lost"] * 2 + [
        ""
    ]
    said = [span for span in otlp.spans if span.attributes.get(names.OPERATION) == "chat"]
    assert len(said) == 3
    for secret in SECRETS:
        assert not [body for body in otlp.bodies if secret.encode() in body]
    lost = otlp.figures(names.LOST)
    assert [value for _, value in lost] == [2]
    assert otlp.figures(names.AGENT_DURATION)
    assert not asyncio.run(_owes(counter))


async def _owes(counter: Counter) -> list[str]:
    async with open_world(counter.environ["OUTLAST_WORLD"]) as world:
        state = await (await Session.find(world, "s1")).state()
        return [one.due.to for one in state.untold]


async def _tried(counter: Counter) -> list[NoticeTried]:
    async with open_world(counter.environ["OUTLAST_WORLD"]) as world:
        commits = await world.commits("s1")
        found = [record for commit in commits for record in records_of("s1", commit)]
        return [record for record in found if isinstance(record, NoticeTried)]


def test_a_worker_killed_while_the_collector_takes_the_spans_leaves_them_to_the_next(
    counter: Counter, otlp: Otlp
) -> None:
    otlp.hang = threading.Event()
    counter.outlast("run", "scripted", script(says("one")), "--session", "s1", "--detach")
    with counter.started("work", "--json") as work:
        assert work.stdout is not None
        pid = _pid(work.stdout.readline())
        assert otlp.asked.wait(LIMIT_S)
        os.kill(pid, signal.SIGKILL)
        work.wait(LIMIT_S)
    assert "turn 1 done" in counter.json("ls")[0]["status"]
    assert asyncio.run(_owes(counter)) == ["collector"]
    otlp.hang.set()
    otlp.hang = None
    counter.outlast("work", "--until-idle")
    assert not asyncio.run(_owes(counter))
    by_id: dict[int, set[tuple[object, ...]]] = {}
    for span in otlp.spans:
        by_id.setdefault(span.id, set()).add(_as_it_came(span))
    assert {len(copies) for copies in by_id.values()} == {1}, "a repetition is the same spans"
    assert len(by_id) == len(asyncio.run(_of_the_log(counter)))


def _pid(line: str) -> int:
    return int(line.split('"pid":')[1].split(",", maxsplit=1)[0])


def test_what_was_asked_and_answered_goes_along_where_it_is_wanted(counter: Counter, otlp: Otlp) -> None:
    counter.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"
    counter.environ["OTEL_SERVICE_NAME"] = "support"
    counter.environ["OTEL_RESOURCE_ATTRIBUTES"] = "deployment.environment.name=test"
    counter.environ["OTEL_EXPORTER_OTLP_HEADERS"] = "authorization=Bearer%20key"
    counter.environ["OTEL_EXPORTER_OTLP_COMPRESSION"] = "gzip"
    prompt = script(says(SECRETS[1]), rings(counter), says(SECRETS[0]))
    with counter.started("run", TILL, prompt, "--session", "s1") as run:
        counter.bell.rung().answer(SECRETS[2])
        assert run.wait(LIMIT_S) == 0
    root = otlp.spans[0]
    assert SECRETS[0] in root.attributes[names.INPUT_MESSAGES]
    (tool,) = [span for span in otlp.spans if span.name == "execute_tool ring"]
    assert tool.attributes[names.TOOL_RESULT] == SECRETS[2]
    assert counter.bell.path in tool.attributes[names.TOOL_ARGUMENTS]
    chat = next(span for span in otlp.spans if span.name.startswith("chat"))
    assert SECRETS[1] in chat.attributes[names.OUTPUT_MESSAGES]
    assert root.resource["service.name"] == "support"
    assert root.resource["deployment.environment.name"] == "test"
    assert root.resource["service.instance.id"]
    assert otlp.headers[0]["authorization"] == "Bearer key"


@pytest.mark.parametrize(
    ("variable", "value"), [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")]
)
def test_what_is_turned_off_is_not_sent_and_not_owed(
    counter: Counter, otlp: Otlp, variable: str, value: str
) -> None:
    counter.environ[variable] = value
    counter.environ["OTEL_METRICS_EXPORTER"] = "none"
    counter.outlast("run", "scripted", script(says("hello")), "--session", "s1")
    assert not otlp.bodies
    assert not asyncio.run(_tried(counter))


def test_what_cannot_be_spoken_is_said_at_once(counter: Counter, otlp: Otlp) -> None:
    counter.environ["OTEL_EXPORTER_OTLP_PROTOCOL"] = "grpc"
    said = counter.outlast("work", "--until-idle", status=2).stderr
    assert "http/protobuf" in said
