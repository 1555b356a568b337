"""The AI SDK's stream of a turn as an answer over HTTP: from which chunk on, under which headers, and when it ends.

A stream is named by a run id, `<session>~<base>~<prompt>`: indices that a client counts in it begin at chunk `base` of
the turn. One that answers an approval begins behind the pause that it answers; the others begin at 0.

`startIndex=n` is the exact rest behind the first n chunks. Where n counts chunks that this process cannot know to be
the same as those that were counted (pieces were lost), or more than there are, the answer is 410, and the client begins
anew without an index. `startIndex=-n` begins n chunks before the end, or as much earlier as the step began; clients
reckon their place as `tail + 1 - n`, so the tail that is told is the one with which that comes out right.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Final

import anyio
from starlette.responses import Response

from outlast.answers import json_answer
from outlast.errors import BadInput
from outlast.server.feeds import Hub
from outlast.server.operations import Streamed
from outlast.server.streams.ai_sdk import UiStream
from outlast.server.streams.finding import newest_shown, place_of
from outlast.server.streams.frames import HEARTBEAT
from outlast.server.streams.talk import Place, Talk, Talks
from outlast.session import Session

DONE: Final = b"data: [DONE]\n\n"
AT_ONCE: Final = 256
"""Chunks in one piece."""
WAIT_S: Final = 2.0
"""How long to wait for chunks of which somebody says that they are there."""
GONE: Final = (
    "These chunks cannot be counted here as you have counted them. Ask again without startIndex: the turn is then told "
    "from its beginning."
)


@dataclass(frozen=True, slots=True)
class Run:
    """A stream whose chunks a client counts."""

    session: str
    prompt: str
    base: int = 0

    @property
    def id(self) -> str:
        """As it stands in a path."""
        prompt = urlsafe_b64encode(self.prompt.encode()).decode().rstrip("=")
        return f"{self.session}~{self.base}~{prompt}"


def read_run(text: str) -> Run | None:
    """The run that an id names; None: it names none.

    Raises:
        BadInput: it is no run id, though it looks like one.
    """
    session, *rest = text.split("~")
    if not rest:
        return None
    try:
        base, prompt = rest
        whole = urlsafe_b64decode(prompt + "=" * (-len(prompt) % 4)).decode()
        return Run(session, whole, max(0, int(base)))
    except ValueError:
        raise BadInput(detail=f"{text[:200]!r} is no run id: take that of `x-workflow-run-id`.") from None


class UiAnswers:
    """Makes the answers about turns of one session."""

    def __init__(self, talks: Talks, hub: Hub, session: Session) -> None:
        self._talks = talks
        self._hub = hub
        self._session = session

    async def seen(self, prompt: str) -> UiStream:
        """The stream of a turn as far as the log has it now."""
        place = await place_of(self._session, prompt)
        newest = await newest_shown(self._session.world, self._session.id)
        key, make = self._seat(place)
        async with self._talks.sit(key, make) as talk:
            await talk.reach(newest)
            return talk.shows

    async def whole(self, prompt: str) -> Streamed:
        """A turn from its beginning, to its end or to where it waits for a person."""
        return await self._answer(Run(self._session.id, prompt), 0)

    async def behind(self, run: Run, *, beyond: int) -> Streamed:
        """What comes in a run; it does not end before there was something behind chunk `beyond`."""
        return await self._answer(run, run.base, beyond=beyond)

    async def from_index(self, run: Run, start: int) -> Streamed | Response | None:
        """The rest of a run; None: there is none, and none will come."""
        stream = await self.seen(run.prompt)
        if start < 0:
            end = max(run.base, len(stream.chunks) + start)
            begin = max(run.base, stream.step_at(end))
            return await self._answer(run, begin, tail=begin - run.base - 1 - start)
        begin = run.base + start
        if not await self._has(run.prompt, begin):
            return json_answer(410, {"error": GONE})
        if begin == len(stream.chunks) and stream.resting and begin:
            return None
        return await self._answer(run, begin)

    async def _has(self, prompt: str, count: int) -> bool:
        """Whether the turn has so many chunks that are the same everywhere."""
        place = await place_of(self._session, prompt)
        key, make = self._seat(place)
        async with self._talks.sit(key, make) as talk:
            with anyio.move_on_after(WAIT_S):
                while len(talk.shows.chunks) < count and not (talk.shows.over or talk.ended):
                    await talk.more(count - 1)
            exact = talk.shows.exact
            return len(talk.shows.chunks) >= count and (exact is None or count <= exact)

    async def _answer(self, run: Run, begin: int, *, tail: int | None = None, beyond: int = 0) -> Streamed:
        stream = await self.seen(run.prompt)
        told = len(stream.chunks) - 1 - run.base if tail is None else tail
        headers = {
            "cache-control": "no-cache",
            "x-accel-buffering": "no",
            "x-vercel-ai-ui-message-stream": "v1",
            "x-workflow-run-id": run.id,
            "x-workflow-stream-tail-index": str(told),
        }
        return Streamed(self._pieces(run, begin, beyond), headers=headers)

    async def _pieces(self, run: Run, begin: int, beyond: int) -> AsyncGenerator[bytes]:
        key, make = self._seat(await place_of(self._session, run.prompt))
        at = begin
        async with self._talks.sit(key, make) as talk:
            stream = talk.shows
            while at < len(stream.chunks) or not talk.ended:
                if at < len(stream.chunks):
                    until = min(len(stream.chunks), at + AT_ONCE)
                    piece, at = _frames(stream, at, until, run.base), until
                    yield piece
                elif stream.over or (stream.resting and at > beyond):
                    yield DONE
                    return
                elif not await talk.more(at) and not stream.over and not talk.ended:
                    yield HEARTBEAT

    def _seat(self, place: Place) -> tuple[tuple[str, ...], Callable[[], Talk[UiStream]]]:
        def make() -> Talk[UiStream]:
            return Talk(self._hub, self._session.world, place, UiStream(place.session))

        return (place.tenant, place.session, place.prompt, "ai-sdk"), make


def _frames(stream: UiStream, begin: int, end: int, base: int) -> bytes:
    """Chunks as an event stream; each id is the chunk's index as the client counts."""
    return b"".join(
        b"id: %d\ndata: %b\n\n" % (index - base, stream.chunk(index)) for index in range(begin, end)
    )
