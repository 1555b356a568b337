"""The files of a box that shares no directory with the worker, as a drive's `RemoteTree`: the same for every provider.

Each verb is one job of the box (`inside.distant`), asked and answered over its standard input and output.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib import resources
from os import fsdecode, fsencode
from typing import Any, Final, cast

from outlast.errors import BoxError, WorkspaceError
from outlast.groups import task_group
from outlast.ids import new_id
from outlast.sandbox import Box, Job, JobAsk
from outlast.workspaces.carried import PYTHON
from outlast.workspaces.drive.remote import Chunk, Scan, Seen, Step

_HEAD: Final = 8
_LARGEST: Final = 64 * 1024 * 1024
_KINDS: Final = frozenset({"file", "link", "dir", "other"})

Said = tuple[Mapping[str, Any], bytes]


class DistantTree:
    """See `outlast.workspaces.drive.remote.RemoteTree`.

    Args:
        box: held; it has `python3`.
        directory: in it, absolute.
    """

    def __init__(self, box: Box, directory: str) -> None:
        self._box = box
        self._directory = directory

    async def scan(self) -> Scan:
        looked_ns, entries = 0, list[Seen]()
        async with self._verb("scan") as job:
            await job.close_stdin()
            async for said, _ in self._heard(job):
                if "looked_ns" in said:
                    looked_ns = int(said["looked_ns"])
                else:
                    entries.append(self._seen(said))
        return Scan(looked_ns, entries)

    async def read(self, paths: Sequence[bytes]) -> AsyncIterator[Chunk]:
        async with self._verb("read") as job, task_group() as tasks:
            tasks.start_soon(self._name_all, job, paths)
            async for said, data in self._heard(job):
                now = said.get("now")
                yield Chunk(fsencode(str(said["path"])), data, None if now is None else self._seen(now))

    async def apply(self, steps: AsyncIterator[Step]) -> None:
        async with self._verb("apply") as job:
            async for step in steps:
                said = {
                    "do": step.do,
                    "path": fsdecode(step.path),
                    "mode": step.mode,
                    "mtime_ns": step.mtime_ns,
                }
                try:
                    await job.write(_packed(said, step.data))
                except BoxError:
                    break  # it has ended early, and says why below
            await job.close_stdin()
            async for _ in self._heard(job):
                pass

    async def _name_all(self, job: Job, paths: Sequence[bytes]) -> None:
        for path in paths:
            await job.write(_packed({"path": fsdecode(path)}))
        await job.close_stdin()

    @asynccontextmanager
    async def _verb(self, verb: str) -> AsyncGenerator[Job]:
        name = new_id("files")
        argv = [*PYTHON, "-c", _program(), self._directory, verb]
        job = await self._box.begin(JobAsk(name, argv, cwd="/", tied=True, stdin=True))
        try:
            yield job
        finally:
            await self._box.drop(name)

    async def _heard(self, job: Job) -> AsyncIterator[Said]:
        """What the job says. What comes from a box is hostile: judged before it is used.

        Raises:
            WorkspaceError: it failed, or says nothing sound.
        """
        came = bytearray()
        async for _, piece in job.output("stdout"):
            came += piece
            while len(came) >= _HEAD:
                head, data = int.from_bytes(came[:4], "big"), int.from_bytes(came[4:_HEAD], "big")
                if head + data > _LARGEST:
                    raise self._failed("a message is too large")
                if len(came) < _HEAD + head + data:
                    break
                said = _unpacked(bytes(came[_HEAD : _HEAD + head]))
                content = bytes(came[_HEAD + head : _HEAD + head + data])
                del came[: _HEAD + head + data]
                if "error" in said:
                    raise self._failed(str(said["error"])[:1000])
                if "end" in said:
                    return
                yield said, content
        raise self._failed("its program ended early")

    def _seen(self, said: Mapping[str, Any]) -> Seen:
        match said:
            case {
                "path": str(path),
                "kind": str(kind),
                "mode": int(mode),
                "key": [int(mtime), int(ctime), int(inode), int(size)],
            } if kind in _KINDS:
                target = fsencode(str(said.get("target", "")))
                return Seen(fsencode(path), kind, mode, mtime, ctime, inode, size, target)  # pyright: ignore[reportArgumentType] - it is one of them
            case _:
                raise self._failed("what it says of a file is not sound")

    def _failed(self, reason: str) -> WorkspaceError:
        return WorkspaceError(
            detail=f"The files in {self._directory} of the sandbox cannot be reached: {reason}."
        )


def _packed(said: Mapping[str, Any], data: bytes = b"") -> bytes:
    head = json.dumps(said).encode()
    return len(head).to_bytes(4, "big") + len(data).to_bytes(4, "big") + head + data


def _unpacked(head: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(head)
    except ValueError:
        said = None
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {"error": "what it says is not sound"}


@cache
def _program() -> str:
    inside = resources.files("outlast.workspaces.sandbox") / "inside"
    return (inside / "distant.py").read_text(encoding="utf-8")
