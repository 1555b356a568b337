"""How tools on a workspace say what they found, at a length that a model can read."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from outlast.errors import WorkspaceError
from outlast.tool import ToolFailed
from outlast.workspace import Ran

TEXT_LIMIT: Final = 30_000
"""Characters of a result: the first and the last half of what is longer."""

P = ParamSpec("P")
T = TypeVar("T")


def telling(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """The model reads what the workspace says against a call, as it is."""

    @wraps(function)
    async def told(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await function(*args, **kwargs)
        except WorkspaceError as error:
            raise ToolFailed(str(error)) from error

    return told


def bounded(text: str, limit: int = TEXT_LIMIT) -> str:
    """A text with its middle left out where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[… {left_out:,} characters are left out here …]\n{text[-half:]}"


def outcome(ran: Ran, timeout_s: float) -> str:
    """What a command came to."""
    parts = [part.rstrip("\n") for part in (ran.stdout, ran.stderr) if part.strip()]
    text = bounded("\n".join(parts)) or "(no output)"
    notes: list[str] = []
    if ran.cut:
        notes.append(f"[{ran.cut:,} bytes of output were not kept]")
    if ran.timed_out:
        notes.append(f"[ended by its time-out of {timeout_s:g} s]")
    elif ran.status:
        notes.append(f"[exit status {ran.status}]")
    return "\n".join([text, *notes])
