"""Takes events from a session to the person: whole, in order, and to an end where one is wanted."""

from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, contextmanager
from typing import Final, Protocol, Self

import anyio
import click
import msgspec

from outlast.cli.drawing import Drawing
from outlast.cli.options import Setup
from outlast.cli.printer import Printer
from outlast.cli.text import plain
from outlast.codec import read_input
from outlast.fold import records_of
from outlast.records import AnyInput, Payload
from outlast.records.events import Event, face
from outlast.session import Session
from outlast.world import Cursor

TICK_S: Final = 0.25
ENDINGS: Final = frozenset(
    {"turn.settled", "turn.parked", "schedule.set", "schedule.came", "schedule.removed"}
)


class Sink(Protocol):
    """Where events go. A context, which lasts as long as the watching."""

    @property
    def live(self) -> bool:
        """It wants to `tick`."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def apply(self, event: Event) -> None:
        """Show an event."""
        ...

    def note(self, text: str) -> None:
        """Show a line about the watching itself."""
        ...

    def tick(self) -> None:
        """Show what has changed with time alone."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """Make room for a question."""
        ...


class JsonLines:
    """Prints each event as one line of JSON; notes go to standard error."""

    live = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def apply(self, event: Event) -> None:
        click.echo(msgspec.json.encode(event).decode())

    def note(self, text: str) -> None:
        click.echo(plain(text), err=True)

    def tick(self) -> None:
        return

    @contextmanager
    def aside(self) -> Generator[None]:
        yield


def sink_of(setup: Setup, session: str, *, hint: str = "", drawing: Drawing | None = None) -> Sink:
    """Where a command's events go: to the terminal, or to a script."""
    if setup.json:
        return JsonLines()
    return Printer(clock=setup.clock, hint=hint, session=session, drawing=drawing)


def may_end(event: Event) -> bool:
    """After it a turn may be over, or stand still: a look at the session tells."""
    return event.kind in ENDINGS or (event.kind == "attempt.ended" and event.status == "waiting")


async def show(session: Session, source: AsyncGenerator[Event], sink: Sink) -> AsyncGenerator[Event]:
    """Show every event of `source`, with the text it stands for, and hand it on."""
    async with aclosing(source) as events:
        async for event in events:
            whole = await _whole(session, event)
            sink.apply(whole)
            yield whole


async def _whole(session: Session, event: Event) -> Event:
    """The event with its payload in it, where that is kept as bytes of its own."""
    if not event.payload.ref:
        return event
    value = await session.value(event.payload)
    return msgspec.structs.replace(event, payload=Payload(msgspec.Raw(msgspec.json.encode(value))))


@asynccontextmanager
async def ticking(sink: Sink) -> AsyncGenerator[None]:
    """Let the sink draw the passing time while the context lasts."""

    async def tick() -> None:
        while sink.live:
            await anyio.sleep(TICK_S)
            sink.tick()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        yield
        tasks.cancel_scope.cancel()


async def until_idle(session: Session, after: Cursor) -> AsyncGenerator[Event]:
    """What comes behind `after`, until no turn is open and none is queued, or only an input lets the open one go on."""
    seen = after
    if await _is_over(session, seen):
        return
    async with aclosing(session.follow(after)) as events:
        async for event in events:
            yield event
            seen = Cursor.parse(event.cursor)
            if (may_end(event) or event.kind == "session.forked") and await _is_over(session, seen):
                return


async def _is_over(session: Session, seen: Cursor) -> bool:
    """Nothing is left to wait for, and nothing that is shown lies behind `seen`."""
    head = await session.head()
    if head.waiting_inputs or (head.turn_open and not head.parked):
        return False
    after = max(0, seen.seq - 1)
    while page := await session.world.commits(session.id, after, 200):
        for commit in page:
            after = commit.header.seq
            for index, record in enumerate(records_of(session.id, commit)):
                cursor = Cursor(after, index)
                if cursor > seen and face(record, str(cursor), commit.header.fence).kind != "hidden":
                    return False
    return head.parked or not (await session.state()).queue


async def inputs_of(session: Session) -> list[tuple[str, AnyInput]]:
    """What waits in the inbox, as far as it can be read here."""
    waiting = await session.world.inputs(session.id)
    found = [(one.id, read_input(one.body)) for one in waiting]
    return [(name, value) for name, value in found if value is not None]
