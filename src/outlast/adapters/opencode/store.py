"""What OpenCode keeps of a user's conversations: one database of all, or what `opencode export` says.

Reads only. A session is given as `opencode export` gives it: `{info, messages: [{info, parts}]}`.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from outlast.adapters.shapes import Json, as_object, as_objects

MAGIC: Final = b"SQLite format 3\x00"
"""How a database begins (SQLite, "Database File Format", 1.3)."""
_SERVING: Final = frozenset({b"serve", b"web", b"acp"})
_ROOTS: Final = "select id, title, directory from session where parent_id is null order by time_updated desc"
_BELOW: Final = """with recursive below(id) as (
    select id from session where id = ? union select session.id from session join below on parent_id = below.id
) select session.* from below join session using (id)"""
_MESSAGES: Final = "select id, data from message where session_id = ? order by time_created, id"
_PARTS: Final = "select id, message_id, data from part where session_id = ? order by message_id, id"
_PLAIN: Final[Mapping[str, str]] = {
    "id": "id",
    "slug": "slug",
    "project_id": "projectID",
    "workspace_id": "workspaceID",
    "parent_id": "parentID",
    "directory": "directory",
    "path": "path",
    "title": "title",
    "agent": "agent",
    "version": "version",
}
_NESTED: Final = ("metadata", "model", "permission", "revert")


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session of OpenCode's."""

    info: Json
    messages: Sequence[Json]

    @property
    def id(self) -> str:
        return str(self.info.get("id", ""))


@dataclass(frozen=True, slots=True)
class Root:
    """A session that is no sub-agent's, as a list names it."""

    id: str
    title: str
    directory: str


def database_of(environ: Mapping[str, str]) -> Path:
    """Where OpenCode keeps the sessions of the user with this environment."""
    data = environ.get("XDG_DATA_HOME") or str(Path(environ.get("HOME") or "~", ".local", "share"))
    return Path(data, "opencode", environ.get("OPENCODE_DB") or "opencode.db").expanduser()


def exported(text: bytes) -> Conversation | None:
    """What `opencode export` has written; None if it is something else."""
    try:
        found = as_object(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    info = as_object(found.get("info"))
    if not str(info.get("id", "")).startswith("ses_") or "messages" not in found:
        return None
    return Conversation(info, as_objects(found["messages"]))


def roots(database: Path) -> Sequence[Root]:
    """The sessions in it, newest first, without those of sub-agents.

    Raises:
        sqlite3.Error: it is no database of OpenCode's.
    """
    with closing(_open(database)) as rows:
        return [Root(str(id), str(title), str(place)) for id, title, place in rows.execute(_ROOTS)]  # noqa: A001 - as it is called there


def stored(database: Path, session: str) -> Sequence[Conversation]:
    """A session and those of its sub-agents, it first; nothing if it is not there.

    Raises:
        sqlite3.Error: it is no database of OpenCode's.
    """
    with closing(_open(database)) as rows:
        infos = [_info(row) for row in rows.execute(_BELOW, (session,)).fetchall()]
        infos.sort(key=lambda info: info["id"] != session)
        return [Conversation(info, list(_messages(rows, str(info["id"])))) for info in infos]


def _open(database: Path) -> sqlite3.Connection:
    rows = sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)
    rows.row_factory = sqlite3.Row
    return rows


def _info(row: sqlite3.Row) -> Json:
    """A session, from its row."""
    info: Json = {name: row[column] for column, name in _PLAIN.items() if _has(row, column)}
    info |= {name: msgspec.json.decode(row[name]) for name in _NESTED if _has(row, name)}
    info["cost"] = row["cost"]
    info["tokens"] = {
        **{name: row[f"tokens_{name}"] for name in ("input", "output", "reasoning")},
        "cache": {name: row[f"tokens_cache_{name}"] for name in ("read", "write")},
    }
    info["time"] = {"created": row["time_created"], "updated": row["time_updated"]}
    return info


def _has(row: sqlite3.Row, column: str) -> bool:
    return column in row.keys() and row[column] is not None  # noqa: SIM118 - `in` of a row looks at its values


def _messages(rows: sqlite3.Connection, session: str) -> Iterator[Json]:
    parts: dict[str, list[Json]] = {}
    for part in rows.execute(_PARTS, (session,)):
        own = {"id": part["id"], "sessionID": session, "messageID": part["message_id"]}
        parts.setdefault(part["message_id"], []).append({**_decoded(part["data"]), **own})
    for message in rows.execute(_MESSAGES, (session,)):
        own = {"id": message["id"], "sessionID": session}
        yield {"info": {**_decoded(message["data"]), **own}, "parts": parts.get(message["id"], [])}


def _decoded(text: Any) -> Json:
    return as_object(msgspec.json.decode(text))


def holder_of(database: Path, directory: Path) -> int | None:
    """A process that has the database open and may go on with a session of this directory; None if none is seen.

    One that works in a directory of its own elsewhere, and serves nobody, goes on with another session.
    """
    wanted = os.path.realpath(database)
    for process in (one for one in Path("/proc").glob("[0-9]*") if one.name != str(os.getpid())):
        try:
            holds = any(os.path.realpath(file) == wanted for file in (process / "fd").iterdir())
            if holds and (_serves(process) or _near((process / "cwd").resolve(), directory)):
                return int(process.name)
        except OSError:  # it has ended meanwhile, or is somebody else's
            continue
    return None


def _serves(process: Path) -> bool:
    return not _SERVING.isdisjoint((process / "cmdline").read_bytes().split(b"\0")[1:])


def _near(place: Path, directory: Path) -> bool:
    return place.is_relative_to(directory) or directory.is_relative_to(place)
