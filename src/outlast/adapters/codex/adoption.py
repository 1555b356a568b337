"""A conversation that Codex had by itself, as a session begins with it (`outlast.adopting`)."""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Final

from outlast.adapters.adoptable import Kind, directory_of, is_uuid, still_open
from outlast.adapters.codex.places import FOUNDED, SESSION, rollout_path
from outlast.adapters.codex.rollout import (
    META,
    as_line,
    dangling,
    event_of,
    is_answer,
    item_of,
    parse,
    prompt_of,
)
from outlast.adapters.shapes import Json, as_object
from outlast.adopting import Adopted
from outlast.errors import BadInput

ROLLOUTS: Final = Kind(
    "Codex", "Codex keeps them as ~/.codex/sessions/YEAR/MONTH/DAY/rollout-….jsonl.", parse
)

_PLACES: Final = frozenset({"archived_sessions", "sessions"})
_LOCKS: Final = "thread-writer-locks"
_SETTINGS: Final = "thread_settings_applied"
"""Tells what the user had set. Codex takes it up again, the provider too: no model call would come to the gateway."""
_BASE: Final = "history_base"
_FORKED: Final = (_BASE, "forked_from_id", "forked_from_ordinal_exclusive")
_FORKS: Final = 100
"""How many forks deep a conversation may be; a fork of itself has no end."""


def adopt(transcript: Path, environ: Mapping[str, str]) -> Adopted:
    """See `outlast.adopting.Adopts`."""
    path = transcript.expanduser().resolve()
    records, notes = _records(path)
    about = _about(path, records)
    thread, founded_s = _thread(path, about), _founded_s(path, about)
    homes = list(dict.fromkeys(_homes(path, environ)))
    _refuse_running(path, thread, homes)
    whole = _numbered(about, _said(path, about, records, homes, _FORKS))
    prompts = [text for record in whole if (text := prompt_of(record)) is not None]
    if not prompts:
        raise ROLLOUTS.refuse(path, "nothing is said in it")
    if not _answered(whole):
        notes.append("its last prompt has no answer: the next one goes on behind it")
    return Adopted(
        name=thread,
        prompt=prompts[0],
        cwd=_directory(path, about, whole),
        files={rollout_path(thread, founded_s): [as_line(record) for record in whole]},
        settings={SESSION: thread, FOUNDED: founded_s},
        unanswered=[str(call.get("name") or call.get("type")) for call in dangling(whole)],
        notes=notes,
    )


def _records(path: Path) -> tuple[list[Json], list[str]]:
    if path.suffix == ".zst":
        hint = f"`zstd -d {path.name}`, or going on with it in Codex for once, brings it back."
        raise BadInput(detail=f"{path} was compressed by Codex. {hint}")
    lines, notes = ROLLOUTS.lines(path)
    return parse(lines), notes


def _about(path: Path, records: Sequence[Json]) -> Json:
    """What the first record says of the session."""
    if not records or records[0].get("type") != META:
        raise ROLLOUTS.refuse(path, "it does not begin with what session it is of")
    return as_object(records[0].get("payload"))


def _thread(path: Path, about: Json) -> str:
    """The id of the session, under which Codex finds it."""
    thread = str(about.get("id", ""))
    if not is_uuid(thread):
        raise ROLLOUTS.refuse(path, f"it names its session {thread[:60]!r}")
    spawned = as_object(as_object(about.get("source")).get("subagent"))
    if spawned or about.get("thread_source") == "subagent":
        parent = as_object(spawned.get("thread_spawn")).get("parent_thread_id") or about.get("session_id")
        own = f"rollout-…-{parent}.jsonl" if parent else "another rollout"
        raise BadInput(detail=f"{path} is what a sub-agent did. Name the rollout of its session, {own}.")
    return thread


def _founded_s(path: Path, about: Json) -> float:
    """When the session began, in Unix seconds."""
    try:
        return datetime.fromisoformat(str(about.get("timestamp"))).timestamp()
    except ValueError:
        raise ROLLOUTS.refuse(path, "it does not tell when it began") from None


