"""The workspace of an attempt as an inquiry sees it (`outlast.inquiry.Scene`), and the asking of inquiries."""

import os
import posixpath
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import anyio
from anyio import to_thread

from outlast.adapter import Places, Processes
from outlast.engine.effects import within
from outlast.errors import FileMissing, PathRefused, WorkspaceError
from outlast.ids import new_id
from outlast.inquiry import ASK_S, NOTE_S, READ_LIMIT, Answer, Inquiry, Partly, Scene, Witness
from outlast.tool import Done, NotDone, Unsure
from outlast.tracing import COLLECTOR_KEYS
from outlast.workspace import Command, Lasts, Ran, Site

BASH: Final = "/bin/bash"
TIMED_OUT: Final = 124
OWN: Final = "OUTLAST_"
"""Begins the names of variables that are outlast's own: commands get none of them."""
NO_ANSWER: Final = "The workspace could not be asked in time."
FAILED: Final = "The workspace could not be asked: {why}"


class SiteScene:
    """Of a workspace that is open."""

    def __init__(self, site: Site) -> None:
        self._site = site

    @property
    def cwd(self) -> str:
        return self._site.cwd

    @property
    def lasts(self) -> bool:
        return isinstance(self._site, Lasts) and self._site.lasts

    async def read(self, path: str) -> bytes | None:
        files = self._site.files
        try:
            found = await files.find(path)
            if found is None:
                return None
            if found.kind == "dir" or found.size > READ_LIMIT:
                raise WorkspaceError(detail=f"{path} is not a file of at most {READ_LIMIT} bytes.")
            data = await files.read(path)
        except FileMissing:  # gone meanwhile, or a link to nothing
            return None
        if len(data) > READ_LIMIT:
            raise WorkspaceError(detail=f"{path} holds more than {READ_LIMIT} bytes.")
        return data

    async def run(self, text: str, *, cwd: str = "", timeout_s: float = NOTE_S) -> Ran:
        return await self._site.run(Command(text, new_id("look"), cwd, timeout_s=timeout_s))


class PlaceScene:
    """Of a directory of this machine that no workspace opens."""

    def __init__(self, places: Places, processes: Processes) -> None:
        self._places = places
        self._processes = processes

    @property
    def cwd(self) -> str:
        return str(self._places.cwd)

    @property
    def lasts(self) -> bool:
        return True

    async def read(self, path: str) -> bytes | None:
        return await to_thread.run_sync(_read, self._places.cwd, path)

    async def run(self, text: str, *, cwd: str = "", timeout_s: float = NOTE_S) -> Ran:
        env = {
            name: value for name, value in os.environ.items() if not name.startswith((OWN, *COLLECTOR_KEYS))
        }
        out: list[bytes] = []
        status, errors = TIMED_OUT, ""
        with anyio.move_on_after(timeout_s) as limit:
            argv, at = [BASH, "-c", text], self._places.cwd / cwd
            async with self._processes.start(argv, env=env, cwd=at) as process:
                await process.close_stdin()
                out.extend([line + b"\n" async for line in process.lines()])
                status, errors = await process.wait(), process.errors()
        text = b"".join(out).decode(errors="replace")
        return Ran(status, text, errors, timed_out=limit.cancelled_caught)


def _read(root: Path, path: str) -> bytes | None:
    real = Path(os.path.realpath(root / path))
    if not real.is_relative_to(os.path.realpath(root)):
        raise PathRefused(path=path, cwd=str(root))
    try:
        opened = os.open(
            real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        )  # who waits for a pipe waits for ever
        with os.fdopen(opened, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > READ_LIMIT:
                raise WorkspaceError(detail=f"{path} is not a file of at most {READ_LIMIT} bytes.")
            data = file.read(READ_LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise WorkspaceError(detail=f"{path}: {error.strerror}.") from error
    if len(data) > READ_LIMIT:
        raise WorkspaceError(detail=f"{path} holds more than {READ_LIMIT} bytes.")
    return data


def scene_of(site: Site | None, places: Places, processes: Processes) -> Scene:
    """What inquiries of an attempt look at."""
    return PlaceScene(places, processes) if site is None else SiteScene(site)


@dataclass(frozen=True, slots=True)
class _From:
    """A scene whose harness has gone elsewhere."""

    scene: Scene
    cwd: str

    @property
    def lasts(self) -> bool:
        return self.scene.lasts

    async def read(self, path: str) -> bytes | None:
        if not posixpath.isabs(path) and self.cwd != self.scene.cwd:  # who asks later sees it from there
            raise WorkspaceError(detail=f"{path} is seen from {self.cwd}.")
        return await self.scene.read(path)

    async def run(self, text: str, *, cwd: str = "", timeout_s: float = NOTE_S) -> Ran:
        return await self.scene.run(text, cwd=cwd, timeout_s=timeout_s)


async def noted(inquiry: Inquiry | None, scene: Scene | None, cwd: str = "") -> Witness | None:
    """What will tell whether a call took effect that is about to begin; None where nothing would, for any reason.

    Args:
        cwd: where the harness is, absolute; empty: where the scene says.
    """
    if inquiry is None or scene is None:
        return None
    at = _From(scene, cwd) if posixpath.isabs(cwd) else scene
    found = await within(lambda: inquiry.note(at), NOTE_S)
    return cast("Witness", found) if isinstance(found, dict) else None


async def asked(inquiry: Inquiry, scene: Scene, witness: Witness) -> Answer:
    """Whether a call took effect. Whatever goes wrong is not knowing."""
    found = await within(lambda: inquiry.ask(scene, witness), ASK_S)
    match found:
        case Done() | NotDone() | Unsure() | Partly():
            return found
        case WorkspaceError():
            return Unsure(FAILED.format(why=found))
        case BaseException():
            return Unsure(FAILED.format(why=f"{type(found).__name__}."))
        case _:
            return Unsure(NO_ANSWER)
