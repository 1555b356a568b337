"""Where on this machine the files of a session are, and how they come to be there."""

from pathlib import Path

from outlast.adapter import Places
from outlast.fold import SessionState


def places_of(data: Path, state: SessionState) -> Places:
    """Where an attempt of this session works; what the session does not say lies below `data`."""
    opened = state.opened
    cwd = Path(opened.cwd) if opened is not None and opened.cwd else data / "workspaces" / state.session
    home = Path(opened.home) if opened is not None and opened.home else data / "homes" / state.session
    return Places(cwd, home)


def is_ours(state: SessionState) -> bool:
    """The session works in a directory that the worker makes for it, not in a user's own."""
    return state.opened is None or not state.opened.cwd


def make_places(places: Places, *, workspace: bool) -> None:
    """Make the directories of an attempt, `workspace` among them."""
    if workspace:
        places.cwd.mkdir(parents=True, exist_ok=True)
    places.home.mkdir(parents=True, exist_ok=True, mode=0o700)
