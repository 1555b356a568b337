"""Connections on which no token has opened a door yet: anybody on this machine may make them."""

import asyncio


class Strangers:
    """Keeps them few and short.

    At most `most` stand at a time, each for at most `within_s`. Whoever comes when there is no room takes the place of
    the one that has stood longest: a harness shows its token at once, so that nobody can keep it out by standing there.
    """

    def __init__(self, most: int, within_s: float) -> None:
        self._most = most
        self._within_s = within_s
        self._standing: dict[asyncio.Transport, asyncio.TimerHandle] = {}
        """In the order in which they came."""

    def came(self, connection: asyncio.Transport) -> None:
        """A connection was made."""
        if len(self._standing) >= self._most:
            self._drop(next(iter(self._standing)))
        later = asyncio.get_running_loop().call_later(self._within_s, self._drop, connection)
        self._standing[connection] = later

    def left(self, connection: asyncio.Transport) -> None:
        """A connection is no stranger's any more: it is closed, or a token that it showed has opened a door."""
        timer = self._standing.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _drop(self, connection: asyncio.Transport) -> None:
        self.left(connection)
        connection.abort()
