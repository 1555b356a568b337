"""What can be found out about a call that a harness ran itself and whose outcome was lost.

An adapter that knows how one of its harness's calls shows in the workspace gives with it an `Inquiry`
(`outlast.calls.Resolved.inquiry`): for an edit the hash of the file before and after it, for a commit what the branch
pointed to. It is used twice:

* before the call is let go, `note` takes down the *witness*, what will tell later whether the call took effect. It
  stands in the record that says that the call may have begun (`CallStarted.witness`), durable before the effect;
* after a crash, when nothing of that attempt runs any more, `ask` compares the workspace with the witness.

Invariants:

1. A verdict is what the workspace shows, never what is likely: `Done` only where the effect is there whole, `NotDone`
   only where nothing of it is, `Partly` only where it is known which part of it is there and which is not. Everything
   else is `Unsure`, and its note says what stands how.
2. Neither changes anything, whether it ends or is cut off.
3. No witness, no question: where `note` found nothing that would tell, or failed, or took too long, the call is in
   doubt as one that is `never` run again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from outlast.tool import Verdict
from outlast.workspace import Ran

READ_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a file that `Scene.read` reads at most."""
NOTE_S: Final = 10.0
"""Seconds that `note` may take: the harness waits for it."""
ASK_S: Final = 60.0
"""Seconds that `ask` may take."""

Witness: TypeAlias = Mapping[str, Any]
"""JSON. What an inquiry of an older release noted must be told from what it notes now."""


@dataclass(frozen=True, slots=True)
class Partly:
    """A part of the call took effect, and the rest did not. It is settled as interrupted, and not run again."""

    said: str
    """What the model reads as its result: what stands, and what is left to be done."""


Answer: TypeAlias = Verdict | Partly


class Scene(Protocol):
    """The workspace as an inquiry sees it, to look at and not to change.

    Raises (each method): `WorkspaceError`: it cannot be known.
    """

    @property
    def cwd(self) -> str:
        """Where the harness works, as it sees it."""
        ...

    @property
    def lasts(self) -> bool:
        """Whatever a call did to its files stands. Else they may have been brought back to before it."""
        ...

    async def read(self, path: str) -> bytes | None:
        """What a file holds, links followed; None: nothing is there.

        Args:
            path: absolute, or relative to `cwd`.

        Raises:
            WorkspaceError: it is no file, leads out of the workspace, holds more than `READ_LIMIT` bytes or cannot be
                read.
        """
        ...

    async def run(self, text: str, *, cwd: str = "", timeout_s: float = NOTE_S) -> Ran:
        """Run a line of shell that changes nothing, each time anew.

        Args:
            cwd: relative to that of the scene.
        """
        ...


class Inquiry(Protocol):
    """What can be asked about one call. It is made from the call's arguments, and holds what it needs of them."""

    @property
    def files_only(self) -> bool:
        """Where there is a witness the call reaches nothing but files of the workspace, and is undone with these."""
        ...

    async def note(self, scene: Scene) -> Witness | None:
        """What to note before the call begins; None: nothing that would tell."""
        ...

    async def ask(self, scene: Scene, witness: Witness) -> Answer:
        """Whether the call took effect.

        The result of a `Done` is what the model reads as that of the call. The note of an `Unsure` is read by the
        model too, behind the words that the call is in doubt.
        """
        ...
