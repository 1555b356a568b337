"""The files that an agent keeps of its session, mirrored below HOME: those that its user names.

Lines that an agent appends to a `.jsonl` file are mirrored as they come; of any other file the blocks that have
changed, and an SQLite database as its own backup sees it, with what still stands in its write-ahead log. A file that
is gone has no lines in the mirror.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import apsw

from outlast.adapter import Attempt
from outlast.adapters.acp.blocks import Kept, pack, unpack
from outlast.adapters.shapes import as_object
from outlast.beneath import Beneath
from outlast.errors import HarnessError

PACKED: Final = "#zlib"
"""Ends the name, in the mirror, of a file whose content is kept (`blocks`), not its lines."""
OURS: Final = ".outlast-acp.json"
"""What we keep beside: the agent's name for the session, and the newest prompt that it was given."""
KEPT_BYTES: Final = 64 * 1024 * 1024
"""Of one file; a larger one is an error, since without it the session could not be brought back."""
_SQLITE: Final = b"SQLite format 3\0"
_BESIDE: Final = ("-wal", "-shm", "-journal")
"""Ends the names of files that belong to a database: what they hold is in its backup."""


class SessionFiles:
    """The mirrored files of one session, in one attempt.

    Args:
        patterns: of paths below HOME, `.local/share/opencode/*.db`.
    """

    def __init__(self, attempt: Attempt, patterns: Sequence[str]) -> None:
        self._attempt = attempt
        self._patterns = patterns
        self._seen: dict[str, object] = {}
        """By name in the mirror: what the state of the file was that is mirrored there."""
        self._kept: dict[str, Kept] = {}
        """By name in the mirror: what it has of a file's content."""
        self._lines: dict[str, Sequence[str]] = {}
        """By name in the mirror: the lines of a `.jsonl` file. An agent may write some of them anew."""
        self._noted: Mapping[str, Any] = {}
        self._one_at_a_time = anyio.Lock()
        self._home = Beneath(attempt.places.home)

    @property
    def agent_session(self) -> str:
        """The agent's own name for the session; empty if it has none yet."""
        return str(self._noted.get("session", ""))

    def was_asked(self, prompt: str) -> bool:
        """Whether the agent has begun with this input, as far as the mirror goes."""
        return self._noted.get("input") == prompt

    async def restore(self) -> None:
        """Bring what the patterns name to where the mirror is: nothing else of an earlier attempt stays."""
        mirrored = dict(await self._attempt.mirrored())
        if noted := mirrored.pop(OURS, None):
            self._noted = as_object(json.loads(noted[0]))
        await anyio.to_thread.run_sync(self._lay_out, mirrored)

    def _lay_out(self, mirrored: Mapping[str, Sequence[str]]) -> None:
        for path in list(self._found(with_beside=True)):
            self._home.remove(path)
        for name, lines in mirrored.items():
            if not lines:  # it was gone
                continue
            target = name.removesuffix(PACKED)
            if name.endswith(PACKED):
                data, self._kept[name] = unpack(lines)
                self._home.write(target, data)
            else:
                self._home.write(target, "".join(f"{line}\n" for line in lines).encode())
                self._lines[name] = lines
            self._seen[name] = self._state(target)

    async def note(self, session: str, prompt: str = "") -> None:
        """Keep the agent's name for the session, and the input that it was given. Durable."""
        noted = {"session": session, "input": prompt or self._noted.get("input", "")}
        if noted != self._noted:
            self._noted = noted
            await self._attempt.mirror(OURS, 0, [json.dumps(noted)], durable=True)

    async def mirror(self) -> None:
        """Mirror what has changed. One at a time: what was read later must not come before what was read first."""
        async with self._one_at_a_time:
            changed, gone = await anyio.to_thread.run_sync(self._changes)
            for name, (path, state) in changed.items():
                if path.suffix == ".jsonl":
                    await self._mirror_lines(name, path)
                else:
                    await self._mirror_content(name, path)
                self._seen[name] = state
            for name in gone:
                await self._attempt.mirror(name, 0, [])
                del self._seen[name]
                self._kept.pop(name, None)
                self._lines.pop(name, None)

    def _changes(self) -> tuple[Mapping[str, tuple[Path, object]], Sequence[str]]:
        """The files that are others than those in the mirror, by their names there, and the names of those gone."""
        there: dict[str, tuple[Path, object]] = {}
        for path in self._found():
            name = str(path.relative_to(self._attempt.places.home))
            there[name if path.suffix == ".jsonl" else name + PACKED] = path, self._state(name)
        changed = {name: one for name, one in there.items() if self._seen.get(name) != one[1]}
        return changed, [name for name in self._seen if name not in there]

    async def _mirror_lines(self, name: str, path: Path) -> None:
        known = self._lines.get(name, [])
        # In a thread, as everything that goes through a whole file: a second of it, and no worker would be heard of.
        at, lines = await anyio.to_thread.run_sync(_read_lines, self._home, path, known)
        if at < max(len(lines), len(known)):  # an agent may also take some away
            await self._attempt.mirror(name, at, lines[at:])
        self._lines[name] = lines

    async def _mirror_content(self, name: str, path: Path) -> None:
        at, lines, kept = await anyio.to_thread.run_sync(
            lambda: pack(_content_of(self._home, path), self._kept.get(name))
        )
        if lines:
            await self._attempt.mirror(name, at, lines)
        self._kept[name] = kept

    def _found(self, *, with_beside: bool = False) -> Iterator[Path]:
        home = self._attempt.places.home
        for pattern in self._patterns:
            for path in sorted(home.glob(pattern)):
                if not path.name.endswith(_BESIDE) and self._is_own(path):
                    yield path
                    yield from (one for one in _beside(path) if with_beside and self._is_own(one))

    def _is_own(self, path: Path) -> bool:
        """It is a file, and no link leads there: else it may be anybody's."""
        try:
            return self._home.find(path) is not None
        except (HarnessError, PermissionError):
            return False

    def _state(self, name: str) -> object:
        """Differs when the file, or what belongs to it, was written."""
        path = self._attempt.places.home / name
        found = [self._home.find(one) for one in (path, *_beside(path)) if self._is_own(one)]
        return [(one.st_mtime_ns, one.st_size) for one in found if one is not None]


