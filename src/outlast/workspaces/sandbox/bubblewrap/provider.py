"""Makes, finds and ends boxes by bubblewrap."""

import compileall
import errno
import os
import select
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import ByteStream

from outlast.clock import Clock, SystemClock, boottime
from outlast.errors import BadInput, BoxError, BoxGone, Fenced
from outlast.ids import digest, new_id
from outlast.sandbox import Ability, Found, Ref, Spec
from outlast.workspaces.sandbox import inside
from outlast.workspaces.sandbox.bubblewrap import checks, outer, seccomp, system
from outlast.workspaces.sandbox.bubblewrap.cgroups import Caps, Groups
from outlast.workspaces.sandbox.bubblewrap.outer import keeping
from outlast.workspaces.sandbox.bubblewrap.places import Card, Guard, Place, forgotten, places
from outlast.workspaces.sandbox.client import HeldBox, hold
from outlast.workspaces.sandbox.inside.wire import pack
from outlast.workspaces.sandbox.line import PATH
from outlast.workspaces.unix import connect

NAME: Final = "bubblewrap"
UNPRIVILEGED: Final = 65_532
"""Whose processes the boxes of a worker hold that is root itself; `nonroot` in many container images."""
_FIRST_S: Final = 60.0
_STARTING_S: Final = 30.0
_NOBODY: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED})
_OUTER: Final = Path(outer.__file__).with_name(
    "__main__.py"
)  # as a file: a directory would load `runpy` first


@dataclass(frozen=True, slots=True)
class _User:
    uid: int
    gid: int
    dropped: bool
    """Another than ours: the box's parent, which is root, becomes it."""


@dataclass(frozen=True, slots=True)
class _What:
    """What is attached to."""

    spec: Spec
    fence: int
    caps: Caps
    digest: str


