"""Another process that holds a box, for the cases that stop and kill one.

Run as a program it makes the provider by its recipe, attaches, says so, and obeys lines of JSON on its standard input,
each answered by one.
"""

import importlib
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import anyio
import anyio.to_thread
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from outlast.errors import OutlastError
from outlast.sandbox import Box, JobAsk, Mount, SandboxProvider, Spec, Way
from outlast.testing.sandbox_contract.case import Ground

ANSWER_LIMIT_S: Final = 40.0
PROGRAM: Final = f"from {__name__} import main; main()"


class Holder:
    """What the other process can be told to do, and what can be done to it."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = BufferedByteReceiveStream(process.stdout)

    async def begin(self, job: str, line: str, *, tied: bool = False) -> str:
        """Begin a line of shell as a job. Returns `begun`, or the name of the error."""
        return str(await self.ask("begin", job, line, tied))

    async def beat(self, for_s: float) -> str:
        """Say that tied jobs may live for so long; nothing else does."""
        return str(await self.ask("beat", for_s))

    def stop(self) -> None:
        """SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    async def ask(self, verb: str, *words: object) -> Any:
        """Send a line and wait for its answer."""
        with anyio.fail_after(ANSWER_LIMIT_S):
            await self._input.send(json.dumps([verb, *words]).encode() + b"\n")
            return await self.answer()

    async def answer(self) -> Any:
        """The next line it says."""
        return json.loads(await self._output.receive_until(b"\n", 1_000_000))


@asynccontextmanager
async def holder(ground: Ground, spec: Spec, fence: int) -> AsyncGenerator[Holder]:
    """Another process that holds the box of `spec`; killed when the context ends."""
    recipe = ground.recipe()
    assert recipe is not None, "a ground for several processes has a recipe"
    told = json.dumps([recipe.opener, recipe.arguments, _as_json(spec), fence])
    async with await anyio.open_process([sys.executable, "-c", PROGRAM, told], stderr=None) as process:
        try:
            other = Holder(process)
            with anyio.fail_after(ANSWER_LIMIT_S):
                assert await other.answer() == "held"
            yield other
        finally:
            with suppress(ProcessLookupError):
                process.kill()


def _as_json(spec: Spec) -> Any:
    return {
        "name": spec.name,
        "image": spec.image,
        "cwd": spec.cwd,
        "env": dict(spec.env),
        "labels": dict(spec.labels),
        "idle_s": spec.idle_s,
        "mounts": [[str(one.source), one.target, one.writable] for one in spec.mounts],
        "ways": [[one.port, str(one.socket)] for one in spec.ways],
    }


def _spec(told: dict[str, Any]) -> Spec:
    mounts = [Mount(Path(source), target, writable) for source, target, writable in told.pop("mounts")]
    ways = [Way(port, Path(socket)) for port, socket in told.pop("ways")]
    return replace(Spec(**told), mounts=mounts, ways=ways)


async def _obey(box: Box, verb: str, words: list[Any]) -> str:
    try:
        match verb:
            case "begin":
                job, line, tied = words
                await box.begin(JobAsk(job, ["sh", "-c", line], tied=tied))
                return "begun"
            case _:
                await box.beat(words[0])
                return "beaten"
    except OutlastError as error:
        return type(error).__name__


async def _serve(told: str) -> None:
    opener, arguments, spec, fence = json.loads(told)
    module, function = opener.split(":")
    provider = cast("SandboxProvider", getattr(importlib.import_module(module), function)(*arguments))
    async with provider.attach(_spec(spec), fence) as box:
        _say("held")
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            verb, *words = json.loads(line)
            _say(await _obey(box, verb, words))


def _say(answer: str) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


def main() -> None:
    """Hold the box that the command line describes and obey until the input ends."""
    anyio.run(_serve, sys.argv[1])
