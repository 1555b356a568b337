"""Who is let in, and what the gateway holds of an attempt while its harness is."""

import hmac
from collections.abc import Generator
from contextlib import contextmanager
from typing import Generic, NoReturn, TypeVar

import anyio
from anyio.abc import TaskGroup

from outlast.adapter import Attempt, Dialogue
from outlast.errors import WorkspaceError
from outlast.gateway.dialect import Dialect
from outlast.ids import digest
from outlast.workspace import Away

Guest = TypeVar("Guest")

NOT_OPEN = "This token opens nothing: the attempt that it was made for is over. Do not try again."


class OpenDoor:
    """What the gateway holds of one attempt while its harness is let in.

    Attributes:
        tasks: where what must not end with a connection runs; it ends with the attempt.
        over: why nothing more is let through; empty as long as it is.
    """

    def __init__(self, attempt: Attempt, dialogue: Dialogue, dialect: Dialect, tasks: TaskGroup) -> None:
        self.attempt = attempt
        self.dialogue = dialogue
        self.dialect = dialect
        self.tasks = tasks
        self.over = ""
        self.greeted = anyio.Event()
        self._busy = 0

    def close(self, why: str) -> None:
        """Let nothing more through."""
        self.over = self.over or why

    async def greeting(self, within_s: float) -> None:
        """Wait for the hello of the harness's hooks; without it, nothing is let through."""
        if self.dialogue.greets and not self.greeted.is_set():
            # The hello is sent before the first request, but by another process.
            with anyio.move_on_after(within_s):
                await self.greeted.wait()
            if not self.greeted.is_set():
                self.close("its hooks have not said hello, so its tools would run unasked")

    async def recorded(self, *, tool: bool = False) -> None:
        """See `Dialogue.recorded`; of a harness whose HOME is elsewhere, that is brought here before.

        Raises:
            WorkspaceError: it cannot be, and the attempt is over.
        """
        processes = self.attempt.processes
        if isinstance(processes, Away):
            try:
                await processes.fetch_home()
            except WorkspaceError as error:
                self.crash(error)
                raise
        await self.dialogue.recorded(tool=tool)

    def crash(self, error: BaseException) -> None:
        """End the attempt with `error`: what stopped a request in this way must stop everything."""
        self.close("the worker is stopping")
        self.tasks.start_soon(_raise, error)

    @contextmanager
    def place(self, limit: int) -> Generator[bool]:
        """Take one of `limit` places for a request; says whether there was one."""
        self._busy += 1
        try:
            yield self._busy <= limit
        finally:
            self._busy -= 1


async def _raise(error: BaseException) -> NoReturn:
    raise error


class Doors(Generic[Guest]):
    """Who may come in, by the digest of the token that lets them: the token itself is not kept."""

    def __init__(self) -> None:
        self._open: dict[str, Guest] = {}

    @contextmanager
    def opened(self, token: str, guest: Guest) -> Generator[None]:
        """Let `guest` in with `token` while the context lasts."""
        key = digest(token.encode())
        self._open[key] = guest
        try:
            yield
        finally:
            del self._open[key]

    def find(self, *tokens: str) -> Guest | None:
        """Whom the first of `tokens` that is one lets in."""
        for key in [digest(token.encode()) for token in tokens if token]:
            for known, guest in self._open.items():
                if hmac.compare_digest(known, key):
                    return guest
        return None
