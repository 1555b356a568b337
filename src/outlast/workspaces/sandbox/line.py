"""Asking the supervisor inside a box, over streams that may break.

What is asked under one number is done once, however often the stream breaks: the supervisor knows jobs by their names,
input by its offset, and the rest by the number. What comes back is of a box, so it is judged before it is used.
"""

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import anyio
from anyio.abc import ByteStream, TaskGroup

from outlast.errors import BoxError, BoxGone, Fenced, FileMissing
from outlast.ids import new_id
from outlast.sandbox import Spec
from outlast.workspaces.sandbox.inside.wire import VERSION, Unpacker, WireError, pack

WAIT_S: Final = 15.0
"""How long the supervisor holds back an answer for which there is nothing to say yet."""
FIRST_BEAT_S: Final = 30.0
"""How long tied jobs may live before the holder's first beat."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PATIENCE_S: Final = 30.0
"""Beyond what was asked to be held back: without an answer for so long, the stream is as good as broken."""
_BREAKS: Final = 6
_SILENCES: Final = 2
"""To so many hellos without an answer: a supervisor that is stopped is as good as gone, and others wait for the box."""

Dial = Callable[[], Awaitable[ByteStream]]


class _Broken(Exception):
    """The stream is gone: ask again over another."""


class _Silent(_Broken):
    """Nothing was said in time."""


@dataclass(slots=True)
class _Slot:
    came: anyio.Event = field(default_factory=anyio.Event)
    answer: Mapping[str, Any] | None = None


class _Wire:
    """One stream, any number of questions at a time."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._slots: dict[int, _Slot] = {}
        self._sending = anyio.Lock()
        self.broken = False

    async def read(self) -> None:
        """Hand out answers until the stream ends."""
        unpacker = Unpacker()
        try:
            while True:
                unpacker.feed(await self._stream.receive())
                while (message := unpacker.next()) is not None:
                    number = message.get("id")
                    slot = self._slots.get(number) if isinstance(number, int) else None
                    if slot is not None:
                        slot.answer = message
                        slot.came.set()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, WireError, OSError):
            return
        finally:
            self.broken = True
            for slot in self._slots.values():
                slot.came.set()
            with anyio.CancelScope(shield=True):
                await self.close()

    async def ask(self, number: int, frame: bytes, within_s: float) -> Mapping[str, Any]:
        """Raises `_Broken`."""
        slot = self._slots[number] = _Slot()
        try:
            with anyio.move_on_after(within_s):
                await self._send(frame)
                await slot.came.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as gone:
            raise _Broken from gone
        finally:
            del self._slots[number]
        if slot.answer is None:
            silent = not self.broken
            await self.close()
            raise _Silent if silent else _Broken
        return slot.answer

    async def _send(self, frame: bytes) -> None:
        async with self._sending:
            if self.broken:
                raise _Broken
            # Half a frame would spoil the stream for all others.
            with anyio.CancelScope(shield=True), anyio.move_on_after(_PATIENCE_S) as scope:
                await self._stream.send(frame)
            if scope.cancelled_caught:
                self.broken = True

    async def close(self) -> None:
        self.broken = True
        await self._stream.aclose()


