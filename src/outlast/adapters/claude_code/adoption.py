"""A conversation that Claude Code had by itself, as a session begins with it (`outlast.adopting`)."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from outlast.adapters.adoptable import Kind, directory_of, is_uuid, still_open
from outlast.adapters.claude_code.files import KEPT_BYTES, as_text
from outlast.adapters.claude_code.places import slug, transcript_path
from outlast.adapters.claude_code.transcript import blocks, dangling, parse
from outlast.adapters.shapes import Json, as_object
from outlast.adopting import Adopted
from outlast.errors import BadInput

TRANSCRIPTS: Final = Kind(
    "Claude Code", "Claude Code keeps them as ~/.claude/projects/DIRECTORY/SESSION.jsonl.", parse
)

_UNUSED: Final = "api-request"
"""Begins the type of records that Claude Code neither mirrors nor needs: a copy of each request."""
_BESIDE: Final = ("subagents", "tool-results")


def adopt(transcript: Path, home: Path, environ: Mapping[str, str]) -> Adopted:
    """See `outlast.adopting.Adopts`."""
    path = transcript.expanduser().resolve()
    lines, notes = TRANSCRIPTS.lines(path)
    records = parse(lines)
    session = _session(path, records)
    _refuse_running(session, _configurations(path, environ))
    cwd = _directory(path, records)
    kept = [
        line for line, one in zip(lines, records, strict=True) if not str(one.get("type")).startswith(_UNUSED)
    ]
    below = transcript_path(cwd, session)
    files = {below: kept, **dict(_beside(path, below, notes))}
    old, new = path.with_suffix(""), home / below.removesuffix(".jsonl")
    return Adopted(
        name=session,
        prompt=_prompt(records),
        cwd=cwd,
        files={name: _moved(text, old, new) for name, text in files.items()},
        settings={"session": session},
        unanswered=[use.name for use in dangling(records)],
        notes=notes,
    )


def _session(path: Path, records: Sequence[Json]) -> str:
    """The UUID of the session, under which Claude Code finds it."""
    said = [record for record in records if record.get("type") in {"user", "assistant"}]
    names = [str(record["sessionId"]) for record in records if record.get("sessionId")]
    if not names or not any(blocks(record) or record.get("message") for record in said):
        raise TRANSCRIPTS.refuse(path, "nothing is said in it")
    if all(record.get("isSidechain") for record in said):
        own = f"{names[-1]}.jsonl"
        raise BadInput(detail=f"{path} is what a sub-agent did. Name the transcript of its session, {own}.")
    name = path.stem if is_uuid(path.stem) else names[-1]
    if not is_uuid(name):
        raise TRANSCRIPTS.refuse(path, f"it names its session {name[:60]!r}")
    return name


def _directory(path: Path, records: Sequence[Json]) -> str:
    """Where the session works: not where one of its commands went for a while."""
    named = list(dict.fromkeys(str(record["cwd"]) for record in records if record.get("cwd")))
    if not named:
        raise TRANSCRIPTS.refuse(path, "it does not tell where it works")
    cwd = next((one for one in named if slug(one) == path.parent.name), named[0])
    return directory_of(path, cwd)


def _prompt(records: Sequence[Json]) -> str:
    for record in records:
        if record.get("type") != "user" or record.get("isMeta"):
            continue
        content = as_object(record.get("message")).get("content")
        texts = [content] if isinstance(content, str) else [str(b.get("text") or "") for b in blocks(record)]
        if any(texts):
            return " ".join(texts)
    return ""


def _beside(path: Path, below: str, notes: list[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """What Claude Code keeps beside the transcript: what sub-agents did, and results too large for a request."""
    folder, place = path.with_suffix(""), below.removesuffix(".jsonl")
    found = (one for name in _BESIDE for one in sorted((folder / name).rglob("*")) if one.is_file())
    for file in found:
        data = file.read_bytes()
        if len(data) > KEPT_BYTES:
            notes.append(f"{file} is larger than {KEPT_BYTES:,} bytes and is left out")
            continue
        name, text = as_text(f"{place}/{file.relative_to(folder).as_posix()}", data)
        if not name.endswith(".jsonl"):
            yield name, [text]
        else:
            yield name, text.split("\n")[: len(parse(text.split("\n")))]


def _moved(lines: Sequence[str], old: Path, new: Path) -> Sequence[str]:
    """The lines with the session's own large results where they will be."""
    before, after = (msgspec.json.encode(f"{one}/tool-results/").decode()[1:-1] for one in (old, new))
    return [line.replace(before, after) for line in lines]


def _configurations(path: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Directories in which a Claude Code that still goes on with the transcript would say so."""
    if path.parent.parent.name == "projects":
        yield path.parent.parent.parent
    if environ.get("CLAUDE_CONFIG_DIR"):
        yield Path(environ["CLAUDE_CONFIG_DIR"])
    if environ.get("HOME"):
        yield Path(environ["HOME"], ".claude")


def _refuse_running(session: str, configurations: Iterator[Path]) -> None:
    """Return if no process says that it has the session open.

    Raises:
        BadInput
    """
    for file in (one for place in configurations for one in sorted((place / "sessions").glob("*.json"))):
        try:
            said = as_object(msgspec.json.decode(file.read_bytes()))
        except (OSError, msgspec.DecodeError):
            continue  # it ended meanwhile, or writes at this moment: another of its files says it as well
        pid = said.get("pid")
        if said.get("sessionId") == session and isinstance(pid, int) and _lives(pid, said.get("procStart")):
            state = f"process {pid}, {said.get('status') or 'running'}"
            raise still_open("Claude Code", session, state)


def _lives(pid: int, began: object) -> bool:
    """Whether the process is there, and the very one: numbers are used again."""
    try:
        stat = Path("/proc", str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return not Path("/proc/self").exists() and _answers(pid)
    fields = stat.rpartition(")")[2].split()
    return fields[0] not in {"Z", "X"} and (not began or fields[19] == str(began))


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
