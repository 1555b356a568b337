"""The way out of one sandbox: sockets that lead out of it, and what stands behind them, in the worker."""

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import ByteStream

from outlast.clock import Clock, SystemClock
from outlast.errors import WorkspaceError
from outlast.folders import make_private
from outlast.groups import task_group
from outlast.sandbox import Mount, Way
from outlast.trust import trusted
from outlast.workspaces.egress.authority import open_authority, roots
from outlast.workspaces.egress.conversation import Answering, Conversation
from outlast.workspaces.egress.dial import Dialer, Resolve, SystemResolver
from outlast.workspaces.egress.events import Event, Told, Who, log, write_down
from outlast.workspaces.egress.forward import Forward
from outlast.workspaces.egress.inside import BUNDLE, PROXY_PORT, PUBLIC, variables
from outlast.workspaces.egress.limits import Limits
from outlast.workspaces.egress.policy import Policy
from outlast.workspaces.egress.proxy import Means, Proxy
from outlast.workspaces.egress.rules import Network
from outlast.workspaces.egress.secrets import Keeper, Secrets, WorkerSecrets
from outlast.workspaces.egress.stream import UnixStream

_PATH_BYTES: Final = 100
"""Of a unix socket, a little less than systems take."""
_BACKLOG: Final = 1024
_AGAIN_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Outside:
    """What a way out is made from; the defaults are those of a worker."""

    secrets: Secrets = field(default_factory=WorkerSecrets)
    resolve: Resolve = field(default_factory=SystemResolver)
    trust: Callable[[], ssl.SSLContext] = trusted
    """Whom to trust as the hosts that credentials are for."""
    roots: Callable[[], bytes] = roots
    """What programs inside trust besides us, as PEM."""
    clock: Clock = field(default_factory=SystemClock)
    told: Told | None = None
    """Called with each `Event`, in the event loop; it must not wait."""
    limits: Limits = field(default_factory=Limits)
    proxy_port: int = PROXY_PORT
    """Of the loopback inside."""
    public: str = PUBLIC
    """Directory inside, where certificates stand."""


@dataclass(frozen=True, slots=True)
class Egress:
    """What a box must have so that its programs find the way out: parts of its `Spec`."""

    ways: Sequence[Way]
    mounts: Sequence[Mount]
    """Where the provider can mount; else `files`, to be written into the box."""
    files: Mapping[str, bytes]
    """Path inside to content."""
    env: Mapping[str, str]


@asynccontextmanager
async def open_egress(
    network: Network, who: Who, directory: Path, *, gateway: str = "", outside: Outside | None = None
) -> AsyncGenerator[Egress]:
    """Let a session's sandbox out to what `network` says, and to the gateway, while the context lasts.

    Afterwards every connection through it is cut. Invariant: at each socket, only what `who` may.

    Args:
        network: what may be reached.
        who: whose sandbox it is.
        directory: the session's own, for nobody else; sockets and the authority's key are kept there. The same in each
            attempt, so that a sandbox that outlives its worker finds the sockets of the next one.
        gateway: the worker's, `http://127.0.0.1:<port>`; inside it is at the same port. Empty: it is not reached.
        outside: what else it is made from.

    Raises:
        WorkspaceError: a credential's secret is not here, or the sockets cannot be made.
    """
    outside = outside or Outside()
    for credential in network.credentials:
        outside.secrets.check(credential, who)
    public = directory / "public"
    try:
        make_private(directory)
        _own(directory)
        means = _means(network, who, directory, outside)
        public.mkdir(mode=0o755, exist_ok=True)
        ways = {Way(outside.proxy_port, _socket(directory, "proxy")): _proxying(means)}
        if gateway:
            forward = Forward(gateway, who)
            ways[Way(forward.port, _socket(directory, "gateway"))] = lambda: forward
        bundle = _publish(public / BUNDLE, outside.roots() + means.authority.pem) if means.authority else b""
    except OSError as error:
        reason = f"{error.strerror}. Give this user room there"
        raise WorkspaceError(
            detail=f"The way out of the sandbox cannot be made in {directory}: {reason}."
        ) from error
    at = f"{outside.public}/{BUNDLE}"
    mounts = [Mount(public, outside.public)] if bundle else []
    files = {at: bundle} if bundle else {}
    env = variables(network, outside.proxy_port, at if bundle else "")
    async with task_group() as tasks:
        with ExitStack() as stack:
            for way, answering in ways.items():
                listener = stack.enter_context(_bound(way.socket))
                stack.callback(way.socket.unlink, missing_ok=True)
                tasks.start_soon(_serve, listener, answering, outside.limits)
            try:
                yield Egress(tuple(ways), mounts, files, env)
            finally:
                tasks.cancel_scope.cancel()