class Line:
    """The holder's way to the supervisor of one box, whatever happens to the streams."""

    def __init__(
        self, dial: Dial, spec: Spec, fence: int, limits: Mapping[str, int], tasks: TaskGroup
    ) -> None:
        self.name = spec.name
        self.fence = fence
        self.lived = False
        self.noted = ""
        self._dial = dial
        self._spec = spec
        self._limits = limits
        self._tasks = tasks
        self._client = new_id("holder")
        self._life = ""
        self._numbers = itertools.count(1)
        self._wire: _Wire | None = None
        self._dialing = anyio.Lock()
        self._left = False

    def leave(self) -> None:
        """Nothing is asked any more."""
        self._left = True

    async def ask(self, op: str, *, wait_s: float = 0.0, **asked: object) -> Mapping[str, Any]:
        """What the supervisor says to it.

        Raises:
            BoxError: it refuses.
            BoxGone: the box ended, or another stands in its place.
            Fenced: a newer fence holds it.
            FileMissing
        """
        number = next(self._numbers)
        frame = _frame(self.name, {"id": number, "op": op, "wait_ms": int(wait_s * 1000), **asked})
        for breaks in range(_BREAKS):
            wire = await self._connected()
            try:
                answer = await wire.ask(number, frame, wait_s + _PATIENCE_S)
            except _Broken:
                await anyio.sleep(0.05 * breaks)
                continue
            return self._judged(answer)
        raise BoxError(box=self.name, reason="streams to its supervisor break again and again.")

    async def carry(self, number: int) -> ByteStream:
        """A stream that carries the bytes of a connection that came to a way."""
        stream = await self._dial()
        await stream.send(pack({"id": 0, "op": "carry", "carry": number, "fence": self.fence}))
        return stream

    async def connect(self) -> None:
        """Say hello now. When this returns, tied jobs of older fences are dead.

        Raises:
            Fenced: a newer fence holds the box.
            BoxError, BoxGone
        """
        await self._connected()

    async def _connected(self) -> _Wire:
        async with self._dialing:
            if self._left:
                raise BoxGone(box=self.name, reason="its holder has left it.")
            if self._wire is None or self._wire.broken:
                self._wire = await self._connect()
            return self._wire

    async def _connect(self) -> _Wire:
        spec = self._spec
        hello = {
            "id": 0,
            "op": "hello",
            "versions": [VERSION],
            "fence": self.fence,
            "client": self._client,
            "for_ms": int(FIRST_BEAT_S * 1000),
            "idle_ms": int(spec.idle_s * 1000),
            "cwd": spec.cwd,
            "env": {"PATH": PATH, "LANG": "C.UTF-8", "HOME": spec.cwd, **spec.env},
            "ways": [way.port for way in spec.ways],
            "output_bytes": spec.limits.output_bytes,
            "limits": dict(self._limits),
        }
        silences = 0
        for breaks in range(_BREAKS):
            if silences == _SILENCES:
                break
            wire = _Wire(await self._dial())
            self._tasks.start_soon(wire.read)
            try:
                answer = self._judged(await wire.ask(0, _frame(self.name, hello), _PATIENCE_S))
            except _Broken as broken:
                silences += isinstance(broken, _Silent)
                await anyio.sleep(0.05 * breaks)
                continue
            except BoxError as refused:
                # It speaks another protocol, or a port of a way is taken in it: it cannot be held, by nobody.
                await wire.close()
                raise BoxGone(box=self.name, reason=f"it cannot be held as it is. {refused}") from refused
            except BaseException:
                await wire.close()
                raise
            await self._meet(wire, answer)
            return wire
        raise BoxGone(box=self.name, reason="nothing in it answers.")

    async def _meet(self, wire: _Wire, hello: Mapping[str, Any]) -> None:
        life = text(hello, "life", self.name)
        if self._life and life != self._life:
            await wire.close()
            raise BoxGone(box=self.name, reason="another one stands in its place.")
        if not self._life:
            self._life = life
            self.lived = bool(number(hello, "lived", self.name))
            said = hello.get("noted")  # supervisors of before there were notes say none
            self.noted = said if isinstance(said, str) else ""

    def _judged(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        if "error" not in answer:
            return answer
        said = text(answer, "error", self.name)[:2_000]
        match answer.get("kind"):
            case "fenced":
                current = number(answer, "fence", self.name)
                raise Fenced(session=self.name, current=current, fence=self.fence)
            case "absent":
                raise FileMissing(path=said)
            case _:
                raise BoxError(box=self.name, reason=said)


def number(answer: Mapping[str, Any], name: str, box: str) -> int:
    """A number of an answer. Raises `BoxError`: what the box says is no answer."""
    value = answer.get(name)
    if not isinstance(value, int):
        raise _nonsense(box, name)
    return value


def text(answer: Mapping[str, Any], name: str, box: str) -> str:
    """A text of an answer. Raises `BoxError`."""
    value = answer.get(name)
    if not isinstance(value, str):
        raise _nonsense(box, name)
    return value


def content(answer: Mapping[str, Any], name: str, box: str) -> bytes:
    """Bytes of an answer. Raises `BoxError`."""
    value = answer.get(name)
    if not isinstance(value, bytes):
        raise _nonsense(box, name)
    return value


def items(answer: Mapping[str, Any], name: str, box: str) -> Sequence[Any]:
    """A list of an answer. Raises `BoxError`."""
    value = answer.get(name)
    if not isinstance(value, list):
        raise _nonsense(box, name)
    return cast("list[Any]", value)


def _nonsense(box: str, name: str) -> BoxError:
    return BoxError(box=box, reason=f"its supervisor's answer has no sound {name}.")


def _frame(box: str, message: Mapping[str, object]) -> bytes:
    try:
        return pack(dict(message))
    except WireError as large:
        raise BoxError(box=box, reason=f"this cannot be asked: {large}.") from large
