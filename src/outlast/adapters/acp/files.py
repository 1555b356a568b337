"""The files that an agent keeps of its session, mirrored below HOME: those that its user names.

Lines that an agent appends to a `.jsonl` file are mirrored as they come; of any other file the blocks that have
changed, and an SQLite database as its own backup sees it, with what still stands in its write-ahead log. A file that
is gone has no lines in the mirror.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import apsw

from outlast.adapter import Attempt
from outlast.adapters.acp.blocks import Kept, pack, unpack
from outlast.adapters.shapes import as_object
from outlast.errors import HarnessError
from outlast.folders import make_private

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
        home = self._attempt.places.home
        for path in list(self._found(with_beside=True)):
            path.unlink()
        for name, lines in mirrored.items():
            if not lines:  # it was gone
                continue
            target = _below(home, name.removesuffix(PACKED))
            make_private(target.parent)
            if name.endswith(PACKED):
                data, self._kept[name] = unpack(lines)
                target.write_bytes(data)
            else:
                target.write_bytes("".join(f"{line}\n" for line in lines).encode())
                self._lines[name] = lines
            self._seen[name] = _state(target)

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
            there[name if path.suffix == ".jsonl" else name + PACKED] = path, _state(path)
        changed = {name: one for name, one in there.items() if self._seen.get(name) != one[1]}
        return changed, [name for name in self._seen if name not in there]

    async def _mirror_lines(self, name: str, path: Path) -> None:
        known = self._lines.get(name, [])
        # In a thread, as everything that goes through a whole file: a second of it, and no worker would be heard of.
        at, lines = await anyio.to_thread.run_sync(_read_lines, path, known)
        if at < max(len(lines), len(known)):  # an agent may also take some away
            await self._attempt.mirror(name, at, lines[at:])
        self._lines[name] = lines

    async def _mirror_content(self, name: str, path: Path) -> None:
        at, lines, kept = await anyio.to_thread.run_sync(
            lambda: pack(_content_of(path), self._kept.get(name))
        )
        if lines:
            await self._attempt.mirror(name, at, lines)
        self._kept[name] = kept

    def _found(self, *, with_beside: bool = False) -> Iterator[Path]:
        home = self._attempt.places.home
        for pattern in self._patterns:
            for path in sorted(home.glob(pattern)):
                if path.is_file() and not path.is_symlink() and not path.name.endswith(_BESIDE):
                    yield path
                    yield from (one for one in _beside(path) if with_beside and one.is_file())


def link(home: Path, links: Mapping[str, str]) -> None:
    """Let paths below HOME lead elsewhere; what is not there is not shown."""
    for name, elsewhere in links.items():
        here, target = _below(home, name), Path(elsewhere).expanduser()
        if target.exists() and not here.exists():
            make_private(here.parent)
            here.unlink(missing_ok=True)
            here.symlink_to(target)


def write_files(home: Path, files: Mapping[str, str]) -> None:
    """Write configuration below HOME, the same at every start, for this user's eyes: it may hold the token."""
    for name, text in files.items():
        target = _below(home, name)
        make_private(target.parent)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        # A link that is in its place may lead to a file of the user's own.
        target.unlink(missing_ok=True)
        target.touch(0o600, exist_ok=False)
        target.write_text(text, encoding="utf-8")


def _beside(path: Path) -> Iterator[Path]:
    return (path.with_name(path.name + ending) for ending in _BESIDE)


def _state(path: Path) -> object:
    """Differs when the file, or what belongs to it, was written."""
    return [(one.stat().st_mtime_ns, one.stat().st_size) for one in (path, *_beside(path)) if one.is_file()]


def _read_lines(path: Path, known: Sequence[str]) -> tuple[int, Sequence[str]]:
    """The whole lines of a file, and the first that is another than in `known`."""
    # What comes behind the last end of a line is not whole yet, perhaps in the middle of a sign.
    whole, end, _torn = path.read_bytes().rpartition(b"\n")
    lines = whole.decode(errors="replace").split("\n") if end else []
    pairs = enumerate(zip(lines, known, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(lines), len(known)))
    return at, lines


def _content_of(path: Path) -> bytes:
    """A file's content.

    Raises:
        HarnessError: it is too large.
    """
    data = _content(path)
    if len(data) > KEPT_BYTES:
        hint = f"{KEPT_BYTES // 1024**2} MB is the most. Leave it out of the agent's `files`, or tidy it up"
        raise HarnessError(harness="the agent", reason=f"{path} is too large to be mirrored: {hint}")
    return data


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) != _SQLITE:
            return path.read_bytes()
    copy = apsw.Connection(":memory:")
    source = apsw.Connection(str(path))
    try:
        source.set_busy_timeout(5_000)
        with copy.backup("main", source, "main") as backup:
            backup.step()
        return copy.serialize("main")
    finally:
        source.close()
        copy.close()


def _below(home: Path, name: str) -> Path:
    target = home / name
    if not target.parent.resolve().is_relative_to(home.resolve()) or ".." in target.parts:
        raise HarnessError(
            harness="the agent", reason=f"a file of its session lies outside its home: {name[:200]}"
        )
    return target