def _means(network: Network, who: Who, directory: Path, outside: Outside) -> Means:
    encrypted = [each.host for each in network.credentials if each.scheme == "https"]
    authority = open_authority(directory, encrypted, outside.clock) if encrypted else None
    limits = outside.limits
    dialer = Dialer(limits, outside.resolve, outside.trust)
    keeper = Keeper(outside.secrets, who, outside.clock, limits.secret_s, limits.secret_kept_s)
    return Means(who, Policy(network), dialer, keeper, authority, _telling(outside.told), limits)


def _proxying(means: Means) -> Callable[[], Answering]:
    return lambda: Proxy(means)


def _telling(told: Told | None) -> Told:
    def tell(event: Event) -> None:
        write_down(event)
        if told is not None:
            told(event)

    return tell


async def _serve(listener: socket.socket, answering: Callable[[], Answering], limits: Limits) -> None:
    """Answer whoever connects, until cancelled."""
    room = anyio.Semaphore(limits.connections)

    async def one(connected: socket.socket) -> None:
        stream = await UnixStream.on(connected)
        try:
            room.acquire_nowait()
        except anyio.WouldBlock:
            await _full(stream)
            return
        try:
            await Conversation(stream, answering(), limits).serve()
        except Exception:  # noqa: BLE001 - it is told, with where it came from
            # One client must not end the way of the others; what it did is a bug of ours to be found in the log.
            log.exception("a connection out of a sandbox was dropped")
        except BaseException:
            stream.abort()
            raise
        finally:
            room.release()

    async with task_group() as tasks:
        while True:
            try:
                connected, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError:  # no descriptor is free: it may be in a moment
                await anyio.sleep(_AGAIN_S)
                continue
            tasks.start_soon(one, connected)


def _bound(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - the library's own signature
    except OSError:
        listener.close()
        raise
    return listener


async def _full(stream: ByteStream) -> None:
    body = b"outlast: too many connections of this sandbox are open; close some.\n"
    head = b"HTTP/1.1 503 outlast: too many connections\r\ncontent-type: text/plain\r\nconnection: close\r\n"
    with anyio.move_on_after(1.0):
        await stream.send(head + b"content-length: %d\r\n\r\n" % len(body) + body)
    await anyio.aclose_forcefully(stream)


def _socket(directory: Path, name: str) -> Path:
    path = directory / f"{name}.sock"
    if len(os.fsencode(path)) > _PATH_BYTES:
        raise WorkspaceError(
            detail=f"The path {path} is too long for a socket. Keep outlast's data in a directory with a shorter name."
        )
    return path


def _own(directory: Path) -> None:
    """Refuse a directory that others may look into: who reaches the sockets has the session's credentials."""
    found = directory.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise WorkspaceError(detail=f"{directory} is open to others. Make it private: chmod 700 {directory}")


def _publish(file: Path, data: bytes) -> bytes:
    new = file.with_suffix(".new")
    new.write_bytes(data)
    new.chmod(0o644)
    new.replace(file)
    return data