class Bubblewrap:
    """Boxes on this machine, below a worker's data directory."""

    def __init__(
        self,
        data: Path,
        *,
        sizes: system.Sizes | None = None,
        uid: int = UNPRIVILEGED,
        groups: Groups | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Nothing is made or looked for yet.

        Args:
            data: the directory of what this worker keeps.
            sizes: of the file systems in memory.
            uid: of a box's processes where the worker is root; what they may write is to belong to it.
            groups: the control groups of this machine.
            clock: tells how old a box is.
        """
        self._data = data
        self._sizes = sizes or system.Sizes()
        self._groups = groups or Groups()
        self._clock = clock or SystemClock()
        self._program: checks.Program | None = None
        root = os.geteuid() == 0
        self._user = _User(uid if root else os.geteuid(), uid if root else os.getegid(), root)

    @property
    def name(self) -> str:
        return NAME

    @property
    def owner(self) -> tuple[int, int] | None:
        """User and group to whom what a box may write must belong; None: the worker's own."""
        return (self._user.uid, self._user.gid) if self._user.dropped else None

    @property
    def abilities(self) -> frozenset[Ability]:
        return frozenset({"mounts", "outlives", "limits", "network", "isolates"})

    async def check(self) -> Sequence[str]:
        program = await anyio.to_thread.run_sync(checks.find)
        user = (self._user.uid, self._user.gid) if self._user.dropped else None
        await anyio.to_thread.run_sync(checks.probe, program, user)
        warnings = [] if program.seals else [checks.unsealed(program)]
        warnings += [] if seccomp.supports() else [checks.UNFILTERED]
        warnings += [self._groups.warning()]
        return [warning for warning in warnings if warning]

    @asynccontextmanager
    async def attach(self, spec: Spec, fence: int, ref: Ref | None = None) -> AsyncGenerator[HeldBox]:
        place = Place(self._data, spec.name)
        if bad := system.overlapping(spec):
            raise BadInput(detail=f"Nothing can be mounted at {', '.join(bad)} in a sandbox.")
        async with AsyncExitStack() as stack:
            with _said(place):
                box = await self._take(stack, place, spec, fence)
            yield box

    async def dial(self, ref: Ref) -> ByteStream:
        place = self._place(ref)
        with _said(place):
            card = place.card
        if card is None or card.life != ref.get("life"):
            raise BoxGone(box=place.name, reason="it stands no more.")
        try:
            return await connect(place.path / keeping.SOCKET)
        except OSError as refused:
            if refused.errno not in _NOBODY:  # this process has no descriptor left, say: that ends no box
                reason = f"it cannot be reached now: {refused.strerror}."
                raise BoxError(box=place.name, reason=reason) from refused
            said = place.said()
            raise BoxGone(
                box=place.name, reason=said or f"nothing of it listens ({refused.strerror})."
            ) from refused

    async def list(self, labels: Mapping[str, str]) -> Sequence[Found]:
        found: list[Found] = []
        for place in places(self._data):
            with _said(place):
                card, stands = place.card, place.state() != "ended"
            if card is None or not labels.items() <= card.labels.items():
                continue
            state = "running" if stands else "ended"
            age_s = max(0.0, self._clock.now() - card.born_s)
            found.append(Found(_ref(card), card.name, card.labels, age_s, state))
        return found

    async def destroy(self, ref: Ref) -> None:
        place = self._place(ref)
        with _said(place):
            guard = await place.guard()
            try:
                card = place.card
                if card is not None and card.life == ref.get("life"):
                    await place.end()
                    self._clear(place)
            finally:
                guard.release()

    # ------------------------------------------------------------------ making

    async def _take(self, stack: AsyncExitStack, place: Place, spec: Spec, fence: int) -> HeldBox:
        guard = await place.guard()
        stack.callback(guard.release)
        if fence < guard.fence:
            raise Fenced(session=spec.name, current=guard.fence, fence=fence)
        guard.raise_fence(fence)
        what = _What(spec, fence, self._groups.caps(spec.name, spec.limits), _digest(spec, self._user))
        box = await self._attach(stack, place, guard, what)
        guard.release()
        self._sweep(but=spec.name)
        return box

    async def _attach(self, stack: AsyncExitStack, place: Place, guard: Guard, what: "_What") -> HeldBox:
        card, state = place.card, place.state()
        if card is not None and state == "running" and card.digest == what.digest and what.spec.idle_s > 0:
            with suppress(BoxGone):
                return await self._hold(stack, card, what)
        # What stands holds on to another attempt, is about to end, or sees other files than it is to see.
        await place.end()
        card, pipe = await self._make(place, what)
        if pipe is not None:
            stack.push_async_callback(self._end_ours, place, guard, card, pipe)
        return await self._hold(stack, card, what)

    async def _hold(self, stack: AsyncExitStack, card: Card, what: "_What") -> HeldBox:
        ref = _ref(card)
        held = hold(lambda: self.dial(ref), what.spec, what.fence, ref, limits=what.caps.each)
        return await stack.enter_async_context(held)

    async def _make(self, place: Place, what: "_What") -> tuple[Card, int | None]:
        """A new box, and the descriptor that it ends with, if it is to end with us."""
        program = self._program = self._program or await anyio.to_thread.run_sync(_prepare)
        spec, user = what.spec, self._user
        seals, filters = program.seals, seccomp.supports()
        steps = system.steps_for(spec, user.uid, user.gid, self._sizes, seals=seals, filters=filters)
        self._clear(place)
        place.make()
        card = Card(spec.name, spec.labels, new_id("life"), what.digest, self._clock.now(), spec.idle_s)
        place.write_card(card)
        asked: dict[str, object] = {
            "directory": str(place.path),
            "program": str(program.path),
            "steps": steps,
            "argv": system.argv_inside(_FIRST_S),
            "env": {"PATH": PATH, "LANG": "C.UTF-8"},
            "uid": user.uid if user.dropped else -1,
            "gid": user.gid,
            "groups": [[path, dict(values)] for path, values in what.caps.groups.items()],
            "hold": int(spec.idle_s == 0),
        }
        said, pipe = await anyio.to_thread.run_sync(_start, pack(asked))
        if not said.startswith("ok "):
            os.close(pipe)
            await self.check()  # what is wrong with the machine is said better there
            raise BoxError(box=spec.name, reason=f"bubblewrap cannot make it: {said}.")
        if spec.idle_s > 0:
            os.close(pipe)
            if spec.spare is not None:
                spec.spare(int(said.split()[1]))
            return card, None
        return card, pipe

    async def _end_ours(self, place: Place, guard: Guard, card: Card, pipe: int) -> None:
        os.close(pipe)
        guard.release()
        mine = await place.guard()
        try:
            now = place.card
            if now is not None and now.life == card.life:
                await place.end()
                self._clear(place)
        finally:
            mine.release()

    def _clear(self, place: Place) -> None:
        place.clear()
        for group in self._groups.leftovers(place.name):
            with suppress(OSError):
                group.rmdir()

    def _sweep(self, but: str) -> None:
        """Remove what boxes left that have ended."""
        now_s = self._clock.now()
        with suppress(
            OSError
        ):  # what is left of others is no reason not to have this one: the next sweeps it
            for place in [*places(self._data), *forgotten(self._data, now_s)]:
                guard = place.guard_now() if place.name != but else None
                if guard is not None:
                    try:
                        self._sweep_one(place, now_s)
                    finally:
                        guard.release()

    def _sweep_one(self, place: Place, now_s: float) -> None:
        if place.state() == "ended":
            self._clear(place)
            place.forget(now_s)

    def _place(self, ref: Ref) -> Place:
        return Place(self._data, cast("str", ref.get("name", "")))


def open_bubblewrap(data: Path) -> Bubblewrap:
    """The provider of the name `bubblewrap`, over a worker's data directory."""
    return Bubblewrap(data)


@contextmanager
def _said(place: Place) -> Generator[None]:
    """An error of the system, as one of the port."""
    try:
        yield
    except OSError as failed:
        reason = f"{failed.filename or place.path}: {failed.strerror}. {checks.DISK}"
        raise BoxError(box=place.name, reason=reason) from failed


def _ref(card: Card) -> Ref:
    return {"provider": NAME, "name": card.name, "life": card.life}


def _digest(spec: Spec, user: _User) -> str:
    """Of what a standing box cannot be made to differ in."""
    mounts = sorted((str(one.source), one.target, one.writable) for one in spec.mounts)
    fixed: Any = (
        spec.image, spec.cwd, mounts, spec.env.get("HOME"), spec.limits, spec.idle_s > 0, user.uid, spec.shell
    )  # fmt: skip
    return digest(msgspec.json.encode(fixed))


def _prepare() -> checks.Program:
    # In a box nothing can be written beside the supervisor: without this it would be compiled at every start.
    compileall.compile_dir(Path(inside.__file__).parent, maxlevels=0, quiet=2)
    return checks.find()


def _start(frame: bytes) -> tuple[str, int]:
    """Start the parent of a box. Returns what it says, and the descriptor that a held box ends with."""
    reader, writer = os.pipe()
    try:
        words = [sys.executable, "-I", "-S", str(_OUTER)]
        with subprocess.Popen(
            words, stdin=reader, stdout=subprocess.PIPE, bufsize=0, cwd="/", env={}
        ) as process:
            os.close(reader)
            reader = -1
            _write_all(writer, frame)
            assert process.stdout is not None
            said = _read_line(process.stdout.fileno())
    except BaseException:
        os.close(writer)
        raise
    finally:
        if reader >= 0:
            os.close(reader)
    return said or f"its parent says nothing within {_STARTING_S:g} s", writer


def _read_line(fd: int) -> str:
    """The line that the parent of a box says when it stands, or cannot."""
    said, end_s = b"", boottime() + _STARTING_S
    waiting = select.poll()  # not `select.select`, which fails for the thousandth descriptor of a worker
    waiting.register(fd, select.POLLIN)
    while b"\n" not in said and waiting.poll(max(0.0, end_s - boottime()) * 1000):
        piece = os.read(fd, 4096)
        if not piece:
            break
        said += piece
    return said.decode("utf-8", "replace").strip()


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    with suppress(BrokenPipeError):
        while rest:
            rest = rest[os.write(fd, rest) :]
