"""What is kept of a session of eve's: the events of its stream, and where eve may write while it runs."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from outlast.adapter import Attempt
from outlast.beneath import Beneath

PROJECT: Final = ".eve/project"
"""Below the session's home: the project as eve sees it, whose log is this session's alone."""
DATA: Final = f"{PROJECT}/.eve/.workflow-data"
"""Below the session's home: eve's own log, new in each attempt."""
_STREAM: Final = ".eve/stream.ndjson"


class EveState:
    """The files of one session."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    @property
    def project(self) -> Path:
        """Where eve is started."""
        return self._attempt.places.home / PROJECT

    @property
    def data(self) -> Path:
        """Where eve keeps its own log."""
        return self._attempt.places.home / DATA

    async def prepare(self) -> None:
        """Make everything ready for a new run."""
        self._show_project()
        if (await self._attempt.mirrored()).get(_STREAM):
            await self._attempt.mirror(_STREAM, 0, [])

    def _show_project(self) -> None:
        """The agent, and links to all else in the project but eve's own directory, where the sessions of all would be.

        What eve knows a project by must be no link.
        """
        ours = Beneath(self._attempt.places.home)
        ours.remove(PROJECT)
        ours.make(DATA)
        for entry in self._attempt.places.cwd.iterdir():
            if entry.name == "agent" and entry.is_dir():
                shutil.copytree(entry, self.project / entry.name, symlinks=True)
            elif entry.name == "package.json":
                shutil.copyfile(entry, self.project / entry.name)
            elif entry.name != ".eve":
                (self.project / entry.name).symlink_to(entry)

    async def mirror(self, position: int, events: Sequence[str]) -> None:
        """Record events of the stream."""
        await self._attempt.mirror(_STREAM, position, events)
