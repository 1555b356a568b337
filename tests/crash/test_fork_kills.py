"""Whoever forks is killed with SIGKILL: a fork is whole or not there, and asked for again it is the same."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.errors import SessionUnknown
from outlast.opening import open_world
from outlast.session import Session
from tests.unit.engine_desk import Desk

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]
COMMITS = 400
KILLS = 4
FORKER = """
import asyncio, sys
from outlast.opening import open_world
from outlast.session import Session

async def main(url):
    async with open_world(url) as world:
        source = await Session.find(world, "s")
        print("ready", flush=True)
        number = 0
        while True:
            await source.fork(id=f"{sys.argv[2]}-{number}")
            print(number, flush=True)
            number += 1

asyncio.run(main(sys.argv[1]))
"""


async def long_past(url: str) -> int:
    """A session of many commits; returns how many."""

    async def count(io: IO, prompt: str) -> object:
        return [await io.uuid() for _ in range(3)]

    agent = Agent("tester", Loop(count))
    async with open_world(url) as world:
        session = await Session.open(world, "s", agent=agent)
        desk = Desk(world)
        while (await session.head()).seq < COMMITS:
            for number in range(40):
                await session.send("go", id=f"in-{(await session.head()).seq}-{number}")
            await desk.work(agent)
        return (await session.head()).seq


async def test_a_fork_whose_maker_was_killed_is_whole_or_not_there(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'world.db'}"
    seq = await long_past(url)
    for kill in range(KILLS):
        name = f"fork{kill}"
        with subprocess.Popen(  # noqa: ASYNC220 - it is waited for below
            [sys.executable, "-c", FORKER, url, name], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(0.01 + 0.017 * kill)  # noqa: ASYNC251 - the moment of a kill is the whole point
            os.kill(process.pid, signal.SIGKILL)
            told = len(process.stdout.read().splitlines())
        async with open_world(url) as world:
            there = 0
            while True:
                try:
                    head = await world.get(f"{name}-{there}")
                except SessionUnknown:
                    break
                assert head.seq == seq + 1, "half of a fork"
                commits = [one.header.seq for one in await world.commits(head.session, 0, 10_000)]
                assert commits == list(range(1, seq + 2))
                there += 1
            assert there in {told, told + 1}, (
                "a fork that was told of is gone, or one came that was not asked for"
            )
            source = await Session.find(world, "s")
            for number in range(there + 1):
                fork = await source.fork(id=f"{name}-{number}")
                assert (await fork.state()).forked is not None
                assert (await fork.head()).seq == seq + 1
            assert (await source.head()).seq == seq
