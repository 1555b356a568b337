"""Another process on the same store, for the cases that need one.

Run as a program it opens the store by its recipe and obeys lines of JSON on its standard input, each answered by one.
"""

import importlib
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio
import anyio.to_thread
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from outlast.testing.world_contract.blocks import TAKEOVER, commit, offer, renew
from outlast.testing.world_contract.case import Store
from outlast.world import Lease, World

ANSWER_LIMIT_S: Final = 30.0
PROGRAM: Final = f"from {__name__} import main; main()"


class Second:
    """What the other process can be told to do."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin
        self._output = BufferedByteReceiveStream(process.stdout)

    async def append(self, lease: Lease, seq: int, count: int) -> None:
        """Write `count` commits from number `seq` under `lease`."""
        await self.ask("append", lease.session, lease.fence, lease.worker, seq, count)

    async def claim_all(self, worker: str) -> list[str]:
        """Claim until nothing is ready; the ids of what was claimed."""
        return list(await self.ask("claim_all", worker))

    async def ask(self, verb: str, *words: object) -> Any:
        """Send a line and wait for its answer."""
        with anyio.fail_after(ANSWER_LIMIT_S):
            await self._input.send(json.dumps([verb, *words]).encode() + b"\n")
            return json.loads(await self._output.receive_until(b"\n", 1_000_000))


@asynccontextmanager
async def second_process(store: Store) -> AsyncGenerator[Second]:
    """Another process that has opened the store; it ends with the context."""
    recipe = store.recipe()
    assert recipe is not None, "a store for several processes has a recipe"
    command = [sys.executable, "-c", PROGRAM, recipe.opener, *recipe.arguments]
    async with await anyio.open_process(command, stderr=None) as process:
        try:
            second = Second(process)
            await second.ask("hello")
            yield second
        finally:
            process.kill()


async def _append(world: World, session: str, fence: int, worker: str, seq: int, count: int) -> None:
    for number in range(seq, seq + count):
        [refusal] = await world.commit_many([(Lease(session, fence, worker), commit(number, fence))])
        if refusal is not None:
            raise refusal


async def _claim_all(world: World, worker: str) -> list[str]:
    claimed: list[str] = []
    while True:
        renew(world, worker)
        claim = await world.claim(offer(worker), TAKEOVER)
        if claim is None:
            return claimed
        claimed.append(claim.lease.session)


async def _obey(world: World, verb: str, words: list[Any]) -> object:
    match verb:
        case "append":
            return await _append(world, *words)
        case "claim_all":
            return await _claim_all(world, *words)
        case _:
            return verb


async def _serve(opener: str, arguments: list[str]) -> None:
    module, function = opener.split(":")
    opened: AbstractAsyncContextManager[World] = getattr(importlib.import_module(module), function)(
        *arguments
    )
    async with opened as world:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            verb, *words = json.loads(line)
            print(json.dumps(await _obey(world, verb, words)), flush=True)  # noqa: T201 the answer


def main() -> None:
    """Open the store that the command line names and obey until the input ends."""
    anyio.run(_serve, sys.argv[1], sys.argv[2:])