def link(home: Path, links: Mapping[str, str]) -> None:
    """Let paths below HOME lead elsewhere; what is not there is not shown."""
    for name, elsewhere in links.items():
        target = Path(elsewhere).expanduser()
        if target.exists() and not (home / name).exists():
            Beneath(home).link(name, target)


def write_files(home: Path, files: Mapping[str, str]) -> None:
    """Write configuration below HOME, the same at every start, for this user's eyes: it may hold the token."""
    for name, text in files.items():
        Beneath(home).write(name, text.encode())


def _beside(path: Path) -> Iterator[Path]:
    return (path.with_name(path.name + ending) for ending in _BESIDE)


def _read_lines(home: Beneath, path: Path, known: Sequence[str]) -> tuple[int, Sequence[str]]:
    """The whole lines of a file, and the first that is another than in `known`."""
    # What comes behind the last end of a line is not whole yet, perhaps in the middle of a sign.
    whole, end, _torn = _bounded(home, path).rpartition(b"\n")
    lines = whole.decode(errors="replace").split("\n") if end else []
    pairs = enumerate(zip(lines, known, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(lines), len(known)))
    return at, lines


def _content_of(home: Beneath, path: Path) -> bytes:
    """A file's content; of a database, what its own backup has.

    Raises:
        HarnessError: it is too large.
    """
    if home.read(path, most=len(_SQLITE)) == _SQLITE:
        return _judged(path, _backup(path))
    return _bounded(home, path)


def _bounded(home: Beneath, path: Path) -> bytes:
    return _judged(path, home.read(path, most=KEPT_BYTES + 1))


def _judged(path: Path, data: bytes) -> bytes:
    if len(data) > KEPT_BYTES:
        hint = f"{KEPT_BYTES // 1024**2} MB is the most. Leave it out of the agent's `files`, or tidy it up"
        raise HarnessError(harness="the agent", reason=f"{path} is too large to be mirrored: {hint}")
    return data


def _backup(path: Path) -> bytes:
    copy = apsw.Connection(":memory:")
    how = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    source = apsw.Connection(str(path.parent.resolve() / path.name), flags=how)
    try:
        source.set_busy_timeout(5_000)
        with copy.backup("main", source, "main") as backup:
            backup.step()
        return copy.serialize("main")
    finally:
        source.close()
        copy.close()
