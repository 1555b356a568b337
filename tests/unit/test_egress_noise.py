"""Clients and hosts that say anything at all: every connection ends, and nothing of ours breaks."""

import logging
from random import Random

import anyio
import pytest

from outlast.workspaces.egress import Allow, Limits, network
from tests.egress.stage import Line, Stage, host, keyed, near, stage

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

HASTY = Limits(head_s=0.2, pause_s=0.2, idle_s=0.5, linger_s=0.1, connect_s=1)
AT_ONCE, ROUNDS = 20, 10
HEADS = [
    "GET ",
    "POST ",
    "HEAD ",
    "CONNECT ",
    "PUT ",
    "http://WHERE",
    "http://open.test",
    "/",
    "/a?b",
    "*",
    "WHERE",
    " HTTP/1.1\r\n",
    " HTTP/1.0\r\n",
    " HTTP/2.0\r\n",
    "\r\n",
    "\n",
    "Host: WHERE\r\n",
    "Host: x\r\n",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: content-length\r\n",
    "Expect: 100-continue\r\n",
    "Upgrade: h2c\r\n",
    "\r\n\r\n",
    "abc",
    "3\r\nabc\r\n0\r\n\r\n",
    "0\r\n\r\n",
    "zz\r\n",
    "\x00",
    "ÿ",
    ":",
    "Authorization: x\r\n",
    "Cookie: a\r\n",
]
BODIES = [
    ("", ""),
    ("Content-Length: 3\r\n", "abc"),
    ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
    ("Content-Length: 100\r\n", "abc"),
    ("Transfer-Encoding: chunked\r\n", "3\r\nab"),
]
ANSWERS = [
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\n",
    "HTTP/1.1 204 No\r\n",
    "HTTP/1.1 304 No\r\n",
    "Content-Length: 3\r\n",
    "Content-Length: x\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "\r\n",
    "abc",
    "3\r\nabc\r\n",
    "0\r\n\r\n",
    "Connection: close\r\n",
    "Set-Cookie: a\r\n",
    "X: ÿ\r\n",
    "Location: http://a:b@c/\r\n",
    "\x00",
    "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n",
]


def request(draw: Random, where: str) -> str:
    if draw.random() < 0.4:
        return "".join(draw.choices(HEADS, k=draw.randint(1, 10))).replace("WHERE", where)
    method, (header, body) = draw.choice(["GET", "POST", "HEAD", "PUT"]), draw.choice(BODIES)
    more = draw.choice(["", "Connection: close\r\n", "Expect: 100-continue\r\n"])
    return (
        f"{method} http://{where}/x HTTP/1.{draw.randint(0, 1)}\r\nHost: {where}\r\n{header}{more}\r\n{body}"
    )


def answer(draw: Random) -> str:
    if draw.random() < 0.5:
        return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    return "".join(draw.choices(ANSWERS, k=draw.randint(1, 8)))


async def speak(on: Stage, draw: Random, where: str) -> None:
    said = "".join(request(draw, where) for _ in range(draw.randint(1, 3))).encode("latin-1")
    try:
        async with on.client() as line:
            while said:
                size = draw.choice([1, 5, 1000, 10_000])
                await line.say(said[:size])
                said = said[size:]
            if draw.random() < 0.9:
                await line.all()
    except anyio.BrokenResourceError:
        return


@pytest.mark.parametrize("with_credential", [False, True])
async def test_whatever_is_said_every_connection_ends(
    seed: int, caplog: pytest.LogCaptureFixture, *, with_credential: bool
) -> None:
    draw = Random(seed)

    async def reply(line: Line) -> None:
        for _ in range(draw.randint(1, 3)):
            await line.head()
            await line.say(answer(draw).encode("latin-1"))

    async with host(reply) as forge:
        keys = [keyed(forge.port, scheme="http")] if with_credential else []
        rules = network([near(forge.port), Allow("open.test", (1,), private=True)], keys)
        async with stage(rules, limits=HASTY) as on:
            for _ in range(ROUNDS):
                async with anyio.create_task_group() as tasks:
                    for _ in range(AT_ONCE):
                        tasks.start_soon(speak, on, draw, f"forge.test:{forge.port}")
    assert on.told
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
