"""Wakes over HTTP: posts to the route of `outlast.asgi`, or to whatever starts a worker."""

import asyncio
from collections.abc import Mapping

import httpx

from outlast.logs import logger
from outlast.trust import trusted
from outlast.waker import TIMEOUT_S, hint_of, said_in_vain

log = logger("outlast.waker")


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
                httpx.AsyncClient(timeout=self._timeout_s, verify=trusted()) as client,
            ):
                answer = await client.post(self._url, content=hint_of(tenant, session), headers=self._headers)
            if answer.is_error:
                said_in_vain(log, session, f"HTTP {answer.status_code}")
        except httpx.ReadTimeout:
            return  # it arrived, and somebody is at work
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            said_in_vain(log, session, type(error).__name__)


def http_waker(url: str, token: str = "") -> HttpWaker:
    """The waker of `http://…` and `https://…`; with a token it sends that as a bearer."""
    return HttpWaker(url, {"authorization": f"Bearer {token}"} if token else None)
