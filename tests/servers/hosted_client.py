"""A stand-in for a service that lends machines, behind a client as openai-agents has them: what `Hosted` asks of one.

Its machines really run (`containers`), apart from this one; a command is run in one to its end, and no more is offered.
"""

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.servers import containers

PLACES = (("work", "/workspace"), ("tmp", "/tmp"))
"""Directories that its user may write to."""


@dataclass
class Ran:
    """How a command ended."""

    stdout: bytes
    exit_code: int


class Machine:
    """One, by a client's handle."""

    def __init__(self, service: "Service", state: dict[str, object]) -> None:
        self.state = state
        self._service = service

    async def start(self) -> None:
        self._service.judge()
        self._service.machine(self.state)

    async def exec(self, *argv: str, shell: bool, timeout: float) -> Ran:  # noqa: ASYNC109 - as the client's
        assert not shell
        self._service.judge()
        program = await self._service.machine(self.state).run(argv)
        os.close(program.stdin)
        async with asyncio.timeout(timeout):
            out, _ = await asyncio.gather(_all(program.stdout), _all(program.stderr))
            return Ran(out, await program.ended)

    async def aclose(self) -> None:
        return


@dataclass
class Service:
    """The service, and the client for it."""

    folder: Path
    machines: dict[str, containers.Container] = field(default_factory=dict[str, containers.Container])
    count: int = 0
    asked: int = 0
    broken: Exception | None = None
    """What each call raises."""

    def judge(self) -> None:
        self.asked += 1
        if self.broken is not None:
            raise self.broken

    def machine(self, state: dict[str, object]) -> containers.Container:
        found = self.machines.get(str(state["id"]))
        if found is None or not found.alive:
            raise LookupError(f"sandbox {state['id']} was not found")
        return found

    async def create(self, *, manifest: Any, options: object) -> Machine:
        del options
        self.judge()
        self.count += 1
        state: dict[str, object] = {"id": f"m-{self.count}"}
        binds = [(self.folder / f"m-{self.count}-{name}", at, True) for name, at in PLACES]
        for source, _, _ in binds:
            source.mkdir()
        wish = containers.Wish(["sleep", "infinity"], {}, "/", [*binds], (), uid=1000)
        assert manifest.root == "/workspace"  # a client makes whatever it is
        self.machines[str(state["id"])] = await containers.start(wish)
        return Machine(self, state)

    async def resume(self, state: dict[str, object]) -> Machine:
        return Machine(self, state)

    async def delete(self, machine: Machine) -> None:
        self.judge()
        found = self.machines.pop(str(machine.state["id"]), None)
        if found is not None:
            await found.kill()

    def serialize_session_state(self, state: dict[str, object]) -> dict[str, object]:
        return state

    def deserialize_session_state(self, payload: dict[str, object]) -> dict[str, object]:
        return payload

    async def end(self) -> None:
        for machine in self.machines.values():
            await machine.kill()


async def _all(fd: int) -> bytes:
    loop, parts = asyncio.get_running_loop(), list[bytes]()
    try:
        while data := await loop.run_in_executor(containers.THREADS, os.read, fd, 65536):
            parts.append(data)
    finally:
        os.close(fd)
    return b"".join(parts)