def _directory(path: Path, about: Json, records: Sequence[Json]) -> str:
    """Where the session works: where its newest turn did."""
    turns = (as_object(record.get("payload")) for record in records if record.get("type") == "turn_context")
    named = [str(one["cwd"]) for one in (about, *turns) if one.get("cwd")]
    if not named:
        raise ROLLOUTS.refuse(path, "it does not tell where it works")
    return directory_of(path, named[-1])


def _said(path: Path, about: Json, records: Sequence[Json], homes: Sequence[Path], deep: int) -> list[Json]:
    """What was said and done, of what a fork goes on from as well: that stands in a file of its own."""
    own = [record for record in records[1:] if record.get("type") != META and event_of(record) != _SETTINGS]
    base = as_object(about.get(_BASE))
    if not base:
        return own
    name, end = str(base.get("thread_id", "")), base.get("end_ordinal_exclusive")
    found = _rollout_of(name, homes)
    if found is None or not isinstance(end, int) or deep == 0:
        hint = "A fork holds only what came after it. Put the rollout of that session back, and adopt again."
        raise BadInput(detail=f"{path} goes on from the session {name}, which is not here. {hint}")
    before, _ = _records(found)
    kept = [record for at, record in enumerate(before) if _ordinal(record, at) < end]
    return [*_said(found, _about(found, before), kept, homes, deep - 1), *own]


def _rollout_of(thread: str, homes: Sequence[Path]) -> Path | None:
    if not is_uuid(thread):
        return None
    found = (home / place for home in homes for place in sorted(_PLACES))
    return next(chain.from_iterable(place.rglob(f"rollout-*-{thread}.jsonl") for place in found), None)


def _ordinal(record: Json, at: int) -> int:
    number = record.get("ordinal")
    return number if isinstance(number, int) else at


def _numbered(about: Json, said: Sequence[Json]) -> list[Json]:
    """The records of one rollout, numbered without a gap; those of older versions have no numbers."""
    stamp = str(about.get("timestamp"))
    session = {name: value for name, value in about.items() if name not in _FORKED}
    records = [{"timestamp": stamp, "type": META, "payload": session}, *said]
    return [{**record, "ordinal": at} for at, record in enumerate(records)]


def _answered(records: Sequence[Json]) -> bool:
    """Whether the model has said anything since the last prompt."""
    for record in reversed(records):
        item = item_of(record)
        if is_answer(item) or record.get("type") == "compacted":
            return True
        if prompt_of(record) is not None:
            return False
    return True


def _homes(path: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Directories in which Codex may keep what belongs to a rollout."""
    yield from (one.parent for one in path.parents if one.name in _PLACES)
    if environ.get("CODEX_HOME"):
        yield Path(environ["CODEX_HOME"]).resolve()
    if environ.get("HOME"):
        yield Path(environ["HOME"], ".codex").resolve()


def _refuse_running(path: Path, thread: str, homes: Sequence[Path]) -> None:
    """Return if no Codex has the session open: it holds a lock, and the rollout, from its first turn to its end.

    Raises:
        BadInput
    """
    locks = [home / _LOCKS / f"{thread}.lock" for home in homes]
    held = any(_is_held(lock) for lock in locks)
    pid = _writer_of({str(path), *map(str, locks)})
    if held or pid is not None:
        raise still_open("Codex", thread, "a process" if pid is None else f"process {pid}")


def _is_held(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is none: it has ended, or is of a version that has no locks
        return False
    return False


def _writer_of(files: set[str]) -> int | None:
    """A process that has one of the files open to write; None where none has, or nothing tells."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(link.readlink()) in files and _writes(link):
                return int(link.parent.parent.name)
        except OSError:  # it has ended or closed it, or is another user's
            continue
    return None


def _writes(link: Path) -> bool:
    told = (link.parent.parent / "fdinfo" / link.name).read_text(encoding="utf-8")
    flags = next((line.split()[1] for line in told.splitlines() if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
