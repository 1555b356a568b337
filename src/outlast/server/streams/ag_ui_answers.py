"""AG-UI's stream of a turn as an answer over HTTP: one run, from its `RUN_STARTED` to how it ends."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outlast.records import Usage
from outlast.server.feeds import Hub
from outlast.server.operations import Streamed
from outlast.server.streams.ag_ui import AgUiStream, Message, Rest, Retract, encoded
from outlast.server.streams.finding import newest_shown, place_of
from outlast.server.streams.frames import HEARTBEAT
from outlast.server.streams.talk import Place, Talk, Talks
from outlast.session import Session

AT_ONCE = 256
"""Events in one piece."""


@dataclass(frozen=True, slots=True)
class Asker:
    """A client's run: how it calls it, and what it has."""

    thread: str
    run: str
    messages: Sequence[Message]
    """Up to the user's last, with which the turn began."""
    stale: Sequence[Message] = ()
    """Behind that: what it was told of the turn before."""


class AgUiAnswers:
    """Makes the answers about turns of one session."""

    def __init__(self, talks: Talks, hub: Hub, session: Session) -> None:
        self._talks = talks
        self._hub = hub
        self._session = session

    async def seen(self, prompt: str) -> AgUiStream:
        """The stream of a turn as far as the log has it now."""
        key, make = await self._seat(prompt)
        newest = await newest_shown(self._session.world, self._session.id)
        async with self._talks.sit(key, make) as talk:
            await talk.reach(newest)
            return talk.shows

    async def answer(self, prompt: str, asker: Asker, *, begin: int = 0, beyond: int = 0) -> Streamed:
        """A run over a turn, from chunk `begin` on; it does not end before there was something behind `beyond`."""
        await self.seen(prompt)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return Streamed(self._pieces(prompt, asker, begin, beyond), headers=headers)

    async def _pieces(self, prompt: str, asker: Asker, begin: int, beyond: int) -> AsyncGenerator[bytes]:
        yield _opening(asker, anew=begin == 0)
        key, make = await self._seat(prompt)
        at = begin
        async with self._talks.sit(key, make) as talk:
            stream = talk.shows
            while at < len(stream.chunks) or not talk.ended:
                if at < len(stream.chunks):
                    until = min(len(stream.chunks), at + AT_ONCE)
                    piece, at = _told(stream, at, until, asker), until
                    yield piece
                elif stream.over or (stream.resting and at > beyond):
                    rest = stream.chunks[-1]
                    assert isinstance(rest, Rest)
                    yield _ending(rest, asker)
                    return
                elif not await talk.more(at) and not stream.over and not talk.ended:
                    yield HEARTBEAT

    async def _seat(self, prompt: str) -> tuple[tuple[str, ...], Callable[[], Talk[AgUiStream]]]:
        place: Place = await place_of(self._session, prompt)
        state = await self._session.state()
        documents = {
            name: (one.version, await self._session.value(one.value)) for name, one in state.documents.items()
        }

        def make() -> Talk[AgUiStream]:
            return Talk(self._hub, self._session.world, place, AgUiStream(place.session, documents))

        return (place.tenant, place.session, place.prompt, "ag-ui"), make


def _opening(asker: Asker, *, anew: bool) -> bytes:
    started = encoded({"type": "RUN_STARTED", "threadId": asker.thread, "runId": asker.run})
    if not anew or not asker.stale:
        return started
    # What a client has of the turn is told again; thoughts stay in it unless they are named.
    thoughts = [{**one, "content": ""} for one in asker.stale if one.get("role") == "reasoning"]
    return started + encoded({"type": "MESSAGES_SNAPSHOT", "messages": [*asker.messages, *thoughts]})


def _told(stream: AgUiStream, begin: int, end: int, asker: Asker) -> bytes:
    pieces: list[bytes] = []
    for chunk in stream.chunks[begin:end]:
        if isinstance(chunk, bytes):
            pieces.append(chunk)
        elif isinstance(chunk, Retract):
            messages = [*asker.messages, *chunk.messages]
            pieces.append(encoded({"type": "MESSAGES_SNAPSHOT", "messages": messages}))
    return b"".join(pieces)


def _ending(rest: Rest, asker: Asker) -> bytes:
    if rest.kind == "error":
        return encoded({"type": "RUN_ERROR", "message": rest.error, "code": "failed"})
    outcome: dict[str, Any] = {"type": rest.kind}
    if rest.kind == "interrupt":
        outcome["interrupts"] = list(rest.interrupts)
    event: dict[str, Any] = {
        "type": "RUN_FINISHED",
        "threadId": asker.thread,
        "runId": asker.run,
        "outcome": outcome,
    }
    if rest.result is not None:
        event["result"] = rest.result
    return encoded({**event, **_usage(rest.usage)})


def _usage(usage: Usage | None) -> Mapping[str, Any]:
    if usage is None or usage == Usage():
        return {}
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    counts = {
        "inputTokens": read,
        "outputTokens": usage.output_tokens,
        "totalTokens": read + usage.output_tokens,
        "cachedInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
    }
    return {"usage": [counts]}
