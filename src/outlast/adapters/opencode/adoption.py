"""A conversation that OpenCode had by itself, as a session begins with it (`outlast.adopting`)."""

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from outlast.adapters.adoptable import directory_of, still_open
from outlast.adapters.opencode.events import as_line, is_ended, path_of
from outlast.adapters.opencode.launch import model_name
from outlast.adapters.opencode.names import message_id
from outlast.adapters.opencode.store import (
    MAGIC,
    Conversation,
    database_of,
    exported,
    holder_of,
    roots,
    stored,
)
from outlast.adapters.shapes import Json, as_object, as_objects
from outlast.adopting import Adopted
from outlast.errors import BadInput

_NAME: Final = re.compile(r"ses_[A-Za-z0-9]+")
_UNLISTED: Final = 5
_LEFT: Final = frozenset({"share", "summary"})
"""What of a session is not its copy's: the address under which the user has published it, and what git said of it."""
_PLAN: Final = "plan"


def adopt(transcript: Path, environ: Mapping[str, str]) -> Adopted:
    """See `outlast.adopting.Adopts`."""
    found, database = _found(transcript, environ)
    own = found[0]
    if own.info.get("parentID"):
        hint = f"Name the session that it belongs to, {own.info['parentID']}."
        raise BadInput(detail=f"{own.id} is what a sub-agent did. {hint}")
    if not any(_said(own)):
        raise BadInput(detail=f"In {own.id} of OpenCode nothing is said.")
    cwd = directory_of(own.id, str(own.info.get("directory", "")))
    holder = holder_of(database, Path(cwd))
    if holder is not None:
        raise still_open("OpenCode", own.id, f"process {holder}")
    model, notes = _model(own)
    agent = {"agent": _PLAN} if _last(own).get("agent") == _PLAN else {}
    return Adopted(
        name=own.id,
        prompt=next(iter(_said(own)), ""),
        cwd=cwd,
        files={path_of(one.id): [as_line(event) for event in events_of(one)] for one in found},
        settings={"session": own.id, **model, **agent},
        unanswered=[str(part.get("tool", "")) for part in _parts(own) if _dangles(part)],
        notes=notes,
    )


def _found(transcript: Path, environ: Mapping[str, str]) -> tuple[Sequence[Conversation], Path]:
    """What the user names, and the database that OpenCode goes on with it in."""
    database = database_of(environ)
    try:
        with transcript.expanduser().open("rb") as file:
            head = file.read(len(MAGIC))
            if head != MAGIC:
                own = exported(head + file.read())
                if own is None:
                    raise _no_transcript(transcript)
                return [own], database
    except FileNotFoundError:
        if _NAME.fullmatch(str(transcript)) is None:
            raise BadInput(detail=f"{transcript} is not there.") from None
        return _of_database(database, str(transcript)), database
    except OSError as error:
        raise BadInput(detail=f"{transcript} cannot be read: {error.strerror}.") from error
    database = transcript.expanduser()
    return _of_database(database, None), database


def _of_database(database: Path, session: str | None) -> Sequence[Conversation]:
    if not database.is_file():
        raise BadInput(detail=f"OpenCode keeps nothing in {database}. Name its database, or what it exports.")
    try:
        name = session or _only(database)
        found = stored(database, name)
    except sqlite3.Error as error:
        raise BadInput(detail=f"{database} is no database that OpenCode has written: {error}.") from error
    if not found:
        raise BadInput(detail=f"{database} holds no session {name}. `opencode session list` names them.")
    return found


def _only(database: Path) -> str:
    """The one session of a database.

    Raises:
        BadInput: there are several, or none.
    """
    known = roots(database)
    if len(known) == 1:
        return known[0].id
    named = "; ".join(f"{one.id} ({one.title!r} in {one.directory})" for one in known[:_UNLISTED])
    hint = f"Name one of them instead of the file: {named}" if known else "There is nothing to adopt"
    raise BadInput(detail=f"{database} holds {len(known)} sessions. {hint}.")


def _no_transcript(path: Path) -> BadInput:
    hint = "Name a session (ses_…), its database, or a file that `opencode export` has written."
    return BadInput(detail=f"{path} is no session of OpenCode. {hint}")


def _parts(own: Conversation) -> Iterator[Json]:
    for message in own.messages:
        yield from as_objects(message.get("parts"))


def _said(own: Conversation) -> Iterator[str]:
    """What the user said, message by message."""
    for message in own.messages:
        if as_object(message.get("info")).get("role") == "user":
            parts = as_objects(message.get("parts"))
            text = " ".join(
                str(part.get("text", ""))
                for part in parts
                if part.get("type") == "text" and not part.get("synthetic")
            )
            if text:
                yield text


def _dangles(part: Json) -> bool:
    return part.get("type") == "tool" and not is_ended(part)


def _last(own: Conversation) -> Json:
    """The last message of the user."""
    infos = [as_object(message.get("info")) for message in own.messages]
    said = [info for info in infos if info.get("role") == "user"]
    return said[-1] if said else {}


def _model(own: Conversation) -> tuple[Mapping[str, str], Sequence[str]]:
    """The setting by which it goes on with the model that it was had with, or a note why it cannot."""
    said = as_object(_last(own).get("model"))
    provider, model = str(said.get("providerID", "")), str(said.get("modelID", ""))
    if not provider or not model:
        return {}, []
    name = model_name(f"{provider}/{model}")
    if name is not None and name.provider == provider:
        return {"model": f"{provider}/{model}"}, []
    note = (
        f"it was had with {model} of {provider}, which outlast does not speak with: name a model with --model"
    )
    return {}, [note]


def events_of(own: Conversation) -> list[Json]:
    """The event log that leaves a session just as it stands: what `import` makes of an export is none to go on from."""
    info = {name: value for name, value in own.info.items() if name not in _LEFT}
    told: list[tuple[str, dict[str, Any]]] = [("session.created.1", {"info": info})]
    for message in own.messages:
        about = as_object(message.get("info"))
        at_ms = as_object(about.get("time")).get("created", 0)
        told.append(("message.updated.1", {"info": about}))
        told += [
            ("message.part.updated.1", {"part": part, "time": at_ms})
            for part in as_objects(message.get("parts"))
        ]
    begun_s = float(as_object(own.info.get("time")).get("created", 0)) / 1000
    return [
        {
            "id": _event_id(own.id, seq, begun_s),
            "seq": seq,
            "type": kind,
            "data": {"sessionID": own.id, **data},
        }
        for seq, (kind, data) in enumerate(told)
    ]


def _event_id(session: str, seq: int, at_s: float) -> str:
    return f"evt_{message_id(f'{session} {seq}', at_s).removeprefix('msg_')}"
