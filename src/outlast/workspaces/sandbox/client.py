"""A box as its holder sees it: the same with every provider, over `SandboxProvider.dial`."""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, ByteStream

from outlast.drive import Entry
from outlast.errors import BoxError, BoxGone, Fenced
from outlast.groups import task_group
from outlast.ids import new_id
from outlast.sandbox import JobAsk, Left, Ref, Spec
from outlast.workspaces.sandbox.inside.wire import PIECE
from outlast.workspaces.sandbox.line import WAIT_S, Dial, Line, content, items, number, text
from outlast.workspaces.unix import connect

READ_LIMIT: Final = 512 * 1024 * 1024
"""Bytes of a file that `Box.read` takes: a box could go on for ever."""
LIST_LIMIT: Final = 100_000
"""Names of a directory that `Box.list` takes."""
_AT_ONCE: Final = 64 * 1024
_LEAVING_S: Final = 10.0
_KINDS: Final = frozenset({"file", "link", "dir"})


class HeldJob:
    """A job of a held box."""

    def __init__(self, line: Line, name: str, stdin_at: int) -> None:
        self._line = line
        self._name = name
        self._stdin_at = stdin_at
        self._writing = anyio.Lock()

    async def output(
        self, stream: Literal["stdout", "stderr"], offset: int = 0
    ) -> AsyncIterator[tuple[int, bytes]]:
        while True:
            answer = await self._line.ask(
                "output", job=self._name, stream=stream, offset=offset, wait_s=WAIT_S
            )
            if "data" not in answer:
                continue
            at, data = number(answer, "at", self._line.name), content(answer, "data", self._line.name)
            if at < offset:
                raise BoxError(box=self._line.name, reason="its supervisor goes back in the output of a job.")
            if data:
                yield at, data
            elif answer.get("end"):
                return
            offset = at + len(data)

    async def write(self, data: bytes) -> None:
        async with self._writing:
            for begin in range(0, len(data), PIECE):
                piece = data[begin : begin + PIECE]
                await self._give(piece)
                self._stdin_at += len(piece)

    async def close_stdin(self) -> None:
        async with self._writing:
            await self._line.ask("close_stdin", job=self._name)

    async def signal(self, number: int) -> None:
        await self._line.ask("signal", job=self._name, number=number)

    async def wait(self) -> int:
        while True:
            answer = await self._line.ask("wait", job=self._name, wait_s=WAIT_S)
            if "status" in answer:
                return number(answer, "status", self._line.name)

    async def left(self) -> Left:
        while True:
            answer = await self._line.ask("left", job=self._name, wait_s=WAIT_S)
            if "status" in answer:
                status, out, err = (
                    number(answer, name, self._line.name) for name in ("status", "stdout", "stderr")
                )
                return Left(status, out, err, bool(answer.get("timed_out")))

    async def _give(self, piece: bytes) -> None:
        at = self._stdin_at
        while "given" not in await self._line.ask("write", job=self._name, at=at, data=piece, wait_s=WAIT_S):
            at, piece = at + len(piece), b""  # it has them, and the job does not read them yet


class HeldBox:
    """A box, held under a fence. Made by `hold`."""

    def __init__(self, line: Line, ref: Ref) -> None:
        self._line = line
        self._ref = ref

    @property
    def ref(self) -> Ref:
        return self._ref

    @property
    def lived(self) -> bool:
        return self._line.lived

    @property
    def noted(self) -> str:
        return self._line.noted

    async def note(self, text: str) -> None:
        await self._line.ask("note", text=text)

    async def begin(self, ask: JobAsk) -> HeldJob:
        answer = await self._line.ask(
            "begin",
            job=ask.job,
            argv=list(ask.argv),
            cwd=ask.cwd,
            env=dict(ask.env),
            tied=int(ask.tied),
            stdin=int(ask.stdin),
            timeout_ms=math.ceil(ask.timeout_s * 1000),
            merged=int(ask.merged),
            paced=int(ask.paced),
        )
        return HeldJob(self._line, ask.job, number(answer, "stdin_at", self._line.name))

    async def find(self, job: str) -> HeldJob | None:
        answer = await self._line.ask("find", job=job)
        found = "stdin_at" in answer
        return HeldJob(self._line, job, number(answer, "stdin_at", self._line.name)) if found else None

    async def drop(self, job: str) -> None:
        while "dropped" not in await self._line.ask("drop", job=job, wait_s=WAIT_S):
            pass

    async def tie(self, job: str, *, kept: bool = True) -> None:
        await self._line.ask("tie", job=job, kept=int(kept))

    async def loose(self) -> Sequence[str]:
        answer = await self._line.ask("loose")
        names = items(answer, "jobs", self._line.name)
        return [text({"job": name}, "job", self._line.name) for name in names]

    async def beat(self, for_s: float) -> None:
        await self._line.ask("beat", for_ms=int(for_s * 1000))

    async def read(self, path: str) -> bytes:
        for _ in range(5):
            data = await self._read_once(path)
            if data is not None:
                return data
        raise BoxError(box=self._line.name, reason=f"{path} changes all the time.")

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        token, size = new_id("new"), len(data)
        for begin in range(0, size, PIECE) or [0]:
            await self._line.ask(
                "put",
                path=path,
                data=data[begin : begin + PIECE],
                offset=begin,
                end=int(begin + PIECE >= size),
                mode=mode,
                token=token,
            )

    async def stat(self, path: str) -> Entry | None:
        answer = await self._line.ask("stat", path=path)
        return (
            _entry(path, items(answer, "entry", self._line.name), self._line.name)
            if answer.get("entry")
            else None
        )

    async def list(self, path: str) -> Sequence[Entry]:
        found: list[Entry] = []
        after, more = "", True
        while more:
            answer = await self._line.ask("list", path=path, after=after)
            said = items(answer, "entries", self._line.name)
            found += [_named(path, item, self._line.name) for item in said]
            more = bool(answer.get("more"))
            if len(found) > LIST_LIMIT:
                raise BoxError(box=self._line.name, reason=f"{path} holds more than {LIST_LIMIT} names.")
            came = text(answer, "last", self._line.name)
            if more and came <= after:
                raise BoxError(box=self._line.name, reason="its supervisor lists a directory without end.")
            after = came
        return found

    async def remove(self, path: str) -> None:
        await self._line.ask("remove", path=path)

    async def _read_once(self, path: str) -> bytes | None:
        """None: it has changed meanwhile."""
        read, same = bytearray(), ""
        while True:
            answer = await self._line.ask("read", path=path, offset=len(read))
            data, now = content(answer, "data", self._line.name), text(answer, "same", self._line.name)
            if read and now != same:
                return None
            if not data:
                return bytes(read)
            same = now
            read += data
            if max(len(read), number({"size": 0, **answer}, "size", self._line.name)) > READ_LIMIT:
                raise BoxError(box=self._line.name, reason=f"{path} is larger than {READ_LIMIT} bytes.")


