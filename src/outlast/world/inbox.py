"""What comes from outside into a session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Input:
    """A prompt, steer, cancel, decision …: bytes under the caller's own id."""

    id: str
    """The caller's; unique within the session."""
    digest: str
    """Over the content: the same id with another digest is an error."""
    body: bytes
    refs: tuple[str, ...] = ()
    """Blobs that the body names; held until the input is consumed, and then by the commit that consumes
    it."""
    blobs: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    priority: int | None = None
    """The session's priority from the arrival of this input on; None leaves it. It is no part of the content, and not
    kept with it."""
    arrival: int = 0
    """Set by the World: inputs of a session are read in this order."""
    consumed_by: int | None = None
    """Set by the World: number of the commit that consumed it."""


class Inbox(Protocol):
    """Inputs are durable before `put_input` returns, and each is consumed by exactly one commit.

    The owner reads what is *unconsumed*, never "after the last": an input that arrives late under an early
    number is not lost. (id, digest, consumed by) is kept for as long as the session is.
    """

    async def put_input(self, session: str, new: Input) -> Input:
        """Put an input in the inbox, and wake the session. Repeating it wakes again and changes nothing.

        A priority that it carries becomes the session's in the same atomic step; a lease that stands is not touched.

        Returns the stored input, without blobs: with `consumed_by` if it was already taken.

        Raises:
            InputConflict: the id is there with another digest.
            BlobUnknown: it names a blob that is neither given nor held.
            BadPayload: a text of it is no Unicode, or its priority is out of bounds.
            SessionUnknown, SessionErased
        """
        ...

    async def inputs(self, session: str) -> Sequence[Input]:
        """What no commit has consumed yet, in order of arrival."""
        ...

    async def find_input(self, session: str, input_id: str) -> Input | None:
        """One input, consumed or not; the body may be empty once consumed."""
        ...
