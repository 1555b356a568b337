"""`outlast serve`: the server, and `outlast token`: who may ask it."""

import asyncio
import ipaddress
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import click

from outlast.adapter import Agent
from outlast.cli.agents import of_application
from outlast.cli.lazy import loaded
from outlast.cli.options import Setup, examples, perform, shared
from outlast.errors import BadInput
from outlast.groups import task_group
from outlast.links import links_of
from outlast.opening import open_world, waker_of
from outlast.server.access import Doorkeeper, Doorkeepers
from outlast.server.connections import HEAD_BYTES, bounded
from outlast.server.limits import Limits, Rate
from outlast.server.operations import Hook
from outlast.server.serving import Offer, Served, open_app
from outlast.server.tokens import Tokens
from outlast.serving import Server
from outlast.webhook import signed
from outlast.workspaces.virtual import virtual

CLOSE_S: Final = 5.0
STREAMS_S: Final = 1.0
"""How long streams may take to end in order."""
BACKLOG: Final = 512
FIRST: Final = "first"
"""What the token is called that is made at first start."""
OPEN_FILES_LEFT: Final = 64
"""Descriptors that are not connections: the World's, logs, what programs open for a moment."""
ONCE: Final = (
    "The link holds a token that may do everything. It is shown this once; `outlast token add` makes others."
)
EXPOSED: Final = (
    "outlast: {host} is reached from other machines, and what goes there is not encrypted. Put a proxy with TLS before "
    "it (docs: how-to/serve), and set OUTLAST_PUBLIC_URL."
)


@click.command(
    epilog=examples(
        "outlast serve",
        "outlast serve shop.agents:support --port 8080",
        "outlast serve --host 0.0.0.0 --tokens /etc/outlast/tokens.json",
    )
)
@click.argument("agents", nargs=-1, metavar="[MODULE:AGENT]...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=4711, show_default=True, help="0: any free one."
)
@click.option(
    "--tokens",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Who may ask, in place of the setting's file.",
)
@shared
def serve(
    agents: tuple[str, ...], host: str, port: int, tokens: Path | None, world: str | None, json: bool
) -> None:
    """Serve the page and the API until SIGTERM or Ctrl-C.

    Whoever asks needs a token. The first is made when there is none, and printed once, in a link that opens the page;
    `outlast token add` makes others. It is reached from this machine alone, unless --host says otherwise. Workers run
    elsewhere: `outlast work`. Agents of your own are named as for `outlast work`, so that sessions are opened with
    their settings and workspaces.
    """

    async def body(setup: Setup) -> None:
        file = Tokens(setup.settings.tokens if tokens is None else tokens)
        listener = _listen(host, port)
        offer = offer_of(setup, file, [of_application(reference) for reference in agents])
        with listener:
            if not _is_loopback(host):
                click.echo(EXPOSED.format(host=host), err=True)
            async with open_app(partial(open_world, setup.settings.world_url), offer) as served:
                _say(setup, listener, file)
                await _serve(served, listener, setup.settings.connections)

    perform(body, world=world, json=json)


def offer_of(setup: Setup, tokens: Tokens, agents: Sequence[Agent]) -> Offer:
    """What the server is set up with, as the settings have it.

    Raises:
        BadSettings, BadInput, ExtraMissing
    """
    settings, clock = setup.settings, setup.clock
    doorkeeper: Doorkeeper = tokens
    if settings.oidc_issuer:
        doorkeeper = Doorkeepers(tokens, loaded("outlast.server.oidc:issuer_of")(settings, clock))
    hook = Hook(signed(settings.webhook_secret), settings.tenant) if settings.webhook_secret else None
    return Offer(
        doorkeeper,
        agents,
        {"virtual": virtual()},
        waker_of(settings),
        _limits(settings.requests_per_s),
        settings.data,
        links_of(settings),
        settings.public_url.rstrip("/"),
        hook,
        clock,
    )


def _limits(per_s: float) -> Limits:
    return Limits(Rate(per_s, max(per_s * 4, 1.0))) if per_s else Limits(Rate(0.0, 1.0), Rate(0.0, 1.0))


def _say(setup: Setup, listener: socket.socket, tokens: Tokens) -> None:
    """Tell where it is, and the first time how one gets in."""
    url = setup.settings.public_url.rstrip("/") or f"http://{_written(listener)}"
    token = tokens.add_first(FIRST, setup.clock, tenant=setup.settings.tenant)
    link = f"{url}/#token={token}" if token else url
    told = f"outlast serves at {link}"
    if token:
        told += f"\n{ONCE}"
    setup.say({"url": url, "address": _written(listener), "link": link, "token": token}, told)
    sys.stdout.flush()


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens at `host`.

    Raises:
        BadInput: one cannot listen there.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        hint = "Choose another with --port; 0 takes any that is free."
        raise BadInput(
            detail=f"{host}:{port} cannot be listened on: {error.strerror or error}. {hint}"
        ) from None
    return listener


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _written(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _serve(served: Served, listener: socket.socket, connections: int) -> None:
    """Answer until a signal ends the process."""
    server = Server(served.app, CLOSE_S, bounded(min(connections, _room())))
    server.config.h11_max_incomplete_event_size = HEAD_BYTES
    async with task_group() as tasks:
        tasks.start_soon(server.run_until_ended, [listener])
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                break
        served.end()
        if server.server_state.tasks:
            await asyncio.wait(set(server.server_state.tasks), timeout=STREAMS_S)
        server.end()


def _room() -> int:
    """How many connections this process may hold, once it has taken what the system gives it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return max(1, soft - OPEN_FILES_LEFT) if soft > 0 else sys.maxsize
