"""Files in a box that shares no directory with the worker, as drives' `RemoteTree`s: the same for every provider.

One job of the box answers for all of its directories (`inside.distant`), for as long as the attempt lasts. So that a
look at files in which nothing has changed is one question and its answer, both are under way at once, and what was
seen before does not travel again. A command that runs in the box may kill that job; then another is begun.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from importlib import resources
from os import fsdecode, fsencode
from typing import Any, Final, cast

import anyio

from outlast.errors import BoxError, BoxGone, Fenced, WorkspaceError
from outlast.groups import task_group
from outlast.ids import new_id
from outlast.sandbox import Box, Job, JobAsk
from outlast.workspaces.carried import PYTHON
from outlast.workspaces.drive.format import ENTRIES_LIMIT
from outlast.workspaces.drive.remote import Chunk, Scan, Seen, Step

_HEAD: Final = 8
_LARGEST: Final = 64 * 1024 * 1024
_WINDOW: Final = 8 * 1024 * 1024
_AT_ONCE: Final = 192 * 1024
"""Bytes of steps that travel in one question."""
_ENDING_S: Final = 5.0
SILENT_S: Final = 120.0
"""How long the job may say and read nothing: something in the box may have stopped it."""
_CANNOT: Final = "The files in the sandbox cannot be reached"
_KINDS: Final = frozenset({"file", "link", "dir", "other"})

Said = tuple[Mapping[str, Any], bytes]


class _Cut(WorkspaceError):
    """The job is gone. Asked of another one, a question that changes nothing has its answer."""


class DistantFiles:
    """The directories of one box. One question at a time.

    Args:
        box: held; it has `python3`.
        directories: in it, absolute.
        output_bytes: of a job's output that the box keeps (`outlast.sandbox.Limits.output_bytes`).
        silent_s: how long the job may be silent until another is begun.
    """

    def __init__(
        self,
        box: Box,
        directories: Sequence[str],
        output_bytes: int = _WINDOW,
        silent_s: float = SILENT_S,
    ) -> None:
        self._box = box
        self._silent_s = silent_s
        self._directories = list(directories)
        self._window = max(2, min(_WINDOW, output_bytes))
        self._asking = anyio.Lock()
        self._talk: _Talk | None = None

    def tree(self, directory: str) -> "DistantTree":
        """One of the directories."""
        return DistantTree(self, self._directories.index(directory), directory)

    @asynccontextmanager
    async def talk(self, *, again: bool) -> AsyncGenerator["_Talk"]:
        """The job, for one question and its whole answer; one in which that is cut off is never asked again.

        Args:
            again: not the one that was asked before.
        """
        async with self._asking:
            if again:
                await self.close()
            talk = self._talk = self._talk or await self._begin()
            whole = False
            try:
                yield talk
                whole = True
            finally:
                if not whole:
                    await self.close()

    async def _begin(self) -> "_Talk":
        name = new_id("files")
        argv = [*PYTHON, "-c", _program(), str(self._window), *self._directories]
        job = await self._box.begin(JobAsk(name, argv, cwd="/", tied=True, stdin=True))
        return _Talk(name, job, self._window, self._silent_s)

    async def close(self) -> None:
        """End the job; nothing that was asked of it goes on."""
        talk, self._talk = self._talk, None
        if talk is not None:
            with anyio.move_on_after(_ENDING_S, shield=True), suppress(WorkspaceError, Fenced):
                await self._box.drop(talk.name)


class _Talk:
    """What is said with one job."""

    def __init__(self, name: str, job: Job, window: int, silent_s: float) -> None:
        self.name = name
        self._silent_s = silent_s
        self._job = job
        self._window = window
        self._output = job.output("stdout")
        self._came = bytearray()
        self._at = 0
        self._untold = 0

    async def ask(self, said: Mapping[str, Any]) -> None:
        """Ask. The first of the answer is waited for while the question travels."""
        async with task_group() as tasks:
            tasks.start_soon(self._say, said)
            await self._more()

    async def _say(self, said: Mapping[str, Any]) -> None:
        with suppress(BoxError, Fenced):  # whoever waits for the answer is told
            await self._job.write(_packed(said))

    async def give(self, asked: Mapping[str, Any], steps: AsyncIterator[Step]) -> None:
        """Ask for steps to be taken, many at a time."""
        ahead = bytearray(_packed(asked))
        async for step in steps:
            ahead += _packed(_told(step), step.data)
            if len(ahead) >= _AT_ONCE:
                await self._put(bytes(ahead))
                ahead.clear()
        await self._put(bytes(ahead + _packed({"do": "done"})))

    async def _put(self, data: bytes) -> None:
        with self._in_time():
            await self._job.write(data)

    @contextmanager
    def _in_time(self) -> Generator[None]:
        try:
            with anyio.fail_after(self._silent_s):
                yield
        except TimeoutError:
            raise _Cut(detail=f"{_CANNOT}: what looks at them there stands still.") from None

    async def answer(self) -> AsyncIterator[Said]:
        """The answer to the question that was asked last. What comes from a box is judged before it is used.

        Raises:
            WorkspaceError: it failed, or what it says is not sound.
        """
        while True:
            said, data = await self._next()
            if "error" in said:
                raise WorkspaceError(detail=f"{_CANNOT}: {str(said['error'])[:1000]}.")
            if "end" in said:
                return
            yield said, data

    async def _next(self) -> Said:
        came = self._came
        while len(came) < _HEAD or len(came) < _HEAD + _size(came):
            await self._more()
        head, size = int.from_bytes(came[:4], "big"), _size(came)
        said, data = bytes(came[_HEAD : _HEAD + head]), bytes(came[_HEAD + head : _HEAD + size])
        del came[: _HEAD + size]
        return _unpacked(said), data

    async def _more(self) -> None:
        try:
            with self._in_time():
                at, piece = await anext(self._output)
        except StopAsyncIteration:
            raise _Cut(detail=f"{_CANNOT}: what looks at them there ended early.") from None
        if at != self._at:
            raise _Cut(detail=f"{_CANNOT}: the sandbox has no room for what is said of them.")
        self._at += len(piece)
        self._came += piece
        self._untold += len(piece)
        if self._untold >= self._window // 2:
            took, self._untold = self._untold, 0
            await self._say({"took": took})


class DistantTree:
    """See `outlast.workspaces.drive.remote.RemoteTree`. Made by `DistantFiles.tree`."""

    def __init__(self, files: DistantFiles, number: int, directory: str) -> None:
        self._files = files
        self._of = number
        self._directory = directory
        self._talk = ""
        self._number = 0
        self._seen: dict[bytes, Seen] = {}
        """As it was at the scan of that number, by that job."""

    async def scan(self) -> Scan:
        try:
            return await self._scan(again=False)
        except _Cut:  # something in the box has killed the job
            return await self._scan(again=True)

    async def _scan(self, *, again: bool) -> Scan:
        looked_ns, since = 0, 0
        async with self._files.talk(again=again) as talk:
            since = self._number if talk.name == self._talk else 0
            seen = dict(self._seen) if since else {}
            await talk.ask({"do": "scan", "of": self._of, "since": since})
            async for said, _ in talk.answer():
                if "scan" in said:
                    self._number, looked_ns = _int(said["scan"]), _int(said["looked_ns"])
                    seen = seen if said.get("since") else {}
                self._note(said, seen)
            self._talk, self._seen = talk.name, seen
        return Scan(looked_ns, [seen[path] for path in sorted(seen)])

    def _note(self, said: Mapping[str, Any], seen: dict[bytes, Seen]) -> None:
        for line in _list(said.get("seen", [])):
            one = _seen(line)
            seen[one.path] = one
        for path in _list(said.get("gone", [])):
            seen.pop(fsencode(str(path)), None)
        if len(seen) > ENTRIES_LIMIT:
            raise WorkspaceError(detail=f"{_CANNOT}: there are more than {ENTRIES_LIMIT:,}.")

    async def read(self, paths: Sequence[bytes]) -> AsyncGenerator[Chunk]:
        if not paths:
            return
        asked = {"do": "read", "of": self._of, "paths": [fsdecode(path) for path in paths]}
        async with self._files.talk(again=False) as talk:
            await talk.ask(asked)
            async for said, data in talk.answer():
                now = said.get("now")
                yield Chunk(fsencode(str(said.get("path", ""))), data, None if now is None else _seen(now))

    async def apply(self, steps: AsyncIterator[Step]) -> None:
        async with self._files.talk(again=False) as talk:
            try:
                await talk.give({"do": "apply", "of": self._of}, steps)
            except BoxGone:
                raise
            except BoxError:  # it has ended early, and says why below
                pass
            async for _ in talk.answer():
                pass


def _told(step: Step) -> Mapping[str, Any]:
    path = fsdecode(step.path)
    return {"do": step.do, "path": path, "mode": step.mode, "mtime_ns": step.mtime_ns}


def _seen(line: object) -> Seen:
    match line:
        case [
            str(path),
            str(kind),
            int(mode),
            int(mtime),
            int(ctime),
            int(inode),
            int(size),
            str(target),
        ] if kind in _KINDS:
            there = fsencode(path), cast("Any", kind), mode, mtime, ctime, inode, size, fsencode(target)
            return Seen(*there)
        case _:
            raise _unsound()


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise _unsound()
    return value


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise _unsound()
    return cast("list[object]", value)


def _unsound() -> WorkspaceError:
    return WorkspaceError(detail=f"{_CANNOT}: what is said of them there is not sound.")


def _size(came: bytearray) -> int:
    size = int.from_bytes(came[:4], "big") + int.from_bytes(came[4:_HEAD], "big")
    if size > _LARGEST:
        raise _unsound()
    return size


def _packed(said: Mapping[str, Any], data: bytes = b"") -> bytes:
    head = json.dumps(said).encode()
    return len(head).to_bytes(4, "big") + len(data).to_bytes(4, "big") + head + data


def _unpacked(head: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(head)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise _unsound()
    return cast("dict[str, Any]", said)


@cache
def _program() -> str:
    inside = resources.files("outlast.workspaces.sandbox") / "inside"
    return (inside / "distant.py").read_text(encoding="utf-8")
