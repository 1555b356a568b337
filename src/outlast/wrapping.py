"""The port by which a harness's interactive program, at its user's own terminal, has each of its calls in the log.

An adapter whose class also keeps `Wraps` can be named in `outlast wrap`. The command line starts the program, and a
worker for its one session beside it. One process of the program lives through many turns: each is begun there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from outlast.adapter import Adapter, Door, Places, Processes

TYPED: Final = "typed-"
"""Begins the id of an input that was typed into the program itself; the rest is the program's own id of it."""

Say: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Puts what was typed into the session's inbox: its text, and its id. Durable when it returns."""
Unsay: TypeAlias = Callable[[str], Awaitable[None]]
"""Takes back the prompt of this id, which may be there: its turn ends, or never begins. Durable when it returns."""
Mirrored: TypeAlias = Callable[[], Awaitable[Mapping[str, Sequence[str]]]]
"""What the log has of the harness's files now, as `Attempt.mirrored` gives it."""


@dataclass(frozen=True, slots=True)
class Seat:
    """The session that a program at a terminal works on, and what it reaches us by."""

    tenant: str
    session: str
    """Its id; of a fork, that of the session that its past began as."""
    settings: Mapping[str, Any]
    """As the session recorded them."""
    places: Places
    door: Door
    """For the program's whole life; it opens while a turn of its is carried only."""
    say: Say
    """A prompt."""
    unsay: Unsay
    steer: Say
    """What was typed while a turn runs, for its next request to carry."""
    mirrored: Mirrored
    opened_s: float
    """When the session was opened, in Unix seconds."""
    environ: Mapping[str, str]
    """Of the user."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is to be started at the terminal, in the session's directory."""

    argv: Sequence[str]
    env: Mapping[str, str]


class Wrapped(Adapter, Protocol):
    """The adapter of one session whose turns are typed into a program at a terminal.

    Until the program is there, `advance` carries turns without a terminal: those that were cut short. From then on it
    stays beside the program for as long as a turn takes.
    """

    @property
    def broken(self) -> asyncio.Event:
        """Set when a turn could not be carried on as its program believes: the program must end."""
        ...

    def at_terminal(self, processes: Processes) -> AbstractAsyncContextManager[Program]:
        """Make everything ready for the program; hear what it tells as long as the context lasts.

        A prompt that is typed is put into the inbox, and its turn is open, before the program may ask its model.

        Args:
            processes: starts what the program needs beside it.

        Raises:
            HarnessError: it cannot be started.
        """
        ...

    def closed(self) -> bool:
        """The program has ended, as its user wanted: so does the turn. False if none was open."""
        ...


@runtime_checkable
class Wraps(Protocol):
    """An adapter whose harness has an interactive program that can be wrapped."""

    def terminal_settings(self, flags: Sequence[str]) -> Mapping[str, Any]:
        """What a session records of the flags that the user gives the program, and starts it with ever after.

        Raises:
            BadInput: one of them would take the program, or its session, out of our hands.
        """
        ...

    def wrap(self, seat: Seat) -> Wrapped:
        """The adapter for one session."""
        ...
