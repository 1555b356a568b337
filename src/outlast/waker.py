"""The port that starts a worker where none is resident: a hint, as every hint is.

Nothing depends on a waker: it may be slow, fail, or wake in vain. What it missed a scheduled sweep finds, which is the
guarantee (`outlast work --once` from a timer, or a call of the route of `outlast.asgi` without a session).
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

import httpx

from outlast.logs import logger

log = logger("outlast.waker")

TIMEOUT_S = 10.0


class Waker(Protocol):
    """Starts a worker for a session that is ready, somewhere."""

    async def wake(self, tenant: str, session: str) -> None:
        """Ask that somebody advance this session soon. Returns within seconds; raises nothing."""
        ...


class HttpWaker:
    """Posts `{"session": …, "tenant": …}` to a URL: the route of `outlast.asgi`, or whatever starts one.

    It does not wait for the answer longer than it takes to know that the request arrived: the worker behind it may work
    for minutes.

    Args:
        url: where to post.
        headers: sent along, `{"authorization": "Bearer …"}` for one.
        timeout_s: seconds for connecting and sending, and then for an answer, which is not needed.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._url = url
        self._headers = dict(headers or {})
        self._timeout_s = timeout_s

    async def wake(self, tenant: str, session: str) -> None:
        try:
            async with (
                asyncio.timeout(2 * self._timeout_s),
                httpx.AsyncClient(timeout=self._timeout_s) as client,
            ):
                answer = await client.post(
                    self._url, json={"session": session, "tenant": tenant}, headers=self._headers
                )
            if answer.is_error:
                log.warning("nobody could be woken for session %s: HTTP %d", session, answer.status_code)
        except httpx.ReadTimeout:
            return  # it arrived, and somebody is at work
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            log.warning("nobody could be woken for session %s: %s", session, type(error).__name__)
