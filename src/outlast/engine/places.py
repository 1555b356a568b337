"""Where on this machine the files of a session are, and how they come to be there.

Several Worlds and tenants may use one data directory, and a session's id is its own only within one tenant of one
World. So a session names its directories itself: `Session.open` records a random name, as part of commit 1. The name is
the same from every process and machine, by whatever address they reach the World; it stays when the World is moved,
and no other session has it, not even one of the same id in a World made anew at the same place. Only a copy of a World
shares it.

Logs older than that name have their directories under the session's id alone.
"""

import re
from pathlib import Path
from shutil import rmtree
from typing import Final

from outlast.adapter import Places
from outlast.fold import SessionState
from outlast.folders import make_private
from outlast.ids import new_id
from outlast.records import SessionOpened

HOMES: Final = "homes"
WORKSPACES: Final = "workspaces"
EMPTY: Final = ".outlast-empty"
"""Name below a session's home, which may be the user's own, of the directory of a program that has no files."""


def places_of(data: Path, state: SessionState) -> Places:
    """Where an attempt of this session works; what the session does not say lies below `data`."""
    opened = state.opened or SessionOpened(state.session, "", "")
    return Places(_workspace(data, state.session, opened), _home(data, state.session, opened))


def fresh_home(data: Path, session: str) -> Path:
    """A home below `data` that no session has had yet, for `Session.open` to record."""
    return data.absolute() / HOMES / new_id(session)


def made_for(data: Path, session: str, opened: SessionOpened) -> list[Path]:
    """The directories below `data` that were made for this session alone; its erasure removes them.

    What it was given stays, and so does whatever is not named as we name what we make: a log may come from elsewhere.
    """
    made: list[Path] = []
    home, workspace = _home(data, session, opened), _workspace(data, session, opened)
    if _is_ours(home, data / HOMES, session):
        made.append(home)
    if not opened.cwd and _is_ours(workspace, data / WORKSPACES, session):
        made.append(workspace)
    return made


def is_ours(state: SessionState) -> bool:
    """The session works in a directory that the worker makes for it, not in a user's own."""
    return state.opened is None or not state.opened.cwd


def make_places(places: Places, *, workspace: bool) -> None:
    """Make the directories of an attempt, `workspace` among them."""
    if workspace:
        places.cwd.mkdir(parents=True, exist_ok=True)
    make_private(places.home)


def empty_of(places: Places) -> Places:
    """Where a program works that reaches no file of this machine (`outlast.offering`)."""
    return Places(places.home / EMPTY, places.home)


def make_empty(places: Places) -> None:
    """Make the directories of such an attempt: nothing is in the one in which it works."""
    make_private(places.home)
    rmtree(places.cwd, ignore_errors=True)
    make_private(places.cwd)


def _home(data: Path, session: str, opened: SessionOpened) -> Path:
    return Path(opened.home) if opened.home else data.absolute() / HOMES / (opened.folder or session)


def _workspace(data: Path, session: str, opened: SessionOpened) -> Path:
    return Path(opened.cwd) if opened.cwd else data.absolute() / WORKSPACES / (opened.folder or session)


def _is_ours(path: Path, within: Path, session: str) -> bool:
    """`path` lies directly in `within` and has a name that we give to a directory of `session`."""
    if path.name != session and not re.fullmatch(rf"{re.escape(session)}-[a-z2-7]{{16}}", path.name):
        return False
    try:
        return path.parent.samefile(within)  # by whatever name the data directory is reached
    except (OSError, ValueError):
        return False  # it is not there
