"""Where a loop stands, and what it was told: nothing of this is a call."""

from collections.abc import Mapping, Sequence
from typing import Any

from outlast.adapter import Attempt, Talk
from outlast.adapters.history import History, history_of
from outlast.tool import Tool


class Place:
    """One lane of a turn of a session."""

    def __init__(self, attempt: Attempt, lane: str) -> None:
        self._attempt = attempt
        self._lane = lane

    @property
    def session(self) -> str:
        """Id of the session."""
        return self._attempt.session

    @property
    def turn(self) -> int:
        """Number of the turn in the session."""
        return self._attempt.turn.turn

    @property
    def lane(self) -> str:
        """Name of this lane."""
        return self._lane

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the session was opened with."""
        return self._attempt.settings

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The agent's tools in this worker, by name: what a deployment may change under an open turn."""
        return self._attempt.tools

    async def history(self) -> History:
        """The conversation as the turns before this one left it: the same in every attempt at this turn."""
        talk = await self._attempt.talk()
        return History() if talk is None else history_of(talk)

    async def talk(self) -> Talk | None:
        """The conversation as `history` has it, in the JSON that it was held in: for a framework's own."""
        return await self._attempt.talk()

    def steers(self) -> Sequence[str]:
        """What the turn was told since the last call: put it into the request of the next `model`, which takes it.

        Call it right before that. What no request takes becomes the next prompt. Among them is what outlast has to
        tell, such as that the workspace was lost (`IO.lost`).
        """
        ahead = self._attempt.calls.ahead(self._lane)
        if ahead is not None:
            return [taken.text for taken in self._attempt.turn.steers if taken.call == ahead.call]
        waiting = self._attempt.steers.waiting()
        for steer in waiting:
            self._attempt.steers.carried(steer.input, self._lane)
        return [steer.text for steer in waiting]
