"""The way out of one sandbox: sockets that lead out of it, and what stands behind them, in the worker."""

import os
import ssl
import stat
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from outlast.clock import Clock, SystemClock
from outlast.errors import WorkspaceError
from outlast.folders import make_private
from outlast.groups import task_group
from outlast.sandbox import Mount, Way
from outlast.trust import trusted
from outlast.workspaces.egress.authority import keep_on, open_authority, roots
from outlast.workspaces.egress.dial import Dialer, Resolve, SystemResolver
from outlast.workspaces.egress.events import Event, Told, Who, log, write_down
from outlast.workspaces.egress.forward import Forward
from outlast.workspaces.egress.inside import BUNDLE, PROXY_PORT, PUBLIC, variables
from outlast.workspaces.egress.limits import Limits
from outlast.workspaces.egress.listening import bound, serve
from outlast.workspaces.egress.policy import Policy
from outlast.workspaces.egress.proxy import Means, Proxy
from outlast.workspaces.egress.rules import Network
from outlast.workspaces.egress.secrets import Keeper, Secrets, WorkerSecrets
from outlast.workspaces.egress.upstream import Upstreams


@dataclass(frozen=True, slots=True)
class Outside:
    """What a way out is made from; the defaults are those of a worker."""

    secrets: Secrets = field(default_factory=WorkerSecrets)
    resolve: Resolve = field(default_factory=SystemResolver)
    trust: Callable[[], ssl.SSLContext] = trusted
    """Whom to trust as the hosts that credentials are for."""
    roots: Callable[[], bytes] = roots
    """What programs inside trust besides us, as PEM."""
    proxies: Upstreams = field(default_factory=lambda: Upstreams(os.environ))
    """Those that the worker itself is behind."""
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
    network: Network,
    who: Who,
    directory: Path,
    *,
    gateway: str = "",
    outside: Outside | None = None,
    outlived: bool = True,
) -> AsyncGenerator[Egress]:
    """Let a session's sandbox out to what `network` says, and to the gateway, while the context lasts.

    Afterwards every connection through it is cut. Invariant: at each socket, only what `who` may.

    Args:
        network: what may be reached.
        who: whose sandbox it is.
        directory: the session's own, for nobody else; sockets and the authority's key are kept there. The same in each
            attempt, so that a sandbox that outlives its worker goes on to trust the next one.
        gateway: the worker's, `http://127.0.0.1:<port>`; inside it is at the same port. Empty: it is not reached.
        outside: what else it is made from.
        outlived: the sandbox may outlive its worker: the authority's key is kept for the next. Else it is not
            written down.

    Raises:
        WorkspaceError: a credential's secret is not here, or what it needs cannot be made in `directory`.
    """
    outside = outside or Outside()
    for credential in network.credentials:
        outside.secrets.check(credential, who)
    public = directory / "public"
    with ExitStack() as stack:
        try:
            make_private(directory)
            _own(directory)
            means = _means(network, who, directory if outlived else None, outside)
            bundle = _publish(public, outside.roots() + means.authority.pem) if means.authority else b""
            proxy = stack.enter_context(bound(directory, "proxy"))
            forward = stack.enter_context(bound(directory, "gateway")) if gateway else None
        except OSError as error:
            about = f"The way out of the sandbox cannot be made in {directory}: {error.strerror}"
            raise WorkspaceError(detail=f"{about}. Give this user room there.") from error
        at = f"{outside.public}/{BUNDLE}"
        ways = [Way(outside.proxy_port, proxy[0])]
        async with task_group() as tasks:
            tasks.start_soon(serve, proxy[1], lambda: Proxy(means), outside.limits)
            if forward is not None:
                to_gateway = Forward(gateway, who)
                ways.append(Way(to_gateway.port, forward[0]))
                tasks.start_soon(serve, forward[1], lambda: to_gateway, outside.limits)
            try:
                yield Egress(
                    ways,
                    mounts=[Mount(public, outside.public)] if bundle else [],
                    files={at: bundle} if bundle else {},
                    env=variables(network, outside.proxy_port, at if bundle else ""),
                )
            finally:
                tasks.cancel_scope.cancel()
                if outlived:
                    keep_on(directory, outside.clock.now())


def _means(network: Network, who: Who, directory: Path | None, outside: Outside) -> Means:
    encrypted = [each.host for each in network.credentials if each.scheme == "https"]
    authority = open_authority(directory, encrypted, outside.clock) if encrypted else None
    limits = outside.limits
    dialer = Dialer(limits, outside.resolve, outside.trust, outside.proxies)
    keeper = Keeper(outside.secrets, who, outside.clock, limits.secret_s, limits.secret_kept_s)
    return Means(who, Policy(network), dialer, keeper, authority, _telling(outside.told), limits)


def _telling(told: Told | None) -> Told:
    def tell(event: Event) -> None:
        write_down(event)
        try:
            if told is not None:
                told(event)
        except Exception:  # noqa: BLE001 - what listens must not change what is let out
            log.exception("what is told of the way out has failed")

    return tell


def _own(directory: Path) -> None:
    """Refuse a directory that others may look into: who reaches the sockets has the session's credentials."""
    found = directory.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise WorkspaceError(detail=f"{directory} is open to others. Make it private: chmod 700 {directory}")


def _publish(directory: Path, data: bytes) -> bytes:
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    new = directory / f"{BUNDLE}.new"
    new.write_bytes(data)
    new.chmod(0o644)
    new.replace(directory / BUNDLE)
    return data
