"""Boxes in Docker, or whatever speaks the Docker Engine API: one container for each."""

import json
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Literal

import anyio
from anyio.abc import ByteStream

from outlast.clock import Clock, SystemClock
from outlast.errors import BoxError, BoxGone, SandboxUnsupported
from outlast.sandbox import Ability, Box, Found, Ref, Spec
from outlast.workspaces.carried import Framed, boot_argv, dial_argv
from outlast.workspaces.docker.address import PROVIDER, Address, address_of
from outlast.workspaces.docker.container import (
    BOX,
    IMAGE,
    STATE,
    USER,
    WISH,
    container_name,
    create_body,
    env_of,
    filters,
    owned_by,
    volumes_of,
    wish_of,
)
from outlast.workspaces.docker.engine import STREAM_S, Answer, Engine, engine_at
from outlast.workspaces.docker.frames import Hijacked
from outlast.workspaces.sandbox.client import HeldBox, hold

_MAKING_S: Final = 60.0
_ENDING_S: Final = 5.0
_LOOK_S: Final = 0.05
_LAST_WORDS_S: Final = 2.0
_ABILITIES: Final[frozenset[Ability]] = frozenset({"outlives", "limits", "network", "isolates"})
_BINDS: Final[frozenset[Ability]] = frozenset({"mounts"})
HOME: Final = f"{STATE}/home"
_STATES: Final[Mapping[str, Literal["running", "paused"]]] = {
    "running": "running",
    "restarting": "running",
    "paused": "paused",
}


@dataclass(frozen=True, slots=True)
class _Standing:
    """A container that runs."""

    ref: Ref
    wish: str
    env: Mapping[str, str]
    """Of its image."""


