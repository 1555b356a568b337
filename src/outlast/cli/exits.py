"""Exit codes, and how an error reaches the person."""

import sys
from collections.abc import Callable
from enum import IntEnum
from typing import NoReturn

import click
import msgspec

from outlast.errors import BadInput, HarnessError, NotFound, OutlastError, Refused, WorldUnavailable


class Exit(IntEnum):
    """What a script can tell from the exit code of every command."""

    OK = 0
    """It was done; of `run` and `follow --turn`: the turn ended `done`."""
    FAILED = 1
    """It was tried and failed: the turn ended `failed`, a promise of the demo broke, an unforeseen error."""
    USAGE = 2
    """The command line or an input cannot be used; nothing was changed."""
    NOT_FOUND = 3
    """The session, turn or agent does not exist."""
    UNAVAILABLE = 4
    """The World or the harness cannot be used now; nothing acknowledged is lost."""
    REFUSED = 5
    """The World refused: the session is held, erased or moved."""
    CANCELLED = 6
    """The turn was cancelled."""
    WAITING = 7
    """The turn is parked and waits for a person."""
    DETACHED = 8
    """Detached: the turn is open and goes on with `outlast work`."""


def exit_of(error: OutlastError) -> Exit:
    """The exit code that tells of `error`."""
    match error:
        case BadInput():
            return Exit.USAGE
        case NotFound():
            return Exit.NOT_FOUND
        case WorldUnavailable() | HarnessError():
            return Exit.UNAVAILABLE
        case Refused():
            return Exit.REFUSED
        case _:
            return Exit.FAILED


def die(error: OutlastError, *, json: bool) -> NoReturn:
    """End the process with the sentence of `error`."""
    code = exit_of(error)
    if json:
        click.echo(msgspec.json.encode({"error": type(error).__name__, "message": str(error), "exit": code}))
    click.secho(f"outlast: {error}", fg="red", err=True)
    sys.exit(code)


def guarded(run: Callable[[], int | None], *, json: bool) -> NoReturn:
    """Run a command's body and end the process with what came of it."""
    try:
        code = run()
    except OutlastError as error:
        die(error, json=json)
    except BaseExceptionGroup as group:
        error = _first(group)
        if error is None:
            raise
        die(error, json=json)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(Exit.OK)
    sys.exit(Exit.OK if code is None else code)


def _first(group: BaseExceptionGroup[BaseException]) -> OutlastError | None:
    for inner in group.exceptions:
        found = _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
        if isinstance(found, OutlastError):
            return found
    return None
