"""Exit codes, and how an error reaches the person."""

import os
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import NoReturn

import click
import msgspec

from outlast.errors import (
    BadEdit,
    BadInput,
    FileMissing,
    FormatTooNew,
    HarnessError,
    NotFound,
    OutlastError,
    Refused,
    SandboxUnsupported,
    WorldUnavailable,
)
from outlast.groups import leaves


class Exit(IntEnum):
    """What a script can tell from the exit code of every command."""

    OK = 0
    """It was done; of `run` and `follow --until-idle`: the turn ended `done`."""
    FAILED = 1
    """It was tried and failed: the turn ended `failed`, a promise of the demo broke, an unforeseen error."""
    USAGE = 2
    """The command line or an input cannot be used; nothing was changed."""
    NOT_FOUND = 3
    """The session, turn or agent does not exist."""
    UNAVAILABLE = 4
    """The World or the harness cannot be used now; nothing acknowledged is lost."""
    REFUSED = 5
    """Refused: the session is held, open or erased, an edit cannot be made, or what it is about does not wait."""
    CANCELLED = 6
    """The turn was cancelled."""
    WAITING = 7
    """The turn waits for a person; of `follow --until-idle` also for a signal."""
    DETACHED = 8
    """Detached: the turn is open and goes on with `outlast work`."""


INTERRUPTED = 130
"""Ctrl-C, where nothing better can be said: as shells count it, 128 and the signal."""


def exit_of(error: OutlastError) -> Exit:
    """The exit code that tells of `error`."""
    match error:
        case BadEdit():
            return Exit.REFUSED
        case BadInput():
            return Exit.USAGE
        case NotFound() | FileMissing():
            return Exit.NOT_FOUND
        case WorldUnavailable() | HarnessError() | FormatTooNew() | SandboxUnsupported():
            return Exit.UNAVAILABLE
        case Refused():
            return Exit.REFUSED
        case _:
            return Exit.FAILED


def outcome_code(status: str) -> Exit:
    """The exit code of a command that waits for a turn, by how the turn ended or why it is parked."""
    return {"done": Exit.OK, "failed": Exit.FAILED, "cancelled": Exit.CANCELLED}.get(status, Exit.WAITING)


def die(error: OutlastError, *, json: bool) -> NoReturn:
    """End the process with the sentence of `error`."""
    code = exit_of(error)
    if json:
        click.echo(
            msgspec.json.encode({"error": type(error).__name__, "message": str(error), "exit": code}).decode()
        )
    click.secho(f"outlast: {error}", fg="red", err=True)
    sys.exit(code)


def guarded(run: Callable[[], int | None], *, json: bool) -> NoReturn:
    """Run a command's body and end the process with what came of it."""
    try:
        code = run()
    except (OutlastError, KeyboardInterrupt, BrokenPipeError) as error:
        _end(error, json=json)
    except BaseExceptionGroup as group:
        told = _told(group)
        if told is None:
            raise
        _end(told, json=json)
    sys.exit(Exit.OK if code is None else code)


def hush() -> None:
    """Nobody reads standard output any more: let what is still buffered go nowhere, without a complaint."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _end(error: BaseException, *, json: bool) -> NoReturn:
    match error:
        case OutlastError():
            die(error, json=json)
        case BrokenPipeError():
            hush()
            sys.exit(Exit.OK)
        case _:
            sys.exit(INTERRUPTED)


def _told(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """The first error in `group` of which the person is told by a sentence."""
    for kind in (OutlastError, KeyboardInterrupt, BrokenPipeError):
        told = group.subgroup(kind)
        if told is not None:
            return next(leaves(told))
    return None
