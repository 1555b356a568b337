"""Gives an answer to the harness: from the log, or as it comes."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from outlast.gate import Point
from outlast.gateway.doors import OpenDoor
from outlast.gateway.exchange import POLICY
from outlast.gateway.feed import Feed
from outlast.gateway.limits import Limits
from outlast.gateway.wire import JSON, STREAM, ClientGone, Http
from outlast.groups import task_group


class Delivery:
    """The answer to one request. Every method raises `ClientGone` when the harness does not take it whole."""

    def __init__(self, http: Http, door: OpenDoor, limits: Limits, *, stream: bool) -> None:
        self._http = http
        self._door = door
        self._limits = limits
        self._stream = stream

    async def serve(self, call: int, answer: Mapping[str, Any]) -> None:
        """Give an answer that the log has.

        Raises:
            TurnStopped: see `outlast.calls.Calls.begin_unasked`.
        """
        await self._door.attempt.calls.begin_unasked(call)
        dialect = self._door.dialect
        if self._stream:
            await self._http.whole(200, b"".join(dialect.frames(answer)), STREAM)
        else:
            await self._http.whole(200, dialect.body(answer), JSON)
        await self._delivered(call)

    async def join(
        self, waiting: Callable[[], Awaitable[Mapping[str, Any] | None]]
    ) -> Mapping[str, Any] | None:
        """Wait for the answer to the same request, which is under way."""
        answer: Mapping[str, Any] | None = None
        came = False
        async with task_group() as tasks:
            tasks.start_soon(self._cancel_when_gone, tasks.cancel_scope)
            with anyio.move_on_after(self._limits.total_s):
                answer = await waiting()
                came = True
            tasks.cancel_scope.cancel()
        if not came:
            await self._http.drop()
            raise ClientGone
        return answer

    async def pour(self, call: int, feed: Feed) -> float | None:
        """Pass on what the provider says, as far as it may be known already.

        Returns after how many seconds it is to be asked again, if the harness has been told nothing so far.
        """
        poured = False
        async with task_group() as tasks:
            tasks.start_soon(self._cancel_when_gone, tasks.cancel_scope)
            poured = await self._pour(feed)
            tasks.cancel_scope.cancel()
        if feed.ended == "again":
            return feed.again_s
        if poured:
            await self._delivered(call)
        return None

    async def rest(self, pause_s: float) -> None:
        """Let the harness wait so long."""
        with anyio.move_on_after(pause_s):
            await self._http.until_gone()
            raise ClientGone

    async def _pour(self, feed: Feed) -> bool:
        http = self._http
        while True:
            ended = feed.ended
            if data := feed.take():
                if not http.started:
                    await http.start(feed.status, feed.headers)
                await http.write(data)
            elif ended:
                break
            else:
                await self._wait(feed)
        if ended == "whole":
            await http.finish()
            return True
        if ended == "again":
            return False
        if feed.instead is not None and not http.started:
            await http.whole(feed.instead.status, feed.instead.body, feed.instead.headers)
        else:
            await http.drop()
        return False

    async def _wait(self, feed: Feed) -> None:
        if not (feed.holding and self._stream and self._http.started):
            await feed.wait()
            return
        with anyio.move_on_after(self._limits.calm_s) as waiting:
            await feed.wait()
        if waiting.cancelled_caught:
            await self._http.write(self._door.dialect.calm())

    async def _cancel_when_gone(self, scope: anyio.CancelScope) -> None:
        await self._http.until_gone()
        scope.cancel()

    async def _delivered(self, call: int) -> None:
        self._door.attempt.calls.delivered([call])
        await self._door.attempt.gate.cross(Point.DELIVERED, call=call, policy=POLICY)