class Docker:
    """Containers of a Docker daemon as boxes. Podman's service is one as well.

    Args:
        host: where the daemon listens, as in DOCKER_HOST; empty: as `docker` finds it.
        image: of boxes whose `Spec` names none. It needs Python 3.9 or newer as `python3`.
        user: numeric "uid:gid" that the programs in a box have; empty: that of whoever owns what is mounted writable,
            else 1000. Never root.
        pull: whether the daemon is asked to fetch an image that it does not have.
        stream_s: how long it may take until a stream to a program stands.
    """

    def __init__(
        self,
        *,
        host: str = "",
        image: str = IMAGE,
        user: str = "",
        pull: bool = True,
        stream_s: float = STREAM_S,
        clock: Clock | None = None,
    ) -> None:
        self._host = host
        self._image = image
        self._user = user
        self._pull = pull
        self._stream_s = stream_s
        self._clock = clock or SystemClock()

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def abilities(self) -> frozenset[Ability]:
        return _ABILITIES | _BINDS if self._binds else _ABILITIES

    @property
    def owner(self) -> tuple[int, int] | None:
        """To whom what a box may write must belong; None: to the worker's own user."""
        if self._user:
            uid, _, gid = self._user.partition(":")
            return int(uid), int(gid or uid)
        return (USER, USER) if os.geteuid() == 0 else None

    @property
    def _binds(self) -> bool:
        """A daemon behind a unix socket sees our files, but where it has a machine of its own."""
        try:
            return self._address().here and os.uname().sysname == "Linux"
        except SandboxUnsupported:
            return False

    def _address(self) -> Address:
        return address_of(os.environ, self._host)

    def _engine(self) -> AbstractAsyncContextManager[Engine]:
        return engine_at(self._address(), self._stream_s)

    async def check(self) -> Sequence[str]:
        async with self._engine() as engine:
            found = await engine.ask("GET", f"/images/{self._image}/json")
            if found.status == HTTPStatus.OK or self._pull:
                return []
        return [f"The image {self._image} is not there: `docker pull {self._image}`."]

    @asynccontextmanager
    async def attach(self, spec: Spec, fence: int, ref: Ref | None = None) -> AsyncGenerator[Box]:
        async with AsyncExitStack() as holding:
            box = await self._hold(holding, spec, fence)
            yield box
        if spec.idle_s == 0:
            await self._ended(str(box.ref["container"]))

    async def _hold(self, holding: AsyncExitStack, spec: Spec, fence: int) -> HeldBox:
        """The box that stands, if it is as it is to be; else a new one."""
        until = anyio.current_time() + _MAKING_S  # no scope: what is entered here is left by `attach`
        while anyio.current_time() < until:
            box = await self._hold_standing(holding, spec, fence) or await self._hold_new(
                holding, spec, fence
            )
            if box is not None:
                return box
            await anyio.sleep(_LOOK_S)  # another worker makes it, or it is just going
        raise BoxError(
            box=spec.name, reason=f"a container has its name, {container_name(spec.name)}, and does not go."
        )

    async def _hold_standing(self, holding: AsyncExitStack, spec: Spec, fence: int) -> HeldBox | None:
        """Hold the container that runs; None: there is none as it is to be."""
        async with self._engine() as engine:
            standing = await _standing(engine, container_name(spec.name), self._clock)
        if standing is None:
            return None
        with suppress(BoxGone):
            if spec.idle_s > 0 and standing.wish == self._wish(spec):
                return await self._held(holding, spec, fence, standing)
            # It is another attempt's, or made differently: who has the newer fence may end it, while it has that.
            async with AsyncExitStack() as ending:
                await self._held(ending, spec, fence, standing)
                await self.destroy(standing.ref)
                return None
        await self.destroy(standing.ref)  # it cannot be held
        return None

    async def _hold_new(self, holding: AsyncExitStack, spec: Spec, fence: int) -> HeldBox | None:
        """Hold a new container; None: the name is taken."""
        async with self._engine() as engine:
            begun = await self._create(engine, spec)
        if begun is None:
            return None
        made, words = begun
        try:
            return await self._held(holding, spec, fence, made)
        except BoxGone as gone:
            said = str(gone) if words is None else await _last_of(words) or str(gone)
            raise _still_born(spec, said) from gone
        finally:
            if words is not None:
                await words.aclose()

    async def _held(self, holding: AsyncExitStack, spec: Spec, fence: int, standing: "_Standing") -> HeldBox:
        within = replace(spec, env={**standing.env, "HOME": HOME, **spec.env})
        held = hold(partial(self.dial, standing.ref), within, fence, standing.ref)
        return await holding.enter_async_context(held)

    async def _ended(self, ident: str) -> None:
        """Wait until a container that ends by itself is gone. Not forced: it may be somebody else's by now."""
        with anyio.move_on_after(_ENDING_S, shield=True):
            async with self._engine() as engine:
                while await _standing(engine, ident, self._clock):  # noqa: ASYNC110 - the daemon tells nobody
                    await anyio.sleep(_LOOK_S)

    async def dial(self, ref: Ref) -> ByteStream:
        ident = str(ref["container"])
        async with self._engine() as engine:
            asked = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "Tty": False}
            made = await engine.ask(
                "POST", f"/containers/{ident}/exec", body={**asked, "Cmd": dial_argv(STATE)}
            )
            if made.status != HTTPStatus.CREATED:
                raise _not_there(ident, made)
            begun = await engine.hijack(f"/exec/{made.body['Id']}/start", {"Detach": False, "Tty": False})
        if isinstance(begun, Hijacked):
            return Framed(begun)
        raise _not_there(ident, begun)

    async def list(self, labels: Mapping[str, str]) -> Sequence[Found]:
        async with self._engine() as engine:
            found = await engine.ask(
                "GET", "/containers/json", params={"all": "1", "filters": json.dumps(filters(labels))}
            )
        if found.status != HTTPStatus.OK:
            raise BoxError(box=PROVIDER, reason=f"the daemon does not list containers: {found.why}")
        return [self._found(one) for one in found.body]

    def _found(self, one: Mapping[str, Any]) -> Found:
        said: Mapping[str, str] = one.get("Labels") or {}
        labels = {name: value for name, value in said.items() if name not in {BOX, WISH}}
        age_s = max(0.0, self._clock.now() - float(one["Created"]))
        return Found(
            {"container": str(one["Id"])},
            said.get(BOX, ""),
            labels,
            age_s,
            _STATES.get(str(one.get("State"))) or "ended",
        )

    async def destroy(self, ref: Ref) -> None:
        async with self._engine() as engine:
            await _remove(engine, str(ref["container"]))

    async def _create(self, engine: Engine, spec: Spec) -> tuple[_Standing, Hijacked | None] | None:
        """A new container, and what it says; None: its name is taken."""
        name, user = container_name(spec.name), self._user_of(spec)
        body = create_body(spec, self._image_of(spec), user, boot_argv(STATE))
        made = await engine.ask("POST", "/containers/create", params={"name": name}, body=body)
        if made.status == HTTPStatus.NOT_FOUND and self._pull:
            if why := await engine.pull(body["Image"]):
                raise _no_image(name, body["Image"], why)
            made = await engine.ask("POST", "/containers/create", params={"name": name}, body=body)
        if made.status != HTTPStatus.CREATED:
            if made.status == HTTPStatus.CONFLICT or "already in use" in made.why:
                return None
            raise _refused(name, body["Image"], made)
        ident = str(made.body["Id"])
        try:
            words = await self._start(engine, spec, ident, user)
            found = await engine.ask("GET", f"/containers/{ident}/json")
            env = env_of(found.body) if found.status == HTTPStatus.OK else {}
            return _Standing({"container": ident}, self._wish(spec), env), words
        except BaseException:
            with anyio.CancelScope(shield=True):
                await _remove(engine, ident)
            raise

    @staticmethod
    async def _start(engine: Engine, spec: Spec, ident: str, user: tuple[int, int]) -> Hijacked | None:
        """Start a container. Returns what it says.

        Volumes begin as root's: each is given to the box's user, the state before the start, since the first program
        needs it. Where the image has such a directory, a volume is made to look like that when the container starts:
        so the others are given after it.
        """
        yours = owned_by(user)
        await _put(engine, ident, STATE, yours)
        # A container that removes itself takes its log with it: what it says is heard from its first word.
        words = await engine.hijack(f"/containers/{ident}/attach?stream=1&stdout=1&stderr=1", None)
        heard = words if isinstance(words, Hijacked) else None
        try:
            await _begin(engine, spec, ident)
            for target in volumes_of(spec):
                if target != STATE:
                    await _put(engine, ident, target, yours)
        except BoxGone as gone:
            said = "" if heard is None else await _last_of(heard)
            raise _still_born(spec, said or str(gone)) from gone
        except BaseException:
            if heard is not None:
                await heard.aclose()
            raise
        return heard

    def _image_of(self, spec: Spec) -> str:
        return spec.image or self._image

    def _wish(self, spec: Spec) -> str:
        return wish_of(spec, self._image_of(spec), self._user_of(spec))

    def _user_of(self, spec: Spec) -> tuple[int, int]:
        if self._user:
            return self.owner or (USER, USER)
        found = [mount.source.stat() for mount in spec.mounts if mount.writable]
        return next(((one.st_uid, one.st_gid) for one in found if one.st_uid != 0), (USER, USER))