@asynccontextmanager
async def hold(
    dial: Dial, spec: Spec, fence: int, ref: Ref, *, limits: Mapping[str, int] | None = None
) -> AsyncGenerator[HeldBox]:
    """Hold the box that `dial` reaches. On leaving, tied jobs are dead, and its ways lead nowhere.

    Args:
        dial: a fresh stream to its supervisor; raises `BoxGone`.
        spec: what the box is.
        fence: of the attempt.
        ref: what `Box.ref` says.
        limits: `processes`, `memory_bytes` and `cpus` that the supervisor is to set for each process, where the
            provider can set none for the box.

    Raises:
        Fenced: a newer fence holds it.
        BoxError, BoxGone
    """
    async with task_group() as tasks:
        line = Line(dial, spec, fence, limits or {}, tasks)
        await line.connect()
        if spec.ways:
            tasks.start_soon(_serve_ways, line, {way.port: way.socket for way in spec.ways})
        try:
            yield HeldBox(line, ref)
        finally:
            with anyio.move_on_after(_LEAVING_S, shield=True), suppress(BoxError, Fenced):
                await line.ask("leave")
            line.leave()
            tasks.cancel_scope.cancel()


async def _serve_ways(line: Line, sockets: Mapping[int, Path]) -> None:
    """Fetch each connection that comes to a way. Ends when the box is somebody else's, or gone."""
    async with anyio.create_task_group() as tasks:
        while True:
            try:
                answer = await line.ask("accept", wait_s=WAIT_S)
                if "carry" in answer:
                    path = sockets[number(answer, "port", line.name)]
                    tasks.start_soon(_carry, line, number(answer, "carry", line.name), path)
            except (BoxGone, Fenced):
                return
            except (BoxError, KeyError):
                await anyio.sleep(1)  # it does not work now, or what it says is no answer


async def _carry(line: Line, connection: int, path: Path) -> None:
    with suppress(BoxError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with AsyncExitStack() as stack:
            inner = await stack.enter_async_context(await line.carry(connection))
            outer = await stack.enter_async_context(await connect(path))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_pump, inner, outer)
                tasks.start_soon(_pump, outer, inner)


async def _pump(source: ByteReceiveStream, target: ByteSendStream | ByteStream) -> None:
    try:
        while True:
            await target.send(await source.receive(_AT_ONCE))
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            await cast("ByteStream", target).send_eof()


def _named(path: str, said: Any, box: str) -> Entry:
    match said:
        case [str(name), *rest] if name and "/" not in name and name not in {".", ".."}:
            return _entry(f"{path.rstrip('/')}/{name}", rest, box)
        case _:
            raise BoxError(box=box, reason=f"its supervisor says nothing sound of what is in {path}.")


def _entry(path: str, said: Sequence[Any], box: str) -> Entry:
    match said:
        case [str(kind), int(mode), int(size), int(mtime_ns), str(target)]:
            known = kind if kind in _KINDS else "file"
            return Entry(path, cast("Any", known), mode, size, mtime_ns, target=target)
        case _:
            raise BoxError(box=box, reason=f"its supervisor says nothing sound of {path}.")
