"""A browser that watches, as `EventSource` does it, and whose cable is pulled again and again."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

import anyio
import httpx
import msgspec

from outlast.cli.demo.pricing.bill import Watched
from outlast.records.events import Event
from outlast.watch import Screen

UNPLUGGED_S: Final = 0.4
"""How long the cable is out."""
ANSWER_S: Final = 30.0
_STREAM: Final = {"accept": "text/event-stream"}


@dataclass
class Watcher:
    """Follows a session over HTTP, from the cursor of the last event that it has."""

    url: str
    """Of the session's events."""
    token: str
    show: Callable[[Event], None]
    watched: Watched = field(default_factory=Watched)
    screen: Screen = field(default_factory=Screen)
    _last: str = ""
    _seen: set[str] = field(default_factory=set[str])
    _plug: anyio.CancelScope | None = None

    def pull(self) -> None:
        """Pull the cable: the connection is gone in the midst of whatever it carries."""
        if self._plug is not None:
            self.watched.cuts += 1
            self._plug.cancel()

    async def watch(self) -> None:
        """Watch until the turn is over, through every pull of the cable."""
        over = False
        async with httpx.AsyncClient(
            timeout=httpx.Timeout(ANSWER_S, read=None), headers={"authorization": f"Bearer {self.token}"}
        ) as client:
            while not over:
                with anyio.CancelScope() as self._plug:
                    over = await self._connected(client)
                self._plug = None
                if not over:
                    await anyio.sleep(UNPLUGGED_S)

    async def _connected(self, client: httpx.AsyncClient) -> bool:
        """One connection. True if the turn has ended."""
        headers = {**_STREAM, **({"last-event-id": self._last} if self._last else {})}
        async with client.stream("GET", self.url, headers=headers) as answer:
            answer.raise_for_status()
            async with aclosing(_events(answer)) as events:
                async for event in events:
                    self._take(event)
                    if event.kind == "turn.settled":
                        return True
        return False

    def _take(self, event: Event) -> None:
        self.watched.events += 1
        self.watched.twice += event.cursor in self._seen
        self._seen.add(event.cursor)
        self._last = event.cursor
        self.screen.apply(event)
        self.show(event)


async def _events(answer: httpx.Response) -> AsyncGenerator[Event]:
    data: list[str] = []
    async for line in answer.aiter_lines():
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            yield msgspec.json.decode("\n".join(data), type=Event)
            data.clear()