async def _standing(engine: Engine, name: str, clock: Clock) -> _Standing | None:
    """The container that runs under a name; what has ended under it is taken away."""
    found = await engine.ask("GET", f"/containers/{name}/json")
    # Podman says 500 of one that goes in that moment.
    if found.status == HTTPStatus.NOT_FOUND or "no such container" in found.why:
        return None
    if found.status != HTTPStatus.OK:
        raise BoxError(box=name, reason=found.why)
    ref = {"container": str(found.body["Id"])}
    match str(found.body["State"].get("Status")):
        case "running" | "restarting":
            pass
        case "paused":
            await engine.ask("POST", f"/containers/{ref['container']}/unpause")
        case "created" | "initialized" | "configured" if clock.now() - _born(found.body) < _MAKING_S:
            return None  # somebody makes it
        case _:
            await _remove(engine, ref["container"])
            return None
    labels: Mapping[str, str] = found.body["Config"].get("Labels") or {}
    return _Standing(ref, labels.get(WISH, ""), env_of(found.body))


def _born(inspected: Mapping[str, Any]) -> float:
    # Nanoseconds, or none: more digits than a datetime reads.
    return datetime.fromisoformat(re.sub(r"\.\d+", "", str(inspected["Created"]))).timestamp()


async def _last_of(words: Hijacked) -> str:
    """What a container said until it ended."""
    said = b""
    with anyio.move_on_after(_LAST_WORDS_S), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            said = (said + await words.receive())[-2000:]
    await words.aclose()
    return "\n".join(filter(None, (said.decode("utf-8", "replace").strip(), words.said)))


