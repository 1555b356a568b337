"""An `EventSource` in Python that keeps the rules of the WHATWG (HTML, "Server-sent events") to the letter."""

import codecs
import random
import re
import sys
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass

import anyio
import httpx

_ENDS = re.compile(r"\r\n|\n|\r(?!$)")
"""Of lines; a carriage return at the end may be the half of one."""


@dataclass(frozen=True)
class Message:
    """What a listener is told."""

    name: str
    data: str
    last_event_id: str


class Parser:
    """Bytes of an event stream to messages ("Interpreting an event stream")."""

    def __init__(self, last_event_id: str = "") -> None:
        self.last_event_id = last_event_id
        self.retry_ms: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._began = False
        self._id, self._name, self._data = last_event_id, "", ""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Messages that these bytes complete."""
        self._text += self._decoder.decode(data)
        if not self._began and self._text:
            self._began, self._text = True, self._text.removeprefix("\ufeff")
        *lines, self._text = _ENDS.split(self._text)
        for line in lines:
            if line:
                self._field(line)
            elif (message := self._dispatched()) is not None:
                yield message

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._name = value
            case "data":
                self._data += f"{value}\n"
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry_ms = int(value)
            case _:
                pass  # a comment, or nothing that is known

    def _dispatched(self) -> Message | None:
        self.last_event_id = self._id
        name, data, self._name, self._data = self._name, self._data, "", ""
        if not data:
            return None
        return Message(name or "message", data.removesuffix("\n"), self.last_event_id)


class EventSource:
    """Connects, comes back by itself with the last id it has, and gives up where the rules say so."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str,
        *,
        retry_s: float | None = None,
        cuts: Iterator[int] | None = None,
    ) -> None:
        """Nothing is asked before `messages`.

        Args:
            retry_s: instead of what the server says, so that many disconnections take no hours.
            cuts: after how many bytes each connection is lost, in the middle of a frame or of a character.
        """
        self.connections = 0
        self.failed = ""
        """Why it has given up."""
        self._client = client
        self._url = url
        self._fixed_s = retry_s
        self._retry_s = 3.0
        self._last_event_id = ""
        self._cuts = cuts

    async def messages(self) -> AsyncGenerator[Message]:
        """Every message, until it gives up."""
        while not self.failed:
            try:
                async for message in self._connected():
                    yield message
            except httpx.TransportError:
                pass  # "reestablish the connection"
            await anyio.sleep(self._retry_s if self._fixed_s is None else self._fixed_s)

    async def _connected(self) -> AsyncGenerator[Message]:
        headers = {"accept": "text/event-stream", "cache-control": "no-store"}
        if self._last_event_id:
            headers["last-event-id"] = self._last_event_id
        self.connections += 1
        async with self._client.stream("GET", self._url, headers=headers) as answer:
            kind = answer.headers.get("content-type", "")
            if answer.status_code != 200 or not kind.startswith("text/event-stream"):
                self.failed = f"{answer.status_code} {kind}"
                return
            parser = Parser(self._last_event_id)
            left = sys.maxsize if self._cuts is None else next(self._cuts, sys.maxsize)
            async for data in answer.aiter_raw():
                for message in parser.feed(data[:left]):
                    self._last_event_id = message.last_event_id
                    yield message
                if parser.retry_ms is not None:
                    self._retry_s = parser.retry_ms / 1e3
                left -= len(data)
                if left <= 0:
                    return


def cuts(seed: int, most: int) -> Iterator[int]:
    """After how many bytes the connection is lost, again and again."""
    draw = random.Random(seed)
    while True:
        yield draw.randrange(1, most)
