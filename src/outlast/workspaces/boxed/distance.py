"""What a box is given that can have no directory of the worker's machine: everything in it comes over its supervisor.

The programs are those of its image. Its HOME is a directory of its own, at the path that HOME has here; what the
adapter of a harness keeps there goes in before each program starts (`DistantHome.give`), and what the program makes of
it comes out when somebody here is to see it (`DistantHome.fetch`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from outlast.workspaces.boxed.home import DistantHome

_UNSEEN: Final = (
    "the image of this session's sandbox does not have {program}. A harness must be in it, at the path that it has "
    "here: let workers and sandboxes run from one image (docs/workspaces/kubernetes.md)"
)


class Given(Protocol):
    """What of the worker's machine a box is given, as those see it who start programs in it."""

    @property
    def home(self) -> Path: ...

    @property
    def path(self) -> str:
        """PATH inside; empty: that of the box."""
        ...

    def shows(self, program: str) -> bool:
        """Whether a program stands inside at the path that it has here, as far as is known."""
        ...

    def unseen(self, program: str) -> str:
        """What to do about a program that is not there."""
        ...

    async def give_home(self) -> None:
        """What is in HOME here is in that of the box."""
        ...

    async def fetch_home(self) -> None:
        """What programs in the box have made of it is here."""
        ...


@dataclass(frozen=True, slots=True)
class Distance:
    """See `Given`. Of a box without mounts."""

    home: Path
    inside: DistantHome
    path: str = ""

    def shows(self, program: str) -> bool:
        del program
        return True

    def unseen(self, program: str) -> str:
        return _UNSEEN.format(program=program)

    async def give_home(self) -> None:
        await self.inside.give()

    async def fetch_home(self) -> None:
        await self.inside.fetch()