def _still_born(spec: Spec, said: str) -> BoxError:
    way = "The image needs Python 3.9 or newer as `python3`, with its `ctypes`; name another (sandbox option `image`)."
    return BoxError(box=spec.name, reason=f"it ended as soon as it was started: {said} {way}")


async def _begin(engine: Engine, spec: Spec, ident: str) -> None:
    begun = await engine.ask("POST", f"/containers/{ident}/start")
    if begun.status not in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
        raise _not_started(container_name(spec.name), begun)


async def _put(engine: Engine, ident: str, target: str, archive: bytes) -> None:
    done = await engine.ask("PUT", f"/containers/{ident}/archive", params={"path": target}, tar=archive)
    if done.status in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
        raise BoxGone(box=ident[:12], reason=done.why)
    if done.status != HTTPStatus.OK:
        raise BoxError(box=ident[:12], reason=f"its volume {target} cannot be written: {done.why}")


async def _remove(engine: Engine, ident: str) -> None:
    gone = await engine.ask("DELETE", f"/containers/{ident}", params={"force": "1", "v": "1"})
    # 409: it is being removed already, by itself or by somebody else.
    done = gone.status in {HTTPStatus.NO_CONTENT, HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}
    if not done and "no such container" not in gone.why:
        raise BoxError(box=ident[:12], reason=f"it cannot be removed: {gone.why}")


def _not_there(ident: str, answer: Answer) -> BoxError:
    # Podman says 500 of a container that does not run, Docker 409.
    gone = answer.status in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT} or "running containers" in answer.why
    return (BoxGone if gone else BoxError)(box=ident[:12], reason=answer.why)


def _no_image(name: str, image: str, why: str) -> BoxError:
    return BoxError(
        box=name,
        reason=(
            f"the image {image} is not there, and the daemon cannot pull it ({why}). Where no registry is reached, "
            f"bring it (`docker load`, `docker build`) and name it (sandbox option `image`)."
        ),
    )


def _refused(name: str, image: str, answer: Answer) -> BoxError:
    if answer.status == HTTPStatus.NOT_FOUND:
        return BoxError(
            box=name, reason=f"the image {image} is not there: `docker pull {image}`. ({answer.why})"
        )
    if "cgroup" in answer.why or "limit" in answer.why:
        way = "Take the limit away (`Limits`), or give the daemon cgroups."
        return BoxError(box=name, reason=f"the daemon cannot set its limits: {answer.why} {way}")
    return BoxError(box=name, reason=f"the daemon refuses the container ({answer.status}): {answer.why}")


def _not_started(name: str, answer: Answer) -> BoxError:
    if "not found" in answer.why or "no such file" in answer.why:
        way = "The image needs Python 3.9 or newer as `python3` on its PATH; name another (sandbox option `image`)."
        return BoxError(box=name, reason=f"it does not start: {answer.why} {way}")
    return BoxError(box=name, reason=f"it does not start: {answer.why}")
