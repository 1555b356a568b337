"""A conversation that Pi had by itself, as a session begins with it (`outlast.adopting`)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from outlast.adapters.adoptable import Kind, directory_of
from outlast.adapters.pi import session
from outlast.adapters.pi.launch import APIS, HOME, provider, session_path
from outlast.adapters.shapes import Json, as_objects
from outlast.adopting import Adopted
from outlast.errors import BadInput

SESSIONS: Final = Kind(
    "Pi", "Pi keeps them as ~/.pi/agent/sessions/--DIRECTORY--/TIME_SESSION.jsonl.", session.parse, "session"
)

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""What Pi takes for the id of a session; the name of its file is made of it."""
_TITLES: Final = frozenset({"pi", "pi-rpc"})
"""What Pi calls its process, whatever its command line was."""
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Asks:
    """Whom a session of Pi asks by default."""

    api: str
    model: str


def adopt(transcript: Path, asks: Asks) -> Adopted:
    """See `outlast.adopting.Adopts`."""
    path = transcript.expanduser().resolve()
    lines, notes = SESSIONS.lines(path)
    if not lines:
        raise SESSIONS.refuse(path, "it has no whole line")
    entries = session.parse(lines)
    name = _name(path, entries[0])
    branch = session.branch(entries)
    if not any(session.message_of(entry).get("role") in {"user", "assistant"} for entry in branch):
        raise SESSIONS.refuse(path, "nothing is said in it")
    cwd = _directory(path, entries[0])
    _refuse_running(path, cwd)
    chosen, note = _asked(branch, asks)
    return Adopted(
        name=name,
        prompt=_prompt(branch),
        cwd=cwd,
        files={session_path(name): lines},
        settings={"session": name, **chosen},
        unanswered=[call.name for call in session.dangling(entries)],
        notes=[*notes, *note],
    )


def _name(path: Path, header: Json) -> str:
    """The id of the session, under which Pi goes on with it."""
    name = header.get("id")
    if header.get("type") != "session" or not isinstance(name, str):
        raise SESSIONS.refuse(path, "its first line is no header of a session")
    if _NAME.fullmatch(name) is None:
        raise SESSIONS.refuse(path, f"it names its session {name[:60]!r}")
    version = header.get("version", 1)
    if version != session.VERSION:
        hint = "A Pi of this version converts it: open it once with `pi --session`, and end that again."
        newer = isinstance(version, int) and version > session.VERSION
        told = "It takes a newer outlast." if newer else hint
        raise BadInput(
            detail=f"{path} is in version {version} of Pi's format, and outlast reads {session.VERSION}. {told}"
        )
    return name


def _directory(path: Path, header: Json) -> str:
    cwd = header.get("cwd")
    if not isinstance(cwd, str) or not cwd:
        raise SESSIONS.refuse(path, "it does not tell where it works")
    return directory_of(path, cwd)


def _prompt(branch: Sequence[Json]) -> str:
    for entry in branch:
        message = session.message_of(entry)
        if message.get("role") == "user":
            content = message.get("content")
            texts = [str(block.get("text") or "") for block in as_objects(content)]
            said = content if isinstance(content, str) else " ".join(filter(None, texts))
            if said:
                return said
    return ""


def _asked(branch: Sequence[Json], asks: Asks) -> tuple[Mapping[str, str], Sequence[str]]:
    """The model and API that the session goes on with, where they are not chosen, and what is to be said of it."""
    if asks.model:
        return {}, ()
    answers = [
        message for entry in branch if (message := session.message_of(entry)).get("role") == "assistant"
    ]
    last: Mapping[str, Any] = answers[-1] if answers else {}
    api, model, whom = (str(last.get(key) or "") for key in ("api", "model", "provider"))
    if not model:
        return {}, ()
    if api in APIS and provider(api) == whom:
        return {"api": api, "model": model}, ()
    told = (
        f"it asked {model} of {whom or 'nobody who is named'}; whom it asks now is yours to say: `--model`, "
    )
    return {}, [f"{told}and an agent of your own for another API than {asks.api}"]


def _refuse_running(path: Path, cwd: str) -> None:
    """Return if no Pi runs that may have the session open: none says which it has.

    Raises:
        BadInput
    """
    for pid in _programs(cwd):
        hint = "End it first: two would go on with one conversation, each without the other's half."
        running = f"a Pi runs in {cwd} (process {pid}), and Pi tells nobody which session it has open"
        raise BadInput(detail=f"{path} may still be open: {running}. {hint}")


def _programs(cwd: str) -> Iterator[int]:
    """Processes of Pi that work in a directory, but for those that outlast has started."""
    pids = (
        sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()) if _PROC.is_dir() else ()
    )
    for pid in pids:
        place = _PROC / str(pid)
        try:
            if (place / "comm").read_text(encoding="utf-8", errors="replace").strip() not in _TITLES:
                continue
            works_in, environ = str((place / "cwd").readlink()), (place / "environ").read_bytes()
        except OSError:
            continue  # it has ended meanwhile, or is another user's
        if works_in == cwd and f"/{HOME}/".encode() not in environ:
            yield pid
