"""Turns that are typed into a harness's own program at a terminal, and carried by the worker beside it.

One process lives through many turns. A prompt that is typed becomes a turn before the program may ask its model
anything: what the program runs when one is typed puts it into the inbox, under the program's own id of it, and waits
until the worker has claimed and opened it. While no turn is open nothing goes upstream.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import anyio

from outlast.adapter import Adapter, Attempt, Dialogue, Processes, Resolved, TurnResult, Waiting
from outlast.errors import BadInput, HarnessError, OutlastError
from outlast.ids import new_id
from outlast.logs import logger
from outlast.recovery import Abilities
from outlast.tool import Tool
from outlast.wrapping import TYPED, Program, Seat

OPEN_S: Final = 60.0
"""How long a prompt that was typed waits for its turn to be opened."""
TAKE_BACK_S: Final = 5.0
"""How long it may take then to take it back."""

INTERRUPTED: Final = "It was interrupted at the terminal."
ELSEWHERE: Final = "The session is open at a terminal. Type the prompt there, or close it first."
ANOTHER: Final = (
    "This is not the session that outlast keeps, so it was not sent. `outlast wrap` begins another."
)
UNTAKEN: Final = "It was typed while a turn ran that ended without taking it up."
NOT_OPENED: Final = "outlast could not open a turn for this prompt, so it was not sent. Try again."

log = logger("outlast.terminal")


class AtTerminal(ABC):
    """Keeps `outlast.wrapping.Wrapped`, but for what the program of one harness is like.

    Args:
        plain: carries turns without a terminal.
        seat: the session, and what the program reaches us by.
        title: the harness, as people know it.
    """

    def __init__(self, plain: Adapter, seat: Seat, title: str) -> None:
        self.plain = plain
        self.seat = seat
        self._title = title
        self._prompt = ""
        """The program's id of the prompt of the open turn."""
        self._begun = asyncio.Event()
        self._end: asyncio.Future[TurnResult] | None = None
        self.attempt: Attempt | None = None
        """That carries the open turn of the terminal's."""
        self._unsent: set[str] = set()
        """Inputs whose program was told that they were not sent: they may stand in the inbox, or come to."""
        self._opened = False
        self.so_far: TurnResult | None = None
        """How the open turn ends if nothing more of it comes."""
        self.broken = asyncio.Event()
        self.one_by_one = asyncio.Lock()
        """Held while something that was typed comes to be a prompt or a steer: the next waits for it."""

    @property
    def name(self) -> str:
        return self.plain.name

    @property
    def abilities(self) -> Abilities:
        can = self.plain.abilities
        # A wait would stop the program, which is its user's to stop.
        return Abilities(can.can_rerun, program=can.program)

    def versions(self) -> Mapping[str, str]:
        return self.plain.versions()

    def settings(self) -> Mapping[str, Any]:
        return self.plain.settings()

    def check(self) -> list[str]:
        return list(self.plain.check())

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        return self.plain.resolve(name, arguments, tools)

    # what the program at the terminal tells

    @property
    def running(self) -> bool:
        """A turn of the terminal's is under way."""
        return self._end is not None and not self._end.done()

    def is_prompt(self, prompt_id: str) -> bool:
        """Whether this is the prompt of the open turn."""
        return prompt_id == self._prompt

    async def begin(self, prompt_id: str, text: str) -> bool:
        """A prompt was typed, and the turn before it is over. Returns once its turn is open.

        False if that could not be had in time: then nothing comes of it later either.
        """
        self.over(self.so_far or TurnResult("failed", error=INTERRUPTED))
        self._prompt, self._begun, self.so_far = prompt_id, asyncio.Event(), None
        opened = False
        try:
            async with asyncio.timeout(OPEN_S):
                await self.seat.say(text, TYPED + prompt_id)
                await self._begun.wait()
                opened = True
        except TimeoutError:
            return False
        finally:
            if not opened:
                self._unsent.add(TYPED + prompt_id)
                self.over(TurnResult("failed", error=NOT_OPENED))
                await self._take_back(TYPED + prompt_id)
        return True

    async def _take_back(self, prompt: str) -> None:
        """Let nothing come of a prompt that was not sent, as its program is told, even when all of this is gone."""
        try:
            with anyio.move_on_after(TAKE_BACK_S, shield=True):
                await self.seat.unsay(prompt)
        except OutlastError as error:
            log.warning("session %s: %s could not be taken back: %s", self.seat.session, prompt, error)

    async def steer(self, text: str, own_id: str = "") -> bool:
        """Something was typed while a turn runs. Returns once the turn's next request can carry it.

        False if that could not be had in time.

        Args:
            own_id: the program's own id of it, where it has one.
        """
        attempt, input_id = self.attempt, TYPED + (own_id or new_id("steer"))
        if attempt is None:
            return False
        try:
            async with asyncio.timeout(OPEN_S):
                await self.seat.steer(text, input_id)
                async for one in attempt.steers.arrivals():
                    if one.input == input_id:
                        return True
        except TimeoutError:
            return False
        return False

    def over(self, end: TurnResult) -> bool:
        """The turn has ended at the terminal. False if none is open."""
        running = self._end
        if running is None or running.done():
            return False
        running.set_result(end)
        return True

    def closed(self) -> bool:
        """See `outlast.wrapping.Wrapped`."""
        return self.over(
            self.so_far or TurnResult("failed", error=f"{self._title} was closed at the terminal.")
        )

    # what the engine asks

    async def advance(self, attempt: Attempt) -> TurnResult | Waiting:
        """Carry a turn on: of the terminal beside it, or one that was cut short without it.

        Raises:
            HarnessError: the turn was cut off from the terminal, or the harness cannot be started.
        """
        if not self._opened:
            return await self.plain.advance(attempt)
        if attempt.turn.input in self._unsent:
            return TurnResult("failed", error=NOT_OPENED)
        if attempt.turn.input != TYPED + self._prompt:
            typed = attempt.turn.input.startswith(TYPED)
            return TurnResult("failed", error=UNTAKEN if typed else ELSEWHERE)
        if attempt.resumed:
            self.broken.set()
            raise HarnessError(harness=self._title, reason="its turn was cut off from the terminal")
        async with (
            self.beside(attempt) as dialogue,
            attempt.gateway.admit(attempt, dialogue, self.seat.door.token),
        ):
            self._end, self.attempt = asyncio.get_running_loop().create_future(), attempt
            try:
                self._begun.set()
                end = await self._end
                await self.written(attempt)
            finally:
                self._end = self.attempt = None
        return end

    @abstractmethod
    def beside(self, attempt: Attempt) -> AbstractAsyncContextManager[Dialogue]:
        """Mirror what the program writes while a turn of it is carried. Gives how it speaks."""

    @abstractmethod
    async def written(self, attempt: Attempt) -> None:
        """Return once what the program writes of a turn that has ended is mirrored, or does not come."""

    # what the command line asks

    def at_terminal(self, processes: Processes) -> AbstractAsyncContextManager[Program]:
        """See `outlast.wrapping.Wrapped`."""
        self._opened = True
        return self.started(processes)

    @abstractmethod
    def started(self, processes: Processes) -> AbstractAsyncContextManager[Program]:
        """What is to be started; the context hears what it tells."""


def not_given(program: str, name: str, able: Iterable[str]) -> BadInput:
    """The error for a flag that would take a program, or its session, out of our hands.

    Args:
        program: with its article.
        able: the flags that can be given.
    """
    shown = name if name.startswith("-") else repr(name)
    told = f"{shown} cannot be given to {program} that is wrapped. Leave it out. What can: {', '.join(able)}."
    return BadInput(detail=told)
